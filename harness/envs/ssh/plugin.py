"""Nodes on other hosts, through ssh: one host each, with a supervisor that ends with the harness.

The node's folder lies on its host. Here is a mirror of it: what the harness writes there goes to
the host when the node starts, what the node appends to its log and its events comes back while it
runs, and the rest comes when the run ends. See docs/ssh.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import signal
import sys
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

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
from harness.envs.clocks.orders import STILL
from harness.envs.links.filtered import CHAIN_MAX, FilteredNet
from harness.envs.links.netem import handle_of
from harness.envs.links.shaping import no_repeats
from harness.envs.links.tcp_probe import ask
from harness.envs.nodes.names import known
from harness.envs.processes.seams import Seams
from harness.envs.ssh import heal as ssh_heal
from harness.envs.ssh.connect import address_of, connect, find_python
from harness.envs.ssh.files import Outbox, code_archive
from harness.envs.ssh.hands import HandsThere
from harness.envs.ssh.hosts import HOSTS_VARIABLE, Host, load
from harness.envs.ssh.java import JavaThere, ask_there, bring_to, digests
from harness.envs.ssh.net import SshFilters, SshQueues
from harness.envs.ssh.place import FOLLOWED, Place
from harness.envs.ssh.processes import HostProcesses
from harness.envs.ssh.remote import SILENCE_S, Remote
from harness.errors import EnvError, HarnessError, NodeStartError, UsageError
from harness.healing.heal import heal_all
from harness.healing.journal import Journal
from harness.healing.watchdog import silence_s
from harness.processes.procfs import ProcessId
from harness.registry import environments
from harness.spec import RunSpec
from node.faults import hands


def check_hosts(spec: RunSpec) -> None:
    """Raise UsageError when there is no hosts file, or not one for each node."""
    hosts = _hosts()
    count = spec.voters + spec.observers
    if len(hosts) < count:
        raise UsageError(
            f"{spec.voters} voters and {spec.observers} observers want {count} hosts, and "
            f"{os.environ[HOSTS_VARIABLE]} names {len(hosts)}: add hosts, or ask for fewer "
            f"nodes with --voters, --observers"
        )


@environments.register(
    "ssh",
    EnvironmentTraits(
        hosts=frozenset({Disks, Power, Clocks, Movable, MountsDisks, AsksJvms}),
        links=frozenset({Packets}),
        one_run_at_a_time=True,  # a host has one node, on its own port
        check_hosts=check_hosts,
        why_not=no_repeats,
    ),
)
class Ssh:
    """Processes on your own hosts (--hosts FILE) through ssh; iptables cuts the links there."""

    name = "ssh"
    # How faults are made here, by family: for the documentation.
    how: ClassVar[Mapping[str, str]] = {
        "kill": "SIGKILL",
        "pause": "SIGSTOP",
        "power": "what was not fsynced is forgotten, by the node's disk seam or a FUSE under it",
        "disk": "the node's disk seam or a FUSE under it, and damage to its files",
        "clock": "libfaketime on the host, a clock for each process; a JVM is asked what it reads",
        "packets": "netem where the host's kernel has it, else a queue in user space (NFQUEUE)",
        "partition": "iptables on the host drops packets, in a chain of ours",
    }

    def __init__(self, run_dir: Path, journal: Journal) -> None:
        """Prepare; nothing is touched before ``setup``.

        Args:
            run_dir: Gets ``nodes/<node>/`` (a mirror of each node's disk) and ``logs/<node>.log``.
            journal: The run's open heal journal; the caller closes it after ``teardown``.
        """
        self._run_dir = run_dir.absolute()
        self._journal = journal
        self._places: dict[str, Place] = {}
        self._java: dict[str, JavaThere] = {}  # by node, where nodes are JVMs
        self._unfetched: dict[str, str] = {}  # node -> why its folder is not here
        self._mounts = False
        self._lies_about: str | None = None
        self._processes = HostProcesses(self._places)
        self._seams = Seams.of(
            journal,
            HandsThere(self._places),
            self._processes,
            self._faketime,
            (ssh_heal.DISK_ENTRY, ssh_heal.CLOCK_ENTRY),
        )
        self.disks, self.power, self.clocks = self._seams.parts
        self._net = FilteredNet(journal)
        self.net: Net = self._net

    def expect(self, abilities: Collection[type], rng: Random) -> None:
        """See ``Expects``."""
        self._seams.expect(abilities, rng)

    def why_not(self, ability: type) -> str | None:
        """See ``Explains``."""
        without = [str(p.host) for p in self._places.values() if p.faketime is None]
        if ability is MountsDisks:
            return _problems((p.host, p.no_mounts) for p in self._places.values())
        if ability is Packets:
            return self._net.why_not_shape
        if ability is Net:
            return self._net.why_not_cut
        if ability is Clocks and without:
            return f"no libfaketime on {', '.join(without)}: apt-get install faketime"
        return no_repeats(ability)

    # ------------------------------------------------------------------ setup, teardown

    async def setup(self, nodes: Sequence[str]) -> None:
        """Heal what dead runs left; log in everywhere, find Pythons, upload the code.

        Raises:
            EnvError: A host that cannot be reached, is not known, or cannot run a node.
        """
        hosts = _hosts()
        if len(hosts) < len(nodes):
            raise EnvError(
                f"{len(nodes)} nodes need as many hosts; the hosts file names {len(hosts)}"
            )
        await asyncio.to_thread(heal_all, self._journal.path.parent)
        chosen = dict(zip(nodes, hosts, strict=False))
        try:
            addresses = await _all(self._address(host) for host in chosen.values())
            _check_distinct(chosen, addresses)
            (self._run_dir / "logs").mkdir(parents=True, exist_ok=True)
            code = await asyncio.to_thread(code_archive)
            begun = await _all(
                self._prepare(node, host, address, code)
                for (node, host), address in zip(chosen.items(), addresses, strict=True)
            )
            no_queue = {
                node: f"on {host}, {b['queue']}"
                for (node, host), b in zip(chosen.items(), begun, strict=True)
                if b["queue"]
            }
            remotes = {node: place.remote for node, place in self._places.items()}
            await self._net.start(
                SshFilters(remotes, self._journal),
                {node: place.address for node, place in self._places.items()},
                SshQueues(remotes),
                why_not=_problems(zip(hosts, (b["filter"] for b in begun), strict=False)),
                no_queue=no_queue,
            )
        except BaseException as error:
            try:
                await self.teardown()
            except EnvError as more:
                error.add_note(str(more))  # the journal knows of it, too
            raise

    async def _address(self, host: Host) -> Address:
        return Address(await asyncio.to_thread(address_of, host), host.node_port)

    async def _prepare(self, node: str, host: Host, address: Address, code: str) -> dict[str, Any]:
        """Make one host ready; returns what its supervisor says that it can do."""
        self.node_dir(node).mkdir(parents=True, exist_ok=True)
        client = await asyncio.to_thread(connect, host)
        remote = Remote(host, client)
        try:
            python = (await asyncio.to_thread(find_python, client, host)).path
            what = self._what(node, host)
            outbox = Outbox(self.node_dir(node), f"{what['folder']}/node")
            entry = await self._journal.announce(
                ssh_heal.HOST_ENTRY, node=node, **ssh_heal.entry(host, python, what)
            )
        except BaseException:
            await remote.close()
            raise
        mirror = self.node_dir(node)
        place = Place(node, host, address, remote, python, what, entry, outbox, mirror)
        self._places[node] = place
        remote.on_file, remote.on_state = place.append, place.take_state
        place.files[""] = self.log_file(node).open("ab", buffering=0)
        await remote.start(python)
        begun = await remote.call(
            "begin",
            **what,
            address=address.host,
            port=address.port,
            silence_s=silence_s(SILENCE_S),
            hands=hands.__name__,
        )
        place.faketime, place.no_mounts = begun["faketime"], begun["mounts"]
        await remote.call("put", data=code, into="code")
        return begun

    def _what(self, node: str, host: Host) -> dict[str, Any]:
        """Name what this run has on a host so that nobody else has the same."""
        run = self._journal.run
        owner = self._journal.owner()
        digest = hashlib.sha256(f"{owner['harness']} {owner['place']} {run}".encode()).hexdigest()
        safe = re.sub(r"[^A-Za-z0-9_.-]", "-", run)
        return {
            "folder": f"{host.folder.rstrip('/')}/krucible-{safe}-{digest[:8]}-{node}",
            "chain": f"KRUCIBLE-{digest[:12]}-{node}"[:CHAIN_MAX],
            "mark": f"{run}/{digest[:12]}/{node}",
            "qdisc": handle_of(f"{digest} {node}"),
        }

    async def teardown(self) -> None:
        """Kill what still runs, fetch the nodes' folders, leave nothing on the hosts. Idempotent.

        Raises:
            EnvError: A host was lost, or not everything could be fetched or removed.
        """
        places = list(self._places.values())
        problems: list[str] = []
        ended = await asyncio.gather(*map(self._end, places), return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, HarnessError):
                problems.append(str(outcome))
            elif outcome is not None:
                raise outcome
        self._places.clear()
        await self._net.stop()
        if problems:
            raise EnvError("; ".join(problems))

    async def _end(self, place: Place) -> None:
        remote, problems = place.remote, []
        lost = remote.lost is not None
        if lost:
            self._unfetched[place.node] = str(remote.gone())
            problems.append(str(remote.gone()))
        try:
            if not lost:
                if place.state.pid is not None:
                    await self.signal(place.node, signal.SIGKILL)
                broken = await place.fetch()
                problems += [f"the file system under {place.node} broke: {why}" for why in broken]
        except EnvError as error:
            self._unfetched[place.node] = str(error)
            problems.append(f"cannot fetch the folder of {place.node}: {error}")
        try:
            if remote.lost is None:
                await remote.call("end")
            else:
                await remote.close()  # what still listens there has heard it, then
                what = ssh_heal.entry(place.host, place.python, place.what)
                await asyncio.to_thread(ssh_heal.clean_host, self._journal.run, what)
            await asyncio.to_thread(self._journal.undone, place.entry)
        except EnvError as error:
            problems.append(
                f"what the run left on host {place.host} may still be there: {error}; run "
                f"`krucible heal` once it answers"
            )
        await remote.close()
        for file in place.files.values():
            file.close()
        if problems:
            raise EnvError("; ".join(problems))

    # ------------------------------------------------------------------ where things are

    def bind_address(self, node: str) -> Address:
        """The host's own address."""
        return self._place(node).address

    def address(self, node: str) -> Address:
        """Give the address at which the node listens: nothing is in between."""
        return self._place(node).address

    def client_source(self) -> str | None:
        """Let the kernel choose the address that clients connect from."""
        return None

    async def ask(self, node: str, *, timeout_s: float) -> tuple[bool, str, float]:
        """Send the node a request: give whether it answered, what was seen, and the ms it took."""
        return await ask(self.address(node), source=None, timeout_s=timeout_s)

    def node_dir(self, node: str) -> Path:
        """The mirror of the node's folder."""
        return self._run_dir / "nodes" / node

    def log_file(self, node: str) -> Path:
        """Give the file in which the node's stdout and stderr arrive; all its restarts share it."""
        return self._run_dir / "logs" / f"{node}.log"

    def _faketime(self, node: str) -> str | None:
        """Give the path of libfaketime on a host, for JVMs of a copy; None: the host has none."""
        java = self._java.get(node)
        return self._place(node).faketime if java is None else java.library

    async def refresh(self, node: str) -> None:
        """See ``Mirrors``."""
        await self._place(node).refresh()

    def lost_disk(self, node: str) -> str | None:
        """Tell, after teardown, why the mirror of a node's disk is incomplete; else None.

        Nobody should judge such a mirror: what is missing in it was never lost by the node.
        """
        return self._unfetched.get(node)

    # ------------------------------------------------------------------ processes

    async def start(self, node: str, argv: Sequence[str], *, env: Mapping[str, str]) -> None:
        """Send what is new of the node's folder, start its process; our Python means the host's.

        Returns at once: whether the node serves is the system's to find out.

        Raises:
            EnvError: The node runs already, or its host is lost.
            NodeStartError: The program cannot be executed there.
        """
        place = self._place(node)
        news = await asyncio.to_thread(place.outbox.take, FOLLOWED)
        if news is not None:
            await place.remote.call("put", data=news, into="node")
        java = self._java.get(node)
        command = [
            place.python if part == sys.executable else place.outbox.translate(part)
            for part in (argv if java is None else map(java.translate, argv))
        ]
        faults = await self._seams.environ(node)
        try:
            if self._mounts:
                await place.mount(self._journal.run, self._lies_about)
            state = await place.remote.call(
                "start", argv=command, environ={**env, **faults}, follow=list(FOLLOWED)
            )
        except EnvError as error:
            if place.remote.lost is not None or place.state.pid is not None:
                raise
            raise NodeStartError(f"cannot start {node}: {error}") from error
        place.starts += 1
        place.take_state(state)

    async def bring(self, program: JavaProgram) -> None:
        """See ``BringsJava``: what a host lacks goes into the run's folder there."""
        known, places = await digests(program), list(self._places.values())
        brought = await _all(bring_to(place, program, known) for place in places)
        self._java = {p.node: there for p, there in zip(places, brought, strict=True)}

    def mount_disks(self, *, lies_about: str | None = None) -> None:
        """See ``MountsDisks``; on each host by the supervisor there."""
        self._lies_about = lies_about
        self._mounts = self.disks.used and self.why_not(MountsDisks) is None

    def ask_jvms(self) -> None:
        """See ``AsksJvms``; each is asked on its host."""
        jvms = {node: JvmClocks(partial(ask_there, p)) for node, p in self._places.items()}
        self.clocks.ask(partial(self._ask_jvm, jvms))

    async def _ask_jvm(self, jvms: Mapping[str, JvmClocks], node: str) -> dict[str, int] | None:
        """See ``ReadInside``; a JVM that is down or frozen is not asked."""
        place = self._place(node)
        if place.state.pid is None or place.state.state in STILL:
            return None
        return await jvms[node].read(node, ProcessId(place.state.pid, place.starts))

    async def signal(self, node: str, signal_number: int) -> None:
        """Signal the node's process group; SIGKILL, SIGSTOP, SIGCONT return once they took hold.

        Raises:
            EnvError: The node does not run, its host is lost, or the signal does not take hold.
        """
        await self._processes.signal(node, signal_number)

    def process(self, node: str) -> ProcessState:
        """Give the last word of the host's kernel on the node's process; news takes some 30 ms.

        Raises:
            EnvError: The host is lost: nobody can know.
        """
        return self._processes.state(node)

    async def move(self, node: str, port: int) -> None:
        """See ``Movable``; rules name ports, and follow."""
        place = self._place(node)
        if place.state.pid is not None:
            raise EnvError(f"{node} runs: it can move only while it is down")
        place.address = Address(place.address.host, port)
        await self._net.move(node, place.address)

    def _place(self, node: str) -> Place:
        return known(self._places, node)


def _hosts() -> tuple[Host, ...]:
    chosen = os.environ.get(HOSTS_VARIABLE)
    if not chosen:
        raise UsageError(
            f"--env ssh wants --hosts FILE (or {HOSTS_VARIABLE}): one [user@]host[:port] a line"
        )
    return load(Path(chosen))


def _check_distinct(chosen: Mapping[str, Host], addresses: Sequence[Address]) -> None:
    """A packet filter tells nodes by their hosts' addresses."""
    owner: dict[str, Host] = {}
    for host, address in zip(chosen.values(), addresses, strict=True):
        other = owner.setdefault(address.host, host)
        if other is not host:
            raise EnvError(f"hosts {other} and {host} have the same address {address.host}")


async def _all(steps: Any) -> list[Any]:
    """Run all steps to the end, though one fails; raises the first error."""
    work: list[Awaitable[Any]] = list(steps)
    done = await asyncio.gather(*work, return_exceptions=True)
    for outcome in done:
        if isinstance(outcome, BaseException):
            raise outcome
    return list(done)


def _problems(found: Iterable[tuple[Host, str | None]]) -> str | None:
    return "; ".join(f"on {host}, {why}" for host, why in found if why) or None
