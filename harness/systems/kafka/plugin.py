"""``kafka``: Apache Kafka's own KRaft nodes, each a JVM; nothing of them is changed.

What they do is seen from outside by the answers that clients get, by DescribeQuorum, and by the
logs that they leave on their disks; and from inside by an agent in each JVM (``agent.py``), which
tells what our own nodes tell.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from harness.contracts.clients import RegisterClient
from harness.contracts.environment import Environment
from harness.contracts.hosts import AsksJvms, MountsDisks
from harness.contracts.traits import SystemTraits
from harness.envs.sim.hosts import Sim
from harness.errors import EnvError, UsageError
from harness.kafka.client import KafkaClient
from harness.registry import systems
from harness.spec import RunSpec
from harness.store.folder import RunDir
from harness.systems.kafka import agent, bugs
from harness.systems.kafka import distribution as kafka_dist
from harness.systems.kafka.distribution import (
    BROKER_HEAP_MB,
    CONTROLLER_HEAP_MB,
    SERVER,
    KafkaDist,
)
from harness.systems.kafka.releases import (
    DYNAMIC_SINCE,
    HEARD_AT_ONCE_SINCE,
    HOME,
    PAUSES_SINCE,
    VERSION,
    VOTES_KEPT_SINCE,
    Release,
    is_of_releases,
    release_of,
    releases_of,
)
from harness.systems.kafka.simulated.jvm import missing
from harness.systems.kafka.simulated.sites import (
    OF_CONTROLLERS,
    OF_LATEST,
    OF_RAFT_ALONE,
    kafka_site,
)
from harness.systems.kraft.sites import Site
from harness.systems.nodes.processes import (
    BOOTSTRAP_SETTING,
    DYNAMIC,
    QUORUM_SETTING,
    KraftNodes,
    Node,
    check_quorum,
    why_not,
)
from harness.verdict import Known
from node.config import NodeConfig
from node.driver.bootstrap import save_bootstrap
from node.log.layout import partition_dir
from node.metadata.features import default_features

OURS: Final = "krucible."  # what settings of our own node begin with
FSYNC_SETTING: Final = "krucible.fsync"  # false: its disks lie about logs
LOGS: Final = ".log"  # what names of their files end with
OF_AGENT: Final = frozenset({agent.SETTING, agent.WITHOUT, agent.FORCE})
OWN: Final = OF_AGENT | {QUORUM_SETTING, BOOTSTRAP_SETTING, FSYNC_SETTING}
OWN_SETTINGS: Final = frozenset(
    {
        "node.id",
        "broker.id",
        "process.roles",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "controller.listener.names",
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
    }
)
LISTENERS: Final[Mapping[str, str]] = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}
# Of brokers: small, for several live on one machine, and content with being the only one.
SMALL: Final[Mapping[str, str]] = {
    "inter.broker.listener.name": "PLAINTEXT",
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
    "num.io.threads": "2",
    "num.network.threads": "1",
    "background.threads": "2",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+")
_CONFIG = "server.properties"
_OUTPUT = Path("/dev/stdout")  # the environment appends it to the node's log


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise UsageError for settings that are the harness's; the others are Kafka's to judge."""
    check_quorum(settings)
    for release in releases_of(settings).values():
        if settings.get(QUORUM_SETTING) == DYNAMIC and release.line < DYNAMIC_SINCE:
            raise UsageError(
                f"--set {QUORUM_SETTING}={DYNAMIC}: Apache Kafka {release} has no {DYNAMIC} quorums"
            )
    for key in settings:
        if is_of_releases(key):
            continue
        if key in OWN_SETTINGS:
            raise UsageError(f"--set {key}: the harness sets it for each node; leave it out")
        if key in (FSYNC_SETTING, agent.SETTING) and settings[key] not in ("true", "false"):
            raise UsageError(f"--set {key}={settings[key]}: want true or false")
        if key == agent.FORCE and settings[key] not in agent.WRONGS:
            raise UsageError(f"--set {key}={settings[key]}: want one of {', '.join(agent.WRONGS)}")
        if key.startswith(OURS) and key not in OWN:
            raise UsageError(f"--set {key}: Apache Kafka has no such setting")
        if not _NAME.fullmatch(key):
            raise UsageError(f"--set {key}: want a setting of Apache Kafka's, as in a.setting")


def check_processes(settings: Mapping[str, str]) -> None:
    """Raise UsageError for settings that processes cannot have."""
    check_settings(settings)
    if HOME in settings:
        raise UsageError("--kafka-home: only `krucible sim` takes it; leave it out")
    if len(set(releases_of(settings).values())) > 1:
        raise UsageError(f"--set {VERSION}.NODE: only `krucible sim` takes it; leave it out")


