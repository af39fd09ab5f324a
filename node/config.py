"""A node's configuration: Kafka's property names where Kafka has the setting, ``krucible.*`` else.

Source: Kafka's KRaftConfigs and QuorumConfig (names and defaults); KRAFT timers in milliseconds.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from node.core.types import Endpoint, ReplicaKey, Voter, VoterSet

T = TypeVar("T")
D = TypeVar("D")


class ConfigError(Exception):
    """Raised when a configuration cannot be used; says which key, its value and what is wanted."""


@dataclass(frozen=True, slots=True)
class Timers:
    """The quorum's timers, in milliseconds."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    election_backoff_max_ms: int = 1000
    append_linger_ms: int = 25
    fetch_max_wait_ms: int = 500
    idle_interval_ms: int = 500


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """Everything a node process is told."""

    node_id: int
    roles: frozenset[str]
    voters: VoterSet
    listener: Endpoint
    advertised: Endpoint
    log_dir: Path
    timers: Timers = field(default_factory=Timers)
    read_barrier: bool = False
    segment_bytes: int = 1 << 30
    fsync: bool = True
    source_host: str | None = None
    trace_file: Path | None = None
    seed: int | None = None
    mutant: str | None = None
    brokers: tuple[int, ...] = ()

    @property
    def is_controller(self) -> bool:
        """Whether the node has the controller role."""
        return "controller" in self.roles


_TIMERS: dict[str, str] = {
    "controller.quorum.election.timeout.ms": "election_timeout_ms",
    "controller.quorum.fetch.timeout.ms": "fetch_timeout_ms",
    "controller.quorum.request.timeout.ms": "request_timeout_ms",
    "controller.quorum.retry.backoff.ms": "retry_backoff_ms",
    "controller.quorum.election.backoff.max.ms": "election_backoff_max_ms",
    "controller.quorum.append.linger.ms": "append_linger_ms",
    "metadata.max.idle.interval.ms": "idle_interval_ms",
}

_MAY_BE_ZERO = frozenset({"append_linger_ms", "idle_interval_ms", "election_backoff_max_ms"})
_MILLIS_MAX = 2**31 - 1

_KEYS = frozenset(_TIMERS) | {
    "node.id",
    "process.roles",
    "controller.quorum.voters",
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "metadata.log.segment.bytes",
    "read.barrier",
    "krucible.fsync",
    "krucible.source.host",
    "krucible.trace.file",
    "krucible.seed",
    "krucible.mutant",
    "krucible.brokers",
}


def load(path: Path) -> NodeConfig:
    """Read a properties file.

    Raises:
        ConfigError: The file cannot be read, or a setting is unknown, missing or malformed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration {path}: {error}") from error
    return parse(_properties(text, path))


def parse(properties: Mapping[str, str]) -> NodeConfig:
    """Build a configuration from properties; raises ConfigError."""
    for key in properties:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"unknown setting {key!r}{hint}")
    get = _Getter(properties)
    listener = get.required("listeners", _listener)
    roles = get.required("process.roles", _roles)
    node_id = get.required("node.id", _non_negative)
    voters = get.required("controller.quorum.voters", _voters)
    _check_membership(node_id, roles, voters)
    return NodeConfig(
        node_id=node_id,
        roles=roles,
        voters=voters,
        listener=listener,
        advertised=get.optional("advertised.listeners", _listener, listener),
        log_dir=get.required("log.dirs", _path),
        timers=Timers(
            **{
                name: get.optional(
                    key,
                    _millis_or_off if name in _MAY_BE_ZERO else _millis,
                    getattr(Timers(), name),
                )
                for key, name in _TIMERS.items()
            }
        ),
        read_barrier=get.optional("read.barrier", _boolean, False),
        segment_bytes=get.optional("metadata.log.segment.bytes", _positive, 1 << 30),
        fsync=get.optional("krucible.fsync", _boolean, True),
        source_host=get.optional("krucible.source.host", _filled, None),
        trace_file=get.optional("krucible.trace.file", _path, None),
        seed=get.optional("krucible.seed", _whole, None),
        mutant=get.optional("krucible.mutant", _filled, None),
        brokers=get.optional("krucible.brokers", _ids, ()),
    )


def _properties(text: str, path: Path) -> dict[str, str]:
    properties: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith(("#", "!")):
            continue
        key, separator, value = line.partition("=")
        if not separator:
            raise ConfigError(f"{path}:{number}: {line!r} is not key=value")
        properties[key.strip()] = value.strip()
    return properties


class _Getter:
    """Typed access to properties; a value that does not parse names its key."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def required(self, key: str, parser: Callable[[str], T]) -> T:
        if key not in self._properties:
            raise ConfigError(f"missing setting {key!r}")
        return self._parse(key, parser)

    def optional(self, key: str, parser: Callable[[str], T], default: D) -> T | D:
        return self._parse(key, parser) if key in self._properties else default

    def _parse(self, key: str, parser: Callable[[str], T]) -> T:
        text = self._properties[key]
        try:
            return parser(text)
        except ValueError as error:
            raise ConfigError(f"{key}={text!r}: {error}") from error


