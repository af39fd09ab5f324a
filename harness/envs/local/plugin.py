"""Nodes as processes on this machine's loopback: no root, no Docker, real sockets and signals."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import ClassVar

from harness.contracts.environment import Address, Net, ProcessState
from harness.contracts.hosts import Clocks, Disks, MountsDisks, Power
from harness.contracts.traits import EnvironmentTraits
from harness.envs.clocks.jvm import JvmClocks
from harness.envs.clocks.library import without_waits
from harness.envs.clocks.orders import NodeClocks, find_faketime, no_fake_clocks
from harness.envs.clocks.traces import TRACES_ENTRY, remove_stale, remove_traces
from harness.envs.disks.fuse.disk import FuseDisk
from harness.envs.disks.fuse.mount import cannot_mount
from harness.envs.disks.orders import NodeDisks
from harness.envs.links.relay_net import CLIENT, Endpoint, RelayNet
from harness.envs.links.socket_owner import NODE_VARIABLE
from harness.envs.links.tcp_probe import ask
from harness.envs.local.loopback import NODES_MAX, Block
from harness.envs.processes.running import RunningNodes
from harness.errors import EnvError, NodeStartError
from harness.healing import watchdog
from harness.healing.heal import heal_all
from harness.healing.journal import Journal
from harness.healing.watchdog import Watchdog
from harness.processes.child import Child
from harness.processes.procfs import GONE
from harness.registry import environments

_RELAY_LOG = "relay.log"  # beside the folder of the nodes' logs: the relay is no node
_JVM_LIBRARY = "nodes/libfaketime.so"  # of this run


def _why_not(ability: type) -> str | None:
    """What this host lacks for an ability that the environment could have; None: nothing."""
    if ability is Clocks:
        return no_fake_clocks()
    return cannot_mount() if ability is MountsDisks else None


@environments.register("local", EnvironmentTraits(why_not=_why_not))
class Local(NodeDisks, NodeClocks):
    """Processes on loopback addresses of their own, with a relay that can cut any link."""

    name = "local"
    # How faults are made here, by family: for the documentation.
    how: ClassVar[Mapping[str, str]] = {
        "kill": "SIGKILL",
        "pause": "SIGSTOP",
        "partition": "a relay holds what is sent",
        "power": "what was not fsynced is forgotten, by the node's disk seam or a FUSE under it",
        "disk": "the node's disk seam or a FUSE under it, and damage to its files",
        "clock": "libfaketime, one clock for each process; a JVM is asked what it reads",
    }

    def __init__(self, run_dir: Path, journal: Journal) -> None:
        """Prepare; nothing is touched before ``setup``.

        Args:
            run_dir: Gets ``nodes/<node>/`` (each node's disk) and ``logs/<node>.log``.
            journal: The run's open heal journal; the caller closes it after ``teardown``.
        """
        NodeDisks.__init__(self, journal)
        NodeClocks.__init__(self, journal)
        self._run_dir = run_dir.absolute()
        self._journal = journal
        self._block: Block | None = None
        self._ends: dict[str, Endpoint] = {}
        self._running = RunningNodes[Child](journal)
        self._disks: dict[str, FuseDisk] = {}  # of nodes that run
        self._mounts = False
        self._lies_about: str | None = None
        self._broken_disks: list[str] = []
        self._jvms: JvmClocks | None = None  # the nodes tell by themselves what they read
        self._watchdog = Watchdog(journal, self._run_dir / watchdog.LOG)
        self._relay = RelayNet(journal, self._run_dir / _RELAY_LOG)
        self.net: Net = self._relay

    def expect(self, abilities: Collection[type], rng: Random) -> None:
        """See ``Expects``."""
        if {Disks, Power} & set(abilities):
            self.use_fault_disks(rng)
        if Clocks in abilities and self.why_not(Clocks) is None:
            self.use_fake_clocks()

    def why_not(self, ability: type) -> str | None:
        """See ``Explains``."""
        return _why_not(ability)

    def mount_disks(self, *, lies_about: str | None = None) -> None:
        """See ``MountsDisks``."""
        self._lies_about = lies_about
        self._mounts = self._disk_rng is not None and self.why_not(MountsDisks) is None

    def ask_jvms(self) -> None:
        """See ``AsksJvms``."""
        self._jvms = JvmClocks()

    async def setup(self, nodes: Sequence[str]) -> None:
        """Heal what dead runs left, reserve addresses, start the watchdog and the relay.

        Raises:
            EnvError: Bad node names, no free addresses, or the relay does not come up.
        """
        _check_names(nodes)
        await asyncio.to_thread(heal_all, self._journal.path.parent)
        block = self._block = Block.reserve(len(nodes))
        self._ends = {
            name: Endpoint(
                name,
                source=block.node(number),
                outgoing=block.relay(number),
                bind=Address(block.node(number), block.port),
                advertised=Address(block.relay(number), block.port),
            )
            for number, name in enumerate(nodes, start=1)
        }
        client = Endpoint(CLIENT, source=block.client, outgoing=block.client)
        try:
            for node in nodes:
                self.node_dir(node).mkdir(parents=True, exist_ok=True)
            (self._run_dir / "logs").mkdir(parents=True, exist_ok=True)
            await self._watchdog.start(self._environ({}))
            await self._relay.start([*self._ends.values(), client], self._environ({}))
        except BaseException:
            await self.teardown()
            raise

    def bind_address(self, node: str) -> Address:
        """Where the node itself must listen, and (its host) connect from."""
        return _listening(node, self._end(node).bind)

    def address(self, node: str) -> Address:
        """The relay's address for the node: what it must advertise and others must use."""
        return _listening(node, self._end(node).advertised)

    def client_source(self) -> str | None:
        """Clients of the harness connect from here; the relay knows them as ``client``."""
        return None if self._block is None else self._block.client

    async def ask(self, node: str, *, timeout_s: float) -> tuple[bool, str, float]:
        """Really try the node: whether it answered, what was seen, and after how many ms."""
        return await ask(self.address(node), source=self.client_source(), timeout_s=timeout_s)

    def node_dir(self, node: str) -> Path:
        """The node's working folder; its disk, kept over restarts."""
        return self._run_dir / "nodes" / node

    def log_file(self, node: str) -> Path:
        """Where the node's stdout and stderr go, one file for all its restarts."""
        return self._run_dir / "logs" / f"{node}.log"

    async def start(self, node: str, argv: Sequence[str], *, env: Mapping[str, str]) -> None:
        """Start the node's process in its folder; ``env`` is added to the harness's own.

        Returns at once: whether the node serves is the system's to find out.

        Raises:
            EnvError: The node runs already, or no file system can be put under it.
            NodeStartError: The program cannot be executed.
        """
        self._end(node)
        await self._running.make_room(node)
        disk = await self._mount(node) if self._mounts else None
        try:
            await self._start(node, argv, env, disk)
        except BaseException:
            if disk is not None:
                await disk.end()
            raise

    async def _start(
        self, node: str, argv: Sequence[str], env: Mapping[str, str], disk: FuseDisk | None
    ) -> None:
        faults = self.fault_disk_environ(node) | await self.fake_clock_environ(node)
        fakes = "LD_PRELOAD" in faults
        folder, entries = self.node_dir(node), list[int]()
        try:
            if fakes:  # before the process, and so undone after it
                remove_stale()
                traces = {"node": node, "folder": str(folder)}
                entries.append(await self._journal.announce(TRACES_ENTRY, **traces))
            entries.append(await self._journal.announce("process", node=node, argv=[*argv]))
            child = Child(
                argv if disk is None else disk.entering(argv),
                cwd=folder,
                log=self.log_file(node),
                environ=self._environ({**env, **faults, NODE_VARIABLE: node}),
            )
        except BaseException as error:
            for entry in entries:
                await asyncio.to_thread(self._journal.undone, entry)
            if isinstance(error, OSError):
                raise NodeStartError(f"cannot start {node}: {' '.join(argv)}: {error}") from error
            raise
        if disk is not None:
            self._disks[node] = disk
        self._running.follow(node, child, entries, partial(self._see_off, node, fakes=fakes))
        for entry in entries:
            await asyncio.to_thread(
                self._journal.update, entry, pid=child.id.pid, start=child.id.start
            )

    async def signal(self, node: str, signal_number: int) -> None:
        """Signal the node's process group; SIGKILL, SIGSTOP, SIGCONT return once they took hold.

        Raises:
            EnvError: The node does not run, or the signal does not take hold.
        """
        running = self._running.to_signal(node)
        if signal_number == signal.SIGSTOP:
            who = running.process.id
            await self._running.announce_pause(running, "pause", pid=who.pid, start=who.start)
        running.process.signal(signal_number)
        if signal_number == signal.SIGKILL:
            await self._running.ended(running)
        elif signal_number == signal.SIGSTOP:
            await self._running.reached(running, stopped=True, after="SIGSTOP")
        elif signal_number == signal.SIGCONT:
            await self._running.reached(running, stopped=False, after="SIGCONT")
            await self._running.close_pause(running)

    def process(self, node: str) -> ProcessState:
        """What the kernel says about the node's process; detail has its identity or its end."""
        self._end(node)
        running = self._running.get(node)
        if running is None or running.process.ended.done():
            last = self._running.how_it_ended(node)
            end = last if running is None else running.process.describe_end()
            return ProcessState(None, GONE, end or "never started")
        child = running.process
        return ProcessState(child.id.pid, child.state, str(child.id))

    async def move(self, node: str, port: int) -> None:
        """See ``Movable``; the relay goes along."""
        if node in self._running:
            raise EnvError(f"{node} runs: it can move only while it is down")
        here = self._end(node)
        bind, advertised = self.bind_address(node), self.address(node)
        moved = replace(
            here, bind=Address(bind.host, port), advertised=Address(advertised.host, port)
        )
        await self._relay.move(moved)
        self._ends[node] = moved

    async def end(self, node: str) -> None:
        """Kill the node's process, if it runs, and wait until it is gone."""
        running = self._running.get(node)
        if running is not None:
            running.process.signal(signal.SIGKILL)
            await self._running.ended(running)

    @asynccontextmanager
    async def frozen(self, node: str) -> AsyncIterator[None]:
        """See ``NodeDisks``."""
        running = self._running.get(node)
        if running is None or running.pause_entry is not None:
            yield
            return
        disk = self._disks.get(node)
        running.process.signal(signal.SIGSTOP)
        try:
            await self._running.reached(running, stopped=True, after="SIGSTOP")
            async with nullcontext() if disk is None else disk.still():
                yield
        finally:
            running.process.signal(signal.SIGCONT)

    def faketime(self, node: str) -> str | None:  # noqa: ARG002 - all have the same
        """Where this host has it; for JVMs a copy."""
        found = find_faketime()
        if found is None or self._jvms is None:
            return found
        return str(without_waits(Path(found), self._run_dir / _JVM_LIBRARY))

    async def read_inside(self, node: str) -> dict[str, int] | None:
        """See ``NodeClocks``; a JVM that is down or frozen is not asked."""
        if self._jvms is None:
            return await super().read_inside(node)
        running = self._running.get(node)
        if running is None or running.process.state in (GONE, "Z", "T"):
            return None
        return await self._jvms.read(node, running.process.id)

    async def teardown(self) -> None:
        """Kill what still runs, stop relay and watchdog, give the addresses back. Idempotent.

        Raises:
            EnvError: A file system of ours broke under a node: what that did was not the node's.
                Or the watchdog ended before the run did.
        """
        for running in self._running.all():
            running.process.signal(signal.SIGKILL)
            await self._running.ended(running)
        await self._relay.stop()
        if self._block is not None:
            self._block.release()
            self._block = None
        broken, self._broken_disks = self._broken_disks, []
        try:
            await self._watchdog.stop()
        except EnvError as error:
            broken.append(str(error))
        if broken:
            raise EnvError("; ".join(broken))

    # ---- processes

    def _environ(self, extra: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, **extra, **self._journal.environ()}

    async def _see_off(self, node: str, child: Child, *, fakes: bool) -> str:
        """Wait for the process's end, remove what it kept; returns how it ended."""
        if node in self._disks:
            await self._part(child, self._disks[node])
            del self._disks[node]
        await child.ended
        if fakes:
            remove_traces(child.id, self.node_dir(node))
        return child.describe_end()

    async def _mount(self, node: str) -> FuseDisk:
        folder, environ = self.node_dir(node), self._environ({})
        return await FuseDisk.start(
            node, folder, self._journal, environ, lies_about=self._lies_about
        )

    async def _part(self, child: Child, disk: FuseDisk) -> None:
        """When one of process and disk ends, end the other: none is to be without."""
        ends = {child.ended, disk.child.ended}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if (broken := disk.broke()) is not None:
            self._broken_disks.append(broken)
        child.signal(signal.SIGKILL)
        await child.ended  # what it wrote through memory is written when it is gone
        await disk.end()

    def _end(self, node: str) -> Endpoint:
        if node not in self._ends:
            known = ", ".join(self._ends) or "none before setup"
            raise EnvError(f"no node is called {node!r}; there are: {known}")
        return self._ends[node]


def _check_names(nodes: Sequence[str]) -> None:
    if not 0 < len(nodes) <= NODES_MAX:
        raise EnvError(f"{len(nodes)} nodes: the local environment takes 1 to {NODES_MAX}")
    for node in nodes:
        if not node.isalnum() or nodes.count(node) > 1 or node == CLIENT:
            raise EnvError(f"bad node name {node!r}: want letters and digits, each name once")


def _listening(node: str, address: Address | None) -> Address:
    if address is None:
        raise EnvError(f"{node!r} does not listen")
    return address
