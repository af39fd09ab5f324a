"""Requests of a quorum from which odd ones are made; as they are, none of them changes anything.

Requests of the next epoch would change something: they are only sent with a value that no voter can
believe. KRaft trusts its voters: a voter believes whoever says that it leads a newer epoch and can
be reached. Such a request is not odd, so values that a voter would believe are not put in.

Source: KIP-595 (Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, DescribeQuorum), KIP-630
(FetchSnapshot), KIP-853 (changes of voters).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from harness.kafka.odd.changes import LEAST, MOST, places
from node.core.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    VoteRequest,
)
from node.core.types import Endpoint, Listener, OffsetAndEpoch, ReplicaKey, VersionRange
from node.wire import codec
from node.wire.api_versions import Negotiated

ID: Final = 77  # of a node that no cluster of a test has
DIRECTORY: Final = UUID(int=77 << 64 | 77)
NOWHERE: Final = Endpoint("127.0.0.1", 1)
LISTENERS: Final = (Listener("CONTROLLER", NOWHERE),)
END: Final = 1 << 40  # of its log: nobody has more
MAX_BYTES: Final = 1 << 20
ADD_WAIT_MS: Final = 500
UNKNOWN: Final = OffsetAndEpoch(1, 1)  # a snapshot that nobody has


@dataclass(frozen=True, slots=True)
class View:
    """A view of a cluster, from which odd requests are filled in.

    ``epoch`` and ``leader`` are those of the quorum, ``own`` is the id of the node that is asked,
    ``snapshot`` one that the leader has.
    """

    epoch: int
    leader: int
    own: int
    snapshot: OffsetAndEpoch = UNKNOWN
    cluster_id: str = ""


Make = Callable[[View, Negotiated | None], Any]


@dataclass(frozen=True, slots=True)
class Base:
    """A request from which odd ones are made, and which of its values may be another.

    ``make`` gives kio's entity, from what was seen and what the node speaks (None: what we speak).
    ``only`` names the fields that may change, and to what; ``but`` names fields that may not.
    Epochs never get a value that is far ahead.
    """

    make: Make
    only: Mapping[str, Sequence[str]] | None = None
    but: tuple[str, ...] = ()

    def choices(self) -> list[tuple[str, str]]:
        """Give all changes that may be made: the place, and the name of the value."""
        return [
            (place, name)
            for place, names in places(self.make(View(1, 1, 1), None))
            for name in names
            if self._may(place.split("."), name)
        ]

    def _may(self, place: Sequence[str], name: str) -> bool:
        field = next(word for word in reversed(place) if not word.isdigit())
        if self.only is not None:
            return name in self.only.get(field, ())
        far = name in (MOST, LEAST) and "epoch" in field
        return field not in self.but and not far


def of_quorum(message: Callable[[View], Request]) -> Make:
    """Have a message of the quorum made, in the highest version that both sides speak."""

    def make(view: View, peer: Negotiated | None) -> Any:
        request = message(view)
        return codec.request_to_wire(request, codec.version_for(request, peer))

    return make


def _vote(view: View) -> Request:
    key = ReplicaKey(ID)
    return VoteRequest(key, view.epoch, OffsetAndEpoch(0, 0), pre_vote=False)


def _next_vote(view: View) -> Request:
    last = OffsetAndEpoch(END, view.epoch)
    return VoteRequest(ReplicaKey(ID), view.epoch + 1, last, pre_vote=False)


def _begin(view: View) -> Request:
    return BeginQuorumEpochRequest(view.leader, view.epoch, NOWHERE)


def _next_begin(view: View) -> Request:
    return BeginQuorumEpochRequest(ID, view.epoch + 1, NOWHERE)


def _end(view: View) -> Request:
    return EndQuorumEpochRequest(view.leader, view.epoch - 1, (ReplicaKey(ID),), NOWHERE)


def _next_end(view: View) -> Request:
    return EndQuorumEpochRequest(ID, view.epoch + 1, (ReplicaKey(ID),), NOWHERE)


def _fetch(view: View) -> Request:
    return FetchRequest(ReplicaKey(ID), view.epoch, 0, 0, 0, MAX_BYTES)


def _fetch_snapshot(view: View) -> Request:
    return FetchSnapshotRequest(ReplicaKey(ID), view.epoch, view.snapshot, 0, MAX_BYTES)


def _add(_: View) -> Request:
    return AddVoterRequest(ReplicaKey(ID, DIRECTORY), LISTENERS, ADD_WAIT_MS)


def _remove(_: View) -> Request:
    return RemoveVoterRequest(ReplicaKey(ID, DIRECTORY))


def _update(view: View) -> Request:
    key = ReplicaKey(ID, DIRECTORY)
    return UpdateVoterRequest(key, view.epoch, LISTENERS, VersionRange(0, 1))


_NOBODY: Final = ("-1", LEAST)
_NOWHERE: Final = ("empty",)
OF_QUORUMS: Final[Mapping[str, Base]] = {
    "Vote": Base(of_quorum(_vote)),
    "Vote-next": Base(of_quorum(_next_vote), only={"replica_id": ("own", *_NOBODY)}),
    # another leader of this epoch would be a violation of KRaft, and voters may end because of it
    "BeginQuorumEpoch": Base(of_quorum(_begin), but=("leader_epoch", "leader_id")),
    "BeginQuorumEpoch-next": Base(
        of_quorum(_next_begin), only={"leader_id": _NOBODY, "leader_endpoints": _NOWHERE}
    ),
    "EndQuorumEpoch": Base(of_quorum(_end)),
    "EndQuorumEpoch-next": Base(
        of_quorum(_next_end), only={"leader_id": _NOBODY, "leader_endpoints": _NOWHERE}
    ),
    "Fetch": Base(of_quorum(_fetch)),
    "FetchSnapshot": Base(of_quorum(_fetch_snapshot)),
    "DescribeQuorum": Base(of_quorum(lambda _: DescribeQuorumRequest())),
    "AddRaftVoter": Base(of_quorum(_add)),
    "RemoveRaftVoter": Base(of_quorum(_remove)),
    "UpdateRaftVoter": Base(of_quorum(_update)),
}
