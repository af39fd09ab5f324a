"""KRaft nodes of any make as processes: their life, their quorum seen from outside, its voters.

What differs between makes (how a node is configured, what it can be asked) is a subclass's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast
from uuid import UUID

from harness import seeds
from harness.contracts.abilities import Change, Finalizes, Members
from harness.contracts.environment import Address, Environment
from harness.contracts.evidence import LogBatch, LogSnapshot
from harness.contracts.hosts import LosesDisks
from harness.contracts.system import Role
from harness.errors import EnvError, NodeStartError, UsageError
from harness.kafka import voters
from harness.kafka.features import finalized, raise_level
from harness.kafka.quorum import QuorumView, ask
from harness.kafka.route import CONNECT_TIMEOUT_S, Cluster
from harness.kafka.tries import until_done
from harness.spec import RunSpec
from harness.store.folder import RunDir
from harness.systems.kraft.sites import Site, site_of
from harness.systems.nodes.levels import (
    METADATA_SETTING,
    Levels,
    check_first_level,
    first_level,
    supported_levels,
)
from harness.systems.nodes.stored_log import (
    LogTail,
    Peekable,
    is_peekable,
    read_log,
    read_snapshots,
)
from node.config import ConfigError, NodeConfig, parse
from node.core.messages import AddVoterRequest, RemoveVoterRequest
from node.core.types import Endpoint, Listener, ReplicaKey
from node.driver.bootstrap import save_bootstrap
from node.formatting import Quorum, format_node
from node.log.layout import uuid_to_text
from node.log.meta_properties import MetaPropertiesError, format_directory, random_id
from node.metadata.features import (
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    default_features,
)
from node.wire.errors import ConnectFailed

STOP_TIMEOUT_S = 5.0
POLL_S = 0.05
LEADER_TIMEOUT_S = 0.5  # of one look while a fault waits to know its target
PATIENT_TIMEOUT_S = 2.0  # of one look where slowness must not pass for silence
CLUSTER_ID = "krucible"
SIGTERM, SIGKILL, SIGSTOP, SIGCONT = 15, 9, 19, 18
ENDED = ("gone", "Z")


IDLE_SETTING = "metadata.max.idle.interval.ms"  # how often an idle leader writes; 0: never
# How the quorum is made; ours, not the node's. static: ``controller.quorum.voters``; dynamic: the
# voters are in the log, with the directory ids of their disks (KIP-853).
QUORUM_SETTING = "krucible.quorum"
CLIENTS_SETTING = "krucible.clients"  # by whom administrators reach the active controller
OF_CONTROLLERS, OF_BROKERS = "controllers", "brokers"
FSYNC_SETTING = "krucible.fsync"  # false: the disks lie about logs
BOOTSTRAP_SETTING = "krucible.bootstrap.servers"  # how many of the other voters it knows
STATIC, DYNAMIC = "static", "dynamic"

# Faster than Kafka's, so that half a minute holds many elections; the ratios are Kafka's.
TIMERS: Mapping[str, str] = {
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.request.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.append.linger.ms": "0",
    IDLE_SETTING: "500",
    # a broker that began in vain for so long ends itself, and faults may well last for a minute
    "initial.broker.registration.timeout.ms": "3600000",
}


@dataclass(frozen=True, slots=True)
class Node:
    """One node as configured."""

    name: str
    id: int
    voter: bool
    settings: Mapping[str, str]
    config: NodeConfig


LEVELS_ARE_THE_LATEST = f"all levels are the latest: add --set {METADATA_SETTING}=3.9"


def why_not(ability: type, spec: RunSpec) -> str | None:
    """Tell why nodes of such a run cannot do a thing, though the class has it; None: they can."""
    if ability is Finalizes:
        return None if METADATA_SETTING in spec.settings else LEVELS_ARE_THE_LATEST
    if ability is not Members:
        return None
    if spec.settings.get(QUORUM_SETTING, STATIC) != DYNAMIC:
        return f"the quorum is {STATIC}: add --set {QUORUM_SETTING}={DYNAMIC}"
    return None if spec.voters > 1 else "the last voter cannot be removed"


class KraftNodes:
    """Controllers and brokers, one process each; a subclass configures and launches them."""

    name: str
    start_timeout_s: ClassVar[float] = 20.0
    connect_timeout_s: float = CONNECT_TIMEOUT_S  # of clients
    timers: ClassVar[Mapping[str, str]] = TIMERS  # what a user's own settings override
    older: ClassVar[bool] = False  # whether its nodes may not speak all versions that ours do
    commits_when_idle: ClassVar[bool] = False  # and has not recovered before it did again

    def __init__(self, spec: RunSpec, environment: Environment, run_dir: RunDir) -> None:
        """Name the nodes; nothing is started."""
        self.voters, self.observers = spec.voter_names, spec.observer_names
        self.nodes = self.voters + self.observers
        self._spec = spec
        self._env = environment
        self._run_dir = run_dir
        self._site = self.site(environment)
        self._node: dict[str, Node] = {}
        self._read: dict[bytes, LogBatch] = {}  # of the nodes' logs, which have most in common
        self._roles: dict[str, Role] = {}
        self._disks: dict[int, int] = {}  # how many each node has lost
        self._tails: dict[str, LogTail] = {}
        self._levels = Levels(self.first_levels())
        self._negotiates = False  # before it asks for the quorum: for nodes that are older still

    def site(self, environment: Environment) -> Site:
        """Give the site of its nodes."""
        return site_of(environment)

    # ------------------------------------------------------------------ lifecycle

    async def setup(self) -> None:
        """Format and start all nodes, wait until they answer and a leader has committed."""
        for index, name in enumerate(self.nodes, start=1):
            self._node[name] = self._configure(name, index)
            self._format(self._node[name])
        for name in self.nodes:
            await self._launch(name)
        await asyncio.gather(*(self._await_answer(name) for name in self.nodes))
        if await self._await_caught_up(self.start_timeout_s, fetched_since_now=False):
            return
        for name in self.nodes:
            self._check_running(name)
        raise NodeStartError(
            f"no leader that all nodes follow within {self.start_timeout_s:g} s; the nodes' logs "
            f"are in {self._run_dir.logs_dir}"
        )

    async def teardown(self) -> None:
        """SIGTERM every node; SIGKILL those that do not go.

        Brokers first: they ask the controllers for leave, and would wait for it in vain.
        """
        for group in (self.observers, self.voters):
            here = [name for name in group if name in self._node and self._runs(name)]
            await asyncio.gather(*map(self._stop, here))

    async def _stop(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + STOP_TIMEOUT_S
        try:
            await self._env.signal(name, SIGCONT)
            await self._env.signal(name, SIGTERM)
            while self._runs(name):
                if loop.time() > deadline_s:
                    await self._env.signal(name, SIGKILL)
                    return
                await asyncio.sleep(POLL_S)
        except EnvError:
            if self._runs(name):
                raise  # else it ended just before it was told to

    def _runs(self, name: str) -> bool:
        return self._env.process(name).state not in ENDED

    def _check_running(self, name: str) -> None:
        """Raise NodeStartError when the node's process has ended."""
        now = self._env.process(name)
        if now.state in ENDED:
            raise NodeStartError(
                f"{name} ended while it started: {now.detail}; its log is "
                f"{self._env.log_file(name)}"
            )

    def collect(self) -> None:
        """Write each node's log and snapshots into the store, as they lie on its disk.

        When a host was lost with its node's disk, nothing is written, and events are put aside as
        ``events.partial``: without what one node did and kept, the others seem to break promises.
        """
        env = self._env
        if isinstance(env, LosesDisks) and any(env.lost_disk(name) for name in self._node):
            if self._run_dir.events_dir.is_dir():
                self._run_dir.events_dir.rename(self._run_dir.path / "events.partial")
            return
        for name in self._node:
            self._run_dir.write_records(name, self.stored_log(name))
            self._run_dir.write_snapshots(name, self.stored_snapshots(name))

    def stored_log(self, node: str) -> list[LogBatch]:
        """The node's log as it lies on its disk."""
        return read_log(self._site.data_dir(node), self._site.disk(node), self._read)

    def stored_snapshots(self, node: str) -> list[LogSnapshot]:
        """The node's snapshots as they lie on its disk."""
        return read_snapshots(self._site.data_dir(node), self._site.disk(node))

    def read_log(self, node: str, begin: int, below: int) -> list[LogBatch]:
        """Batches of the node's log while it runs on a simulated disk; see ``LogTail``."""
        disk, tail = self._site.disk(node), self._tails.get(node)
        if not is_peekable(type(disk)):
            return []
        if tail is None:
            tail = self._tails[node] = LogTail(self._site.data_dir(node), self._read)
        return tail.read(cast("Peekable", disk), begin, below)

    # ------------------------------------------------------------------ Kill, Pause, Roles

    async def kill(self, node: str) -> None:
        """SIGKILL; returns when the process is gone."""
        await self._env.signal(node, SIGKILL)

    async def start(self, node: str) -> None:
        """Start a stopped node, where its host has it now, and wait until its port answers."""
        self._node[node] = self._configure(node, self._node[node].id)
        await self._launch(node)
        await self._await_answer(node)

    async def pause(self, node: str) -> None:
        """SIGSTOP."""
        await self._env.signal(node, SIGSTOP)

    async def resume(self, node: str) -> None:
        """SIGCONT."""
        await self._env.signal(node, SIGCONT)

    async def leader(self) -> str | None:
        """The node that answers DescribeQuorum as leader of the highest epoch."""
        view = await self._quorum(timeout_s=LEADER_TIMEOUT_S)
        return None if view is None else self._name_of(view.leader_id)

    def roles(self) -> Mapping[str, Role]:
        """Roles as of the last look at the quorum."""
        return dict(self._roles)

    # ------------------------------------------------------------------ Members

    async def voter_keys(self) -> dict[str, str] | None:
        """Tell what DescribeQuorum says."""
        view = await self._quorum(timeout_s=LEADER_TIMEOUT_S)
        if view is None:
            return None
        names = {node.id: name for name, node in self._node.items()}
        return {
            names[key.id]: key.directory_id.hex if key.directory_id else "" for key in view.voters
        }

    async def remove_voter(self, node: str, *, timeout_s: float) -> Change:
        """RemoveRaftVoter, until it is no voter by a set that is committed.

        Never of the leader of two voters: should it stop leading before the other one has the
        record, nobody could lead ever again. It is no voter by its own log, so it does not stand,
        and the other cannot win without its vote (KIP-853).
        """
        seen = voters.Seen()

        async def attempt() -> Change:
            view = await self._quorum(timeout_s=LEADER_TIMEOUT_S)
            leader = None if view is None else self._name_of(view.leader_id)
            if view is None or leader is None:
                return Change(done=False, detail="there is no leader")
            key = next((k for k in view.voters if k.id == self._node[node].id), None)
            if key is None:
                return self._as_told(view, seen, "no voter")
            seen.other()
            if leader == node and len(view.voters) == 2:  # noqa: PLR2004 - the smallest quorum
                return Change(done=False, detail="it leads only two voters, which need both")
            request = RemoveVoterRequest(key, CLUSTER_ID)
            return await self._ask(request, leader)

        return await until_done(attempt, timeout_s)

    async def add_voter(self, node: str, *, timeout_s: float) -> Change:
        """AddRaftVoter, until it is a voter by a set that is committed."""
        seen = voters.Seen()
        own, at = self._node[node], self._env.address(node)
        key = ReplicaKey(own.id, self._directory_id(own.id))
        listeners = (Listener("CONTROLLER", Endpoint(at.host, at.port)),)
        request = AddVoterRequest(key, listeners, timeout_ms=2000, cluster_id=CLUSTER_ID)

        async def attempt() -> Change:
            view = await self._quorum(timeout_s=LEADER_TIMEOUT_S)
            leader = None if view is None else self._name_of(view.leader_id)
            if view is None or leader is None:
                return Change(done=False, detail="there is no leader")
            if key in view.voters:
                return self._as_told(view, seen, "a voter")
            seen.other()
            return await self._ask(request, leader)

        return await until_done(attempt, timeout_s)

    async def await_address(self, node: str, *, timeout_s: float) -> Change:
        """Wait until a committed voter set has the address that the node sent (UpdateRaftVoter)."""
        seen = voters.Seen()
        own, at = self._node[node].id, self._env.address(node)

        async def attempt() -> Change:
            view = await self._quorum(timeout_s=LEADER_TIMEOUT_S)
            if view is None:
                return Change(done=False, detail="there is no leader")
            if all(key.id != own for key in view.voters):
                return self._as_told(view, seen, "no voter")
            if Endpoint(at.host, at.port) in view.endpoints.get(own, frozenset()):
                return self._as_told(view, seen, f"a voter at {at}")
            seen.other()
            known = ", ".join(sorted(map(str, view.endpoints.get(own, ()))))
            return Change(done=False, detail=f"the leader has it at {known}, it is at {at}")

        return await until_done(attempt, timeout_s)

    @staticmethod
    def _as_told(view: QuorumView, seen: voters.Seen, what: str) -> Change:
        if seen.is_committed(view):
            return Change(done=True, detail=f"it is {what}")
        return Change(done=False, detail=f"it is {what} in a voter set that is not committed yet")

    async def _ask(self, request: AddVoterRequest | RemoveVoterRequest, at: str) -> Change:
        address, network = self._env.address(at), self._site.network()
        return await voters.ask(request, address, network, older=self.older)

    def reformat(self, node: str) -> str:
        """``format --no-initial-controllers``, with another directory id."""
        own = self._node[node]
        self._disks[own.id] = self._disks.get(own.id, 0) + 1
        self._format(own)
        return self._directory_id(own.id).hex

    def cluster(self) -> Cluster:
        """Tell where all nodes are, for clients with requests of their own."""
        return Cluster(
            addresses={name: self._env.address(name) for name in self.nodes},
            names={node.id: name for name, node in self._node.items()},
            network=self._site.network(),
            id=CLUSTER_ID,
            connect_timeout_s=self.connect_timeout_s,
            forwarders=self.observers if is_forwarded(self._spec.settings) else (),
        )

    # ------------------------------------------------------------------ Finalizes

    def first_levels(self) -> dict[str, int]:
        """The levels of a new cluster, by feature: of those that may be raised."""
        dynamic = self._spec.settings.get(QUORUM_SETTING) == DYNAMIC
        return {METADATA_VERSION: first_level(self._spec.settings), KRAFT_VERSION: int(dynamic)}

    def known_levels(self, node: str) -> Mapping[str, int]:  # noqa: ARG002 - all are the same
        """The highest level of each feature to which a node can be taken."""
        return supported_levels()

    def raisable(self) -> Mapping[str, Sequence[int]]:
        """Tell what may be raised, and how far."""
        return self._levels.raisable(map(self.known_levels, self.nodes))

    async def finalize(self, feature: str, level: int, *, timeout_s: float) -> Change:
        """UpdateFeatures, until it is committed."""
        self._levels.ask(feature, level, map(self.known_levels, self.nodes))
        rng = seeds.rng(self._spec.seed, "finalize", feature, level)
        change = await raise_level(self.cluster(), feature, level, rng, timeout_s=timeout_s)
        self._levels.told(feature, level, change)
        return change

    async def finalized(self, node: str) -> Mapping[str, int] | None:
        """Ask it for its ApiVersions."""
        address, network = self._env.address(node), self._site.network()
        return await finalized(address, network, timeout_s=LEADER_TIMEOUT_S)

    # ------------------------------------------------------------------ recovery

    async def await_recovery(self, timeout_s: float) -> bool:
        """Wait until every node has fetched all that one leader has committed, later than now.

        Where ``commits_when_idle``, that leader must have committed something since, too.
        """
        return await self._await_caught_up(timeout_s, fetched_since_now=True)

    async def _await_caught_up(self, timeout_s: float, *, fetched_since_now: bool) -> bool:
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        since: QuorumView | None = None  # the first look at the present leader
        while True:
            if not all(map(self._runs, self.nodes)):
                return False  # a node that died by itself does not come back
            view = await self._quorum(timeout_s=PATIENT_TIMEOUT_S)
            if view is not None:
                if since is None or since.epoch != view.epoch:
                    since = view
                told_ms = since.asked_ms if fetched_since_now else None
                stands = (view.high_watermark or 0) <= (since.high_watermark or 0)
                waits = stands and fetched_since_now and self._is_to_commit
                wanted = {n.id for n in self._node.values()}
                if not waits and view.all_caught_up(wanted, since_ms=told_ms):
                    return True
            if asyncio.get_running_loop().time() >= deadline_s:
                return False
            await asyncio.sleep(POLL_S)

    async def _quorum(self, *, timeout_s: float) -> QuorumView | None:
        """Tell what the leader of the highest epoch says; refreshes ``roles``."""
        network = self._site.network()
        answers = await asyncio.gather(
            *(
                ask(self._env.address(v), network, timeout_s=timeout_s, older=self._negotiates)
                for v in self.voters
            )
        )
        views = [view for view in answers if view is not None]
        best = max(views, key=lambda view: view.epoch, default=None)
        leader = None if best is None else self._name_of(best.leader_id)
        for name in self.nodes:
            follows: Role = "follower" if name in self.voters else "observer"
            self._roles[name] = "leader" if name == leader else follows
        return best

    def _name_of(self, node_id: int) -> str | None:
        return next((n.name for n in self._node.values() if n.id == node_id), None)

    # ------------------------------------------------------------------ one node

    def _configure(self, name: str, index: int) -> Node:
        settings = {**self._own(name, index), **self.timers, **of_node(self._spec.settings)}
        try:
            config = self._config(settings)
        except ConfigError as error:
            raise EnvError(f"node setting: {error}; look at --set") from error
        return Node(name, index, name in self.voters, settings, config)

    def _own(self, name: str, index: int) -> dict[str, str]:
        """The settings that say who a node is."""
        voter = name in self.voters
        listener = "CONTROLLER" if voter else "PLAINTEXT"
        return {
            "node.id": str(index),
            "process.roles": "controller" if voter else "broker",
            **self._quorum_settings(name),
            "listeners": f"{listener}://{_text(self._env.bind_address(name))}",
            "advertised.listeners": f"{listener}://{_text(self._env.address(name))}",
            "log.dirs": str(self._site.data_dir(name)),
        }

    def _config(self, settings: Mapping[str, str]) -> NodeConfig:
        """Tell what formatting goes by; raises ConfigError."""
        return parse(settings)

    @property
    def _is_to_commit(self) -> bool:
        return self.commits_when_idle and self._spec.settings.get(IDLE_SETTING) != "0"

    @property
    def _is_dynamic(self) -> bool:
        return self._spec.settings.get(QUORUM_SETTING) == DYNAMIC

    def _quorum_settings(self, name: str) -> dict[str, str]:
        addresses = [_text(self._env.address(voter)) for voter in self.voters]
        if self._is_dynamic:
            if (wanted := self._spec.settings.get(BOOTSTRAP_SETTING)) is not None:
                others = [voter for voter in self.voters if voter != name] or [name]
                addresses = [_text(self._env.address(voter)) for voter in others[: int(wanted)]]
            return {"controller.quorum.bootstrap.servers": ",".join(addresses)}
        voters = ",".join(f"{i}@{address}" for i, address in enumerate(addresses, start=1))
        return {"controller.quorum.voters": voters}

    def _initial_controllers(self) -> str:
        """The first voters as the node's ``format`` wants them, each with its directory id."""
        return ",".join(
            f"{i}@{_text(self._env.address(voter))}:{uuid_to_text(self._directory_id(i))}"
            for i, voter in enumerate(self.voters, start=1)
            if voter in self._first_voters
        )

    @property
    def _first_voters(self) -> tuple[str, ...]:
        """The voters that a dynamic quorum begins with; the others are to join it."""
        return self.voters

    def _directory_id(self, node_id: int) -> UUID:
        """Draw the id of the disk that the node has now."""
        disks = self._disks.get(node_id, 0)
        labels = (node_id, disks) if disks else (node_id,)
        return random_id(seeds.rng(self._spec.seed, "directory", *labels))

    def _format(self, node: Node) -> None:
        """Give the node its identity, and to a first voter of a dynamic quorum all of them."""
        quorum = Quorum(self._initial_controllers() if node.voter else None)
        if node.voter and (self._disks.get(node.id) or node.name not in self._first_voters):
            quorum = Quorum(no_initial_controllers=True)
        disk = self._site.disk(node.name)
        try:
            if self._is_dynamic:
                format_node(
                    disk,
                    node.config,
                    cluster_id=CLUSTER_ID,
                    directory_id=self._directory_id(node.id),
                    quorum=quorum,
                    timestamp_ms=self._site.wall_ms(node.name),
                )
            else:
                format_directory(
                    disk,
                    self._site.data_dir(node.name),
                    cluster_id=CLUSTER_ID,
                    node_id=node.id,
                    directory_id=self._directory_id(node.id),
                )
            if node.voter and METADATA_SETTING in self._spec.settings:
                features = default_features(first_level(self._spec.settings))
                save_bootstrap(disk, self._site.data_dir(node.name), features)
        except (ConfigError, MetaPropertiesError, OSError) as error:
            raise NodeStartError(f"cannot format {node.name}: {error}") from error

    async def _launch(self, name: str) -> None:
        await self._site.launch(name, self._node[name].settings)

    async def _await_answer(self, name: str) -> None:
        """Wait until the node itself (not its relay) answers; raises NodeStartError."""
        address = self._env.bind_address(name)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self.start_timeout_s
        network = self._site.network()
        while True:
            try:
                connection = await network.connect(Endpoint(address.host, address.port))
            except ConnectFailed as error:
                self._check_running(name)
                if loop.time() >= deadline_s:
                    raise NodeStartError(
                        f"{name} does not answer on {address}: {error}; its log is "
                        f"{self._env.log_file(name)}"
                    ) from error
                await asyncio.sleep(POLL_S)
                continue
            connection.close()
            return


