"""The roles say what a replica remembers in each of them, and ``TRANSITIONS`` which may follow.

``TRANSITIONS`` is the rule: for a pair of roles it says how the new epoch must relate to the old
one. A pair that is not in it must never happen; the replica then stops with ``Fatal``.

==================  ===========================================================================
unattached          knows an epoch, perhaps who leads it but not where; may hold a vote
prospective         asks with pre-votes whether an election could be won; same epoch
candidate           voted for itself in a new epoch and asks for real votes
leader              won; owns the log of its epoch
follower            knows the leader and where it is; fetches from it
resigned            was leader of this very epoch and will not vote or lead in it again
==================  ===========================================================================

An observer is only ever unattached or follower; a leader that was removed from the voters resigns
as an observer.

Source: KIP-595 "Leader Election and the Vote Request", KIP-996 (prospective), KIP-853 section
"KIP-996: Pre-vote"; Kafka 4.1 ``QuorumState``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from node.core.progress import LeaderProgress
from node.core.types import ElectionState, Endpoint, OffsetAndEpoch, ReplicaKey, Voter


class RoleName(StrEnum):
    """The roles have these names in the trace."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


class NewEpoch(Enum):
    """The epoch of the new role must relate so to that of the old one."""

    SAME = "the same epoch"
    NEXT = "exactly one epoch later"
    LATER = "any later epoch"
    NOT_EARLIER = "the same epoch or any later one"

    def allows(self, old: int, new: int) -> bool:
        """Say whether a move from epoch ``old`` to ``new`` is of this kind."""
        match self:
            case NewEpoch.SAME:
                return new == old
            case NewEpoch.NEXT:
                return new == old + 1
            case NewEpoch.LATER:
                return new > old
            case NewEpoch.NOT_EARLIER:
                return new >= old


_U, _P, _C = RoleName.UNATTACHED, RoleName.PROSPECTIVE, RoleName.CANDIDATE
_L, _F, _R = RoleName.LEADER, RoleName.FOLLOWER, RoleName.RESIGNED

TRANSITIONS: Mapping[tuple[RoleName, RoleName], NewEpoch] = {
    # Any role meets a newer epoch without a leader, or with one.
    (_U, _U): NewEpoch.LATER,
    (_C, _U): NewEpoch.LATER,
    (_L, _U): NewEpoch.LATER,
    (_F, _U): NewEpoch.LATER,
    (_R, _U): NewEpoch.LATER,  # by itself after the election timeout: exactly the next one
    (_L, _F): NewEpoch.LATER,
    (_F, _F): NewEpoch.LATER,
    (_R, _F): NewEpoch.LATER,  # never of the same epoch: that leader was this replica
    # A role without a leader may also learn the leader of its own epoch.
    (_U, _F): NewEpoch.NOT_EARLIER,
    (_C, _F): NewEpoch.NOT_EARLIER,
    (_P, _F): NewEpoch.NOT_EARLIER,  # also back to the last leader when pre-votes are refused
    (_P, _U): NewEpoch.NOT_EARLIER,  # same epoch: refused, and no leader to go back to
    # Elections.
    (_U, _P): NewEpoch.SAME,
    (_F, _P): NewEpoch.SAME,
    (_C, _P): NewEpoch.SAME,
    (_R, _P): NewEpoch.SAME,  # only a lone voter, which need not wait for anybody
    (_P, _C): NewEpoch.NEXT,
    (_C, _L): NewEpoch.SAME,
    (_L, _R): NewEpoch.SAME,
}


@dataclass(slots=True)
class VoteTally:
    """A tally counts the answers to one round of (pre-)votes, the candidate's own among them."""

    voters: int
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)

    def record(self, voter_id: int, *, granted: bool) -> None:
        """Count an answer; the first one of each voter stands."""
        if voter_id not in self.granted and voter_id not in self.rejected:
            (self.granted if granted else self.rejected).add(voter_id)

    def has_answer_of(self, voter_id: int) -> bool:
        """Say whether that voter need not be asked any more."""
        return voter_id in self.granted or voter_id in self.rejected

    @property
    def lost(self) -> bool:
        """Say whether a majority has become impossible."""
        return self.voters - len(self.rejected) < self.voters // 2 + 1


