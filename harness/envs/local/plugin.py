"""Nodes as processes on this machine's loopback: no root, no Docker, real sockets and signals."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
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
from harness.errors import EnvError, NodeStartError
from harness.healing.journal import Journal, heal_all
from harness.processes.child import Child
from harness.processes.procfs import GONE
from harness.registry import environments

_STATE_TIMEOUT_S = 5.0
_RELAY_LOG = "relay.log"  # beside the folder of the nodes' logs: the relay is no node
_JVM_LIBRARY = "nodes/libfaketime.so"  # of this run


@dataclass(slots=True)
class _Running:
    """A node's process and its open entries in the journal."""

    child: Child
    entries: Sequence[int]
    disk: FuseDisk | None = None
    fakes: bool = False  # it has a clock of its own
    watcher: asyncio.Task[None] | None = None
    pause_entry: int | None = None


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
        self._running: dict[str, _Running] = {}
        self._last_end: dict[str, str] = {}
        self._mounts = False
        self._lies_about: str | None = None
        self._broken_disks: list[str] = []
        self._jvms: JvmClocks | None = None  # the nodes tell by themselves what they read
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
        """Heal what dead runs left, reserve addresses, start the relay.

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
        if (before := self._running.get(node)) is not None:
            if not before.child.ended.done():
                raise EnvError(f"{node} runs already: {before.child.id}")
            await self._await_end(node, before)  # its entries are about to be closed
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
        running = self._running[node] = _Running(child, entries, disk, fakes)
        running.watcher = asyncio.create_task(self._watch(node, running))
        for entry in entries:
            await asyncio.to_thread(
                self._journal.update, entry, pid=child.id.pid, start=child.id.start
            )

    async def signal(self, node: str, signal_number: int) -> None:
        """Signal the node's process group; SIGKILL, SIGSTOP, SIGCONT return once they took hold.

        Raises:
            EnvError: The node does not run, or the signal does not take hold.
        """
        running = self._running.get(node)
        if running is None:
            raise EnvError(f"cannot signal {node}: {self._last_end.get(node, 'it never started')}")
        if signal_number == signal.SIGSTOP and running.pause_entry is None:
            who = running.child.id
            running.pause_entry = await self._journal.announce(
                "pause", node=node, pid=who.pid, start=who.start
            )
        running.child.signal(signal_number)
        if signal_number == signal.SIGKILL:
            await self._await_end(node, running)
        elif signal_number == signal.SIGSTOP:
            await self._await_state(node, running, stopped=True)
        elif signal_number == signal.SIGCONT:
            await self._await_state(node, running, stopped=False)
            await self._close_pause(running)

    def process(self, node: str) -> ProcessState:
        """What the kernel says about the node's process; detail has its identity or its end."""
        self._end(node)
        running = self._running.get(node)
        if running is None or running.child.ended.done():
            end = self._last_end.get(node) if running is None else running.child.describe_end()
            return ProcessState(None, GONE, end or "never started")
        return ProcessState(running.child.id.pid, running.child.state, str(running.child.id))

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
            running.child.signal(signal.SIGKILL)
            await self._await_end(node, running)

    @asynccontextmanager
    async def frozen(self, node: str) -> AsyncIterator[None]:
        """See ``NodeDisks``."""
        running = self._running.get(node)
        if running is None or running.pause_entry is not None:
            yield
            return
        running.child.signal(signal.SIGSTOP)
        try:
            await self._await_state(node, running, stopped=True)
            async with nullcontext() if running.disk is None else running.disk.still():
                yield
        finally:
            running.child.signal(signal.SIGCONT)

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
        if running is None or running.child.state in (GONE, "Z", "T"):
            return None
        return await self._jvms.read(node, running.child.id)

    async def teardown(self) -> None:
        """Kill what still runs, stop the relay, give the addresses back. Idempotent.

        Raises:
            EnvError: A file system of ours broke under a node: what that did was not the node's.
        """
        for node, running in list(self._running.items()):
            running.child.signal(signal.SIGKILL)
            await self._await_end(node, running)
        await self._relay.stop()
        if self._block is not None:
            self._block.release()
            self._block = None
        broken, self._broken_disks = self._broken_disks, []
        if broken:
            raise EnvError("; ".join(broken))

    # ---- processes

    def _environ(self, extra: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, **extra, **self._journal.environ()}

    async def _watch(self, node: str, running: _Running) -> None:
        """Whenever the process ends, remember how and close its journal entries."""
        if running.disk is not None:
            await self._part(running, running.disk)
        await running.child.ended
        self._last_end[node] = running.child.describe_end()
        await self._close_pause(running)
        if running.fakes:
            remove_traces(running.child.id, self.node_dir(node))
        for entry in running.entries:
            await asyncio.to_thread(self._journal.undone, entry)
        del self._running[node]

    async def _mount(self, node: str) -> FuseDisk:
        folder, environ = self.node_dir(node), self._environ({})
        return await FuseDisk.start(
            node, folder, self._journal, environ, lies_about=self._lies_about
        )

    async def _part(self, running: _Running, disk: FuseDisk) -> None:
        """When one of process and disk ends, end the other: none is to be without."""
        ends = {running.child.ended, disk.child.ended}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if (broken := disk.broke()) is not None:
            self._broken_disks.append(broken)
        running.child.signal(signal.SIGKILL)
        await running.child.ended  # what it wrote through memory is written when it is gone
        await disk.end()

    async def _close_pause(self, running: _Running) -> None:
        entry, running.pause_entry = running.pause_entry, None
        if entry is not None:
            await asyncio.to_thread(self._journal.undone, entry)

    async def _await_end(self, node: str, running: _Running) -> None:
        if running.watcher is None:
            return
        done, _ = await asyncio.wait({running.child.ended}, timeout=_STATE_TIMEOUT_S)
        if not done:
            raise EnvError(
                f"{node} ({running.child.id}) did not die of SIGKILL within "
                f"{_STATE_TIMEOUT_S:g} s: state {running.child.state}"
            )
        await asyncio.wait({running.watcher})  # a busy disk may take long to close its entries
        running.watcher.result()

    async def _await_state(self, node: str, running: _Running, *, stopped: bool) -> None:
        deadline = time.monotonic() + _STATE_TIMEOUT_S
        while (state := running.child.state) not in (GONE, "Z") and (state == "T") != stopped:
            if time.monotonic() > deadline:
                raise EnvError(
                    f"{node} ({running.child.id}) is in state {state} {_STATE_TIMEOUT_S:g} s "
                    f"after {'SIGSTOP' if stopped else 'SIGCONT'}"
                )
            await asyncio.sleep(0.002)

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
