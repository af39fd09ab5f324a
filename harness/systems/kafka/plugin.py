"""``kafka``: Apache Kafka's own KRaft nodes, each a JVM; nothing of them is changed.

What they do is seen from outside by the answers that clients get, by DescribeQuorum, and by the
logs that they leave on their disks; and from inside by an agent in each JVM (``agent.py``), which
tells what our own nodes tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import ClassVar, Final

from harness import seeds
from harness.contracts.abilities import Change, Finalizes, Releases, Topics
from harness.contracts.clients import Outcome, RegisterClient, TopicClient
from harness.contracts.environment import Environment
from harness.contracts.hosts import AsksJvms, BringsJava, MountsDisks
from harness.contracts.traits import BY_NODE, SystemTraits
from harness.envs.sim.hosts import Sim
from harness.errors import EnvError, NodeStartError
from harness.kafka import marks
from harness.kafka.broker import Cast
from harness.kafka.client import KafkaClient
from harness.kafka.fleet import Fleet
from harness.kafka.route import Cluster
from harness.registry import systems, workloads
from harness.spec import SIM, RunSpec
from harness.store.folder import RunDir
from harness.systems.kafka import agent, bugs
from harness.systems.kafka import distribution as kafka_dist
from harness.systems.kafka.brought import IMAGE, program_of
from harness.systems.kafka.builds import Build, fetch_builds, said_release
from harness.systems.kafka.distribution import BROKER_HEAP_MB, CONTROLLER_HEAP_MB, SERVER
from harness.systems.kafka.images import digest_images
from harness.systems.kafka.known import FORWARDS_AGAIN, KNOWN, known_of
from harness.systems.kafka.mixed import (
    OF_MIXTURES,
    nodes_of_ours,
    own_settings,
)
from harness.systems.kafka.releases import (
    ADVERTISES_SINCE,
    DESCRIBES_CONFIGS_SINCE,
    DESCRIBES_SINCE,
    DYNAMIC_SINCE,
    HAS_METRICS_SINCE,
    IMAGES_SINCE,
    JOIN,
    RAISES_KRAFT_VERSION_SINCE,
    REGISTERS_SINCE,
    UPGRADE,
    VERSION,
    all_releases,
    line_of,
    release_of,
    releases_of,
)
from harness.systems.kafka.settings import (
    OURS,
    check_processes,
    check_simulated,
    is_kafkas,
    ranges,
)
from harness.systems.kafka.simulated import folders
from harness.systems.kafka.simulated.jvm import missing
from harness.systems.kafka.simulated.registration import register_controllers
from harness.systems.kafka.simulated.sites import (
    APART,
    DRAWN,
    INSTALLED,
    OF_ADMINS,
    OF_CONTROLLERS,
    OF_DYNAMIC_QUORUMS,
    OF_MIXED_QUORUMS,
    OF_NEWER,
    OF_RAFT_ALONE,
    OF_VIEWS,
    kafka_site,
    known_levels,
    latest_level,
    metadata_version,
)
from harness.systems.kraft.sites import Site
from harness.systems.nodes.processes import (
    FSYNC_SETTING,
    POLL_S,
    QUORUM_SETTING,
    KraftNodes,
    Node,
    is_forwarded,
)
from harness.systems.nodes.processes import why_not as why_no_members
from node.config import NodeConfig
from node.driver.bootstrap import save_bootstrap
from node.log.layout import partition_dir
from node.metadata.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    default_features,
    level_name,
)

LOGS: Final = ".log"  # what names of their files end with
OF_JVMS_S: Final = 1.5  # to connect to one: the first answers of a JVM on a busy host are slow
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
    # one that began in vain for so long ends itself, and a quorum may well be down for a minute
    "initial.broker.registration.timeout.ms": "3600000",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
# Those that read no settings from controllers, which tell none before 3.7 (KIP-919).
OF_OLDEST: Final = frozenset(
    {"brokers", "isr", "list-append", "observers", "producer-ids", "topics"}
)
# Workloads that make topics: where no broker is there to take them, the harness plays one.
OF_TOPICS: Final = OF_VIEWS | OF_RAFT_ALONE
HEARTBEAT_SETTING: Final = "broker.heartbeat.interval.ms"
HEARTBEAT_MS: Final = 2000  # Kafka's own default
_CONFIG = "server.properties"
_OUTPUT = Path("/dev/stdout")  # the environment appends it to the node's log


def _versions(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Name the releases in results: the one of most nodes, and those of single ones."""
    return {
        **{
            "kafka" if node is None else f"kafka of {node}": str(release)
            for node, release in releases_of(settings).items()
        },
        **({"kafka upgrades": settings[UPGRADE]} if UPGRADE in settings else {}),
        **{f"krucible of {node}": version("krucible") for node in sorted(nodes_of_ours(settings))},
    }


