"""The nodes' processes, where the kernel is this host's: followed to their ends, and waited for.

Each has entries in the heal journal, which are closed once it is gone and what it kept is removed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from harness.errors import EnvError
from harness.healing.journal import Journal
from harness.processes.procfs import GONE, ProcessId

END_TIMEOUT_S: Final = 10.0
STATE_TIMEOUT_S: Final = 5.0
_POLL_S = 0.002
_ENDED = (GONE, "Z")
STOPPED: Final = "T"


class Watched(Protocol):
    """A process that the kernel tells of."""

    @property
    def id(self) -> ProcessId:
        """Give the process's id."""
        ...

    @property
    def state(self) -> str:
        """Give the process's state: a letter of /proc, or ``gone``."""
        ...

    @property
    def ended(self) -> asyncio.Future[Any]:
        """Done when the kernel says that it has ended."""
        ...


P = TypeVar("P", bound=Watched)


@dataclass(slots=True, eq=False)
class Running(Generic[P]):
    """A node's process and its open entries in the journal."""

    node: str
    process: P
    entries: Sequence[int]
    watcher: asyncio.Task[None] | None = None
    pause_entry: int | None = None

    @property
    def has_ended(self) -> bool:
        """Tell whether the process has ended, as far as the kernel says."""
        return self.process.ended.done() or self.process.state in _ENDED


class RunningNodes(Generic[P]):
    """The nodes that run, and how those ended that do not."""

    def __init__(self, journal: Journal) -> None:
        """Begin without any running node."""
        self._journal = journal
        self._running: dict[str, Running[P]] = {}
        self._last_end: dict[str, str] = {}

    def __contains__(self, node: str) -> bool:
        return node in self._running

    def get(self, node: str) -> Running[P] | None:
        """The node's process; None when it does not run, and its end is written down."""
        return self._running.get(node)

    def all(self) -> list[Running[P]]:
        """List all nodes that run at present."""
        return list(self._running.values())

    def how_it_ended(self, node: str) -> str | None:
        """Describe how the node's last process ended; None when there was none."""
        return self._last_end.get(node)

    def to_signal(self, node: str) -> Running[P]:
        """The node's process; raises EnvError that says how it ended when it does not run."""
        running = self._running.get(node)
        if running is None:
            raise EnvError(f"cannot signal {node}: {self._last_end.get(node, 'it never started')}")
        return running

    async def make_room(self, node: str) -> None:
        """Wait until the end of the node's process before is written down.

        Raises:
            EnvError: It runs.
        """
        before = self._running.get(node)
        if before is not None:
            if not before.has_ended:
                raise EnvError(f"{node} runs already: {before.process.id}")
            await self.ended(before)

    def follow(
        self,
        node: str,
        process: P,
        entries: Sequence[int],
        end: Callable[[P], Awaitable[str]],
    ) -> Running[P]:
        """Follow the process that a node has now.

        Args:
            node: Whose.
            process: It runs, or has just ended.
            entries: Of the journal: closed when it is gone.
            end: Waits for its end and removes what it kept; returns how it ended.
        """
        running = self._running[node] = Running(node, process, entries)
        running.watcher = asyncio.create_task(self._watch(running, end))
        return running

    async def _watch(self, running: Running[P], end: Callable[[P], Awaitable[str]]) -> None:
        self._last_end[running.node] = await end(running.process)
        await self.close_pause(running)
        for entry in running.entries:
            await asyncio.to_thread(self._journal.undone, entry)
        del self._running[running.node]

    async def announce_pause(self, running: Running[P], kind: str, **what: Any) -> None:
        """Say in the journal that it is about to be stopped; once for each time."""
        if running.pause_entry is None:
            running.pause_entry = await self._journal.announce(kind, node=running.node, **what)

    async def close_pause(self, running: Running[P]) -> None:
        """Say in the journal that it is stopped no more. Idempotent."""
        entry, running.pause_entry = running.pause_entry, None
        if entry is not None:
            await asyncio.to_thread(self._journal.undone, entry)

    async def ended(self, running: Running[P]) -> None:
        """Wait until a process that was killed is gone, and its end is written down.

        Raises:
            EnvError: It does not die, or what it kept cannot be removed.
        """
        if running.watcher is None:
            return
        done, _ = await asyncio.wait({running.process.ended}, timeout=END_TIMEOUT_S)
        if not done:
            raise EnvError(
                f"{running.node} ({running.process.id}) did not die of SIGKILL within "
                f"{END_TIMEOUT_S:g} s: state {running.process.state}"
            )
        await asyncio.wait({running.watcher})  # a busy disk may take long to close its entries
        running.watcher.result()

    async def reached(self, running: Running[P], *, stopped: bool, after: str) -> None:
        """Wait until it is stopped, or is no more; ``after`` says what was done to it.

        Raises:
            EnvError: That does not take hold.
        """
        deadline = time.monotonic() + STATE_TIMEOUT_S
        while (state := running.process.state) not in _ENDED and (state == STOPPED) != stopped:
            if time.monotonic() > deadline:
                raise EnvError(
                    f"{running.node} ({running.process.id}) is in state {state} "
                    f"{STATE_TIMEOUT_S:g} s after {after}"
                )
            await asyncio.sleep(_POLL_S)
