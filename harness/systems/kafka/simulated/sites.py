"""The hosts of the simulator, with Kafka's nodes on them, in the JVM of this process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from harness import seeds
from harness.envs.sim.hosts import Sim
from harness.spec import RunSpec
from harness.systems.kafka.mixed import for_ours, nodes_of_ours
from harness.systems.kafka.releases import (
    DYNAMIC_SINCE,
    Line,
    Release,
    all_releases,
    line_of,
    release_of,
)
from harness.systems.kafka.simulated.controllers import Controllers
from harness.systems.kafka.simulated.folders import Folders, is_real
from harness.systems.kafka.simulated.held import Held
from harness.systems.kafka.simulated.jvm import loaded
from harness.systems.kafka.simulated.mounted import MountedDisk
from harness.systems.kafka.simulated.process import KafkaProcess, Stack
from harness.systems.kafka.simulated.registers import Registers
from harness.systems.kraft.sites import Site, VirtualSite
from harness.systems.nodes.levels import first_level
from harness.systems.nodes.processes import FSYNC_SETTING
from node.config import parse
from node.log.disk import Disk
from node.log.layout import partition_dir
from node.metadata.features import (
    HIGHEST_OF_KAFKA,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    default_features,
    level_name,
    level_of,
)
from node.sim.fabric import US, Link
from node.sim.host import Program
from node.sim.program import program_of

LATENCY_NS: Final = 500 * US
JITTER_NS: Final = 500 * US
OF_RAFT_ALONE: Final = frozenset({"register", "membership", "describe"})  # workloads
# whose reads a node's image answers
OF_VIEWS: Final = frozenset(
    {
        *("combined", "directories", "elr", "isr", "levels", "list-append"),
        *("observers", "reassign", "topics"),
    }
)
OF_SECURITY: Final = frozenset({"security"})  # controllers of ours serve none of it
OF_ADMINS: Final = frozenset({"admin", "cordons"})  # who are judged by answers that Kafka tells of
OF_CONTROLLERS: Final = OF_VIEWS | OF_SECURITY | OF_ADMINS | {"brokers", "producer-ids"}
# that a swarm draws: more would give each seed another run
DRAWN: Final = OF_RAFT_ALONE | {"brokers", "producer-ids"}
APART: Final = (
    "elr",
    "directories",
    "levels",
    "reassign",
    "isr",
    "topics",
    "security",
    "admin",
    "cordons",
    *["combined"] * 2,
)
# what they do has to do with voters in the log, or with their directories
OF_DYNAMIC_QUORUMS: Final = frozenset({"membership", "describe"})
# what they do has to do with directories of brokers, with levels that controllers register, or with
# tokens as they are since 3.7
OF_NEWER: Final = frozenset({"combined", "cordons", "directories", "elr", "levels", "security"})
# nodes of ours have a whole controller, and so have Kafka's beside them
OF_MIXED_QUORUMS: Final = (OF_CONTROLLERS - OF_VIEWS - OF_SECURITY) | {"membership", "describe"}
LATEST_HERE: Final = HIGHEST_OF_KAFKA[METADATA_VERSION]
# the line whose latest metadata.version that is
OF_LATEST: Final = line_of(level_name(LATEST_HERE).partition("-")[0])
OURS: Final = "krucible."
INSTALLED: Final = "krucible.kafka.installed"  # of a node that went over to another release
KNOWN: Final = (
    "node.id",
    "process.roles",
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
)


def kafka_site(environment: Sim, spec: RunSpec) -> Site:
    """The hosts of a simulation, with Kafka's nodes on them."""
    environment.fabric.default = _link
    enter = environment.held.enter_context
    folders = enter(Folders()) if is_real(spec.settings) else None
    site = VirtualSite(environment, partial(_program, spec, enter(Held()), folders))
    return site if folders is None else _Mounted(site, folders)


class _Mounted:
    """A site whose nodes have the metadata log in a folder of this host."""

    def __init__(self, site: VirtualSite, folders: Folders) -> None:
        self._folders = folders
        self._site = site
        self.network = site.network
        self.data_dir = site.data_dir
        self.event_file = site.event_file
        self.wall_ms = site.wall_ms
        self.launch = site.launch

    def disk(self, node: str) -> Disk:
        """The disk of the node's simulated host, with the real folder of its log."""
        at = partition_dir(self.data_dir(node))
        return MountedDisk(self._site.disk(node), at, partition_dir(self._folders.of(node)))


def _program(
    spec: RunSpec, held: Held, folders: Folders | None, settings: Mapping[str, str]
) -> Program:
    """Make what a host runs; raises EnvError when Kafka cannot run here."""
    config = parse({key: settings[key] for key in KNOWN if key in settings})
    if f"n{config.node_id}" in nodes_of_ours(spec.settings):
        return program_of(parse(for_ours(settings)))
    release = _release(spec, f"n{config.node_id}", settings.get(INSTALLED))
    known = {k: v for k, v in settings.items() if not k.startswith(OURS)}
    seed = seeds.split(spec.seed, "node", config.node_id, *spec.lucky())
    is_mixed = bool(nodes_of_ours(spec.settings))
    is_alone = spec.workload in OF_RAFT_ALONE and not is_mixed
    machine = Registers if is_alone else partial(Controllers, is_shown=not is_mixed)
    kind = Registers.kind if is_alone else Controllers.kind
    controllers, features = range(1, spec.voters + 1), default_features(metadata_version(spec))
    stack = Stack(loaded(release), kind, machine, controllers, features, held, folders)
    begin = partial(KafkaProcess, stack, config, known, seed)
    return Program(config.node_id, settings.get(FSYNC_SETTING) != "false", begin)


def _release(spec: RunSpec, node: str, installed: str | None) -> Release:
    """Give the release of a node: its first one, or that which it went over to."""
    if installed is None:
        return release_of(spec.settings, node)
    return next(each for each in all_releases(spec.settings) if str(each) == installed)


def metadata_version(spec: RunSpec) -> int:
    """Give that of a new cluster: as it is told, or the latest that all its nodes know."""
    levels = [latest_level(release.line) for release in all_releases(spec.settings)]
    known = min(*levels, highest_level(spec.settings))
    return min(known, first_level(spec.settings, known))


def highest_level(settings: Mapping[str, str]) -> int:
    """Give the highest metadata.version that a cluster may be told to have, of any release."""
    return LATEST_METADATA_VERSION if nodes_of_ours(settings) else LATEST_HERE


def latest_level(line: Line) -> int:
    """Give the latest metadata.version that a release knows, as far as we know it."""
    return LATEST_HERE if line >= OF_LATEST else level_of("{}.{}".format(*line))


def known_levels(line: Line) -> dict[str, int]:
    """Give the highest level of each feature with which a node of a release can be there."""
    return {**default_features(latest_level(line)), KRAFT_VERSION: int(line >= DYNAMIC_SINCE)}


def _link() -> Link:
    """A link between racks: a node of Kafka's without a leader asks again once per round trip."""
    return Link(latency_ns=LATENCY_NS, jitter_ns=JITTER_NS)