def _check_membership(node_id: int, roles: frozenset[str], voters: VoterSet) -> None:
    """Static voters are the controllers, no more and no less (Kafka's rule too)."""
    if ("controller" in roles) != (node_id in voters.ids):
        is_, wants = ("is not", "a") if "controller" in roles else ("is", "no")
        raise ConfigError(
            f"node.id={str(node_id)!r} {is_} one of the voters {list(voters.ids)}: "
            f"process.roles={','.join(sorted(roles))!r} wants {wants} voter"
        )


def _whole(text: str) -> int:
    if re.fullmatch("-?[0-9]{1,40}", text) is None:
        raise ValueError("want a whole number")
    return int(text)


def _non_negative(text: str) -> int:
    value = _whole(text)
    if not 0 <= value < 1 << 31:
        raise ValueError("want 0 or more, below 2^31")
    return value


def _positive(text: str) -> int:
    value = _whole(text)
    if value <= 0:
        raise ValueError("want more than 0")
    return value


def _millis(text: str) -> int:
    value = _whole(text)
    if not 0 < value <= _MILLIS_MAX:
        raise ValueError("want milliseconds, more than 0")
    return value


def _millis_or_off(text: str) -> int:
    return _whole(text) if text == "0" else _millis(text)


def _filled(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("want some text")
    return text


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError("want a path")
    return Path(text)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("want true or false")
    return text.lower() == "true"


def _roles(text: str) -> frozenset[str]:
    roles = frozenset(part.strip() for part in text.split(","))
    if not roles <= {"controller", "broker"}:
        raise ValueError("want controller, broker or both")
    return roles


def _ids(text: str) -> tuple[int, ...]:
    return tuple(_non_negative(part.strip()) for part in text.split(",") if part.strip())


def _endpoint(text: str) -> Endpoint:
    host, separator, port = text.strip().rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not separator or not host:
        raise ValueError("want host:port")
    if re.fullmatch("[0-9]{1,5}", port) is None or not 0 < int(port) < 1 << 16:
        raise ValueError("want a port from 1 to 65535")
    return Endpoint(host, int(port))


def _listener(text: str) -> Endpoint:
    if "," in text:
        raise ValueError("one listener per node is supported")
    return _endpoint(text.partition("://")[2] or text)


def _voters(text: str) -> VoterSet:
    voters = []
    for part in text.split(","):
        node_id, separator, address = part.strip().partition("@")
        if not separator:
            raise ValueError("want id@host:port,...")
        voters.append(Voter(ReplicaKey(_non_negative(node_id.strip())), _endpoint(address)))
    if len({v.key.id for v in voters}) != len(voters):
        raise ValueError("a voter id stands twice")
    return VoterSet.of(*voters)