@dataclass(slots=True)
class Unattached:
    """An unattached replica has no leader to fetch from; an observer has no ``deadline_ms``."""

    epoch: int
    leader_id: int | None
    voted: ReplicaKey | None
    deadline_ms: int | None
    name = RoleName.UNATTACHED

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Give None: with an endpoint this replica would be a follower."""
        return None

    @property
    def durable(self) -> ElectionState:
        """Give what must be on disk in this role."""
        return ElectionState(self.epoch, self.leader_id, self.voted)


@dataclass(slots=True)
class Prospective:
    """A prospective asks for pre-votes in its old epoch; it can go back to its last leader."""

    epoch: int
    leader_id: int | None
    leader_endpoint: Endpoint | None
    voted: ReplicaKey | None
    deadline_ms: int
    tally: VoteTally
    name = RoleName.PROSPECTIVE

    @property
    def durable(self) -> ElectionState:
        """Give what must be on disk: what was there before."""
        return ElectionState(self.epoch, self.leader_id, self.voted)


@dataclass(slots=True)
class Candidate:
    """A candidate voted for itself in ``epoch``."""

    epoch: int
    voted: ReplicaKey
    deadline_ms: int
    tally: VoteTally
    name = RoleName.CANDIDATE

    @property
    def leader_id(self) -> None:
        """Give None: nobody leads yet."""
        return

    @property
    def leader_endpoint(self) -> None:
        """Give None: nobody leads yet."""
        return

    @property
    def durable(self) -> ElectionState:
        """Give the vote for itself."""
        return ElectionState(self.epoch, None, self.voted)


@dataclass(slots=True)
class Leader:
    """A leader leads ``epoch``; its first batch lies at ``epoch_start``.

    ``check_quorum_deadline_ms`` is None for a lone voter (KAFKA-16144). ``told`` is what static
    voters have said of themselves: at kraft.version 0 there is no record for it (KAFKA-16538).
    """

    epoch: int
    voted: ReplicaKey
    leader_id: int
    leader_endpoint: Endpoint | None
    epoch_start: int
    progress: LeaderProgress
    check_quorum_deadline_ms: int | None
    begin_deadline_ms: int
    begin_pending: set[int]
    high_watermark: int | None = None  # of this epoch
    heard_from: set[int] = field(default_factory=set)
    quorum_told_ms: int = 0  # from then on the next majority is traced
    told: dict[int, Voter] = field(default_factory=dict)
    name = RoleName.LEADER

    @property
    def durable(self) -> ElectionState:
        """Give that this replica leads: it must not come back as anything but resigned."""
        return ElectionState(self.epoch, self.leader_id, self.voted)


@dataclass(slots=True)
class Download:
    """A download has written ``position`` bytes of the ``size`` of a snapshot.

    ``size`` is None before the first chunk; ``is_whole`` once it waits to be installed.
    """

    id: OffsetAndEpoch
    position: int = 0
    size: int | None = None

    @property
    def is_whole(self) -> bool:
        """Say whether every byte is here."""
        return self.position == self.size


@dataclass(slots=True)
class Follower:
    """A follower fetches from a leader; ``failures`` requests in a row got no answer from it.

    ``update_voter_ms`` is when it next compares its entry in the voter set with the truth;
    ``has_told`` that this leader knows of it what static voter sets do not say.
    """

    epoch: int
    leader_id: int
    leader_endpoint: Endpoint
    voted: ReplicaKey | None
    deadline_ms: int
    update_voter_ms: int
    has_fetched: bool = False
    has_told: bool = False
    failures: int = 0
    download: Download | None = None
    name = RoleName.FOLLOWER

    @property
    def durable(self) -> ElectionState:
        """Give the leader, and the vote kept from before it was known."""
        return ElectionState(self.epoch, self.leader_id, self.voted)


@dataclass(slots=True)
class Resigned:
    """A resigned replica led ``epoch``; without ``deadline_ms`` it waits to hear of another.

    ``unacked`` voters still have to be told who should follow, best first in ``preferred``.
    """

    epoch: int
    voted: ReplicaKey | None
    leader_id: int
    leader_endpoint: Endpoint | None
    deadline_ms: int | None
    unacked: set[int]
    preferred: tuple[ReplicaKey, ...]
    name = RoleName.RESIGNED

    @property
    def durable(self) -> ElectionState:
        """Give the leadership still: nothing durable changes on resigning."""
        return ElectionState(self.epoch, self.leader_id, self.voted)


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned
