"""Releases of Apache Kafka: those that are known, and which one a node of a run is of.

The settings of a run say it: ``krucible.kafka.version`` for all nodes, with the name of a node at
its end for that one; ``krucible.kafka.home`` names the folder of one's own build;
``krucible.kafka.upgrade`` lists releases that nodes may go over to in the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import UsageError
from harness.systems.nodes.processes import DYNAMIC, QUORUM_SETTING

DEFAULT: Final = "4.1.2"
KNOWN: Final = (
    *("3.3.2", "3.4.0", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1", "3.9.2"),
    *("4.0.1", "4.0.2", "4.1.2", "4.2.0", "4.2.1", "4.2.2", "4.3.1", "4.4.0"),
)
# All of these run as processes, and in the simulator as raft clients alone and whole controllers;
# others are tried.
OLDEST: Final = (3, 3)
LOADS_NEWEST_SINCE: Final = (3, 6)  # snapshot of its own, whoever starts, and not all of its log
FREEZES_IMAGES_SINCE: Final = (3, 4)  # controllers, whose snapshots are of their memory before
WRITES_NOTHING_REFUSED_SINCE: Final = (3, 4)  # of topics that are not created (KAFKA-14612)
IMAGES_SINCE: Final = (3, 7)  # told of by the agent of live nodes
REGISTERS_SINCE: Final = (3, 7)  # controllers, and directories of brokers (KIP-919, KIP-858)
NAMES_EPOCHS_SINCE: Final = (3, 5)  # of members, in AlterPartition (KIP-903)
TAKES_BACK_SINCE: Final = (3, 5)  # what a controller had removed (3.4.1: KAFKA-14946)
FSYNCS_SNAPSHOTS_SINCE: Final = (3, 5)  # before they get their names (3.5.2: KAFKA-15312)
CLAIMS_CAUGHT_UP_SINCE: Final = (3, 6)  # with a record of its own epoch (KAFKA-15345)
DESCRIBES_CONFIGS_SINCE: Final = (3, 7)  # also controllers, beside all that KIP-919 brought
HAS_METRICS_SINCE: Final = (3, 7)  # of clients, as resources (KIP-714)
AMENDS_SINCE: Final = (3, 7)  # registrations of the same incarnation, which stay as they are else
COUNTS_FETCHERS_SINCE: Final = (3, 7)  # a leader, to resign without them (KAFKA-15489)
ADVERTISES_SINCE: Final = (3, 9)  # the addresses of controllers, beside the static voters
DYNAMIC_SINCE: Final = (3, 9)  # voters in the log (KIP-853)
DESCRIBES_SINCE: Final = (3, 9)  # voters by directory, in version 2 of DescribeQuorum
DRAWS_BACKOFFS_SINCE: Final = (3, 9)  # of candidates, also at the maximum (3.9.2: KAFKA-18345)
LEADS_WHEN_ELECTED_SINCE: Final = (3, 9)  # as state machines are told
CHECKS_PRINCIPALS_SINCE: Final = (3, 9)  # of new ACLs
KEEPS_EPOCHS_SINCE: Final = (3, 9)  # of brokers, when the same incarnation registers again
VOTES_KEPT_SINCE: Final = (4, 0)  # of followers, in quorum-state
LEADS_NOTHING_ANEW_SINCE: Final = (4, 0)  # of brokers that come back as new processes
HEARD_AT_ONCE_SINCE: Final = (4, 1)  # of the high watermark (KIP-1166)
CHECKS_NAMES_SINCE: Final = (4, 0)  # of features, also where one is to have level 0 (KIP-1022)
KEEPS_ELIGIBLE_SINCE: Final = (4, 3)  # where a broker tells of a directory
JOINS_SINCE: Final = (4, 2)  # a quorum, by itself (KIP-1186)
FORGETS_TOPICS_SINCE: Final = (4, 2)  # that came and went within one delta (KAFKA-19497)
ASKS_FOR_LESS_SINCE: Final = (4, 3)  # at once, by settings for fetches and snapshots
PAUSES_SINCE: Final = (4, 2)  # a follower whose UpdateRaftVoter is due (KAFKA-19605)
KEEPS_SETTINGS_UNTIL: Final = (4, 4)  # of deleted topics: all releases that were looked at
CLEARS_ELIGIBLE_UNTIL: Final = (4, 4)  # docs/findings.md
LOSES_PASSWORDS_UNTIL: Final = (4, 4)  # and tokens come back: docs/findings.md
KEEPS_DELETED_UNTIL: Final = (4, 4)  # partitions in indexes of controllers: docs/findings.md
KEEPS_MOVING_UNTIL: Final = (4, 4)  # what a reassignment before wanted, and more: docs/findings.md
KEEPS_CLOSED_SINCE: Final = (4, 4)  # cordoned brokers, also to assignments by hand (KAFKA-20832)
CORDONS_SINCE: Final = (4, 3)  # directories (KIP-1066), and what is wrong with it: docs/findings.md
COUNTS_REMOVED_UNTIL: Final = (4, 4)  # as a voter that keeps a leader: docs/findings.md
ELECTS_EMPTY_UNTIL: Final = (4, 4)  # disks: docs/findings.md
RAISES_KRAFT_VERSION_SINCE: Final = (4, 1)  # static voters become dynamic ones (KAFKA-16538)

JOIN: Final = "controller.quorum.auto.join.enable"
VERSION: Final = "krucible.kafka.version"
HOME: Final = "krucible.kafka.home"
UPGRADE: Final = "krucible.kafka.upgrade"
_JAR: Final = re.compile(r"kafka-raft-(\d+\.\d+.*)\.jar")
_RELEASED: Final = re.compile(r"\d+\.\d+\.\d+")
_FOLDERS: Final = ("lib", "libs")  # of a home: as in our cache; as in Kafka's own archives

Line = tuple[int, int]


def line_of(version: str) -> Line:
    """Tell the line of a release, which is its major and minor version: 4.1 of 4.1.2."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


