"""``attached``: the hosts of a cluster that somebody else started, as far as its file reaches.

It starts nothing by itself and has no folder there. Each node that the file reaches has a keeper:
an agent that hurts it, as far as the file allows, and mends it whenever the harness is gone.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from harness.contracts.environment import Address, Link, Net, ProcessState
from harness.contracts.traits import EnvironmentTraits
from harness.envs.attached.file import (
    ATTACH_VARIABLE,
    FAMILIES,
    AttachFile,
    Guards,
    Radius,
    Reach,
    load,
)
from harness.envs.attached.heal import END_ENTRY, PAUSE_ENTRY, entry
from harness.envs.attached.keepers import SILENCE_S, Keeper, keeper
from harness.envs.attached.net import AttachedFilters, AttachedNet
from harness.envs.attached.warden import Warden
from harness.envs.links.filtered import CHAIN_MAX, FilteredNet
from harness.envs.links.tcp_probe import ask
from harness.envs.nodes.names import known
from harness.errors import EnvError, HarnessError, UsageError
from harness.healing.heal import heal_all
from harness.healing.journal import Journal
from harness.healing.watchdog import silence_s
from harness.registry import environments
from harness.spec import FAIR, RunSpec

NAME: Final = "attached"
UNSEEN: Final = "?"  # the state of a process that nobody can look at
PARTITION: Final = "partition"
_START_S = 60.0
_SIGNALLED: Final[Mapping[int, str]] = {
    signal.SIGSTOP: "pause",
    signal.SIGKILL: "kill",
    signal.SIGTERM: "stop",
}


def attach_file() -> AttachFile:
    """The attach file of this command; raises UsageError when there is none."""
    chosen = os.environ.get(ATTACH_VARIABLE)
    if not chosen:
        raise UsageError(
            f"--env {NAME} wants --attach FILE (or {ATTACH_VARIABLE}); see docs/attach.md"
        )
    return load(Path(chosen))


def allowed_nemeses(file: AttachFile) -> list[str]:
    """List the names that ``--nemesis`` takes for a cluster with such a file."""
    return [name for name in FAMILIES if name in file.allowed]


def check_attach(spec: RunSpec) -> None:
    """Raise UsageError when there is no file, or it does not allow the faults that are wanted."""
    file = attach_file()
    if spec.system != NAME:
        raise UsageError(f"--env {NAME}: only for what --attach FILE names; leave --env out")
    if spec.weather != FAIR:
        raise UsageError(
            f"--weather {spec.weather}: links of a foreign cluster are left as they are"
        )
    may = allowed_nemeses(file)
    for name in spec.nemeses:
        if name != "none" and name.partition("-")[0] not in may:
            allows = ", ".join(may) or "none"
            raise UsageError(
                f"--nemesis {name}: {file.path} does not allow it; it allows: {allows}"
            )


@environments.register(NAME, EnvironmentTraits(check_hosts=check_attach, one_run_at_a_time=True))
class AttachedHosts:
    """Hosts of a cluster that somebody else started; --attach FILE says what is allowed there."""

    name = NAME
    # How faults are made here, by family: for the documentation.
    how: ClassVar[Mapping[str, str]] = {
        "kill": "SIGKILL, and a start in its owner's way",
        "pause": "SIGSTOP, or docker pause",
        "partition": "iptables in the node's network drops packets, in a chain of ours",
    }

    def __init__(self, run_dir: Path, journal: Journal) -> None:
        """Prepare; nothing is touched before ``setup``.

        Args:
            run_dir: The run's folder.
            journal: The run's open heal journal; the caller closes it after ``teardown``.
        """
        self._run_dir = run_dir.absolute()
        self._journal = journal
        self._places: dict[str, tuple[int, Address]] = {}
        self._reaches: dict[str, tuple[Reach, str]] = {}  # with the Python of its keeper
        self._keepers: dict[str, Keeper] = {}
        self._states: dict[str, ProcessState] = {}
        self._entries: dict[str, int] = {}  # node -> of the journal, while its process is ours
        self._ended: dict[str, int] = {}  # node -> the process that a fault of ours has ended
        self._why_no_cuts: str | None = "before setup"
        self._warden = Warden((), {}, Radius())
        self._filtered = FilteredNet(journal)
        self.net: Net = AttachedNet(self._warden, self._filtered)

    @cached_property
    def _file(self) -> AttachFile:
        return attach_file()

    def take_places(
        self, places: Mapping[str, tuple[int, Address]], voters: Collection[str]
    ) -> None:
        """Hear from the system which nodes there are, by name: id, and where it is asked."""
        self._places = dict(places)
        reaches = {name: self._file.nodes.get(id_) for name, (id_, _) in places.items()}
        allowed = {name: reach.allow for name, reach in reaches.items() if reach is not None}
        self._warden = Warden(voters, allowed, self._file.radius)
        self.net = AttachedNet(self._warden, self._filtered)

    # ------------------------------------------------------------------ what is allowed

    @property
    def guards(self) -> Guards:
        """The limits that the guard holds the cluster to."""
        return self._file.guards

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes."""
        return tuple(self._places)

    def id_of(self, node: str) -> int:
        """The node's id in the cluster."""
        return known(self._places, node)[0]

    def busy(self) -> frozenset[str]:
        """The nodes that are hit by a fault of ours now, or are not back from one yet."""
        return self._warden.hit()

    def unsettled(self) -> frozenset[str]:
        """Those of them that no fault holds any more, and that are not back yet."""
        return self._warden.unsettled()

    def settle(self, node: str) -> None:
        """Hear that a node is back: it answers, and has caught up."""
        self._warden.settle(node)

    def lost(self) -> str | None:
        """Tell which node's keeper is lost; None while all are there."""
        for node, each in self._keepers.items():
            if each.lost is not None:
                return f"{node} is out of our hands: {each.lost}"
        return None

    def why_not_hit(self, nemesis: str, nodes: Sequence[str]) -> str | None:
        """See ``Permits``."""
        return self._warden.why_not_hold(nemesis, nodes)

    def why_not_cut(self, links: Iterable[Link]) -> str | None:
        """See ``Permits``."""
        return self._warden.why_not_cut(links)

    def why_not(self, ability: type) -> str | None:
        """See ``Explains``."""
        return self._why_no_cuts if ability is Net else None

    # ------------------------------------------------------------------ setup, teardown

    async def setup(self, nodes: Sequence[str]) -> None:
        """Heal what dead runs left; start a keeper for each node that the file reaches.

        Raises:
            EnvError: A node cannot be reached, or another process is there than the file says.
        """
        assert tuple(nodes) == self.nodes, "told by the system"  # noqa: S101
        await asyncio.to_thread(heal_all, self._journal.path.parent)
        try:
            problems = await self._keep_all()
            await self._start_net(problems)
        except BaseException as error:
            try:
                await self.teardown()
            except EnvError as more:
                error.add_note(str(more))
            raise

    async def _keep_all(self) -> dict[str, str | None]:
        """Start all keepers; by node, why its links cannot be cut."""
        wanted = {
            name: self._file.nodes[id_]
            for name, (id_, _) in self._places.items()
            if id_ in self._file.nodes and self._file.nodes[id_].allow
        }
        begun = await asyncio.gather(
            *(self._keep(name, reach) for name, reach in wanted.items()), return_exceptions=True
        )
        for outcome in begun:
            if isinstance(outcome, BaseException):
                raise outcome
        return {name: why for name, why in begun if not isinstance(why, BaseException)}  # type: ignore[misc]

    async def _keep(self, node: str, reach: Reach) -> tuple[str, str | None]:
        def heard(state: Mapping[str, Any]) -> None:
            self._take(node, state)

        where = f"{node} ({reach})"
        hand, python = await keeper(reach, heard, where)
        self._keepers[node], self._reaches[node] = hand, (reach, python)
        begun = await hand.call("begin", target=reach.target(), silence_s=silence_s(SILENCE_S))
        self._take(node, begun["state"])
        if begun["signal"] is not None:
            raise EnvError(f"{where}: {begun['signal']}")
        return node, begun["filter"]

    async def _start_net(self, problems: Mapping[str, str | None]) -> None:
        addresses = {
            name: await asyncio.to_thread(_resolved, address)
            for name, (_, address) in self._places.items()
        }
        digest = hashlib.sha256(str(self._journal.owner()).encode()).hexdigest()
        filters = AttachedFilters(
            self._keepers, self._reaches, self._journal, f"KRUCIBLE-{digest[:12]}"[:CHAIN_MAX]
        )
        self._why_no_cuts = self._without_cuts(addresses, problems)
        await self._filtered.start(filters, addresses, _NoQueues(), why_not=self._why_no_cuts)

    def _without_cuts(
        self, addresses: Mapping[str, Address], problems: Mapping[str, str | None]
    ) -> str | None:
        """Tell why no link can be cut; None when those that are allowed can."""
        if PARTITION not in self._file.allowed:
            return "the attach file allows no partition"
        hosts: dict[str, str] = {}
        for name, address in addresses.items():
            other = hosts.setdefault(address.host, name)
            if other != name:
                return f"{other} and {name} have the same address {address.host}"
        lacking = [
            f"{name}: {why}"
            for name, why in problems.items()
            if why is not None and PARTITION in self._reaches[name][0].allow
        ]
        return "; ".join(lacking) or None

    async def teardown(self) -> None:
        """Mend what is still hurt, dismiss the keepers. Idempotent.

        Raises:
            EnvError: A node may still be hurt; `krucible heal` tries again.
        """
        problems: list[str] = []
        ended = await asyncio.gather(*map(self._dismiss, self._keepers), return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, HarnessError):
                problems.append(str(outcome))
            elif outcome is not None:
                raise outcome
        self._keepers.clear()
        if problems:
            raise EnvError(
                f"not every node is surely as it was: {'; '.join(problems)}; run `krucible heal`"
            )
        await self._filtered.stop()

    async def _dismiss(self, node: str) -> None:
        hand = self._keepers[node]
        try:
            await hand.call("end", within_s=2 * _START_S)
        finally:
            await hand.close()
        await self._closed(node)

    # ------------------------------------------------------------------ where things are

    def bind_address(self, node: str) -> Address:
        """Give the node's own address."""
        return known(self._places, node)[1]

    def address(self, node: str) -> Address:
        """Give the node's own address: nothing of ours is in between."""
        return self.bind_address(node)

    def client_source(self) -> str | None:
        """Let the kernel choose the address that clients connect from."""
        return None

    async def ask(self, node: str, *, timeout_s: float) -> tuple[bool, str, float]:
        """Send the node a request: give whether it answered, what was seen, and the ms it took."""
        return await ask(self.address(node), source=None, timeout_s=timeout_s)

    def node_dir(self, node: str) -> Path:
        """Refuse: a foreign node's folder is not ours."""
        raise EnvError(f"{node} is not ours: its folder is not to be touched")

    def log_file(self, node: str) -> Path:
        """Refuse, as ``node_dir``."""
        raise EnvError(f"{node} is not ours: its log is not here")

    # ------------------------------------------------------------------ processes

    async def start(self, node: str, argv: Sequence[str], *, env: Mapping[str, str]) -> None:
        """Start what a fault of ours has ended, in the way that the file names.

        Raises:
            EnvError: It cannot be started, or there is a command: only its owner's way is right.
        """
        if argv or env:
            raise EnvError(f"{node} is not ours: it is started in its owner's way only")
        self._take(node, await self._keeper(node).call("start", within_s=_START_S))
        await self._closed(node)

    async def signal(self, node: str, signal_number: int) -> None:
        """Signal the node's process, if the file allows it; journalled before.

        Raises:
            EnvError: It is not allowed, the node does not run, or the signal does not take hold.
        """
        hand = self._keeper(node)
        if signal_number != signal.SIGCONT:
            await self._announce(node, signal_number)
        self._take(node, await hand.call("signal", number=int(signal_number)))
        if signal_number == signal.SIGCONT:
            await self._closed(node)

    async def _announce(self, node: str, signal_number: int) -> None:
        kind = _SIGNALLED.get(signal_number)
        if kind is None:
            raise EnvError(f"signal {signal_number} is none that a foreign node is given")
        if node in self._entries and not self._warden.holds(node):
            await self._closed(node)  # its owner has started it again
        if node in self._entries and kind == "kill":
            return  # a node that is slow to leave is ended the hard way, by the same fault
        if (reason := self._warden.why_not_hold(kind, [node])) is not None:
            raise EnvError(f"{node} is not touched: {reason}")
        who = await self._keeper(node).call("state")
        if who["pid"] is None:
            raise EnvError(f"{node} does not run: {who['detail']}")
        self._warden.hold(kind, node)
        if kind != "pause":
            self._ended[node] = int(who["pid"])
        if node not in self._entries:
            reach, python = self._reaches[node]
            what = entry(reach, python, node=node, who=who)
            journalled = PAUSE_ENTRY if kind == "pause" else END_ENTRY
            self._entries[node] = await self._journal.announce(journalled, **what)

    async def _closed(self, node: str) -> None:
        """The node's process is its owner's again."""
        self._warden.release(node)
        self._ended.pop(node, None)
        number = self._entries.pop(node, None)
        if number is not None:
            await asyncio.to_thread(self._journal.undone, number)

    def process(self, node: str) -> ProcessState:
        """Give the last word on the node's process; ``?`` where the file reaches none."""
        if node not in self._keepers:
            known(self._places, node)
            return ProcessState(None, UNSEEN, "the attach file does not reach it")
        return self._states[node]

    def _take(self, node: str, state: Mapping[str, Any]) -> None:
        pid = state["pid"]
        if pid is not None and self._ended.get(node, pid) != pid:
            del self._ended[node]  # its owner, say systemd, has started another one by itself
            self._warden.release(node)
        self._states[node] = ProcessState(
            None if pid is None else int(pid), str(state["state"]), str(state["detail"])
        )

    def _keeper(self, node: str) -> Keeper:
        if node not in self._keepers:
            raise EnvError(f"{node} is not touched: the attach file allows nothing of it")
        return self._keepers[node]


class _NoQueues:
    """``Queues`` that are never asked for: links here are only cut."""

    async def start(self, node: str, queues: Mapping[str, int]) -> None:
        raise EnvError(f"links to {node} are cut or left alone, never shaped ({dict(queues)})")

    async def put(self, node: str, wanted: Mapping[str, Any]) -> None:
        raise EnvError(f"links to {node} are cut or left alone, never shaped ({dict(wanted)})")

    async def told(self, node: str) -> Mapping[str, Any]:
        raise EnvError(f"links to {node} are cut or left alone, never shaped")

    async def complaint(self, node: str) -> str:
        raise EnvError(f"links to {node} are cut or left alone, never shaped")


def _resolved(address: Address) -> Address:
    """The address with its host as IPv4; raises EnvError."""
    try:
        found = socket.getaddrinfo(address.host, None, socket.AF_INET)
    except OSError as error:
        raise EnvError(f"{address.host} has no IPv4 address: {error}") from error
    return Address(str(found[0][4][0]), address.port)
