"""Containers that nodes run in: killed by their Engine, frozen by their cgroups."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

from harness.contracts.environment import ProcessState
from harness.envs.disks.fuse.disk import FuseDisk
from harness.envs.docker.engine import Engine, in_thread
from harness.envs.docker.process import Contained, describe_end, not_of_this_host
from harness.envs.nodes.names import check_known
from harness.envs.processes.running import STOPPED, Running, RunningNodes
from harness.errors import NodeStartError
from harness.healing.journal import Journal
from harness.processes.procfs import GONE, send_signal

_HEARD_S = 5.0  # until the Engine has heard of an end
_POLL_S = 0.005


class Containers:
    """``NodeProcesses`` as the first processes of containers."""

    def __init__(
        self, journal: Journal, nodes: Mapping[str, object], engine: Callable[[], Engine]
    ) -> None:
        """Start nothing yet.

        Args:
            journal: Of the run.
            nodes: Those of the environment, once it is set up.
            engine: Gives the Engine; raises EnvError before it is set up.
        """
        self.running = RunningNodes[Contained](journal)
        self._nodes = nodes
        self._engine = engine
        self._disks: dict[str, FuseDisk] = {}  # of nodes that run
        self.broken_disks: list[str] = []  # file systems of ours that broke

    def begun(self, node: str, name: str, state: Mapping[str, Any], log: Path) -> Contained:
        """Give the process that the Engine says it started in a container.

        Args:
            node: Whose.
            name: The container's.
            state: What the Engine says of it.
            log: Of the node, for who looks why it ended.

        Raises:
            NodeStartError: It has ended at once.
            EnvError: It is not on this host.
        """
        pid = int(state.get("Pid") or 0)
        try:
            process = Contained(name, pid) if pid else None
        except ProcessLookupError:
            process = None
        if process is None and state.get("Running"):
            raise not_of_this_host(pid)
        if process is None:
            raise NodeStartError(
                f"{node} ended at once with exit code {state.get('ExitCode')}: "
                f"{state.get('Error') or f'its log is {log}'}"
            )
        return process

    def follow(
        self, node: str, process: Contained, entries: Sequence[int], disk: FuseDisk | None
    ) -> None:
        """Follow the process that a node has now.

        Args:
            node: Whose.
            process: It has just begun.
            entries: Of the journal: closed when its container is gone.
            disk: The file system of ours that it is on, which ends with it.
        """
        if disk is not None:
            self._disks[node] = disk

        async def see_off(process: Contained) -> str:
            if disk is not None:
                await self._part(process, disk)
                del self._disks[node]
            return await self._see_off(process)

        self.running.follow(node, process, entries, see_off)

    async def _part(self, process: Contained, disk: FuseDisk) -> None:
        """End the disk when the process ends, and the process when the disk ends."""
        ends: set[asyncio.Future[Any]] = {process.ended, disk.child.ended}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not process.ended.done():
            if (broken := disk.broke()) is not None:
                self.broken_disks.append(broken)
            send_signal(process.id, signal.SIGKILL)
            await process.ended
        await disk.end()

    async def _see_off(self, process: Contained) -> str:
        """Wait for the process's end, remove its container; returns how it ended."""
        await process.ended
        engine, container = self._engine(), process.container
        found = await in_thread(engine.inspect, container)
        deadline = time.monotonic() + _HEARD_S
        while found is not None and found["State"]["Running"] and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_S)  # the Engine hears of it a little later than we
            found = await in_thread(engine.inspect, container)
        state = None if found is None else found["State"]
        await in_thread(engine.remove, container)
        return describe_end(process.id, state)

    def state(self, node: str) -> ProcessState:
        """See ``NodeProcesses``; the detail has its identity or its end."""
        check_known(self._nodes, node)
        running = self.running.get(node)
        if running is None:
            end = self.running.how_it_ended(node)
            return ProcessState(None, GONE, end or "never started")
        process, state = running.process, running.process.state
        if state == GONE:
            return ProcessState(None, GONE, f"{process.id} ended")
        return ProcessState(process.id.pid, state, f"{process.id} in {process.container}")

    async def signal(self, node: str, signal_number: int) -> None:
        """See ``Environment``; SIGSTOP and SIGCONT freeze and thaw the whole container."""
        running = self.running.to_signal(node)
        engine, container = self._engine(), running.process.container
        if signal_number == signal.SIGSTOP:
            await self._freeze(running)
        elif signal_number == signal.SIGCONT:
            await self._thaw(running)
        elif signal_number == signal.SIGKILL:
            await self._thaw(running)  # what is frozen cannot even die
            await in_thread(engine.kill, container, signal_number)
            await self.running.ended(running)
        else:
            await in_thread(engine.kill, container, signal_number)

    async def _freeze(self, running: Running[Contained]) -> None:
        engine, container = self._engine(), running.process.container
        await self.running.announce_pause(running, "freeze", name=container, engine=engine.host)
        if not running.process.told_frozen:  # an earlier try may have come to nothing
            await in_thread(engine.pause, container)
            running.process.told_frozen = True
        await self.running.reached(running, stopped=True, after="its container was paused")

    async def _thaw(self, running: Running[Contained]) -> None:
        if running.pause_entry is not None:
            await in_thread(self._engine().unpause, running.process.container)
            running.process.told_frozen = False
            await self.running.reached(running, stopped=False, after="its container was unpaused")
            await self.running.close_pause(running)

    async def end(self, node: str) -> None:
        """See ``NodeProcesses``."""
        if node in self.running:
            await self.signal(node, signal.SIGKILL)

    async def cut(self, node: str) -> None:
        """See ``NodeProcesses``; it stands still first, lest it sees its disk go."""
        running, disk = self.running.get(node), self._disks.get(node)
        if running is not None and disk is not None:
            send_signal(running.process.id, signal.SIGSTOP)
            disk.cut()
        await self.end(node)

    async def remove(self, running: Running[Contained]) -> None:
        """Kill a node, frozen or not, and its container."""
        await in_thread(self._engine().remove, running.process.container)
        await self.running.ended(running)

    @asynccontextmanager
    async def frozen(self, node: str) -> AsyncIterator[None]:
        """See ``NodeProcesses``; by a signal, for it is only a moment, and needs no Engine."""
        running = self.running.get(node)
        if running is None or running.pause_entry is not None:
            yield
            return
        disk = self._disks.get(node)
        send_signal(running.process.id, signal.SIGSTOP)
        try:
            await self.running.reached(running, stopped=True, after="SIGSTOP")
            async with nullcontext() if disk is None else disk.still():
                yield
        finally:
            send_signal(running.process.id, signal.SIGCONT)

    def awake(self, node: str) -> Contained | None:
        """The node's process, if it runs and does not stand still."""
        running = self.running.get(node)
        if running is None or running.process.state in (GONE, "Z", STOPPED):
            return None
        return running.process
