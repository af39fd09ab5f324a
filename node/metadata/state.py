"""The values that the image holds: plain, replaced as a whole when something in them changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

import msgspec

NO_LEADER = -1
TOPIC = 2  # resource types of settings
BROKER = 4
# The directory of a replica when it is not a real one (KIP-858): not told since before directories
# were (Kafka's MIGRATING, the zero id), not told yet, and on a disk that has failed.
MIGRATING_DIR: UUID | None = None
UNASSIGNED_DIR = UUID(int=1)
LOST_DIR = UUID(int=2)

ConfigResource = tuple[int, str]  # (resource type, name); the name "" is the cluster's default
QuotaEntity = tuple[tuple[str, str | None], ...]  # sorted (type, name); None: the type's default
ScramKey = tuple[str, int]  # (user, mechanism)


class ImageError(Exception):
    """Raised when a record does not fit the state it is applied to: the node must stop."""


class PartitionState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One partition; change it with ``msgspec.structs.replace``.

    ``leader`` is NO_LEADER when it has none. ``directories`` has one per replica, None for the
    one it had before directories were told; or it is empty: that for all. A struct, not a
    dataclass: there may be a million of them.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    recovery: int = 0
    directories: tuple[UUID | None, ...] = ()
    eligible_leaders: tuple[int, ...] = ()
    last_known_leaders: tuple[int, ...] = ()


@dataclass(slots=True)
class TopicState:
    """One topic and its partitions by index. Belongs to the image: read it, keep no reference."""

    id: UUID
    name: str
    partitions: dict[int, PartitionState] = field(default_factory=dict)


class Listener(NamedTuple):
    """One listener of a node; ``security_protocol`` is Kafka's number (0 PLAINTEXT, 1 SSL)."""

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One registered broker. ``features``: (lowest, highest) level by name, names sorted."""

    id: int
    incarnation: UUID | None
    epoch: int
    listeners: tuple[Listener, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    log_dirs: tuple[UUID | None, ...] = ()  # sorted
    cordoned_log_dirs: tuple[UUID | None, ...] | None = None  # None: it has not said yet
    is_migrating_zk_broker: bool = False

    @property
    def is_cordoned(self) -> bool:
        """Tell whether it gets no new replicas: all its directories are cordoned (KIP-1066)."""
        return bool(self.log_dirs) and set(self.log_dirs) <= set(self.cordoned_log_dirs or ())

    @property
    def endpoints(self) -> tuple[tuple[str, str, int], ...]:
        """(listener, host, port) of each listener."""
        return tuple([(each.name, each.host, each.port) for each in self.listeners])

    def listener(self, name: str) -> Listener | None:
        """The listener of that name."""
        return next((each for each in self.listeners if each.name == name), None)


@dataclass(frozen=True, slots=True)
class ControllerState:
    """One registered controller (KIP-919)."""

    id: int
    incarnation: UUID | None
    zk_migration_ready: bool
    listeners: tuple[Listener, ...]
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AclState:
    """One access control entry; its numbers are Kafka's enums."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True)
class ScramState:
    """The credential that a server keeps of a user's password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


@dataclass(frozen=True, slots=True)
class TokenState:
    """One delegation token; times in ms since the epoch."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


def sorted_ids(ids: Iterable[UUID | None]) -> tuple[UUID | None, ...]:
    """Ids in Kafka's order of bytes; None, the zero id, first."""
    return tuple(sorted(ids, key=lambda each: each.int if each else 0))
