"""A node's configuration: Kafka's property names where Kafka has the setting, ``krucible.*`` else.

Source: Kafka's KRaftConfigs, QuorumConfig and SocketServerConfigs (names and defaults).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from node import properties as p
from node.core.types import Endpoint, Listener, VoterSet
from node.properties import ConfigError, Getter

__all__ = ["ConfigError", "ListenerConfig", "NodeConfig", "Timers", "load", "parse"]

MIB = 1 << 20
CONTROLLER_LISTENER = "CONTROLLER"
BROKER_LISTENER = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Timers:
    """The timers of quorum, controller and broker, in milliseconds."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    election_backoff_max_ms: int = 1000
    append_linger_ms: int = 25
    fetch_max_wait_ms: int = 500
    idle_interval_ms: int = 500
    broker_session_timeout_ms: int = 9000
    broker_heartbeat_interval_ms: int = 2000
    broker_registration_timeout_ms: int = 60_000
    log_clean_interval_ms: int = 60_000
    leader_balance_interval_ms: int = 300_000
    unclean_election_interval_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits that make a snapshot due, and those of what is kept; bytes and milliseconds."""

    snapshot_bytes: int = 20 * MIB
    snapshot_interval_ms: int = 3_600_000
    retention_bytes: int = 100 * MIB
    retention_ms: int = 7 * 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """One listener: where it binds, where others are told to find it, whether it speaks TLS."""

    name: str
    bind: Endpoint
    advertised: Endpoint
    tls: bool = False


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """All settings of a node process.

    ``voters`` is the static quorum, empty where the voters are in the log (KIP-853); then
    ``bootstrap`` says whom to ask first. ``listeners`` are those of the controller role first.
    ``brokers`` stand in for registered ones as long as none has registered, where none at all means
    that partitions get no replicas; None = topics need registered brokers, as in Kafka.
    """

    node_id: int
    roles: frozenset[str]
    voters: VoterSet
    listeners: tuple[ListenerConfig, ...]
    log_dir: Path
    bootstrap: tuple[Endpoint, ...] = ()
    controller_listener_names: tuple[str, ...] = (CONTROLLER_LISTENER,)
    controller_tls: bool = False
    inter_broker_listener: str | None = None
    ssl: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    timers: Timers = field(default_factory=Timers)
    retention: Retention = field(default_factory=Retention)
    read_barrier: bool = False
    segment_bytes: int = 1 << 30
    fetch_max_bytes: int = 8 * MIB
    fetch_snapshot_max_bytes: int = MIB
    fsync: bool = True
    source_host: str | None = None
    trace_file: Path | None = None
    turn_limit_ms: int = 100
    partitions_per_slice: int = 500
    seed: int | None = None
    mutant: str | None = None
    brokers: tuple[int, ...] | None = None
    num_partitions: int = 1
    replication_factor: int = 1

    @property
    def is_controller(self) -> bool:
        """Tell whether the node has the controller role."""
        return "controller" in self.roles

    @property
    def is_broker(self) -> bool:
        """Tell whether the node has the broker role."""
        return "broker" in self.roles

    @property
    def controller_listeners(self) -> tuple[ListenerConfig, ...]:
        """The listeners of the controller role."""
        return tuple([x for x in self.listeners if self._is_of_controller(x)])

    @property
    def broker_listeners(self) -> tuple[ListenerConfig, ...]:
        """The listeners of the broker role."""
        return tuple([x for x in self.listeners if not self._is_of_controller(x)])

    def _is_of_controller(self, listener: ListenerConfig) -> bool:
        if self.roles == {"controller", "broker"}:
            return listener.name in self.controller_listener_names
        return self.is_controller

    @property
    def listener(self) -> Endpoint:
        """The address that the first listener binds to."""
        return self.listeners[0].bind

    @property
    def advertised(self) -> Endpoint:
        """The address at which others find the first listener."""
        return self.listeners[0].advertised

    @property
    def voter_listeners(self) -> tuple[Listener, ...]:
        """The listeners that this node would advertise as a voter."""
        return tuple(Listener(x.name, x.advertised) for x in self.controller_listeners)

    def ssl_of(self, listener_name: str) -> dict[str, str]:
        """The ``ssl.*`` settings of a listener: its own (``listener.name.x.``) before the common.

        Source: KIP-103.
        """
        prefix = f"listener.name.{listener_name.lower()}."
        own = {k.removeprefix(prefix): v for k, v in self.ssl.items() if k.startswith(prefix)}
        return {k: v for k, v in self.ssl.items() if k.startswith("ssl.")} | own


_TIMERS: dict[str, str] = {
    "controller.quorum.election.timeout.ms": "election_timeout_ms",
    "controller.quorum.fetch.timeout.ms": "fetch_timeout_ms",
    "controller.quorum.request.timeout.ms": "request_timeout_ms",
    "controller.quorum.retry.backoff.ms": "retry_backoff_ms",
    "controller.quorum.election.backoff.max.ms": "election_backoff_max_ms",
    "controller.quorum.append.linger.ms": "append_linger_ms",
    "metadata.max.idle.interval.ms": "idle_interval_ms",
    "broker.session.timeout.ms": "broker_session_timeout_ms",
    "broker.heartbeat.interval.ms": "broker_heartbeat_interval_ms",
    "initial.broker.registration.timeout.ms": "broker_registration_timeout_ms",
    "krucible.log.clean.interval.ms": "log_clean_interval_ms",
    "leader.imbalance.check.interval.seconds": "leader_balance_interval_ms",
    "unclean.leader.election.interval.ms": "unclean_election_interval_ms",
}
_IN_SECONDS = frozenset({"leader_balance_interval_ms"})
_MAY_BE_ZERO = frozenset({"append_linger_ms", "idle_interval_ms", "election_backoff_max_ms"})

_RETENTION: dict[str, tuple[str, Callable[[str], int]]] = {
    "metadata.log.max.record.bytes.between.snapshots": ("snapshot_bytes", p.positive),
    "metadata.log.max.snapshot.interval.ms": ("snapshot_interval_ms", p.millis_or_off),
    "metadata.max.retention.bytes": ("retention_bytes", p.size_or_off),
    "metadata.max.retention.ms": ("retention_ms", p.size_or_off),
}

_KEYS = (
    frozenset(_TIMERS)
    | frozenset(_RETENTION)
    | {
        "node.id",
        "process.roles",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "controller.listener.names",
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "broker.rack",
        "log.dirs",
        "num.partitions",
        "default.replication.factor",
        "metadata.log.segment.bytes",
        "controller.quorum.fetch.max.bytes",
        "controller.quorum.fetch.snapshot.max.bytes",
        "read.barrier",
        "krucible.fsync",
        "krucible.source.host",
        "krucible.trace.file",
        "krucible.turn.limit.ms",
        "krucible.partitions.per.slice",
        "krucible.seed",
        "krucible.mutant",
        "krucible.brokers",
    }
)
_SSL = re.compile(r"(listener\.name\.[a-z0-9._-]+\.)?ssl\.[a-z.]+")

# What Kafka has and this node has not: refused, for whoever sets it counts on it.
_REFUSED: tuple[tuple[str, str], ...] = (
    (r"(listener\.name\..+\.)?sasl\..*", "SASL is not supported: use PLAINTEXT or SSL listeners"),
    (r"authorizer\..*|super\.users|allow\.everyone.*", "ACLs are not enforced: leave it out"),
)


def load(path: Path) -> NodeConfig:
    """Read a properties file.

    Raises:
        ConfigError: The file cannot be read, or a setting is unknown, missing or malformed.
    """
    return parse(p.read_properties(path))


def parse(properties: Mapping[str, str]) -> NodeConfig:
    """Build a configuration from properties; raises ConfigError."""
    for key in properties:
        _check_key(key)
    get = Getter(properties)
    roles = get.required("process.roles", p.roles)
    node_id = get.required("node.id", p.non_negative)
    voters, bootstrap = _quorum(get, node_id, roles)
    names = get.optional("controller.listener.names", p.names, (CONTROLLER_LISTENER,))
    protocols = get.optional("listener.security.protocol.map", p.protocol_map, {})
    listeners = _listeners(get, roles, names, protocols)
    return NodeConfig(
        node_id=node_id,
        roles=roles,
        voters=voters,
        bootstrap=bootstrap,
        listeners=listeners,
        controller_listener_names=names,
        controller_tls=_speaks_tls(names[0], protocols),
        inter_broker_listener=_inter_broker(get, roles, names, listeners),
        ssl={key: value for key, value in properties.items() if _SSL.fullmatch(key)},
        rack=get.optional("broker.rack", p.filled, None),
        log_dir=get.required("log.dirs", p.path),
        timers=Timers(**_timers(get)),
        retention=Retention(
            **{
                name: get.optional(key, parser, getattr(Retention(), name))
                for key, (name, parser) in _RETENTION.items()
            }
        ),
        read_barrier=get.optional("read.barrier", p.boolean, False),
        segment_bytes=get.optional("metadata.log.segment.bytes", p.positive, 1 << 30),
        fetch_max_bytes=get.optional("controller.quorum.fetch.max.bytes", p.positive, 8 * MIB),
        fetch_snapshot_max_bytes=get.optional(
            "controller.quorum.fetch.snapshot.max.bytes", p.positive, MIB
        ),
        fsync=get.optional("krucible.fsync", p.boolean, True),
        source_host=get.optional("krucible.source.host", p.filled, None),
        trace_file=get.optional("krucible.trace.file", p.path, None),
        turn_limit_ms=get.optional("krucible.turn.limit.ms", p.positive, 100),
        partitions_per_slice=get.optional("krucible.partitions.per.slice", p.positive, 500),
        seed=get.optional("krucible.seed", p.whole, None),
        mutant=get.optional("krucible.mutant", p.filled, None),
        brokers=get.optional("krucible.brokers", p.ids, None),
        num_partitions=get.optional("num.partitions", p.positive, 1),
        replication_factor=get.optional("default.replication.factor", p.positive, 1),
    )


def _check_key(key: str) -> None:
    if key in _KEYS or _SSL.fullmatch(key):
        return
    for pattern, reason in _REFUSED:
        if re.fullmatch(pattern, key):
            raise ConfigError(f"setting {key!r}: {reason}")
    near = difflib.get_close_matches(key, _KEYS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"unknown setting {key!r}{hint}")


def _timers(get: Getter) -> dict[str, Any]:
    return {
        name: get.optional(
            key,
            _timer(name),
            getattr(Timers(), name),
        )
        for key, name in _TIMERS.items()
    }


def _timer(name: str) -> Callable[[str], int]:
    """Give what reads the setting of a timer."""
    if name in _IN_SECONDS:
        return p.seconds
    return p.millis_or_off if name in _MAY_BE_ZERO else p.millis


def _quorum(
    get: Getter, node_id: int, roles: frozenset[str]
) -> tuple[VoterSet, tuple[Endpoint, ...]]:
    """The static voters and the bootstrap servers; one of them must be there."""
    bootstrap = get.optional("controller.quorum.bootstrap.servers", p.endpoints, ())
    if bootstrap:
        voters = get.optional("controller.quorum.voters", p.voters, VoterSet({}))
    else:
        try:
            voters = get.required("controller.quorum.voters", p.voters)
        except ConfigError as error:
            if str(error).startswith("missing"):
                raise ConfigError(
                    f"{error}, or 'controller.quorum.bootstrap.servers' for a dynamic quorum"
                ) from error
            raise
    if len(voters) > 0:
        _check_membership(node_id, roles, voters)
    return voters, bootstrap


def _check_membership(node_id: int, roles: frozenset[str], voters: VoterSet) -> None:
    """Static voters are the controllers, no more and no less (Kafka's rule too)."""
    if ("controller" in roles) != (node_id in voters.ids):
        is_, wants = ("is not", "a") if "controller" in roles else ("is", "no")
        raise ConfigError(
            f"node.id={str(node_id)!r} {is_} one of the voters {list(voters.ids)}: "
            f"process.roles={','.join(sorted(roles))!r} wants {wants} voter"
        )


def _listeners(
    get: Getter,
    roles: frozenset[str],
    controller_names: Sequence[str],
    protocols: Mapping[str, str],
) -> tuple[ListenerConfig, ...]:
    """The listeners, those of the controller role first."""
    default = controller_names[0] if "controller" in roles else BROKER_LISTENER
    bound = get.required("listeners", p.named_endpoints)
    told = get.optional("advertised.listeners", p.named_endpoints, ())
    # One listener needs no names: what is advertised is advertised for it.
    advertised = {bound[0][0] if len(bound) == len(told) == 1 else n: at for n, at in told}
    unbound = [name for name in advertised if name not in {n for n, _ in bound}]
    if unbound:
        raise ConfigError(f"advertised.listeners names {unbound[0]!r}, which is not in listeners")
    listeners = [
        ListenerConfig(
            name or default,
            bind,
            advertised.get(name, bind),
            tls=_speaks_tls(name or default, protocols),
        )
        for name, bind in bound
    ]
    if roles == {"controller", "broker"}:
        _check_split([x.name for x in listeners], controller_names)
    order = {name: i for i, name in enumerate(controller_names)}
    return tuple(sorted(listeners, key=lambda x: order.get(x.name, len(order))))


def _check_split(names: Sequence[str], controller_names: Sequence[str]) -> None:
    if not set(names) & set(controller_names) or set(names) <= set(controller_names):
        raise ConfigError(
            f"listeners are {','.join(names)!r}: a node with both roles wants at least one that "
            f"is in controller.listener.names={','.join(controller_names)!r} and one that is not"
        )


def _speaks_tls(name: str, protocols: Mapping[str, str]) -> bool:
    """A listener without an entry speaks the protocol it is named after, or plaintext."""
    return protocols.get(name, "SSL" if name == "SSL" else "PLAINTEXT") == "SSL"


def _inter_broker(
    get: Getter,
    roles: frozenset[str],
    controller_names: Sequence[str],
    listeners: Sequence[ListenerConfig],
) -> str | None:
    """The listener by which brokers know each other: the first of the broker role if not set."""
    if "broker" not in roles:
        return get.optional("inter.broker.listener.name", p.filled, None)
    of_broker = [
        x.name for x in listeners if "controller" not in roles or x.name not in controller_names
    ]
    name = get.optional("inter.broker.listener.name", p.filled, of_broker[0])
    if name not in of_broker:
        raise ConfigError(
            f"inter.broker.listener.name={name!r}: want one of the broker's listeners {of_broker}"
        )
    return name
