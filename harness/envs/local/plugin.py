"""Nodes as processes on this machine's loopback: no root, no Docker, real sockets and signals."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import ClassVar

from harness.agent.mounts import cannot_mount
from harness.contracts.environment import Address, Net, ProcessState
from harness.contracts.hosts import AsksJvms, Clocks, Disks, MountsDisks, Movable, Power
from harness.contracts.traits import EnvironmentTraits
from harness.envs.clocks.jvm import JvmClocks
from harness.envs.clocks.library import without_waits
from harness.envs.clocks.orders import find_faketime, no_fake_clocks
from harness.envs.clocks.traces import TRACES_ENTRY, remove_stale
from harness.envs.disks.fuse.disk import FuseDisk
from harness.envs.links.relay_net import CLIENT, Endpoint, RelayNet
from harness.envs.links.socket_owner import NODE_VARIABLE
from harness.envs.links.tcp_probe import ask
from harness.envs.local.loopback import NODES_MAX, Block
from harness.envs.local.processes import LocalProcesses
from harness.envs.nodes.hands import HandsHere
from harness.envs.nodes.names import check_known, check_names, known
from harness.envs.processes.seams import Seams
from harness.errors import EnvError, NodeStartError
from harness.healing import watchdog
from harness.healing.heal import heal_all
from harness.healing.journal import Journal
from harness.healing.watchdog import Watchdog
from harness.processes.child import Child
from harness.registry import environments

_RELAY_LOG = "relay.log"  # beside the folder of the nodes' logs: the relay is no node
_JVM_LIBRARY = "nodes/libfaketime.so"  # of this run


def _why_not(ability: type) -> str | None:
    """Tell what this host lacks for an ability that the environment could have; None: nothing."""
    if ability is Clocks:
        return no_fake_clocks()
    return cannot_mount() if ability is MountsDisks else None


@environments.register(
    "local",
    EnvironmentTraits(
        hosts=frozenset({Disks, Power, Clocks, Movable, MountsDisks, AsksJvms}), why_not=_why_not
    ),
)
class Local:
    """Processes on loopback addresses of their own; a relay between them cuts the links."""

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
        self._run_dir = run_dir.absolute()
        self._journal = journal
        self._block: Block | None = None
        self._ends: dict[str, Endpoint] = {}
        self._processes = LocalProcesses(journal, self._ends)
        self._seams = Seams.of(journal, HandsHere(self.node_dir), self._processes, self._faketime)
        self.disks, self.power, self.clocks = self._seams.parts
        self._mounts = False
        self._lies_about: str | None = None
        self._jvms: JvmClocks | None = None  # the nodes tell by themselves what they read
        self._watchdog = Watchdog(journal, self._run_dir / watchdog.LOG)
        self._relay = RelayNet(journal, self._run_dir / _RELAY_LOG)
        self.net: Net = self._relay

    def expect(self, abilities: Collection[type], rng: Random) -> None:
        """See ``Expects``."""
        lacking = {Clocks} if self.why_not(Clocks) is not None else set()
        self._seams.expect(set(abilities) - lacking, rng)

    def why_not(self, ability: type) -> str | None:
        """See ``Explains``."""
        return _why_not(ability)

    def mount_disks(self, *, lies_about: str | None = None) -> None:
        """See ``MountsDisks``."""
        self._lies_about = lies_about
        self._mounts = self.disks.used and self.why_not(MountsDisks) is None

    def ask_jvms(self) -> None:
        """See ``AsksJvms``."""
        self._jvms = JvmClocks()
        self.clocks.ask(partial(self._ask_jvm, self._jvms))

    async def setup(self, nodes: Sequence[str]) -> None:
        """Heal what dead runs left, reserve addresses, start the watchdog and the relay.

        Raises:
            EnvError: Bad node names, no free addresses, or the relay does not come up.
        """
        check_names(nodes, self.name, NODES_MAX, reserved=(CLIENT,))
        await asyncio.to_thread(heal_all, self._journal.path.parent)
        block = self._block = Block.reserve(len(nodes))
        for number, name in enumerate(nodes, start=1):
            self._ends[name] = Endpoint(
                name,
                source=block.node(number),
                outgoing=block.relay(number),
                bind=Address(block.node(number), block.port),
                advertised=Address(block.relay(number), block.port),
            )
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
        """Give the address where the node itself must listen, and from whose host it connects."""
        return _listening(node, known(self._ends, node).bind)

    def address(self, node: str) -> Address:
        """The relay's address for the node: what it must advertise and others must use."""
        return _listening(node, known(self._ends, node).advertised)

    def client_source(self) -> str | None:
        """Clients of the harness connect from here; the relay knows them as ``client``."""
        return None if self._block is None else self._block.client

    async def ask(self, node: str, *, timeout_s: float) -> tuple[bool, str, float]:
        """Send the node a request: give whether it answered, what was seen, and the ms it took."""
        return await ask(self.address(node), source=self.client_source(), timeout_s=timeout_s)

    def node_dir(self, node: str) -> Path:
        """The node's working folder; its disk, kept over restarts."""
        return self._run_dir / "nodes" / node

    def log_file(self, node: str) -> Path:
        """Give the file for the node's stdout and stderr; all its restarts share it."""
        return self._run_dir / "logs" / f"{node}.log"

    async def start(self, node: str, argv: Sequence[str], *, env: Mapping[str, str]) -> None:
        """Start the node's process in its folder; ``env`` is added to the harness's own.

        Returns at once: whether the node serves is the system's to find out.

        Raises:
            EnvError: The node runs already, or no file system can be put under it.
            NodeStartError: The program cannot be executed.
        """
        check_known(self._ends, node)
        await self._processes.running.make_room(node)
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
        faults = await self._seams.environ(node)
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
        self._processes.follow(node, child, entries, disk, folder if fakes else None)
        for entry in entries:
            await asyncio.to_thread(
                self._journal.update, entry, pid=child.id.pid, start=child.id.start
            )

    async def signal(self, node: str, signal_number: int) -> None:
        """Signal the node's process group; SIGKILL, SIGSTOP, SIGCONT return once they took hold.

        Raises:
            EnvError: The node does not run, or the signal does not take hold.
        """
        await self._processes.signal(node, signal_number)

    def process(self, node: str) -> ProcessState:
        """Ask the kernel about the node's process; detail has its identity or its end."""
        return self._processes.state(node)

    async def move(self, node: str, port: int) -> None:
        """See ``Movable``; the relay goes along."""
        if node in self._processes.running:
            raise EnvError(f"{node} runs: it can move only while it is down")
        here = known(self._ends, node)
        bind, advertised = self.bind_address(node), self.address(node)
        moved = replace(
            here, bind=Address(bind.host, port), advertised=Address(advertised.host, port)
        )
        await self._relay.move(moved)
        self._ends[node] = moved

    async def teardown(self) -> None:
        """Kill what still runs, stop relay and watchdog, give the addresses back. Idempotent.

        Raises:
            EnvError: A file system of ours broke under a node: what that did was not the node's.
                Or the watchdog ended before the run did.
        """
        broken = await self._processes.end_all()
        await self._relay.stop()
        if self._block is not None:
            self._block.release()
            self._block = None
        try:
            await self._watchdog.stop()
        except EnvError as error:
            broken.append(str(error))
        if broken:
            raise EnvError("; ".join(broken))

    # ---- processes

    def _environ(self, extra: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, **extra, **self._journal.environ()}

    async def _mount(self, node: str) -> FuseDisk:
        folder, environ = self.node_dir(node), self._environ({})
        return await FuseDisk.start(
            node, folder, self._journal, environ, lies_about=self._lies_about
        )

    # ---- clocks

    def _faketime(self, node: str) -> str | None:  # noqa: ARG002 - all have the same
        """Give the path of libfaketime on this host, for JVMs of a copy; None when it is absent."""
        found = find_faketime()
        if found is None or self._jvms is None:
            return found
        return str(without_waits(Path(found), self._run_dir / _JVM_LIBRARY))

    async def _ask_jvm(self, jvms: JvmClocks, node: str) -> dict[str, int] | None:
        """See ``ReadInside``; a JVM that is down or frozen is not asked."""
        child = self._processes.awake(node)
        return None if child is None else await jvms.read(node, child.id)


def _listening(node: str, address: Address | None) -> Address:
    if address is None:
        raise EnvError(f"node {node!r} has no address that it listens on")
    return address
