"""Judges refusals by what the node had when it refused, and what it accepted and could not.

Requests to any voter name an epoch, a leader, and perhaps to whom they are addressed; those to a
leader a snapshot, or a voter. What an event does not tell, as the addressee of requests to Apache
Kafka, stays undecided. Epochs are judged by ``Fencing`` (S31), votes by ``DeservedVotes``.

Source: KIP-595 (Vote, BeginQuorumEpoch, EndQuorumEpoch), KIP-630 (FetchSnapshot), KIP-853, KIP-584
(UpdateFeatures, of kraft.version); Kafka 4.1 ``KafkaRaftClient``: the ``handle`` methods of these
requests, and ``RemoveVoterHandler``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from checkers.invariants.answers import MEANING
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, is_pair, label
from checkers.replay.voter_sets import VoterKey, holds, key_of, told
from checkers.replay.world import Replica, World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

Verdict = str | None  # what is wrong with an answer; None: nothing, and that was looked at

OK, NOT_LEADER, REQUEST_TIMED_OUT, UNSUPPORTED_VERSION, INVALID_REQUEST = 0, 6, 7, 35, 42
UNKNOWN_LEADER_EPOCH, SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE = 75, 98, 99
INVALID_UPDATE_VERSION = 95
INCONSISTENT_CLUSTER_ID, INVALID_VOTER_KEY, VOTER_NOT_FOUND = 104, 125, 127
EPOCH_MAX = 2**31 - 2  # an election must still be able to follow
_OF_VOTERS = frozenset({"Vote", "BeginQuorumEpoch", "EndQuorumEpoch"})
_OF_MEMBERSHIP = frozenset({"AddVoter", "RemoveVoter", "UpdateVoter"})
# A level of kraft.version is refused where voters have not told that they know it; it is the way
# from static voters to voters in the log, so that static ones are no reason.
_OF_LEVELS = frozenset({OK, NOT_LEADER, REQUEST_TIMED_OUT, INVALID_UPDATE_VERSION})
_ONLY_OF_LEADERS = frozenset({NOT_LEADER, UNKNOWN_LEADER_EPOCH})


class DeservedRefusals(Invariant):
    """S38: a request is refused for a reason that there is, and accepted only if there is none."""

    name: ClassVar[str] = MEANING.name
    meaning: ClassVar[Meaning] = MEANING
    listens: ClassVar[tuple[str, ...]] = ("start", "role", "snap", "vote", "rpc_ok", "rpc_err")
    uses: ClassVar[tuple[str, ...]] = ("voters",)

    def __init__(self) -> None:
        super().__init__()
        self._roles: dict[ReplicaId, Event] = {}
        self._sizes: dict[tuple[ReplicaId, int, int], int] = {}  # of snapshots, in bytes

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Follow roles and snapshots, and look at answers."""
        replica, kind = world.here, event["t"]
        if kind == "start":
            self._roles.pop(replica.id, None)
        elif kind == "role":
            self._roles[replica.id] = event
        elif kind == "snap":
            self._snapshot(event, replica)
        elif replica.known:
            return self._answered(event, replica)
        return ()

    def _snapshot(self, event: Event, replica: Replica) -> None:
        size = event.get("size")
        if event["op"] in ("freeze", "install") and isinstance(size, int):
            self._sizes[replica.id, *event["id"]] = size

    def _answered(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        for wrong in self._verdicts(event, replica):
            self.checked += 1
            if wrong is not None:
                api, code = _asked(event)
                answer = "accepted" if code == OK else f"refused with error {code}"
                peer = event.get("cand", event.get("peer"))
                yield self._anomaly(
                    f"n{event['node']} {answer} a {api} of n{peer} ({label(event)}): {wrong}",
                    event,
                    epoch=event["ep"],
                )

    def _verdicts(self, event: Event, replica: Replica) -> Iterator[Verdict]:
        api, code = _asked(event)
        if code == INCONSISTENT_CLUSTER_ID and "foreign" in event:
            yield None if event["foreign"] else "it names this very cluster, or none"
        if event["t"] == "rpc_err" and api == "Vote":
            return  # the vote itself tells more
        if api in _OF_VOTERS:
            yield "only a leader can say that" if code in _ONLY_OF_LEADERS else None
            yield from _addressed(event, code, replica)
        if api == "Vote":
            yield from _possible(event, code)
        elif api in _OF_VOTERS:
            yield from self._leader(event, code, replica)
        elif api == "FetchSnapshot":
            yield from self._chunk(event, code, replica)
        elif api in _OF_MEMBERSHIP:
            yield from _member(event, code, replica)
        elif api == "UpdateFeatures":
            yield None if code in _OF_LEVELS else "no level of kraft.version is refused so"

    def _leader(self, event: Event, code: int, replica: Replica) -> Iterator[Verdict]:
        """A leader's word is refused as invalid if another one of that epoch is known, or none."""
        role, peer, asked = self._roles.get(replica.id), event.get("peer"), event.get("req_ep")
        if role is None or not isinstance(asked, int) or code not in (OK, INVALID_REQUEST):
            return
        known = role.get("leader") if role["ep"] == asked else None
        conflict = known not in (None, peer)
        if code == OK:
            yield f"it knows n{known} as the leader of epoch {asked}" if conflict else None
        else:
            impossible = peer in (None, event["node"]) or not 0 <= asked <= EPOCH_MAX
            right = conflict or impossible
            yield None if right else f"it knows no other leader of epoch {asked}"

    def _chunk(self, event: Event, code: int, replica: Replica) -> Iterator[Verdict]:
        """A snapshot is served if it is there and no bootstrap, from a position inside of it."""
        snapshot, position = event.get("snap"), event.get("pos")
        if snapshot is None or not is_pair(snapshot) or not isinstance(position, int):
            return
        end, epoch = snapshot
        there = end > 0 and replica.snapshots.get(end) == epoch
        if code == SNAPSHOT_NOT_FOUND:
            yield f"it has the snapshot {end}-{epoch}" if there else None
        elif code in (OK, POSITION_OUT_OF_RANGE):
            yield None if there else f"it has no snapshot {end}-{epoch} to serve"
            size = self._sizes.get((replica.id, end, epoch))
            if there and size is not None:
                inside = 0 <= position < size
                right = inside == (code == OK)
                yield None if right else f"it was asked at {position}, the file has {size} bytes"


def _asked(event: Event) -> tuple[str, int]:
    """Tell which API was asked, and the error code of the answer."""
    if event["t"] == "vote":
        code = event.get("err")
        return "Vote", code if isinstance(code, int) else -1
    return event["api"], event["code"] if event["t"] == "rpc_err" else OK


def _addressed(event: Event, code: int, replica: Replica) -> Iterator[Verdict]:
    """Judge whether a request was for this very replica, if it says for which."""
    key = key_of(event.get("voter"))
    if key is None or code not in (OK, INVALID_VOTER_KEY):
        return
    if key.fits(replica.key) == (code == OK):
        yield None
    else:
        yield f"it was for n{key.node} with the directory {key.directory}"


def _possible(event: Event, code: int) -> Iterator[Verdict]:
    """A candidate's log ends in an epoch before that of the vote; of a pre-vote, not after it."""
    asked = event.get("req_ep")
    if not isinstance(asked, int) or code not in (OK, INVALID_REQUEST):
        return
    newest = asked if event["pre"] else asked - 1
    is_log = event["cl_leo"] >= 0 and 0 <= event["cl_ep"] <= newest
    possible = is_log and event["cand"] >= 0 and 0 <= asked <= EPOCH_MAX
    if possible == (code == OK):
        yield None
    else:
        end = f"its log ends at {event['cl_leo']} of epoch {event['cl_ep']}"
        yield f"{end}, and it asks for epoch {asked}"


def _member(event: Event, code: int, replica: Replica) -> Iterator[Verdict]:
    """Judge why a leader does not change the voters, or whom it removes or updates.

    Apache Kafka says that it removed one when the set without it is in force already. Who stops
    leading refuses what is pending as no leader, and Kafka tells of that before it tells of its new
    role: so that answer is not judged.
    """
    sets = replica.sets
    voters = sets.in_force
    if not voters:
        return
    who = f"its voters are {told(voters)}"
    if code == UNSUPPORTED_VERSION and event["api"] != "UpdateVoter":
        changing = all(key.directory is not None for key in voters)
        yield f"{who}, with directories, so that they may change" if changing else None
    peer, directory = event.get("peer"), event.get("peer_dir")
    if code == VOTER_NOT_FOUND and event["api"] == "UpdateVoter" and (peer, None) in voters:
        yield f"{who}, and it is one"  # a static voter, which is known by its id alone
        return
    if not isinstance(peer, int) or not isinstance(directory, str):
        return
    if code == OK and event["api"] != "AddVoter":
        key = VoterKey(peer, directory)
        there = holds(voters, key) or holds(sets.at(sets.offset) or (), key)
        yield None if there else f"{who}, none with the directory {directory}"
    elif code == VOTER_NOT_FOUND:
        yield f"{who}, and it is one" if (peer, directory) in voters else None
    elif code == INVALID_REQUEST and event["api"] == "RemoveVoter":
        yield f"{who}, so that it is not the last" if len(voters) > 1 else None
