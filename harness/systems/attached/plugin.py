"""``attached``: a KRaft cluster that somebody else started (``--attach FILE``).

Nothing of it is formatted, started or stopped but by a fault that the file allows. It is judged by
the answers that clients get and by DescribeQuorum; what takes its events or logs is undecided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Final

from harness.contracts.clients import RegisterClient, TopicClient
from harness.contracts.environment import Address, Environment
from harness.contracts.system import Role
from harness.contracts.traits import AT_REST, BY_NODE, SystemTraits
from harness.envs.attached.plugin import AttachedHosts
from harness.errors import EnvError, NodeStartError
from harness.kafka import marks, quorum
from harness.kafka.client import KafkaClient
from harness.kafka.quorum import QuorumView
from harness.kafka.route import Cluster
from harness.kafka.survey import Place
from harness.registry import systems, workloads
from harness.spec import RunSpec
from harness.store.folder import RunDir, write_json
from harness.systems.attached.guard import Guard
from harness.systems.attached.leaving import leave
from harness.systems.attached.planning import (
    ATTACHED,
    CLUSTER,
    PLAY,
    SYSTEM,
    addresses,
    check_settings,
    places_of,
)
from node.wire.network import Sockets

START_TIMEOUT_S: Final = 90.0  # of a JVM on a busy host
ASK_S: Final = 1.0
PATIENT_S: Final = 2.0
POLL_S: Final = 0.1
FILE: Final = "attached.json"  # in the run's folder: what was found, and what was left behind

ATTACHED_TRAITS: Final = SystemTraits(
    envs=frozenset({ATTACHED}),
    check_settings=check_settings,
)


def _narrowed(settings: Mapping[str, str]) -> SystemTraits:
    """The workloads of the system that it is of, but those that would touch what is not ours."""
    kind = settings.get(SYSTEM)
    if kind is None:  # nobody has looked at a cluster
        return ATTACHED_TRAITS
    of = systems.traits(kind).with_settings({})
    fit = {
        name
        for name in (workloads.names() if of.workloads is None else of.workloads)
        if workloads.traits(name).prefixed
        and (settings.get(PLAY) == "true" or not workloads.traits(name).plays_brokers)
    }
    return replace(
        ATTACHED_TRAITS,
        workloads=frozenset(fit),
        reads=AT_REST if of.reads == BY_NODE else of.reads,
        versions={"attached": kind, "cluster": settings.get(CLUSTER, "?")},
    )


@systems.register(ATTACHED, replace(ATTACHED_TRAITS, narrowed=_narrowed))
class Attached:
    """A cluster that somebody else started; --attach FILE says where, and what is allowed."""

    name = ATTACHED

    def __init__(self, spec: RunSpec, environment: Environment, run_dir: RunDir) -> None:
        """Name the nodes; nobody is asked for anything yet."""
        self.voters, self.observers = spec.voter_names, spec.observer_names
        self.nodes = self.voters + self.observers
        self._spec = spec
        self._run_dir = run_dir
        self._roles: dict[str, Role] = {}
        self._left: list[str] = []
        self._marks = 0
        self._watching: Guard | None = None
        self._network = Sockets()
        self._places: Mapping[str, Place] = {}
        self._env: AttachedHosts | None = None
        if isinstance(environment, AttachedHosts):
            self._places, self._env = places_of(spec), environment
            environment.take_places(
                {name: (place.id, place.address) for name, place in self._places.items()},
                self.voters,
            )

    # ------------------------------------------------------------------ System

    async def setup(self) -> None:
        """See that it is the cluster of the plan, that it is well, and write down what it is.

        Raises:
            EnvError: It is another one, or not well: a run must begin with a healthy cluster.
        """
        self._hosts()
        if not await self._await_caught_up(PATIENT_S * 5, since_now=False):
            raise EnvError(
                "the cluster is not well: no leader that all its nodes follow; see it recover first"
            )
        self._watching = Guard(self.quorum, self._brokers(), self._hosts(), self._network)
        if (reason := await self._guard().first_look()) is not None:
            raise EnvError(f"the cluster is not well: {reason}; see it recover first")
        self._write()

    async def teardown(self) -> None:
        """Remove what the workload made, under the run's own names; stop nothing."""
        if self._watching is None:
            return  # the run never began
        brokers = self._brokers()
        plays = workloads.traits(self._spec.workload).plays_brokers
        self._left = await leave(
            self.cluster(),
            brokers or list(self.cluster().addresses.values()),
            plays=plays,
            marked=self._marks > 0,
        )
        self._write()

    def collect(self) -> None:
        """Copy nothing: logs and events of a foreign cluster are not ours to read."""

    def _write(self) -> None:
        told = {
            "system": self._spec.settings[SYSTEM],
            "cluster": self._spec.settings.get(CLUSTER),
            "nodes": {name: str(place) for name, place in self._places.items()},
            "prefix": self.cluster().prefix,
            "left_behind": self._left,
        }
        write_json(self._run_dir.path / FILE, told)

    async def await_recovery(self, timeout_s: float) -> bool:
        """Wait until one leader is there and all nodes have fetched what it has committed.

        Where the final reads are a node's own, until each shows all of that, too.
        """
        by_s = asyncio.get_running_loop().time() + timeout_s
        if not await self._await_caught_up(timeout_s, since_now=True):
            return False
        if not self._is_marked:
            return True
        self._marks += 1
        return await marks.show_all(self.cluster(), self.nodes, self._marks, by_s)

    @property
    def _is_marked(self) -> bool:
        return systems.traits(self.name).of(self._spec).reads == AT_REST

    async def until_unsafe(self) -> str:
        """See ``Guarded``."""
        return await self._guard().until_unsafe()

    # ------------------------------------------------------------------ Kill, Pause, Roles

    async def kill(self, node: str) -> None:
        """SIGKILL; returns when the process is gone."""
        await self._hosts().signal(node, SIGKILL)

    async def start(self, node: str) -> None:
        """Have it started in the way that the file names, and wait until it answers."""
        await self._hosts().start(node, (), env={})
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + START_TIMEOUT_S
        while True:
            passed, detail, _ = await self._hosts().ask(node, timeout_s=ASK_S)
            if passed:
                return
            if loop.time() >= deadline_s:
                raise NodeStartError(f"{node} does not answer {START_TIMEOUT_S:g} s on: {detail}")
            await asyncio.sleep(POLL_S)

    async def pause(self, node: str) -> None:
        """Freeze its process, or its container."""
        await self._hosts().signal(node, SIGSTOP)

    async def resume(self, node: str) -> None:
        """Let it go on."""
        await self._hosts().signal(node, SIGCONT)

    async def leader(self) -> str | None:
        """The node that answers DescribeQuorum as leader of the highest epoch."""
        view = await self.quorum(timeout_s=ASK_S)
        return None if view is None else self.name_of(view.leader_id)

    def roles(self) -> Mapping[str, Role]:
        """Roles as of the last look at the quorum."""
        return dict(self._roles)

    # ------------------------------------------------------------------ clients

    def cluster(self) -> Cluster:
        """Tell where all nodes are, and under which names the run may make things."""
        return Cluster(
            addresses=addresses(self._places),
            names={place.id: name for name, place in self._places.items()},
            network=self._network,
            id=self._spec.settings.get(CLUSTER, ""),
            prefix=f"krucible-{self._run_dir.id}-",
            lookouts=self._lookouts(),
        )

    def register_client(self) -> RegisterClient:
        """A register is a topic's ``retention.ms``."""
        return KafkaClient(self.cluster())

    def topic_client(self) -> TopicClient:
        """Topics under the run's prefix."""
        return KafkaClient(self.cluster())

    # ------------------------------------------------------------------ the quorum

    async def quorum(self, *, timeout_s: float) -> QuorumView | None:
        """Tell what the leader of the highest epoch says; refreshes ``roles``."""
        voters = (self._places[name].address for name in self.voters)
        best = await quorum.ask_all(voters, self._network, timeout_s=timeout_s, older=True)
        leader = None if best is None else self.name_of(best.leader_id)
        for name in self.nodes:
            follows: Role = "follower" if name in self.voters else "observer"
            self._roles[name] = "leader" if name == leader else follows
        return best

    def name_of(self, node_id: int) -> str | None:
        """The name of the node of that id; None when the run knows none."""
        return next((name for name, place in self._places.items() if place.id == node_id), None)

    def _lookouts(self) -> tuple[str, ...]:
        """The brokers, where only they answer Metadata."""
        if not self._is_marked:
            return ()
        return tuple(name for name, place in self._places.items() if place.controller is None)

    def _brokers(self) -> list[Address]:
        return [place.broker for place in self._places.values() if place.broker is not None]

    def _hosts(self) -> AttachedHosts:
        if self._env is None:
            raise EnvError(f"system {self.name!r} is only for --attach FILE")
        return self._env

    def _guard(self) -> Guard:
        assert self._watching is not None, "set up before watched"  # noqa: S101
        return self._watching

    async def _await_caught_up(self, timeout_s: float, *, since_now: bool) -> bool:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        since: QuorumView | None = None
        wanted = {place.id for place in self._places.values()}
        while True:
            view = await self.quorum(timeout_s=PATIENT_S)
            if view is not None:
                if since is None or since.epoch != view.epoch:
                    since = view
                told_ms = since.asked_ms if since_now else None
                if view.all_caught_up(wanted, since_ms=told_ms):
                    return True
            if loop.time() >= deadline_s:
                return False
            await asyncio.sleep(POLL_S)
