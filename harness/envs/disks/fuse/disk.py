"""The file system under one node of this host: a server process, and the mount it makes.

Made anew for each process of the node, so that the kernel has nothing cached of files that were
damaged in between. Both are journalled before they are made.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from harness.agent import mounts
from harness.envs.disks.fuse import server
from harness.errors import EnvError
from harness.healing.journal import Journal
from harness.processes.child import Child
from harness.processes.python import module_argv
from node.faults.hands import DATA, FAULTS

MOUNT_ENTRY = "mount"  # the kind of its journal entries
_MOUNT_TIMEOUT_S = 10.0
_END_TIMEOUT_S = 5.0
_POLL_S = 0.005
_LOG_CHARS_MAX = 500


class FuseDisk:
    """A file system of ours over ``data`` in a node's folder, which its process alone sees."""

    def __init__(
        self, node: str, journal: Journal, child: Child, entries: Sequence[int], log: Path
    ) -> None:
        self._node = node
        self._journal = journal
        self._entries = entries
        self._task = 0  # the thread in whose namespace it is mounted
        self._log = log
        self._was_cut = False
        self._is_inside = False  # of a container, with which it ends
        self.child = child

    @classmethod
    async def start(
        cls,
        node: str,
        folder: Path,
        journal: Journal,
        environ: Mapping[str, str],
        *,
        lies_about: str | None = None,
        inside: int | None = None,
    ) -> FuseDisk:
        """Mount it.

        Args:
            node: Whose.
            folder: The node's.
            journal: Of the run.
            environ: Carries the journal's markers.
            lies_about: See ``Files``.
            inside: The first process of the node's container, which sees it; None: it is mounted
                in a namespace of its own, which the node is to enter.

        Raises:
            EnvError: It does not come up; says what its server says.
        """
        source = f"krucible:{journal.run}:{node}"
        data, faults = folder / DATA, folder / FAULTS
        for each in (data, faults):
            each.mkdir(parents=True, exist_ok=True)
        entries = [await journal.announce(MOUNT_ENTRY, node=node, path=str(data), source=source)]
        child: Child | None = None
        try:
            entries.append(await journal.announce("process", node=f"{node}'s disk"))
            argv = module_argv(server.__name__)
            argv += [str(data), str(faults), source, lies_about or ""]
            argv.append("" if inside is None else str(inside))
            child = Child(argv, cwd=folder, log=faults / server.LOG, environ=environ)
            disk = cls(node, journal, child, entries, faults / server.LOG)
            disk._is_inside = inside is not None
            who = child.id
            await asyncio.to_thread(journal.update, entries[-1], pid=who.pid, start=who.start)
            await disk._await_mount(node, source, child.id.pid if inside is None else inside)
        except BaseException:
            if child is not None:
                await _kill(child)
            for entry in entries:
                await asyncio.to_thread(journal.undone, entry)
            raise
        return disk

    def entering(self, argv: Sequence[str]) -> list[str]:
        """The command line of a process that sees it."""
        return entering(self.child.id.pid, self._task, list(argv))

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Within, nothing is written to the folder below; who uses it must stand still before."""
        self.child.signal(signal.SIGSTOP)
        try:
            while self.child.state not in ("T", "Z", "gone"):  # noqa: ASYNC110 - tells nobody
                await asyncio.sleep(_POLL_S)
            yield
        finally:
            self.child.signal(signal.SIGCONT)

    def cut(self) -> None:
        """Kill the server: nothing more reaches the folder below, what is under way is lost."""
        self._was_cut = True
        self.child.signal(signal.SIGKILL)

    def broke(self) -> str | None:
        """Tell why the server ended when nothing that is meant to ended it, else None.

        We may have ended it, a loss of power, or the end of a container that it was mounted in.
        """
        ended = self.child.ended
        if not ended.done() or self._was_cut or ended.result() == server.POWER_LOST:
            return None
        if self._is_inside and ended.result() == 0:
            return None
        return (
            f"the file system under {self._node} broke: {self.child.describe_end()}{self._said()}"
        )

    async def end(self) -> None:
        """End it; what was written is in the folder below. Idempotent."""
        await _kill(self.child)
        for entry in reversed(self._entries):
            await asyncio.to_thread(self._journal.undone, entry)

    # ---- inside

    async def _await_mount(self, node: str, source: str, pid: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MOUNT_TIMEOUT_S):
                while not self.child.ended.done():
                    task = mounts.holder(pid, source)
                    if task is not None:
                        self._task = task
                        return
                    await asyncio.sleep(_POLL_S)
        how = (
            self.child.describe_end()
            or f"its server did not mount it within {_MOUNT_TIMEOUT_S:g} s"
        )
        raise EnvError(f"cannot mount a file system under {node}: {how}{self._said()}")

    def _said(self) -> str:
        text = self._log.read_text(errors="replace").strip() if self._log.exists() else ""
        return f"; it said: {text[-_LOG_CHARS_MAX:]}" if text else ""


async def _kill(child: Child) -> None:
    child.signal(signal.SIGKILL)
    done, _ = await asyncio.wait({child.ended}, timeout=_END_TIMEOUT_S)
    if not done:
        raise EnvError(f"{child.id} did not die of SIGKILL within {_END_TIMEOUT_S:g} s")


def entering(pid: int, task: int, argv: Sequence[str]) -> list[str]:
    """The command line that does ``argv`` where a thread sees its mounts, as the same process."""
    return module_argv(mounts.__name__, str(pid), str(task), *argv)
