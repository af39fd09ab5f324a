"""A replica is told this about itself before it starts. All times are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from node.core.types import (
    KRAFT_VERSIONS,
    Endpoint,
    Listener,
    ReplicaKey,
    SnapshotInfo,
    Voter,
    VoterSet,
)

MIB = 1024 * 1024


class Rng(Protocol):
    """A replica draws its election timeouts and bootstrap servers from this randomness."""

    def random(self) -> float:
        """Draw a number, uniform in [0, 1)."""
        ...


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """A configuration names identity, quorum and timers of a replica; the defaults are Kafka's.

    ``voters`` is the static quorum, empty where the voters are in the log (KIP-853); the replica
    votes when the set in force contains ``key``, otherwise it is an observer. ``listeners`` are
    what it advertises in a voter set, the one of ``endpoint`` first.
    ``flush_before_fetch`` holds back each Fetch until the log is on disk; a voter always does so,
    whatever is said here, because a voter's fetch offset is a promise of durability.
    """

    key: ReplicaKey
    cluster_id: str
    voters: VoterSet
    endpoint: Endpoint | None = None
    listeners: tuple[Listener, ...] = ()
    bootstrap: tuple[Endpoint, ...] = ()
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    election_backoff_max_ms: int = 1000
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 * MIB
    fetch_snapshot_max_bytes: int = MIB
    flush_before_fetch: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot work."""
        for name in ("election_timeout_ms", "fetch_timeout_ms", "request_timeout_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}={getattr(self, name)!r}: a timeout must be positive")
        if self.retry_backoff_ms <= 0:
            raise ValueError(
                f"retry_backoff_ms={self.retry_backoff_ms!r}: must be positive, or a refused "
                "request would be repeated without end"
            )
        if self.key.id < 0:
            raise ValueError(f"node id {self.key.id!r} is negative: use 0 or more")

    @property
    def as_voter(self) -> Voter | None:
        """Make its own entry of a voter set, None when it has no listener to put into one."""
        if not self.listeners:
            return None
        return Voter(self.key, self.listeners[0].endpoint, self.listeners, KRAFT_VERSIONS)


@dataclass(frozen=True, slots=True)
class LogState:
    """The state describes a log as found on disk; ends are exclusive, epochs have start offsets."""

    start_offset: int = 0
    end_offset: int = 0
    flushed_offset: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    snapshots: tuple[SnapshotInfo, ...] = ()  # complete ones, oldest first
    # What the snapshots and control records say, oldest first: (offset of the record, or of the
    # last record a snapshot covers, -1 for the bootstrap snapshot; what is in force from there).
    voters: tuple[tuple[int, VoterSet], ...] = ()
    kraft_versions: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a log that contradicts itself."""
        if not 0 <= self.start_offset <= self.end_offset:
            raise ValueError(f"log start {self.start_offset!r} is not within 0..{self.end_offset}")
        if not 0 <= self.flushed_offset <= self.end_offset:
            raise ValueError(f"flushed {self.flushed_offset!r} is not within 0..{self.end_offset}")
