"""Checks the settings of runs of Apache Kafka, and lists those that a swarm draws for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from harness.errors import UsageError
from harness.systems.kafka import agent
from harness.systems.kafka.brought import IMAGE, check_image
from harness.systems.kafka.mixed import SYSTEM, check_mixture, is_of_mixture, nodes_of_ours
from harness.systems.kafka.releases import (
    ASKS_FOR_LESS_SINCE,
    DYNAMIC_SINCE,
    JOIN,
    JOINS_SINCE,
    all_releases,
    check_joining,
    is_of_releases,
)
from harness.systems.kafka.simulated import folders
from harness.systems.kafka.simulated.sites import highest_level
from harness.systems.nodes.levels import METADATA_SETTING
from harness.systems.nodes.processes import (
    BOOTSTRAP_SETTING,
    CLIENTS_SETTING,
    DYNAMIC,
    FSYNC_SETTING,
    OF_BROKERS,
    QUORUM_SETTING,
    check_quorum,
    is_forwarded,
)

OURS: Final = "krucible."  # what settings of our own node begin with
OF_AGENT: Final = frozenset({agent.SETTING, agent.WITHOUT, agent.FORCE})
OWN: Final = OF_AGENT | {
    QUORUM_SETTING,
    BOOTSTRAP_SETTING,
    FSYNC_SETTING,
    IMAGE,
    METADATA_SETTING,
    CLIENTS_SETTING,
    folders.LOG,
}
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
FETCH_TIMEOUT: Final = "controller.quorum.fetch.timeout.ms"
REQUEST_TIMEOUT: Final = "controller.quorum.request.timeout.ms"
FETCH_WAIT_MS: Final = 500  # at most; nobody may set it
# How often controllers look for partitions that could have a better leader, or one at all, and at
# the latest make a snapshot. Kafka's defaults, some minutes or an hour, come first: no seed is that
# long.
PERIODS: Final[Mapping[str, Sequence[str]]] = {
    "metadata.log.max.snapshot.interval.ms": ("3600000", "3600000", "1500"),
    "leader.imbalance.check.interval.seconds": ("300", "1", "5"),
    "unclean.leader.election.interval.ms": ("300000", "500", "3000"),
}
# How much a follower asks for at once. Kafka's defaults, a MB, come first: no seed has so much.
AMOUNTS: Final[Mapping[str, Sequence[str]]] = {
    "controller.quorum.fetch.max.bytes": ("1048576", "1048576", "1", "1000"),
    "controller.quorum.fetch.snapshot.max.bytes": ("1048576", "100", "1000"),
}
JOINING: Final = ("false", "false", "false", "true")
_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+")


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise UsageError for settings that are the harness's; the others are Kafka's to judge."""
    check_quorum(settings, highest_level(settings))
    check_mixture(settings)
    check_image(settings)
    for release in all_releases(settings):
        if settings.get(QUORUM_SETTING) == DYNAMIC and release.line < DYNAMIC_SINCE:
            raise UsageError(
                f"--set {QUORUM_SETTING}={DYNAMIC}: Apache Kafka {release} has no {DYNAMIC} quorums"
            )
        if nodes_of_ours(settings) and release.line < DYNAMIC_SINCE:
            raise UsageError(f"--set {SYSTEM}.NODE: want Apache Kafka 3.9 or newer, not {release}")
    if settings.get(JOIN) == "true":
        check_joining(settings)
    for key in settings:
        if is_of_releases(key) or is_of_mixture(key):
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
    if nodes_of_ours(settings):
        raise UsageError(f"--set {SYSTEM}.NODE: only `krucible sim` takes it; leave it out")
    if folders.LOG in settings:
        raise UsageError(f"--set {folders.LOG}: only `krucible sim` takes it; leave it out")
    for release in all_releases(settings):
        release.check_server()
    if IMAGE in settings and len(all_releases(settings)) > 1:
        raise UsageError(f"--set {IMAGE}: an image has one release, and the run has several")


def check_simulated(settings: Mapping[str, str]) -> None:
    """Raise UsageError for settings that simulated nodes cannot have."""
    folders.check_log(settings)
    check_settings(settings)
    if is_forwarded(settings):
        raise UsageError(
            f"--set {CLIENTS_SETTING}={OF_BROKERS}: simulated brokers of Kafka take no requests"
        )
    if IMAGE in settings:
        raise UsageError(f"--set {IMAGE}: only processes run in images; leave it out")


def ranges(settings: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Give the settings that a swarm draws for simulated nodes, beside others that it has drawn."""
    if nodes_of_ours(settings):
        return {}
    oldest = min(release.line for release in all_releases(settings))
    drawn = {**PERIODS, **_waits(settings)}
    if settings.get(QUORUM_SETTING) == DYNAMIC and oldest >= JOINS_SINCE:
        drawn[JOIN] = JOINING
    if oldest >= ASKS_FOR_LESS_SINCE:
        drawn |= AMOUNTS
    return drawn


def _waits(settings: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Give how long a request may take: as long as a follower waits for its leader, or not so.

    A Fetch waits for news on its leader, which takes its time out of that.
    """
    asked = settings[FETCH_TIMEOUT]
    if not asked.isdecimal() or int(asked) <= FETCH_WAIT_MS:
        return {}  # Kafka judges it
    fetch_ms = int(asked)
    half = [fetch_ms // 2] if fetch_ms // 2 >= 2 * FETCH_WAIT_MS else []
    return {REQUEST_TIMEOUT: tuple([str(ms) for ms in (fetch_ms, *half, 2 * fetch_ms)])}


def is_kafkas(name: str) -> bool:
    """Tell whether a drawn setting is one of Kafka's own, or says how its quorum is made."""
    return not name.startswith(OURS) or name == QUORUM_SETTING
