"""Nodes as containers of the local Docker Engine, each with a network of its own.

Every node has two containers. The *holder* keeps the node's network (address, firewall rules) for
the whole run and is the only one that may change it; the node itself runs in another one that
shares this network, without any capability. So a node can be killed, frozen and started again while
its links stay as they are, and links can be cut while it is frozen or down.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import sys
from collections.abc import Awaitable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final

from harness.agent.mounts import cannot_mount
from harness.contracts.environment import Address, Net, ProcessState
from harness.contracts.hosts import (
    AsksJvms,
    Clocks,
    Disks,
    JavaProgram,
    MountsDisks,
    Movable,
    Packets,
    Power,
)
from harness.contracts.traits import EnvironmentTraits
from harness.envs.clocks.jvm import JvmClocks
from harness.envs.clocks.library import without_waits
from harness.envs.disks.fuse.disk import FuseDisk
from harness.envs.docker import heal as docker_heal
from harness.envs.docker import image as docker_image
from harness.envs.docker.agents import Agents
from harness.envs.docker.config import NodeBox, holder_config
from harness.envs.docker.containers import Containers
from harness.envs.docker.engine import Engine, EngineError, in_thread
from harness.envs.docker.gate import close_gate, open_gate
from harness.envs.docker.java import JavaHere
from harness.envs.docker.net import DockerFilters, DockerQueues
from harness.envs.docker.process import Contained
from harness.envs.docker.subnet import create_network
from harness.envs.links.filtered import CHAIN_MAX, FilteredNet
from harness.envs.links.netem import handle_of
from harness.envs.links.shaping import no_repeats
from harness.envs.links.tcp_probe import ask
from harness.envs.nodes.hands import HandsHere
from harness.envs.nodes.names import check_known, check_names, known
from harness.envs.processes.seams import Seams
from harness.errors import EnvError, HarnessError, NodeStartError
from harness.healing import watchdog
from harness.healing.heal import heal_all
from harness.healing.journal import Journal
from harness.healing.watchdog import Watchdog
from harness.registry import environments

PORT: Final = 9093
NODES_MAX: Final = 99
_FIRST_HOST = 10  # the addresses below are the harness's and the Engine's
_NET = "net"
_HANG_S = 60.0
_JVM_LIBRARY = "libfaketime.so"  # of this run, in a folder that its nodes' containers have


def _why_not(ability: type) -> str | None:
    """Tell what this host lacks for an ability that the environment could have; None: nothing."""
    return cannot_mount() if ability is MountsDisks else no_repeats(ability)


@environments.register(
    "docker",
    EnvironmentTraits(
        hosts=frozenset({Disks, Power, Clocks, Movable, MountsDisks, AsksJvms}),
        links=frozenset({Packets}),
        why_not=_why_not,
    ),
)
class Docker:
    """Containers with fixed addresses on a network of their own; iptables cuts the links."""

    name = "docker"
    # How faults are made here, by family: for the documentation.
    how: ClassVar[Mapping[str, str]] = {
        "kill": "SIGKILL, and a new container on the old network",
        "pause": "docker pause, the freezer of its cgroup",
        "power": "what was not fsynced is forgotten, by the node's disk seam or a FUSE under it",
        "disk": "the node's disk seam or a FUSE under it, and damage to its files",
        "clock": "libfaketime, one clock for each process; a JVM is asked what it reads",
        "partition": "iptables drops packets, in a chain of ours inside each network",
        "packets": "netem where the kernel has it, else a queue in user space (NFQUEUE)",
    }

    def __init__(self, run_dir: Path, journal: Journal) -> None:
        """Prepare; nothing is touched before ``setup``.

        Args:
            run_dir: Gets ``nodes/<node>/`` (each node's disk) and ``logs/<node>.log``.
            journal: The run's open heal journal; the caller closes it after ``teardown``.
        """
        self._run_dir = run_dir.absolute()
        self._journal = journal
        self._prefix = "krucible-" + re.sub(r"[^A-Za-z0-9_.-]", "-", journal.run)
        self._engine: Engine | None = None
        self._image = ""
        self._has_faketime = True
        self._gateway: str | None = None
        self._addresses: dict[str, Address] = {}
        self._holders: dict[str, int] = {}  # container -> its journal entry
        self._network: int | None = None  # its journal entry
        self._starts = 0
        self._java: JavaHere | None = None  # nodes are no JVMs
        self._mounts = False
        self._lies_about: str | None = None
        self._containers = Containers(journal, self._addresses, self._asked)
        hands = HandsHere(self.node_dir)
        self._seams = Seams.of(journal, hands, self._containers, self._faketime)
        self.disks, self.power, self.clocks = self._seams.parts
        self._watchdog = Watchdog(journal, self._run_dir / watchdog.LOG, hang_s=_HANG_S)
        self._net = FilteredNet(journal)
        self.net: Net = self._net

    def expect(self, abilities: Collection[type], rng: Random) -> None:
        """See ``Expects``."""
        self._seams.expect(abilities, rng)

    def why_not(self, ability: type) -> str | None:
        """See ``Explains``."""
        if ability is Clocks and not self._has_faketime:
            image = (self._java and self._java.program.image) or self._image
            return f"image {image} has no {docker_image.FAKETIME}; see docker/node.Dockerfile"
        return _why_not(ability)

    # ------------------------------------------------------------------ setup, teardown

    async def setup(self, nodes: Sequence[str]) -> None:
        """Heal what dead runs left, find or build the image, make the network and the holders.

        Raises:
            EnvError: Bad node names, no Engine, no image, no free addresses, no packet filter.
        """
        check_names(nodes, self.name, NODES_MAX)
        state = self._journal.path.parent
        engine = self._engine = await in_thread(Engine.connect)
        try:
            await in_thread(heal_all, state)
            await in_thread(docker_heal.sweep, state, None, heal=True)
            self._image = await in_thread(docker_image.ensure, engine)
            (self._run_dir / "logs").mkdir(parents=True, exist_ok=True)
            for node in nodes:
                self.node_dir(node).mkdir(parents=True, exist_ok=True)
                self.log_file(node).touch()
                self._net_dir(node).mkdir(parents=True, exist_ok=True)
                self._net_dir(node).chmod(0o777)
            Agents.write(self._agent)
            await self._watchdog.start({**os.environ, **self._journal.environ()})
            await self._make_network(nodes)
            await _all(self._hold(node) for node in nodes)
            self._has_faketime = await self._has_file(docker_image.FAKETIME, nodes[0])
            chain = f"KRUCIBLE-{hashlib.sha256(self._journal.run.encode()).hexdigest()[:12]}"
            holders = {node: self._holder(node) for node in nodes}
            agents = Agents(engine, holders, self._agent)
            filters = DockerFilters(
                agents,
                self._journal,
                chain=chain[:CHAIN_MAX],
                handle=handle_of(self._journal.run),
            )
            queues = DockerQueues(agents, self._run_dir / _NET)
            await self._net.start(filters, self._addresses, queues)
            await self._net.make_chains()
        except BaseException:
            await self.teardown()
            raise

    async def _make_network(self, nodes: Sequence[str]) -> None:
        engine = self._asked()
        self._network = await self._journal.announce(
            "network", name=self._prefix, engine=engine.host
        )
        subnet = await in_thread(
            create_network, engine, self._prefix, docker_heal.labels(self._journal)
        )
        self._gateway = str(subnet[1])
        for number, node in enumerate(nodes, start=1):
            self._addresses[node] = Address(str(subnet[_FIRST_HOST + number]), PORT)

    async def _hold(self, node: str) -> None:
        """Start the container that keeps a node's network."""
        engine, name = self._asked(), self._holder(node)
        entry = await self._journal.announce("container", name=name, engine=engine.host)
        self._holders[name] = entry
        config = holder_config(
            node,
            self._image,
            docker_heal.labels(self._journal),
            network=self._prefix,
            address=self._addresses[node].host,
            folder=self._net_dir(node),
            agent=self._agent,
        )
        await in_thread(engine.run, name, config)

    async def _has_file(self, path: str, node: str) -> bool:
        code, _ = await in_thread(self._asked().execute, self._holder(node), ["test", "-e", path])
        return code == 0

    async def teardown(self) -> None:
        """Remove all containers and the network, dismiss the watchdog. Idempotent.

        Raises:
            EnvError: Something of ours is still there; what it is, and that `krucible heal` tries
                again.
        """
        engine = self._engine
        if engine is None:
            return
        problems: list[str] = []
        running = self._containers.running.all()
        await self._ending([self._containers.remove(each) for each in running], problems)
        await self._ending(
            [self._remove(name, entry) for name, entry in self._holders.items()], problems
        )
        if not problems:
            await self._ending([self._remove_network()], problems)
        if problems:
            raise EnvError(
                f"not all of the run's containers and networks are gone: {'; '.join(problems)}; "
                f"run `krucible heal` once the Engine answers"
            )
        await self._net.stop()
        self._engine = None
        engine.close()
        await self._watchdog.stop()
        if broken := self._containers.broken_disks:
            raise EnvError("; ".join(broken))

    async def _ending(self, steps: Sequence[Awaitable[None]], problems: list[str]) -> None:
        for outcome in await asyncio.gather(*steps, return_exceptions=True):
            if isinstance(outcome, HarnessError):
                problems.append(str(outcome))
            elif outcome is not None:
                raise outcome

    async def _remove(self, container: str, entry: int) -> None:
        await in_thread(self._asked().remove, container)
        await in_thread(self._journal.undone, entry)
        del self._holders[container]

    async def _remove_network(self) -> None:
        if self._network is not None:
            await in_thread(self._asked().remove_network, self._prefix)
            await in_thread(self._journal.undone, self._network)
            self._network = None

    async def bring(self, program: JavaProgram) -> None:
        """See ``BringsJava``: mounted into containers, or as the image has it."""
        java, name = JavaHere(program), f"{self._prefix}-java"
        image, library = program.image or self._image, self._run_dir / _NET / _JVM_LIBRARY
        engine = self._asked()
        if not await in_thread(engine.has_image, image):
            await in_thread(engine.pull, image)
        entry = await self._journal.announce("container", name=name, engine=engine.host)
        try:
            labels = docker_heal.labels(self._journal)
            await in_thread(java.check, engine, name, image, labels, library)
        finally:
            await in_thread(engine.remove, name)
            await in_thread(self._journal.undone, entry)
        self._java, self._has_faketime = java, library.exists()

    def mount_disks(self, *, lies_about: str | None = None) -> None:
        """See ``MountsDisks``: in the mount namespaces of the nodes' containers."""
        self._lies_about = lies_about
        self._mounts = self.disks.used and self.why_not(MountsDisks) is None

    def ask_jvms(self) -> None:
        """See ``AsksJvms``."""
        self.clocks.ask(partial(self._ask_jvm, JvmClocks()))

    async def _ask_jvm(self, jvms: JvmClocks, node: str) -> dict[str, int] | None:
        """See ``ReadInside``; a JVM that is down or frozen is not asked."""
        process = self._containers.awake(node)
        return None if process is None else await jvms.read(node, process.id)

    # ------------------------------------------------------------------ where things are

    def bind_address(self, node: str) -> Address:
        """The node's own address on the run's network."""
        return known(self._addresses, node)

    def address(self, node: str) -> Address:
        """Give the address at which the node listens: nothing is in between."""
        return self.bind_address(node)

    def client_source(self) -> str | None:
        """Give this host's own address on the run's network, which no rule of ours names."""
        return self._gateway

    async def ask(self, node: str, *, timeout_s: float) -> tuple[bool, str, float]:
        """Send the node a request: give whether it answered, what was seen, and the ms it took."""
        return await ask(self.address(node), source=self._gateway, timeout_s=timeout_s)

    def node_dir(self, node: str) -> Path:
        """The node's working folder; mounted into its container under the same name."""
        return self._run_dir / "nodes" / node

    def log_file(self, node: str) -> Path:
        """Give the file for the node's stdout and stderr; all its restarts share it."""
        return self._run_dir / "logs" / f"{node}.log"

    # ------------------------------------------------------------------ processes

    async def start(self, node: str, argv: Sequence[str], *, env: Mapping[str, str]) -> None:
        """Start the node's process in a container; the harness's own Python means the image's.

        Returns at once: whether the node serves is the system's to find out.

        Raises:
            EnvError: The node runs already, or the Engine does not start it.
        """
        check_known(self._addresses, node)
        await self._containers.running.make_room(node)
        engine = self._asked()
        self._starts += 1
        name = f"{self._prefix}-{node}-{self._starts}"
        what = {"name": name, "engine": engine.host, "node": node}
        entries = [await self._journal.announce("container", **what)]
        disk: FuseDisk | None = None
        try:
            faults = await self._seams.environ(node)
            if self._mounts:
                close_gate(self.node_dir(node))
            config = self._node_config(node, argv, {**env, **faults})
            await in_thread(engine.run, name, config)
            found = await in_thread(engine.inspect, name)
            state = {} if found is None else found["State"]
            process = self._containers.begun(node, name, state, self.log_file(node))
            if self._mounts:
                disk = await self._mount(node, process)
                # What was announced last is undone first: a node must not see its disk break.
                entries.append(await self._journal.announce("container", **what))
                await open_gate(self.node_dir(node), process)
        except BaseException as error:
            await in_thread(engine.remove, name)
            if disk is not None:
                await disk.end()
            for entry in reversed(entries):
                await in_thread(self._journal.undone, entry)
            if isinstance(error, EngineError):
                raise NodeStartError(f"cannot start {node}: {error}") from error
            raise
        self._containers.follow(node, process, entries, disk)

    async def _mount(self, node: str, process: Contained) -> FuseDisk:
        environ, pid = {**os.environ, **self._journal.environ()}, process.id.pid
        lies = self._lies_about
        return await FuseDisk.start(
            node, self.node_dir(node), self._journal, environ, lies_about=lies, inside=pid
        )

    def _node_config(
        self, node: str, argv: Sequence[str], env: Mapping[str, str]
    ) -> dict[str, Any]:
        java = self._java
        command = ["python3" if part == sys.executable else part for part in argv]
        if java is not None:
            command = [java.translate(part) for part in command]
        box = NodeBox(
            image=self._image if java is None else java.program.image or self._image,
            holder=self._holder(node),
            folder=self.node_dir(node),
            log=self.log_file(node),
            reads=() if java is None else [*java.mounts, *self._library()],
            gated=self._mounts,
        )
        variables = {**env, **self._journal.environ()}
        return box.config(command, variables, docker_heal.labels(self._journal))

    async def signal(self, node: str, signal_number: int) -> None:
        """Signal the node's process; SIGSTOP and SIGCONT freeze and thaw its whole container.

        SIGKILL, SIGSTOP, SIGCONT return once they took hold.

        Raises:
            EnvError: The node does not run, or the signal does not take hold.
        """
        await self._containers.signal(node, signal_number)

    def process(self, node: str) -> ProcessState:
        """Ask the kernel about the node's process; detail has its identity or its end."""
        return self._containers.state(node)

    async def move(self, node: str, port: int) -> None:
        """See ``Movable``."""
        if node in self._containers.running:
            raise EnvError(f"{node} runs: it can move only while it is down")
        address = self._addresses[node] = Address(self.address(node).host, port)
        await self._net.move(node, address)

    # ------------------------------------------------------------------ helpers

    def _faketime(self, node: str) -> str | None:  # noqa: ARG002 - all have one image
        """Give the path of libfaketime, for JVMs of a copy of it; None when the image lacks it."""
        if self._java is None or not self._has_faketime:
            return docker_image.FAKETIME if self._has_faketime else None
        return str(self._library()[0])

    def _library(self) -> list[Path]:
        """Give the copy of the image's libfaketime for JVMs, which their containers are to have."""
        found = self._run_dir / _NET / _JVM_LIBRARY
        if not found.exists():
            return []
        return [without_waits(found, found.with_name(f"jvm-{_JVM_LIBRARY}"))]

    def _net_dir(self, node: str) -> Path:
        """Shared with what shapes the node's links."""
        return self._run_dir / _NET / node

    @property
    def _agent(self) -> Path:
        """The archive of the agents, which every holder has under the same name."""
        return self._run_dir / _NET / "agent.pyz"

    def _holder(self, node: str) -> str:
        return f"{self._prefix}-{node}-net"

    def _asked(self) -> Engine:
        if self._engine is None:
            raise EnvError("the docker environment is not set up")
        return self._engine


async def _all(steps: Any) -> None:
    """Do all at once and wait for all, then raise the first failure."""
    outcomes = await asyncio.gather(*steps, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