# Without a leader a node of 4.1 asks for one again as soon as it was told that there is none.
KNOWN: Final = (
    Known("L12", "sent the same Fetch of epoch", "docs/kafka.md, a Fetch without end"),
    Known("L12", "without a pause as unattached", "docs/kafka.md, a Fetch without end"),
    Known("S13", " of 1 voters holding those", "docs/findings.md, a quorum of one"),
    Known("C2", "shutting down, leads or is new", "docs/kafka.md, a broker that comes back"),
)


# Before 4.0 a follower writes the leader in the place of its vote: it needs it no more.
FORGETS: Final = Known(
    "S3", ", now that it follows n", "docs/kafka.md, a follower before 4.0 forgets its vote"
)
# A snapshot of 3.x has a record more, of the migration from ZooKeeper.
OF_ZOOKEEPER: Final = tuple(
    Known("S22", told, "docs/kafka.md, snapshots of 3.x and 4.x")
    for told in (" has sha ", " has size ")
)


# Before 4.1 a follower hears of the high watermark with the answer to its next Fetch (KIP-1166).
HEARS_LATE: Final = Known(
    "L8", " did not hear in ", "docs/kafka.md, followers before 4.1 hear late"
)


# Before 4.2 a follower polls without a pause when it wants to tell its listeners (KAFKA-19605).
SPINS: Final = Known("L12", "without a pause as follower", "docs/kafka.md, a busy follower")

# Since 4.0 who lost an election, and knows its winner, stands again in that epoch at a restart.
STANDS_AGAIN: Final = Known(
    "S31", " and a vote for itself", "docs/kafka.md, a loser that stands again"
)

# Since 4.2 an observer does so while it has no answer after a fetch timeout.
OBSERVER_SPINS: Final = Known(
    "L12", "without a pause as observer", "docs/kafka.md, a cut-off observer"
)


def known_of(releases: Collection[Release]) -> tuple[Known, ...]:
    """Tell what nodes of some releases are known to do."""
    lines = {release.line for release in releases}
    found = list(KNOWN)
    if min(lines) < HEARD_AT_ONCE_SINCE:
        found.append(HEARS_LATE)
    if min(lines) < PAUSES_SINCE:
        found.append(SPINS)
    if max(lines) >= PAUSES_SINCE:
        found.append(OBSERVER_SPINS)
    if max(lines) >= VOTES_KEPT_SINCE:
        found.append(STANDS_AGAIN)
    if min(lines) < VOTES_KEPT_SINCE:
        found.append(FORGETS)
        if max(lines) >= VOTES_KEPT_SINCE:
            found += OF_ZOOKEEPER
    return tuple(found)


def is_kafkas(name: str) -> bool:
    """Tell whether a drawn setting is one of Kafka's own, or says how its quorum is made."""
    return not name.startswith(OURS) or name == QUORUM_SETTING


