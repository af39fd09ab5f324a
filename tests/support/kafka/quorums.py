"""Quorums and brokers of tests: static or dynamic, Kafka's or ours, and Kafka's brokers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random

from harness.systems.kafka.distribution import KafkaDist
from node.core.types import Endpoint
from node.log.layout import uuid_to_text
from node.log.meta_properties import random_id
from tests.support.kafka.cluster import (
    HOST,
    KINDS,
    KafkaMember,
    Member,
    OurMember,
    Quorum,
    free_ports,
    running,
)
from tests.support.ssh.hosts import SshdHost

_TIMERS = {
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.append.linger.ms": "5",
}
_LISTENERS = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}
_OURS_ONLY = {"krucible.brokers": "7,8"}
_FINDS_QUORUM = frozenset({"controller.quorum.voters", "controller.quorum.bootstrap.servers"})
_REPLICATED_ONCE = (
    "offsets.topic.replication.factor",
    "offsets.topic.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)
_SMALL_BROKER = {
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
    "num.io.threads": "2",
    "num.network.threads": "1",
    "background.threads": "2",
    "group.initial.rebalance.delay.ms": "0",
}


@contextlib.contextmanager
def static_quorum(
    dist: KafkaDist, folder: Path, kinds: Mapping[int, str], **settings: str
) -> Iterator[Quorum]:
    """Formatted, not started controllers with static voters (kraft.version 0).

    Args:
        dist: Kafka.
        folder: Where their directories are made.
        kinds: "kafka" or "ours", by node id.
        settings: Properties of all nodes, with ``_`` for the dots.
    """
    with quorum_on_hosts(dist, folder, kinds, {}, settings) as quorum:
        yield quorum


@contextlib.contextmanager
def quorum_on_hosts(
    dist: KafkaDist,
    folder: Path,
    kinds: Mapping[int, str],
    hosts: Mapping[int, SshdHost],
    settings: Mapping[str, str],
) -> Iterator[Quorum]:
    """Make the same, with each node on the host that ``hosts`` names for its id, if any."""
    ends = _ends(kinds, hosts)
    voters = ",".join(f"{i}@{end.host}:{end.port}" for i, end in ends.items())
    finding = {"controller.quorum.voters": voters}
    quorum = Quorum(_controllers(dist, folder, kinds, ends, finding | _dotted(settings)))
    for node_id, host in hosts.items():
        quorum[node_id].space = host.name
    with running(quorum):
        for member in quorum:
            member.format()
        yield quorum


@contextlib.contextmanager
def dynamic_quorum(
    dist: KafkaDist,
    folder: Path,
    kinds: Mapping[int, str],
    joining: Mapping[int, str] | None = None,
    **settings: str,
) -> Iterator[Quorum]:
    """Formatted, not started controllers with voters in the log (kraft.version 1, KIP-853).

    Args:
        dist: Kafka.
        folder: Where their directories are made.
        kinds: "kafka" or "ours", by node id: the first voters.
        joining: The same of controllers that are no voters yet.
        settings: Properties of all nodes, with ``_`` for the dots.
    """
    everybody = {**kinds, **(joining or {})}
    ends = _ends(everybody, {})
    servers = ",".join(f"{end.host}:{end.port}" for end in ends.values())
    finding = {"controller.quorum.bootstrap.servers": servers}
    members = _controllers(dist, folder, everybody, ends, finding | _dotted(settings))
    rng = Random(1)
    directories = {node_id: uuid_to_text(random_id(rng)) for node_id in kinds}
    first = ",".join(f"{i}@{HOST}:{ends[i].port}:{directories[i]}" for i in kinds)
    quorum = Quorum(members)
    with running(quorum):
        for node_id, member in members.items():
            if node_id in kinds:
                member.format("--initial-controllers", first)
            else:
                member.format("--no-initial-controllers")
        yield quorum


def _ends(nodes: Iterable[int], hosts: Mapping[int, SshdHost]) -> dict[int, Endpoint]:
    """Choose where each node listens: on a port of this host, or of its own."""
    chosen = list(nodes)
    return {
        node_id: Endpoint(hosts[node_id].address if node_id in hosts else HOST, port)
        for node_id, port in zip(chosen, free_ports(len(chosen)), strict=True)
    }


def _controllers(
    dist: KafkaDist,
    folder: Path,
    kinds: Mapping[int, str],
    ends: Mapping[int, Endpoint],
    properties: Mapping[str, str],
) -> dict[int, Member]:
    members = {}
    for node_id, kind in kinds.items():
        own = {
            "node.id": str(node_id),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{ends[node_id].host}:{ends[node_id].port}",
            "log.dirs": str(folder / f"n{node_id}" / "data"),
            **_TIMERS,
            **_LISTENERS,
            **(_OURS_ONLY if kind == "ours" else {}),
            **properties,
        }
        members[node_id] = KINDS[kind](node_id, ends[node_id], folder / f"n{node_id}", own, dist)
    return members


def _dotted(settings: Mapping[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in settings.items()}


def kafka_broker(
    dist: KafkaDist, folder: Path, node_id: int, quorum: Quorum, **settings: str
) -> Member:
    """A broker of Kafka, not formatted yet, for the controllers of a quorum of either kind."""
    own = {**dict.fromkeys(_REPLICATED_ONCE, "1"), **_SMALL_BROKER, **_dotted(settings)}
    return _broker(KafkaMember, dist, folder, node_id, quorum, own)


def our_broker(
    dist: KafkaDist, folder: Path, node_id: int, quorum: Quorum, **settings: str
) -> Member:
    """A broker of ours, not formatted yet, for the controllers of a quorum of either kind."""
    return _broker(OurMember, dist, folder, node_id, quorum, _dotted(settings))


def _broker(
    kind: type[Member],
    dist: KafkaDist,
    folder: Path,
    node_id: int,
    quorum: Quorum,
    settings: Mapping[str, str],
) -> Member:
    (port,) = free_ports(1)
    listener = f"PLAINTEXT://{HOST}:{port}"
    own = {
        "node.id": str(node_id),
        "process.roles": "broker",
        "listeners": listener,
        "advertised.listeners": listener,
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(folder / f"b{node_id}" / "data"),
        **_LISTENERS,
        **{k: v for k, v in next(iter(quorum)).properties.items() if k in _FINDS_QUORUM},
        **settings,
    }
    return kind(node_id, Endpoint(HOST, port), folder / f"b{node_id}", own, dist)
