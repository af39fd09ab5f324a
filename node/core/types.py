"""The consensus core speaks in these nouns: replica keys, offsets, voter sets, election state.

Three kinds of number that are never mixed: an *offset* names a record (0-based), an *end
offset* and a *high watermark* are exclusive (the offset of the first record not covered), a
*count* is a count. ``UNKNOWN`` (-1) is Kafka's sentinel on the wire and never used inside.

Source: KIP-595 (quorum state), KIP-853 (replica keys, voter sets).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from node.core.values import ordered_value, value


class OffsetAndEpoch(NamedTuple):
    """A point in a log has an end offset and the epoch of the record before it."""

    offset: int
    epoch: int

    def at_least(self, other: OffsetAndEpoch) -> bool:
        """Say whether a log ending here is as up to date as one at ``other`` (Raft 5.4.1)."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


class SnapshotInfo(NamedTuple):
    """A complete snapshot on disk has an id and a size in bytes."""

    id: OffsetAndEpoch
    size: int


@ordered_value
class ReplicaKey:
    """A key identifies a replica: node id, and directory id of its disk when known (KIP-853)."""

    id: int
    directory_id: UUID | None = None

    def matches(self, other: ReplicaKey) -> bool:
        """Say whether both are one node, and one disk unless either side does not say which."""
        return self.id == other.id and (
            self.directory_id is None
            or other.directory_id is None
            or self.directory_id == other.directory_id
        )

    def __str__(self) -> str:
        return (
            str(self.id) if self.directory_id is None else f"{self.id}@{self.directory_id.hex[:8]}"
        )


@value
class Endpoint:
    """A node listens at an endpoint."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@value
class Listener:
    """A listener is a named endpoint, as the voters record of KIP-853 keeps them."""

    name: str
    endpoint: Endpoint


class VersionRange(NamedTuple):
    """A node supports these levels of a feature, both ends included."""

    min: int
    max: int


KRAFT_VERSIONS = VersionRange(0, 1)  # 0: static voters, 1: voters in the log (KIP-853)
STATIC_ONLY = VersionRange(0, 0)


@value
class Voter:
    """A voter is one member of a voter set.

    ``endpoint`` is the one to speak to; ``listeners`` are all that it advertises, by name, empty
    when only ``endpoint`` is known (static voters).
    """

    key: ReplicaKey
    endpoint: Endpoint
    listeners: tuple[Listener, ...] = ()
    kraft_versions: VersionRange = STATIC_ONLY


@value
class VoterSet:
    """A voter set keeps the voters of a quorum, by node id."""

    voters: Mapping[int, Voter]

    @classmethod
    def of(cls, *voters: Voter) -> VoterSet:
        """Build a set from its members, sorted by id."""
        return cls({v.key.id: v for v in sorted(voters, key=lambda v: v.key.id)})

    def __len__(self) -> int:
        return len(self.voters)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters.values())

    @property
    def ids(self) -> tuple[int, ...]:
        """Give the node ids, ascending."""
        return tuple(sorted(self.voters))

    @property
    def majority(self) -> int:
        """Say how many voters make a majority: floor(n / 2) + 1."""
        return len(self.voters) // 2 + 1

    def contains(self, key: ReplicaKey) -> bool:
        """Say whether ``key`` is a member: its id is, and that very disk if the set names one.

        A set of ``kraft.version`` 0 names no disks. Source: Kafka 4.1 ``VoterSet.isVoter``.
        """
        voter = self.voters.get(key.id)
        return voter is not None and voter.key.directory_id in (None, key.directory_id)

    def with_voter(self, voter: Voter) -> VoterSet:
        """Make a set with ``voter`` added, or in the place of the one with its id."""
        return VoterSet.of(*(v for v in self if v.key.id != voter.key.id), voter)

    def without(self, node_id: int) -> VoterSet:
        """Make a set without that node."""
        return VoterSet.of(*(v for v in self if v.key.id != node_id))

    def endpoint(self, node_id: int) -> Endpoint | None:
        """Give the endpoint of a voter, None when ``node_id`` is not a voter."""
        voter = self.voters.get(node_id)
        return None if voter is None else voter.endpoint


@value
class ElectionState:
    """A replica must have epoch, leader and vote on disk before it speaks.

    Epoch and vote are one record on purpose: written apart, a crash between the two writes lets
    a replica vote twice in one epoch. Source: KIP-595 "quorum-state"; Kafka's ElectionState.
    """

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None
