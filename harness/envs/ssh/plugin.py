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
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from harness.contracts.environment import Address, Net, ProcessState
from harness.contracts.hosts import Clocks, Packets
from harness.contracts.traits import EnvironmentTraits
from harness.envs.links.filtered import CHAIN_MAX, FilteredNet
from harness.envs.links.netem import handle_of
from harness.envs.links.shaping import SpoiledHosts, no_repeats
from harness.envs.links.tcp_probe import ask
from harness.envs.ssh import heal as ssh_heal
from harness.envs.ssh.connect import address_of, connect, find_python
from harness.envs.ssh.files import Outbox, code_archive, unpack
from harness.envs.ssh.hosts import HOSTS_VARIABLE, Host, load
from harness.envs.ssh.net import SshFilters, SshQueues
from harness.envs.ssh.remote import SILENCE_S, Remote
from harness.errors import EnvError, HarnessError, NodeStartError, UsageError
from harness.healing.heal import heal_all
from harness.healing.journal import Journal
from harness.healing.watchdog import silence_s
from harness.processes.procfs import GONE
from harness.registry import environments
from harness.spec import RunSpec
from node.faults import hands
from node.faults.hands import DATA

FOLLOWED = ("events.jsonl",)  # files of a node's folder that are fetched as they grow
_FETCH_TIMEOUT_S = 120.0
_SIGKILL, _SIGCONT, _SIGSTOP = 9, 18, 19  # as all hosts number them