def _versions(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Name the releases in results: the one of most nodes, and those of single ones."""
    return {
        "kafka" if node is None else f"kafka of {node}": str(release)
        for node, release in releases_of(settings).items()
    }


def _recorded(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Say in the spec which release it is, though it be the default."""
    return {VERSION: release_of(settings).version}


PROCESSES: Final = SystemTraits(
    leaves=frozenset({"events", "records", "output"}),
    workloads=frozenset({"brokers", "producer-ids"}),  # what its controllers do by themselves
    envs=frozenset({"local"}),  # where its Java is
    jvms=True,
    check_settings=check_processes,
    why_not=why_not,
)
SIMULATED: Final = SystemTraits(
    leaves=frozenset({"events", "records", "output"}),
    leaves_with={workload: frozenset({"images"}) for workload in OF_CONTROLLERS},
    workloads=OF_RAFT_ALONE | OF_CONTROLLERS,
    check_settings=check_settings,
    known=KNOWN,
    takes=is_kafkas,
    why_not=why_not,
)


def _processes(settings: Mapping[str, str]) -> SystemTraits:
    fit = replace(PROCESSES, versions=_versions(settings), settings=_recorded(settings))
    if agent.is_on(settings):
        return replace(fit, known=known_of(releases_of(settings).values()))
    return replace(fit, leaves=fit.leaves - {"events"}, checkers=("logs",))


def _simulated(settings: Mapping[str, str]) -> SystemTraits:
    releases = releases_of(settings).values()
    fit = replace(
        SIMULATED,
        versions=_versions(settings),
        settings=_recorded(settings),
        missing=partial(missing, *releases),
        known=known_of(releases),
    )
    if all(release.line >= DYNAMIC_SINCE for release in releases):
        return fit
    assert fit.workloads is not None  # noqa: S101 - see above
    return replace(
        fit,
        workloads=fit.workloads - {"membership"},
        takes=lambda name: is_kafkas(name) and name != QUORUM_SETTING,
    )


@systems.register(
    "kafka",
    replace(
        PROCESSES,
        narrowed=_processes,
        simulated=replace(SIMULATED, narrowed=_simulated),
        released=bugs.load,
        release=VERSION,
    ),
)
class Kafka(KraftNodes):
    """Apache Kafka's controllers and brokers; `make kafka` fetches them. Needs Java 17.

    Settings are Kafka's; ``krucible.quorum=dynamic`` puts the voters into the log (KIP-853), with
    ``krucible.fsync=false`` disks say that its logs are fsynced, and lose them with the power.
    """

    name = "kafka"
    start_timeout_s = 90.0  # of several JVMs on two cores
    timers: ClassVar[Mapping[str, str]] = {}  # Kafka's own
    older = True
    # After a clock went back, a leader of Kafka's was seen that led on and wrote nothing any more.
    commits_when_idle = True

    def __init__(self, spec: RunSpec, environment: Environment, run_dir: RunDir) -> None:
        """Name the nodes; nothing is started."""
        super().__init__(spec, environment, run_dir)
        self._dist: KafkaDist | None = None
        self._agent: Path | None = None  # none, or there shall be none

    def site(self, environment: Environment) -> Site:
        """Give the site of its nodes: processes, or simulated hosts."""
        if isinstance(environment, Sim):
            return kafka_site(environment, self._spec)
        return super().site(environment)

    def register_client(self) -> RegisterClient:
        """A register is a topic's ``retention.ms``; of simulated nodes."""
        return KafkaClient(self.cluster())

    async def setup(self) -> None:
        """Find Kafka, or fetch it; then as any system of KRaft nodes."""
        if isinstance(self._env, Sim):
            await super().setup()
            return
        try:
            version = release_of(self._spec.settings).version
            self._dist = await asyncio.to_thread(kafka_dist.fetch, version)
            if agent.is_on(self._spec.settings):
                self._agent = await asyncio.to_thread(agent.agent_jar, self._dist)
        except kafka_dist.KafkaMissingError as error:
            raise EnvError(f"{error}; then `make kafka`") from error
        if isinstance(self._env, MountsDisks):
            lies = self._spec.settings.get(FSYNC_SETTING) == "false"
            self._env.mount_disks(lies_about=LOGS if lies else None)
        if isinstance(self._env, AsksJvms):
            self._env.ask_jvms()
        await super().setup()

    def event_files(self) -> dict[str, Path]:
        """Tell where each node's agent writes its protocol events; nowhere, where there is none."""
        if not agent.is_on(self._spec.settings):
            return {}
        found = {name: self._site.event_file(name) for name in self.nodes}
        return {name: path for name, path in found.items() if path is not None}

    def _own(self, name: str, index: int) -> dict[str, str]:
        small = {} if name in self.voters else SMALL
        return {**super()._own(name, index), **LISTENERS, **small}

    def _config(self, settings: Mapping[str, str]) -> NodeConfig:
        """Make the configuration that our own node knows, for it formats the same folder."""
        known = ("node.id", "process.roles", "listeners", "advertised.listeners", "log.dirs")
        quorum = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
        return super()._config({k: v for k, v in settings.items() if k in (*known, *quorum)})

    def _format(self, node: Node) -> None:
        """As ours; a newer release begins with the features that our clients know.

        By itself it would begin with its own latest ones, and take no broker that knows less.
        """
        super()._format(node)
        newer = release_of(self._spec.settings).line > OF_LATEST
        if node.voter and newer and not isinstance(self._env, Sim):
            disk, folder = self._site.disk(node.name), self._site.data_dir(node.name)
            save_bootstrap(disk, folder, default_features())

    async def _launch(self, name: str) -> None:
        if isinstance(self._env, Sim):
            await super()._launch(name)
            return
        assert self._dist is not None, "set up before started"  # noqa: S101
        node, config = self._node[name], self._env.node_dir(name) / _CONFIG
        known = {k: v for k, v in node.settings.items() if not k.startswith(OURS)}
        config.write_text("".join(f"{k}={v}\n" for k, v in known.items()), encoding="utf-8")
        heap_mb = CONTROLLER_HEAP_MB if node.voter else BROKER_HEAP_MB
        option = self._agent_option(name)
        argv = self._dist.argv(SERVER, config, log=_OUTPUT, heap_mb=heap_mb, agent=option)
        await self._env.start(name, argv, env={})

    def _agent_option(self, name: str) -> str:
        """Give the JVM's option for the node's agent; empty where it has none."""
        file = self._site.event_file(name)
        if self._agent is None or file is None:
            return ""
        log = partition_dir(self._site.data_dir(name))
        roles = self._node[name].settings["process.roles"]
        options = agent.AgentOptions(file, log, roles, self._spec.settings)
        return options.option(self._agent, self._env.node_dir(name))