@dataclass(frozen=True, slots=True)
class Release:
    """A release, or a build of one's own: the folder of its jars."""

    version: str
    jars: Path | None = None

    @property
    def line(self) -> Line:
        """Give the line of releases that it belongs to; seams change from line to line."""
        return line_of(self.version)

    def has_server(self) -> bool:
        """Tell whether the classes of the server are there, as in each release."""
        return self.jars is None or any(self.jars.glob("kafka_2.*.jar"))

    def check_server(self) -> None:
        """Raise UsageError when a build of one's own has no server that could be started."""
        if self.jars is not None and not self.has_server():
            raise UsageError(
                f"--kafka-home {self.jars.parent}: {self.jars} has no kafka_2.*.jar, which is "
                "the server; only `krucible sim` can do without"
            )

    def __str__(self) -> str:
        return self.version if self.jars is None else f"{self.version} of {self.jars.parent}"


def release_of(settings: Mapping[str, str], node: str | None = None) -> Release:
    """Give the release of a node, or of all that have none of their own; raises UsageError."""
    own = None if node is None else settings.get(f"{VERSION}.{node}")
    if own is not None:
        return Release(released(own, f"--set {VERSION}.{node}"))
    version, home = settings.get(VERSION), settings.get(HOME)
    if home is None:
        return Release(DEFAULT if version is None else released(version, "--kafka-version"))
    built = build_in(Path(home))
    if version not in (None, built.version):
        raise UsageError(f"--kafka-home {home}: it has Kafka {built.version}, not {version}")
    return built


def releases_of(settings: Mapping[str, str]) -> dict[str | None, Release]:
    """Give the releases of all nodes, by name; None: of those that have none of their own."""
    own = [name.removeprefix(f"{VERSION}.") for name in settings if name.startswith(f"{VERSION}.")]
    return {node: release_of(settings, node) for node in (None, *sorted(own))}


def all_releases(settings: Mapping[str, str]) -> tuple[Release, ...]:
    """Give all releases that nodes of a run may be of, each once: at first, or after an upgrade."""
    option = f"--set {UPGRADE}"
    later = [
        Release(released(each, option)) for each in settings.get(UPGRADE, "").split(",") if each
    ]
    return tuple(dict.fromkeys([*releases_of(settings).values(), *later]))


def is_of_releases(setting: str) -> bool:
    """Tell whether a setting names a release of Kafka, or its folder."""
    return setting in (VERSION, HOME, UPGRADE) or setting.startswith(f"{VERSION}.")


def build_in(home: Path) -> Release:
    """Find the build in a folder; raises UsageError."""
    for name in _FOLDERS:
        for jar in sorted((home / name).glob("kafka-raft-*.jar")):
            if (found := _JAR.fullmatch(jar.name)) is not None:
                if line_of(found[1]) < OLDEST:
                    oldest = ".".join(map(str, OLDEST))
                    raise UsageError(
                        f"--kafka-home {home}: it has Kafka {found[1]}; want {oldest} or newer"
                    )
                return Release(found[1], (home / name).absolute())
    raise UsageError(f"--kafka-home {home}: want a folder with Kafka's jars in lib or libs")


def released(version: str, option: str = "Apache Kafka") -> str:
    """Give the version of a release back that may be tried; raises UsageError."""
    if _RELEASED.fullmatch(version) is None or line_of(version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise UsageError(
            f"{option} {version}: want a release from {oldest} on, in three numbers; "
            f"krucible was tried with {', '.join(KNOWN)}"
        )
    return version


def check_joining(settings: Mapping[str, str]) -> None:
    """Raise UsageError where nodes cannot join a quorum by themselves."""
    for release in all_releases(settings):
        if release.line < JOINS_SINCE:
            raise UsageError(
                f"--set {JOIN}: Apache Kafka {release} knows it not; want "
                f"{'.'.join(map(str, JOINS_SINCE))} or newer with --kafka-version"
            )
    if settings.get(QUORUM_SETTING) != DYNAMIC:
        raise UsageError(
            f"--set {JOIN}: only a dynamic quorum: add --set {QUORUM_SETTING}={DYNAMIC}"
        )