@dataclass(slots=True)
class _Place:
    """A node's host during the run."""

    node: str
    host: Host
    address: Address
    remote: Remote
    python: str
    what: dict[str, Any]  # folder, chain and mark there
    entry: int  # of the journal
    outbox: Outbox
    state: ProcessState = field(default=ProcessState(None, GONE, "never started"))
    files: dict[str, BinaryIO] = field(default_factory=dict)
    faketime: str | None = None  # where its libfaketime is
    known: dict[str, list[int]] = field(default_factory=dict)  # files of its data, by their stamps
    mirroring: asyncio.Lock = field(default_factory=asyncio.Lock)


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
        links=frozenset({Packets}),
        one_run_at_a_time=True,  # a host has one node, on its own port
        check_hosts=check_hosts,
        why_not=no_repeats,
    ),
)
class Ssh(SpoiledHosts):
    """Processes on hosts of a list (--hosts FILE), through ssh; links are cut by iptables there."""

    name = "ssh"
    disk_entry, clock_entry = ssh_heal.DISK_ENTRY, ssh_heal.CLOCK_ENTRY
    # How faults are made here, by family: for the documentation.
    how: ClassVar[Mapping[str, str]] = {
        "kill": "SIGKILL",
        "pause": "SIGSTOP",
        "power": "the node's disk seam forgets what was not fsynced",
        "disk": "the node's disk seam, and damage to its files",
        "clock": "libfaketime on the host, one clock for each process",
        "packets": "netem where the host's kernel has it, else a queue in user space (NFQUEUE)",
        "partition": "iptables on the host drops packets, in a chain of ours",
    }

    def __init__(self, run_dir: Path, journal: Journal) -> None:
        """Prepare; nothing is touched before ``setup``.

        Args:
            run_dir: Gets ``nodes/<node>/`` (a mirror of each node's disk) and ``logs/<node>.log``.
            journal: The run's open heal journal; the caller closes it after ``teardown``.
        """
        super().__init__(journal)
        self._run_dir = run_dir.absolute()
        self._journal = journal
        self._places: dict[str, _Place] = {}
        self._unfetched: dict[str, str] = {}  # node -> why its folder is not here
        self._net = FilteredNet(journal)
        self.net: Net = self._net

    def why_not(self, ability: type) -> str | None:
        """See ``Explains``."""
        without = [str(p.host) for p in self._places.values() if p.faketime is None]
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
            raise EnvError(f"{len(nodes)} nodes want as many hosts; there are {len(hosts)}")
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
        place = _Place(node, host, address, remote, python, what, entry, outbox)
        self._places[node] = place
        remote.on_file = partial(self._append, place)
        remote.on_state = partial(_take_state, place)
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
        place.faketime = begun["faketime"]
        await remote.call("put", data=code, into="code")
        return begun

    def _what(self, node: str, host: Host) -> dict[str, Any]:
        """What of this run is on a host, named so that nobody else has the same."""
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

    async def _end(self, place: _Place) -> None:
        remote, problems = place.remote, []
        lost = remote.lost is not None
        if lost:
            self._unfetched[place.node] = str(remote.gone())
            problems.append(str(remote.gone()))
        try:
            if not lost:
                await self._fetch(place)
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

    async def _fetch(self, place: _Place) -> None:
        """Bring the node's folder here, once nothing writes to it any more."""
        if place.state.pid is not None:
            await self.signal(place.node, _SIGKILL)
        with tempfile.TemporaryFile() as spool:
            await place.remote.fetch(spool, timeout_s=_FETCH_TIMEOUT_S)
            if spool.tell():
                mirror = self.node_dir(place.node)
                shutil.rmtree(mirror / DATA, ignore_errors=True)  # what it has lost stays lost
                await asyncio.to_thread(unpack, spool, mirror)

    # ------------------------------------------------------------------ where things are

    def bind_address(self, node: str) -> Address:
        """The host's own address."""
        return self._place(node).address

    def address(self, node: str) -> Address:
        """The same: nothing is in between."""
        return self._place(node).address

    def client_source(self) -> str | None:
        """Whichever of this machine leads to the hosts."""
        return None

    async def ask(self, node: str, *, timeout_s: float) -> tuple[bool, str, float]:
        """Really try the node: whether it answered, what was seen, and after how many ms."""
        return await ask(self.address(node), source=None, timeout_s=timeout_s)

    def node_dir(self, node: str) -> Path:
        """The mirror of the node's folder."""
        return self._run_dir / "nodes" / node

    def log_file(self, node: str) -> Path:
        """Where the node's stdout and stderr arrive, one file for all its restarts."""
        return self._run_dir / "logs" / f"{node}.log"

    def folder_seen(self, node: str) -> str:
        """The node's folder on its host."""
        return f"{self._place(node).what['folder']}/node"

    def faketime(self, node: str) -> str | None:
        """Where its host has it."""
        return self._place(node).faketime

    async def reach(self, node: str, do: str, **arguments: Any) -> Any:
        """Have the hands on the node's host do something; raises EnvError."""
        answer = await self._place(node).remote.call("hands", order={"do": do, **arguments})
        return answer["answer"]

    async def refresh(self, node: str) -> None:
        """See ``Mirrors``."""
        place, data = self._place(node), self.node_dir(node) / DATA
        with tempfile.TemporaryFile() as spool:
            async with place.mirroring:
                there = await place.remote.fetch(
                    spool,
                    "refresh",
                    timeout_s=_FETCH_TIMEOUT_S,
                    below=DATA,
                    known=place.known,
                )
                await asyncio.to_thread(unpack, spool, data)
                place.known = dict(there["stamps"])
                place.outbox.mirrored(data, place.known)

    def lost_disk(self, node: str) -> str | None:
        """After teardown: why the mirror of a node's disk is not what was there; None when it is.

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
        command = [
            place.python if part == sys.executable else place.outbox.translate(part)
            for part in argv
        ]
        faults = self.fault_disk_environ(node) | await self.fake_clock_environ(node)
        try:
            state = await place.remote.call(
                "start", argv=command, environ={**env, **faults}, follow=list(FOLLOWED)
            )
        except EnvError as error:
            if place.remote.lost is not None or place.state.pid is not None:
                raise
            raise NodeStartError(f"cannot start {node}: {error}") from error
        _take_state(place, state)

    async def signal(self, node: str, signal_number: int) -> None:
        """Signal the node's process group; SIGKILL, SIGSTOP, SIGCONT return once they took hold.

        Raises:
            EnvError: The node does not run, its host is lost, or the signal does not take hold.
        """
        place = self._place(node)
        _take_state(place, await place.remote.call("signal", number=int(signal_number)))

    async def move(self, node: str, port: int) -> None:
        """See ``Movable``; rules name ports, and follow."""
        place = self._place(node)
        if place.state.pid is not None:
            raise EnvError(f"{node} runs: it can move only while it is down")
        place.address = Address(place.address.host, port)
        await self._net.move(node, place.address)

    async def end(self, node: str) -> None:
        """Kill the node's process, if it runs, and wait until it is gone."""
        place = self._place(node)
        if place.state.pid is None:
            return
        try:
            await self.signal(node, _SIGKILL)
        except EnvError:
            _take_state(place, await place.remote.call("state"))
            if place.state.pid is not None:
                raise  # else it ended just before

    @asynccontextmanager
    async def frozen(self, node: str) -> AsyncIterator[None]:
        """See ``NodeDisks``."""
        state = self._place(node).state
        if state.pid is None or state.state == "T":
            yield
            return
        await self.signal(node, _SIGSTOP)
        try:
            yield
        finally:
            await self.signal(node, _SIGCONT)

    async def _damage(self, node: str, do: str, **arguments: Any) -> Any:
        """Of the damage there is to be seen in the mirror, too."""
        done = await super()._damage(node, do, **arguments)
        await self.refresh(node)
        return done

    def process(self, node: str) -> ProcessState:
        """What the host's kernel said last about the node's process; news takes some 30 ms.

        Raises:
            EnvError: The host is lost: nobody can know.
        """
        place = self._place(node)
        if place.remote.lost is not None:
            raise place.remote.gone()
        return place.state

    def _place(self, node: str) -> _Place:
        if node not in self._places:
            known = ", ".join(self._places) or "none before setup"
            raise EnvError(f"no node is called {node!r}; there are: {known}")
        return self._places[node]

    def _append(self, place: _Place, name: str, data: bytes) -> None:
        """A piece of the node's log (its name is empty) or of a file that it follows."""
        if name not in ("", *FOLLOWED):
            raise KeyError(name)
        if name not in place.files:
            place.files[name] = (self.node_dir(place.node) / name).open("ab", buffering=0)
        place.files[name].write(data)


def _take_state(place: _Place, state: Mapping[str, Any]) -> None:
    pid = state["pid"]
    place.state = ProcessState(
        None if pid is None else int(pid), str(state["state"]), str(state["detail"])
    )


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
    """All of them, to the end, though one fails; raises the first error."""
    work: list[Awaitable[Any]] = list(steps)
    done = await asyncio.gather(*work, return_exceptions=True)
    for outcome in done:
        if isinstance(outcome, BaseException):
            raise outcome
    return list(done)


def _problems(found: Iterable[tuple[Host, str | None]]) -> str | None:
    return "; ".join(f"on {host}, {why}" for host, why in found if why) or None