def why_not(ability: type, spec: RunSpec) -> str | None:
    """Tell why nodes of such a run have not an ability, though the class has; None when they do."""
    if (reason := folders.why_not(ability, spec.settings)) is not None:
        return reason
    if ability is Finalizes and spec.env == SIM and spec.workload in OF_RAFT_ALONE:
        return "above the raft client alone nothing is finalised"
    if ability is Finalizes and spec.env == SIM:
        for release in all_releases(spec.settings):
            if release.line < REGISTERS_SINCE:
                return f"simulated controllers of {release} cannot say which levels they know"
    if ability is Finalizes and len(all_releases(spec.settings)) > 1:
        latest = max(latest_level(release.line) for release in all_releases(spec.settings))
        told = f"no release of the run knows more than {level_name(metadata_version(spec))}"
        return None if latest > metadata_version(spec) else told
    if ability is Topics and not spec.observers:
        return "controllers of Kafka answer no Metadata, so that nobody can look: add --observers 1"
    if ability is not Releases:
        return why_no_members(ability, spec)
    if len(all_releases(spec.settings)) > 1:
        return None
    return f"there is one release: add --set {UPGRADE}=VERSION"


def _recorded(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Say in the spec which release it is, though it be the default."""
    return {VERSION: release_of(settings).version}


PROCESSES: Final = SystemTraits(
    serves_clients=True,
    leaves=frozenset({"events", "records", "output"}),
    workloads=OF_TOPICS | {"brokers", "producer-ids", "security", "admin", "cordons", "views"},
    reads=BY_NODE,
    envs=frozenset({"local", "docker", "ssh"}),
    jvms=True,
    check_settings=check_processes,
    why_not=why_not,
)
SIMULATED: Final = SystemTraits(
    leaves=frozenset({"events", "records", "output"}),
    leaves_with={workload: frozenset({"images"}) for workload in OF_CONTROLLERS},
    drawn=DRAWN,
    apart=APART,
    observed=OF_VIEWS,
    reads_with=dict.fromkeys(OF_VIEWS, BY_NODE),
    workloads=OF_RAFT_ALONE | OF_CONTROLLERS,
    check_settings=check_simulated,
    known=KNOWN,
    takes=is_kafkas,
    ranges=ranges,
    why_not=why_not,
)


def _processes(settings: Mapping[str, str]) -> SystemTraits:
    fit = replace(PROCESSES, versions=_versions(settings), settings=_recorded(settings))
    if IMAGE in settings:
        fit = replace(fit, envs=frozenset({"docker"}))
    if any(release.line < DYNAMIC_SINCE for release in all_releases(settings)):
        fit = replace(fit, workloads=(fit.workloads or frozenset()) - OF_DYNAMIC_QUORUMS)
    oldest = min(release.line for release in all_releases(settings))
    if oldest < DESCRIBES_CONFIGS_SINCE:
        fit = replace(fit, workloads=OF_OLDEST)
    forwarding = (FORWARDS_AGAIN,) if is_forwarded(settings) else ()
    if agent.is_on(settings):
        known = known_of(all_releases(settings))
        leaves = fit.leaves | ({"images"} if oldest >= IMAGES_SINCE else set())
        return replace(fit, leaves=leaves, known=(*known, *forwarding))
    known = (*fit.known, *forwarding)
    return replace(fit, leaves=fit.leaves - {"events"}, checkers=("logs",), known=known)


def _simulated(settings: Mapping[str, str]) -> SystemTraits:
    releases = all_releases(settings)
    fit = replace(
        SIMULATED,
        versions=_versions(settings),
        settings=_recorded(settings),
        missing=partial(missing, *releases),
        known=known_of(releases),
    )
    if nodes_of_ours(settings):
        fit = replace(
            fit,
            workloads=OF_MIXED_QUORUMS,
            leaves_with={workload: frozenset({"images"}) for workload in OF_MIXED_QUORUMS},
            known=(*fit.known, *OF_MIXTURES),
        )
    assert fit.workloads is not None  # noqa: S101 - see above
    if all(release.line >= DYNAMIC_SINCE for release in releases):
        return fit
    oldest = min(release.line for release in releases)
    offered = fit.workloads
    if oldest < REGISTERS_SINCE:
        offered -= OF_NEWER if len(releases) == 1 else OF_NEWER | OF_ADMINS  # who raise levels
    return replace(
        fit,
        workloads=offered - OF_DYNAMIC_QUORUMS,
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
        self._builds: dict[str, Build] = {}  # by release; none of simulated nodes
        oldest = min(release.line for release in all_releases(spec.settings))
        self._negotiates = oldest < DESCRIBES_SINCE
        self._marks_metrics = oldest >= HAS_METRICS_SINCE
        self._registers = oldest >= REGISTERS_SINCE
        self._installed: dict[str, str] = {}  # releases that nodes went over to
        if not isinstance(environment, Sim):
            self.connect_timeout_s = OF_JVMS_S
        self._log_begins: dict[str, int] = {}  # of each node's present process, in its log
        self._host: Fleet | None = None  # a played broker that takes topics
        self._marks = 0

    def site(self, environment: Environment) -> Site:
        """Give the site of its nodes: processes, or simulated hosts."""
        if isinstance(environment, Sim):
            return kafka_site(environment, self._spec)
        return super().site(environment)

    def register_client(self) -> RegisterClient:
        """A register is a topic's ``retention.ms``."""
        return KafkaClient(self.cluster())

    def topic_client(self) -> TopicClient:
        """Topics are topics, at which brokers look."""
        return KafkaClient(self.cluster())

    def cluster(self) -> Cluster:
        """Tell where all nodes are; where controllers are whole only brokers answer Metadata."""
        is_whole = not isinstance(self._env, Sim) or self._spec.workload in OF_VIEWS
        lookouts = self.observers if is_whole else ()
        return replace(super().cluster(), lookouts=lookouts)

    def node_release(self, node: str) -> str:
        """The release of which the node's next process is, and its present one, if it runs."""
        return self._installed.get(node) or str(release_of(self._spec.settings, node))

    def other_releases(self, node: str) -> Sequence[str]:
        """Name the releases to which a node of Kafka's may go in this run."""
        settings = self._spec.settings
        if node in nodes_of_ours(settings):
            return ()
        own = self.node_release(node)
        others = [release for release in all_releases(settings) if str(release) != own]
        return [str(r) for r in others if self._levels.permits(known_levels(r.line))]

    def first_levels(self) -> dict[str, int]:
        """Give those of a cluster of several releases, too."""
        return {**super().first_levels(), METADATA_VERSION: metadata_version(self._spec)}

    def known_levels(self, node: str) -> Mapping[str, int]:
        """Tell what the node's release can be taken to."""
        if node in nodes_of_ours(self._spec.settings):
            return super().known_levels(node)
        line = line_of(self.node_release(node))
        known = known_levels(line)
        return known if line >= RAISES_KRAFT_VERSION_SINCE else {**known, KRAFT_VERSION: 0}

    def says_releases(self) -> bool:
        """Simulated nodes have no log of their server's."""
        return not isinstance(self._env, Sim)

    def said_release(self, node: str) -> str | None:
        """Give the version that the node's process has written into its log."""
        begin = self._log_begins.get(node)
        return None if begin is None else said_release(self._env.log_file(node), begin)

    def install(self, node: str, release: str) -> None:
        """Give a node that is down another release."""
        if self._runs(node):
            raise EnvError(f"{node} runs, and keeps its release")
        self._installed[node] = release

    async def finalize(self, feature: str, level: int, *, timeout_s: float) -> Change:
        """As any; controllers that are simulated are registered before."""
        if isinstance(self._env, Sim):
            rng = seeds.rng(self._spec.seed, "registered", feature, level)
            try:
                await self._register_controllers(rng, timeout_s / 2)
            except NodeStartError as error:
                return Change(done=False, detail=str(error))
        return await super().finalize(feature, level, timeout_s=timeout_s)

    async def _register_controllers(self, rng: Random, timeout_s: float) -> None:
        """Have simulated controllers say which levels they know; raises NodeStartError."""
        by_s = asyncio.get_running_loop().time() + timeout_s
        theirs = [n for n in self.voters if n not in nodes_of_ours(self._spec.settings)]
        known = {self._node[n].id: known_levels(line_of(self.node_release(n))) for n in theirs}
        try:
            await register_controllers(self.cluster(), known, rng, by_s)
        except Outcome as outcome:
            raise NodeStartError(f"controllers do not register: {outcome.error}") from outcome

    async def finalized(self, node: str) -> Mapping[str, int] | None:
        """As any; the kraft.version of simulated nodes is that in their logs."""
        told = await super().finalized(node)
        if told is None or not isinstance(self._env, Sim):
            return told
        records = (record for batch in self.stored_log(node) for record in batch.records)
        levels = [r["fields"]["level"] for r in records if r["type"] == "KRaftVersion"]
        return {**told, KRAFT_VERSION: levels[-1]} if levels else told

    async def setup(self) -> None:
        """Find Kafka, or fetch it; then as any system of KRaft nodes."""
        if isinstance(self._env, Sim):
            await super().setup()
            if self._spec.workload in OF_VIEWS:
                await self._await_views()
            if self._registers and workloads.traits(self._spec.workload).sets_levels:
                rng = seeds.rng(self._spec.seed, "registered")
                await self._register_controllers(rng, self.start_timeout_s)
            return
        try:
            self._builds = await asyncio.to_thread(fetch_builds, self._spec.settings)
        except kafka_dist.KafkaMissingError as error:
            raise EnvError(f"{error}; then `make kafka`") from error
        if isinstance(self._env, BringsJava):
            await self._env.bring(program_of(self._builds.values(), self._spec.settings))
        if isinstance(self._env, MountsDisks):
            lies = self._spec.settings.get(FSYNC_SETTING) == "false"
            self._env.mount_disks(lies_about=LOGS if lies else None)
        if isinstance(self._env, AsksJvms):
            self._env.ask_jvms()
        await super().setup()
        await self._await_joined()
        if self._spec.workload in OF_TOPICS:
            await self._await_views()

    async def _await_views(self) -> None:
        """Wait until topics can be made, and each node shows what is written."""
        is_alone = not self.observers or isinstance(self._env, Sim)  # whose own do not register
        if is_alone and not workloads.traits(self._spec.workload).plays_brokers:
            await self._play_broker()
        if not await self._show_mark(asyncio.get_running_loop().time() + self.start_timeout_s):
            raise NodeStartError(
                f"not all nodes show what was written within {self.start_timeout_s:g} s; their logs"
                f" are in {self._run_dir.logs_dir}"
            )

    async def _play_broker(self) -> None:
        """Play a broker that takes topics, as long as the run lasts; raises NodeStartError."""
        cast = Cast(seeds.rng(self._spec.seed, "host"))
        heartbeat_ms = int(self._spec.settings.get(HEARTBEAT_SETTING, HEARTBEAT_MS))
        self._host = Fleet(self.cluster(), cast, 1, heartbeat_ms / 1e3)
        self._host.enter()
        if not await self._host.until_serving(self.start_timeout_s):
            raise NodeStartError(
                f"the controllers took no broker within {self.start_timeout_s:g} s; the nodes' logs"
                f" are in {self._run_dir.logs_dir}"
            )

    def collect(self) -> None:
        """As any; and put the digests of images into the events."""
        super().collect()
        if not isinstance(self._env, Sim):
            for node in self._node:
                digest_images(self._run_dir.events(node))

    async def teardown(self) -> None:
        """Stop all nodes, and the broker that is played before them."""
        if self._host is not None:
            await self._host.leave()
        await super().teardown()

    async def await_recovery(self, timeout_s: float) -> bool:
        """Wait as for any KRaft nodes, and until the own image of each has all of that."""
        by_s = asyncio.get_running_loop().time() + timeout_s
        if not await super().await_recovery(timeout_s):
            return False
        if isinstance(self._env, Sim) and self._spec.workload not in OF_VIEWS:
            return True
        return await self._show_mark(by_s)

    async def _show_mark(self, by_s: float) -> bool:
        """Wait until each node shows all that is committed now; controllers before 3.7 cannot."""
        self._marks += 1
        if self._marks_metrics:
            return await marks.show_all(self.cluster(), self.nodes, self._marks, by_s)
        if not self.observers:
            return True
        kind = marks.OF_BROKERS
        return await marks.show_all(self.cluster(), self.observers, self._marks, by_s, kind=kind)

    @property
    def _first_voters(self) -> tuple[str, ...]:
        """All; where nodes join by themselves, the first one alone."""
        joins = self._spec.settings.get(JOIN) == "true" and not isinstance(self._env, Sim)
        return self.voters[:1] if joins else self.voters

    async def _await_joined(self) -> None:
        """Wait until nodes that join by themselves have done so; raises NodeStartError."""
        keys: Mapping[str, str] = {}
        deadline_s = asyncio.get_running_loop().time() + self.start_timeout_s
        while self._first_voters != self.voters and set(keys) != set(self.voters):
            keys = await self.voter_keys() or {}
            if asyncio.get_running_loop().time() > deadline_s:
                raise NodeStartError(
                    f"of {', '.join(self.voters)} only {', '.join(keys) or 'none'} joined the "
                    f"quorum within {self.start_timeout_s:g} s"
                )
            await asyncio.sleep(POLL_S)

    def event_files(self) -> dict[str, Path]:
        """Tell where each node's agent writes its protocol events; nowhere, where there is none."""
        if not agent.is_on(self._spec.settings):
            return {}
        found = {name: self._site.event_file(name) for name in self.nodes}
        return {name: path for name, path in found.items() if path is not None}

    def _own(self, name: str, index: int) -> dict[str, str]:
        if name in nodes_of_ours(self._spec.settings):
            host = self._env.bind_address(name).host
            return {**super()._own(name, index), **own_settings(self._spec, index, host)}
        small = {} if name in self.voters else SMALL
        later = {INSTALLED: self._installed[name]} if name in self._installed else {}
        return {**super()._own(name, index), **LISTENERS, **small, **later}

    def _config(self, settings: Mapping[str, str]) -> NodeConfig:
        """Make the configuration that our own node knows, for it formats the same folder."""
        known = ("node.id", "process.roles", "listeners", "advertised.listeners", "log.dirs")
        quorum = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
        return super()._config({k: v for k, v in settings.items() if k in (*known, *quorum)})

    def _format(self, node: Node) -> None:
        """As ours; a new cluster begins with features that all its nodes and our clients know.

        By itself a release would begin with its own latest ones, and take no broker that knows
        less. A node of ours among Kafka's begins with what theirs begin with.
        """
        super()._format(node)
        if not node.voter or (features := self._first_features(node.name)) is None:
            return
        disk, folder = self._site.disk(node.name), self._site.data_dir(node.name)
        save_bootstrap(disk, folder, features)

    def _first_features(self, name: str) -> Mapping[str, int] | None:
        """Tell with which levels of features a voter begins: those that `kafka-storage` gives it.

        None: it is told otherwise.
        """
        if isinstance(self._env, Sim) and name not in nodes_of_ours(self._spec.settings):
            return None
        return default_features(metadata_version(self._spec))

    async def _launch(self, name: str) -> None:
        if isinstance(self._env, Sim):
            await super()._launch(name)
            return
        build = self._builds[self.node_release(name)]
        node, config = self._node[name], self._env.node_dir(name) / _CONFIG
        known = {k: v for k, v in node.settings.items() if not k.startswith(OURS)}
        if node.voter and line_of(self.node_release(name)) < ADVERTISES_SINCE:
            del known["advertised.listeners"]
        config.write_text("".join(f"{k}={v}\n" for k, v in known.items()), encoding="utf-8")
        heap_mb = CONTROLLER_HEAP_MB if node.voter else BROKER_HEAP_MB
        option = self._agent_option(name, build.agent)
        argv = build.dist.argv(SERVER, config, log=_OUTPUT, heap_mb=heap_mb, agent=option)
        log = self._env.log_file(name)
        self._log_begins[name] = log.stat().st_size if log.exists() else 0
        await self._env.start(name, argv, env={})

    def _agent_option(self, name: str, jar: Path | None) -> str:
        """Give the JVM's option for the node's agent; empty where it has none."""
        file = self._site.event_file(name)
        if jar is None or file is None:
            return ""
        log = partition_dir(self._site.data_dir(name))
        roles = self._node[name].settings["process.roles"]
        options = agent.AgentOptions(file, log, roles, self._spec.settings)
        return options.option(jar, self._env.node_dir(name))
