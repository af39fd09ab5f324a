"""``kraft``: our own KRaft nodes as real processes, controllers and brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import seeds
from harness.contracts.clients import RegisterClient, TopicClient
from harness.contracts.traits import SystemTraits
from harness.errors import UsageError
from harness.kafka.client import KafkaClient
from harness.registry import systems, workloads
from harness.systems.nodes.levels import METADATA_SETTING
from harness.systems.nodes.processes import (
    DYNAMIC,
    QUORUM_SETTING,
    TIMERS,
    KraftNodes,
    check_quorum,
    of_node,
    why_not,
)
from node import mutants as seeded
from node.config import ConfigError, parse

BROKERS = "krucible.brokers"  # who stand in for registered ones

# Settings that say which node it is and where its things are: the harness gives them.
OWN_SETTINGS: Mapping[str, str] = {
    "node.id": "1",
    "process.roles": "controller",
    "controller.quorum.voters": "1@127.0.0.1:1",
    "controller.quorum.bootstrap.servers": "",
    "listeners": "CONTROLLER://127.0.0.1:1",
    "advertised.listeners": "CONTROLLER://127.0.0.1:1",
    "log.dirs": "data",
    "krucible.source.host": "127.0.0.1",
    "krucible.trace.file": "events.jsonl",
    "krucible.seed": "0",
    "krucible.mutant": "",
}


# How often controllers look for partitions that could have a better leader, or one at all, and make
# a snapshot at the latest; how much a follower asks for at once; how long snapshots and segments
# are kept. Defaults come first: most of them are longer than a seed.
RANGES: Mapping[str, Sequence[str]] = {
    "metadata.log.max.snapshot.interval.ms": ("3600000", "3600000", "1500"),
    "leader.imbalance.check.interval.seconds": ("300", "1", "5"),
    "unclean.leader.election.interval.ms": ("300000", "500", "3000"),
    "controller.quorum.fetch.max.bytes": ("8388608", "8388608", "1", "1000"),
    "controller.quorum.fetch.snapshot.max.bytes": ("1048576", "100", "1000"),
    "metadata.max.retention.ms": ("604800000", "604800000", "3000"),
}


# Of a new cluster: the latest for most, or one from which levels can be raised.
LEVELS = ("4.1", "4.1", "4.1", "4.0", "3.9")
OF_STATIC = "3.7"  # voters are in the log from 3.9 on


def ranges(settings: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Give the settings that a swarm draws beside others that it has drawn."""
    is_dynamic = settings.get(QUORUM_SETTING) == DYNAMIC
    return {**RANGES, METADATA_SETTING: LEVELS if is_dynamic else (*LEVELS, OF_STATIC)}


def mutants() -> list[dict[str, Any]]:
    """The seeded bugs of the node: name, what it does wrong, what it breaks, its scenario."""
    return [
        {
            "name": m.name,
            "description": m.description,
            "breaks": ", ".join(m.breaks),
            "source": m.source,
            "scenario": None if m.scenario is None else m.scenario.to_json(),
        }
        for m in seeded.load().values()
    ]


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise UsageError when the node could not be started with these settings."""
    for key in settings:
        if key in OWN_SETTINGS:
            raise UsageError(f"--set {key}: the harness sets it for each node; leave it out")
    check_quorum(settings)
    example = {k: v for k, v in OWN_SETTINGS.items() if v}
    try:
        parse({**example, **TIMERS, **of_node(settings)})
    except ConfigError as error:
        raise UsageError(f"--set: {error}") from error


@systems.register(
    "kraft",
    SystemTraits(
        leaves=frozenset({"events", "records", "output", "images"}),
        apart=("elr", "directories", "levels", "reassign", "admin", "views"),
        observed=frozenset({"observers", "views"}),
        serves_clients=True,
        check_settings=check_settings,
        ranges=ranges,
        mutants=mutants,
        why_not=why_not,
    ),
)
class Kraft(KraftNodes):
    """KRaft controllers and brokers of this project, one process each.

    Settings are the node's; ``krucible.quorum=dynamic`` puts the voters into the log (KIP-853).
    """

    name = "kraft"

    def event_files(self) -> dict[str, Path]:
        """Tell where each node writes its protocol events."""
        found = {name: self._site.event_file(name) for name in self.nodes}
        return {name: path for name, path in found.items() if path is not None}

    # ------------------------------------------------------------------ clients

    def register_client(self) -> RegisterClient:
        """A register is a topic's ``retention.ms``."""
        return self._client()

    def topic_client(self) -> TopicClient:
        """Topics are topics."""
        return self._client()

    def _client(self) -> KafkaClient:
        return KafkaClient(self.cluster())

    def _own(self, name: str, index: int) -> dict[str, str]:
        trace, mutant = self._site.event_file(name), self._spec.mutant
        return {
            **super()._own(name, index),
            "krucible.source.host": self._env.bind_address(name).host,
            "krucible.seed": str(seeds.split(self._spec.seed, "node", index, *self._spec.lucky())),
            "read.barrier": "true",
            # topics need no replicas where nobody registers as a broker
            **({} if workloads.traits(self._spec.workload).plays_brokers else {BROKERS: ""}),
            **({} if trace is None else {"krucible.trace.file": str(trace)}),
            **({} if mutant is None else {"krucible.mutant": mutant}),
        }
