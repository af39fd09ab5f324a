"""Judges answers of the quorum's RPCs that nothing else judges: above all refusals.

An answer follows from what the node had, as its events tell. Source: KIP-595 (Vote, Fetch,
diverging epochs), KIP-996 (who grants pre-votes), KIP-853 (AddRaftVoter).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import Batch, Replica, World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

DUPLICATE_VOTER = 126
_GRANTING = frozenset({"unattached", "prospective", "candidate", "resigned"})

MEANING = Meaning(
    "S38",
    title="deserved answers",
    promise=(
        "A node gives each request of the quorum the answer that follows from what it has: it "
        "refuses no vote that it could give, and has no follower cut or skip what both have. It "
        "refuses no word of a leader, chunk of a snapshot or change of the voters without a reason."
    ),
    why=(
        "Refusals look safe, and cost availability: an election that should have been won is "
        "repeated, and a follower fetches again and again what it has."
    ),
    source=(
        "KIP-595 (Vote; Fetch, diverging epochs); KIP-996; KIP-853; KIP-630 (FetchSnapshot); "
        "KafkaRaftClient.validateFetchOffsetAndEpoch"
    ),
)


class DeservedVotes(Invariant):
    """S38: a vote or pre-vote is refused only for a reason that the protocol knows.

    The voter's log is ahead, or it has voted for somebody else, or it knows a leader. Whether a
    follower is in touch with its leader, which is a reason to refuse a pre-vote, no event tells.
    """

    name: ClassVar[str] = MEANING.name
    meaning: ClassVar[Meaning] = MEANING
    listens: ClassVar[tuple[str, ...]] = ("start", "role", "vote")
    uses: ClassVar[tuple[str, ...]] = ("qs",)

    def __init__(self) -> None:
        super().__init__()
        self._roles: dict[ReplicaId, str] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Follow roles, and look at refusals."""
        replica = world.here
        if event["t"] == "start":
            self._roles.pop(replica.id, None)
        elif event["t"] == "role":
            self._roles[replica.id] = event["to"]
        elif not event["ok"] and replica.known:
            return self._refused(event, replica)
        return ()

    def _refused(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        if event.get("err") != 0:
            return  # S31 judges what is fenced
        self.checked += 1
        if (event["cl_ep"], event["cl_leo"]) < (event["my_ep"], event["my_leo"]):
            return
        if event["pre"]:
            role = self._roles.get(replica.id)
            if role in _GRANTING:
                yield self._wrong(event, f"as {role}, for a log that is not behind its own")
            return
        disk = replica.quorum
        if disk is None or disk.epoch != event["ep"] or disk.leader is not None:
            return
        if self._roles.get(replica.id) not in ("unattached", "prospective"):
            return
        if disk.voted is None:
            yield self._wrong(event, "with its vote still to give and no leader known")
        elif disk.names(event["cand"], event.get("cand_dir")):
            yield self._wrong(event, "although it had given it that very vote")

    def _wrong(self, event: Event, why: str) -> Anomaly:
        kind = "pre-vote" if event["pre"] else "vote"
        return self._anomaly(
            f"n{event['node']} refused n{event['cand']} a {kind} of epoch {event.get('req_ep')}"
            f" {why} ({label(event)})",
            event,
            epoch=event["ep"],
            candidate=event["cand"],
        )


class DeservedFetches(Invariant):
    """S38: a leader serves a log that is a prefix of its own, and no other."""

    name: ClassVar[str] = MEANING.name
    meaning: ClassVar[Meaning] = MEANING
    listens: ClassVar[tuple[str, ...]] = ("fetch_rx",)

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the end of the fetcher's log with what the leader has there."""
        replica, offset, epoch = world.here, event.get("off"), event.get("last_ep")
        if not isinstance(offset, int) or not isinstance(epoch, int):
            return ()
        log = replica.log
        if not replica.known or log.end is None:
            return ()
        before = log.at(offset - 1) if offset else None
        wrong = self._wrong(event, replica, before)
        if wrong is None and event["res"] == "snapshot":
            wrong = _other_snapshot(event.get("end"), replica)
        self.checked += before is not None
        if wrong is None:
            return ()
        return [
            self._anomaly(
                f"n{event['node']} answered a fetch of n{event.get('from')} at {offset}, after"
                f" epoch {epoch}, with {event['res']} ({label(event)}): {wrong}",
                event,
                offset=offset,
                epoch=event["ep"],
            )
        ]

    def _wrong(self, event: Event, replica: Replica, before: Batch | None) -> str | None:
        """Tell what is wrong with an answer; ``before`` is what the leader has before there."""
        offset, epoch, log, result = event["off"], event["last_ep"], replica.log, event["res"]
        end = log.end or 0
        if result == "ok":
            if offset > end:
                return f"its own log ends at {end}"
            if before is not None and before.epoch != epoch:
                return f"there it has {before}"
            return None
        if before is None or before.epoch != epoch or before.last != offset - 1:
            return None
        if result == "diverging":
            return f"it has the same there, {before}"
        earliest = replica.snapshots.get(min(replica.snapshots, default=0), 0)
        if result == "snapshot" and offset > log.start and epoch >= earliest:
            return f"its log has all from {log.start} on, and {before}"
        return None


def _other_snapshot(named: int | None, replica: Replica) -> str | None:
    """Tell that a fetcher was sent to a snapshot which is not the newest one that is there."""
    newest = max(replica.snapshots, default=0)
    if named in (None, newest) or not newest:
        return None
    return f"of snapshot {named}, and its newest one is {newest}"


class DeservedMembership(Invariant):
    """S38: nobody is refused as a voter already who is none."""

    name: ClassVar[str] = MEANING.name
    meaning: ClassVar[Meaning] = MEANING
    listens: ClassVar[tuple[str, ...]] = ("rpc_err",)

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Look for the new voter in the set in force."""
        replica = world.here
        if event["api"] != "AddVoter" or event["code"] != DUPLICATE_VOTER or not replica.known:
            return ()
        self.checked += 1
        peer = event.get("peer")
        if peer in replica.sets.nodes or not replica.sets.nodes:
            return ()
        return [
            self._anomaly(
                f"n{event['node']} refused to add n{peer} as a voter already ({label(event)}): its"
                f" voters are {sorted(replica.sets.nodes)}",
                event,
            )
        ]