def of_node(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that the node itself knows."""
    ours = (QUORUM_SETTING, BOOTSTRAP_SETTING, METADATA_SETTING, CLIENTS_SETTING)
    return {key: value for key, value in settings.items() if key not in ours}


def is_forwarded(settings: Mapping[str, str]) -> bool:
    """Tell whether brokers forward what their clients change."""
    return settings.get(CLIENTS_SETTING) == OF_BROKERS


def check_quorum(settings: Mapping[str, str], latest_level: int = LATEST_METADATA_VERSION) -> None:
    """Raise UsageError when no quorum is made like that."""
    check_first_level(settings, latest_level)
    quorum = settings.get(QUORUM_SETTING, STATIC)
    if quorum not in (STATIC, DYNAMIC):
        raise UsageError(f"--set {QUORUM_SETTING}={quorum}: want {STATIC} or {DYNAMIC}")
    clients = settings.get(CLIENTS_SETTING, OF_CONTROLLERS)
    if clients not in (OF_CONTROLLERS, OF_BROKERS):
        raise UsageError(
            f"--set {CLIENTS_SETTING}={clients}: want {OF_CONTROLLERS} or {OF_BROKERS}"
        )
    servers = settings.get(BOOTSTRAP_SETTING)
    if servers is None:
        return
    if quorum != DYNAMIC:
        raise UsageError(f"--set {BOOTSTRAP_SETTING}: only with {QUORUM_SETTING}={DYNAMIC}")
    if not servers.isdecimal() or int(servers) < 1:
        raise UsageError(f"--set {BOOTSTRAP_SETTING}={servers}: want how many voters, 1 or more")


def _text(address: Address) -> str:
    return f"{address.host}:{address.port}"
