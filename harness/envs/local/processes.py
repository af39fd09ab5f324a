"""Processes of nodes on this machine, each in a group of its own; some on a file system of ours."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

from harness.contracts.environment import ProcessState
from harness.envs.clocks.traces import remove_traces
from harness.envs.disks.fuse.disk import FuseDisk
from harness.envs.nodes.names import check_known
from harness.envs.processes.running import STOPPED, Running, RunningNodes
from harness.healing.journal import Journal
from harness.processes.child import Child
from harness.processes.procfs import GONE


class LocalProcesses:
    """``NodeProcesses`` as children of this one."""

    def __init__(self, journal: Journal, nodes: Mapping[str, object]) -> None:
        """Start nothing yet; ``nodes`` are the environment's, once it is set up."""
        self.running = RunningNodes[Child](journal)
        self._nodes = nodes
        self._disks: dict[str, FuseDisk] = {}  # of nodes that run
        self._broken_disks: list[str] = []

    def follow(
        self,
        node: str,
        child: Child,
        entries: Sequence[int],
        disk: FuseDisk | None,
        faked_in: Path | None,
    ) -> None:
        """Follow the process that a node has now.

        Args:
            node: Whose.
            child: It has just been started.
            entries: Of the journal: closed when it is gone.
            disk: The file system of ours that it is on, which ends with it.
            faked_in: The node's folder when its clock is libfaketime's, which leaves traces.
        """
        if disk is not None:
            self._disks[node] = disk

        async def see_off(child: Child) -> str:
            if disk is not None:
                await self._part(child, disk)
                del self._disks[node]
            await child.ended
            if faked_in is not None:
                remove_traces(child.id, faked_in)
            return child.describe_end()

        self.running.follow(node, child, entries, see_off)

    async def _part(self, child: Child, disk: FuseDisk) -> None:
        """End the disk when the process ends, and the process when the disk ends."""
        ends = {child.ended, disk.child.ended}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if (broken := disk.broke()) is not None:
            self._broken_disks.append(broken)
        child.signal(signal.SIGKILL)
        await child.ended  # what it wrote through memory is written when it is gone
        await disk.end()

    def state(self, node: str) -> ProcessState:
        """See ``NodeProcesses``; the detail has its identity or its end."""
        check_known(self._nodes, node)
        running = self.running.get(node)
        if running is None:
            return ProcessState(None, GONE, self.running.how_it_ended(node) or "never started")
        child = running.process
        letter = child.state  # a look that may notice the end
        if letter == GONE:
            return ProcessState(None, GONE, child.describe_end())
        return ProcessState(child.id.pid, letter, str(child.id))

    async def signal(self, node: str, signal_number: int) -> None:
        """See ``Environment``; the whole group gets it."""
        running = self.running.to_signal(node)
        if signal_number == signal.SIGSTOP:
            who = running.process.id
            await self.running.announce_pause(running, "pause", pid=who.pid, start=who.start)
        running.process.signal(signal_number)
        if signal_number == signal.SIGKILL:
            await self.running.ended(running)
        elif signal_number == signal.SIGSTOP:
            await self.running.reached(running, stopped=True, after="SIGSTOP")
        elif signal_number == signal.SIGCONT:
            await self.running.reached(running, stopped=False, after="SIGCONT")
            await self.running.close_pause(running)

    async def end(self, node: str) -> None:
        """See ``NodeProcesses``."""
        running = self.running.get(node)
        if running is not None:
            await self._kill(running)

    async def cut(self, node: str) -> None:
        """See ``NodeProcesses``; it stands still first, lest it sees its disk go."""
        running = self.running.get(node)
        if running is None:
            return
        disk = self._disks.get(node)
        if disk is not None:
            running.process.signal(signal.SIGSTOP)
            disk.cut()
        await self._kill(running)

    async def end_all(self) -> list[str]:
        """Kill what still runs; the file systems of ours that broke since the last time."""
        for running in self.running.all():
            await self._kill(running)
        broken, self._broken_disks = self._broken_disks, []
        return broken

    async def _kill(self, running: Running[Child]) -> None:
        running.process.signal(signal.SIGKILL)
        await self.running.ended(running)

    @asynccontextmanager
    async def frozen(self, node: str) -> AsyncIterator[None]:
        """See ``NodeProcesses``."""
        running = self.running.get(node)
        if running is None or running.pause_entry is not None:
            yield
            return
        disk = self._disks.get(node)
        running.process.signal(signal.SIGSTOP)
        try:
            await self.running.reached(running, stopped=True, after="SIGSTOP")
            async with nullcontext() if disk is None else disk.still():
                yield
        finally:
            running.process.signal(signal.SIGCONT)

    def awake(self, node: str) -> Child | None:
        """The node's process, if it runs and does not stand still."""
        running = self.running.get(node)
        if running is None or running.process.state in (GONE, "Z", STOPPED):
            return None
        return running.process
