"""Invariants of the voter set: majorities of the set in force, changed one voter at a time.

Source: KIP-853; the KRaftWithReconfig TLA+ specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label, replica_of
from checkers.replay.voter_sets import (
    NEVER,
    VoterKey,
    VoterKeys,
    difference,
    holds,
    key_of,
    keys_of,
    told,
)
from checkers.replay.world import Batch, Replica, World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


def voters_of(event: Event, replica: Replica) -> VoterKeys | None:
    """The voters that an event counts, with the directories that the replica's log knows."""
    told_, in_force, counted = event.get("voters"), replica.sets.in_force, replica.counted
    if counted is not None and counted[0] == told_ and counted[1] is in_force:
        return counted[2]  # a leader mostly counts the same ones again
    said = keys_of(told_)
    if said is None:
        return None
    known = {key.node: key for key in in_force}
    found = tuple(known.get(k.node, k) if k.directory is None else k for k in said)
    replica.counted = told_, in_force, found
    return found


class MajorityElection(Invariant):
    """S6: a leader has the votes of a majority of the voters in its log, each given in its epoch.

    A vote counts only as that of the very replica that the set names.
    """

    name: ClassVar[str] = "S6"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="election by majority",
        promise=(
            "A leader has the votes of a majority of the voters in its own log, and each of these "
            "votes was given to it in that epoch."
        ),
        why=(
            "Any two majorities share a node; nothing else prevents two leaders. A leader that "
            "counts wrong votes may lead beside another one (split brain)."
        ),
        source="KIP-595; KIP-853; Raft paper, 5.2; KRaft TLA+ specification (ElectionSafety)",
    )
    listens: ClassVar[tuple[str, ...]] = ("vote", "elected")

    def __init__(self) -> None:
        super().__init__()
        self._votes: dict[tuple[int, int], set[ReplicaId]] = {}  # by epoch and candidate

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Collect votes, and compare them with those that a winner counts."""
        if event["t"] == "elected":
            return self._elected(event, world)
        if event["ok"] and not event["pre"]:
            self._votes.setdefault((event["ep"], event["cand"]), set()).add(replica_of(event))
        return ()

    def _elected(self, event: Event, world: World) -> Iterator[Anomaly]:
        replica = world.replica(event)
        voters, grants = voters_of(event, replica), event.get("grants")
        if not voters or not isinstance(grants, list | tuple):
            return
        self.checked += 1
        counted = [key for key in voters if key.node in grants]
        majority = len(voters) // 2 + 1
        if len(counted) < majority:
            yield self._anomaly(
                f"{replica.id} won epoch {event['ep']} with the votes of {told(tuple(counted))}"
                f" of the voters {told(voters)}, and {majority} needed ({label(event)})",
                event,
                epoch=event["ep"],
                grants=list(grants),
            )
        if not world.whole:
            return
        given = {VoterKey(*id_) for id_ in self._votes.get((event["ep"], event["node"]), ())}
        for key in counted:
            if not key.fits(replica.key) and not holds(given, key):
                yield self._anomaly(
                    f"{replica.id} counted the vote of {key} in epoch {event['ep']}, which that"
                    f" replica never gave ({label(event)})",
                    event,
                    epoch=event["ep"],
                    voter=key.node,
                )


class OneChangeAtATime(Invariant):
    """S27: voter sets that follow each other in a log differ by one replica, and none is empty.

    A leader changes the set only after it has committed in its epoch, and the set before.
    """

    name: ClassVar[str] = "S27"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="one voter change at a time",
        promise=(
            "The voter set changes by one controller at a time, and is never empty. A leader "
            "changes it only after it "
            "has committed a record of its own epoch and the change before, and adds only a "
            "controller that has caught up."
        ),
        why=(
            "Two changes at once can make two majorities without a common node, and so two leaders "
            "(S1). A voter that has not caught up holds up every commit that needs it."
        ),
        source="KIP-853 (AddRaftVoter, RemoveRaftVoter); Raft thesis, 4.1; AddVoterHandler",
    )
    listens: ClassVar[tuple[str, ...]] = ("voters",)

    def __init__(self) -> None:
        super().__init__()
        self._sets: dict[Batch, int] = {}  # batches that hold a voter set, and its offset

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Compare a new set with the one before."""
        replica, keys, offset = world.replica(event), keys_of(event["set"]), event.get("off")
        if isinstance(offset, int) and (batch := replica.log.at(offset)) is not None:
            self._sets[batch] = offset
        if keys is None or not isinstance(offset, int) or event.get("revert") or not replica.known:
            return
        before, at = replica.sets.in_force, replica.sets.offset
        if offset < replica.log.start or offset <= at or not before:
            return  # a snapshot's: what was between is not known
        self.checked += 1
        changed = difference(before, keys)
        if len(changed) > 1 and not _has_between(self._sets, replica, at, offset):
            yield self._anomaly(
                f"the voters went from {told(before)} to {told(keys)} at offset {offset} of"
                f" {replica.id} in one step ({label(event)})",
                event,
                offset=offset,
            )
        if not keys:
            yield self._anomaly(
                f"the last of the voters {told(before)} was removed at offset {offset} of"
                f" {replica.id} ({label(event)})",
                event,
                offset=offset,
            )
        epoch_start = replica.epoch_starts.get(event["ep"])
        if not changed or epoch_start is None:
            return  # a follower has it from a leader
        hwm = replica.hwm
        if hwm is None or hwm <= epoch_start or at >= hwm:
            set_before = "that are configured" if at == NEVER else f"of offset {at}"
            yield self._anomaly(
                f"{replica.id} changed the voters at offset {offset} of epoch {event['ep']}, which"
                f" it began at {epoch_start}, with the voters {set_before} in force and high"
                f" watermark {hwm} ({label(event)})",
                event,
                offset=offset,
                hwm=hwm,
            )


def _has_between(sets: Mapping[Batch, int], replica: Replica, begin: int, end: int) -> bool:
    """Tell whether a log has one of these sets between two offsets, of which its node told nothing.

    That the node missed it is told by ``AdoptedVoters`` (S28).
    """
    return any(
        begin < offset < end and replica.log.at(offset) == batch for batch, offset in sets.items()
    )


class LatestSetInForce(Invariant):
    """S28: majorities are of the newest voter set in the log, and a truncation takes it back."""

    name: ClassVar[str] = "S28"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="latest voter set in force",
        promise=(
            "Majorities are counted in the newest voter set of the node's log, committed or not. A "
            "truncation brings back the set before it."
        ),
        why=(
            "A node that goes by an outdated voter set elects or commits with controllers that "
            "were removed, beside the majority of the new set."
        ),
        source="KIP-853; Raft thesis, 4.1; etcd #11284",
    )
    listens: ClassVar[tuple[str, ...]] = ("elected", "hwm", "voters", "start")

    def __init__(self) -> None:
        super().__init__()
        self._right: dict[ReplicaId, tuple[object, VoterKeys]] = {}  # the last one that was
        self._sets: dict[Batch, int] = {}  # batches that hold a voter set, and its offset

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the set that is used with the newest in the log."""
        replica = world.here
        if event["t"] == "hwm" and replica.known:
            said = event.get("voters")
            if said is None:
                return ()  # a follower's
            used, in_force = self._right.get(replica.id, (None, None))
            if used == said and in_force is replica.sets.in_force:
                self.checked += 1
                return ()
        return self._compare(event, replica)

    def _compare(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        used = keys_of(event.get("set" if event["t"] == "voters" else "voters"))
        in_force = replica.sets.in_force
        if event["t"] == "voters" and not event.get("revert"):
            yield from self._adopted(event, replica)
            batch = replica.log.at(event["off"]) if isinstance(event.get("off"), int) else None
            if batch is not None:
                self._sets[batch] = event["off"]
        if used is None or not in_force or not self._is_decided(event, replica):
            return
        self.checked += 1
        if difference(used, in_force):
            yield self._anomaly(
                f"{replica.id} goes by the voters {told(used)} ({label(event)}), but the newest"
                f" in its log are {told(in_force)}, of offset {replica.sets.offset}",
                event,
                offset=replica.sets.offset,
            )
        else:
            self._right[replica.id] = event.get("voters"), in_force

    def _adopted(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        """A set is used when it is appended: it cannot have been committed by then."""
        offset, hwm = event.get("off"), replica.hwm
        if not isinstance(offset, int) or hwm is None or not replica.known:
            return
        if max(replica.sets.offset, replica.log.start - 1) < offset < hwm:
            yield self._anomaly(
                f"{replica.id} went by the voters of offset {offset} only when its high watermark"
                f" was {hwm} already ({label(event)})",
                event,
                offset=offset,
                hwm=hwm,
            )

    def _is_decided(self, event: Event, replica: Replica) -> bool:
        """Tell whether the trace tells which set must be in force."""
        if event["t"] in ("start", "voters") and not replica.sets.is_sure:
            return False
        if event["t"] == "start":
            log = replica.log
            same = log.start == event["log_start"] and log.end is not None
            if replica.told is not None and replica.told.get("ctl"):
                return False  # a set perhaps, and the process ended before it told of that
            if _has_between(self._sets, replica, replica.sets.offset, event["leo"]):
                return False
            return replica.known and same and replica.sets.offset < event["leo"] <= (log.end or 0)
        if event["t"] == "voters":
            return replica.known and event.get("revert") is True
        return replica.known


class Identity(Invariant):
    """S29: only replicas of the voter set count, each by node and directory id.

    No two processes are the same replica at the same time.
    """

    name: ClassVar[str] = "S29"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="replica identity",
        promise=(
            "Votes and fetches count only if they come from a voter, by the id and the directory "
            "id in the voter set. No two processes are the same voter at once."
        ),
        why=(
            "A controller that got a new disk has lost its records. If it counts as before, a "
            "commit rests on an empty disk, and the next failure loses acknowledged metadata."
        ),
        source="KIP-853 (directory ids); KAFKA-14077; openraft #2002",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "hwm")

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Look who a starting process is, and whose end offsets a leader counts."""
        if event["t"] == "start":
            return self._alone(event, world.here)
        return self._counted(event, world.here) if event["as"] == "leader" else ()

    def _alone(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        self.checked += 1
        last = replica.told
        if last is not None and event["ts"] < last["ts"]:
            yield self._anomaly(
                f"{replica.id} (dir {replica.id.directory}) was started ({label(event)}) before its"
                f" process of before had ended ({label(last)})",
                event,
                last,
            )

    def _counted(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        """The set's replica must be behind every end offset."""
        voters, acks = voters_of(event, replica), event.get("acks")
        if not voters or not isinstance(acks, list | tuple):
            return
        for ack in acks:
            key = key_of(ack)
            if key is None:
                continue
            self.checked += 1
            if not holds(voters, key):
                yield self._anomaly(
                    f"{replica.id} counted {key} (dir {key.directory}) for its high watermark"
                    f" {event['v']}, which is not one of the voters {told(voters)}"
                    f" ({label(event)})",
                    event,
                    hwm=event["v"],
                    voter=key.node,
                )


class RemovedLeader(Invariant):
    """S30: a leader that has committed its own removal leads no more."""

    name: ClassVar[str] = "S30"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="removed leader steps down",
        promise=(
            "A leader that was removed from the voters leads no more once its removal is committed."
        ),
        why=(
            "An operator removes a controller to shut its machine down. If it leads on, the "
            "shutdown takes the active controller away."
        ),
        source="KIP-853 (RemoveRaftVoter); Raft thesis, 4.2.2",
    )
    listens: ClassVar[tuple[str, ...]] = ("hwm", "append", "elected")

    def __init__(self) -> None:
        super().__init__()
        self._removed: dict[tuple[ReplicaId, int], Event] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Note when a removal is committed, and what its leader does afterwards."""
        leads = event["as"] == "leader" if event["t"] == "hwm" else event.get("src") != "follower"
        if not leads:
            return ()
        replica = world.here
        if not replica.known or not replica.sets.in_force:
            return ()
        self.checked += 1
        reign = replica.id, event["ep"]
        removal = self._removed.get(reign) if self._removed else None
        if removal is not None:
            return [self._goes_on(event, replica, removal)] if self._once(reign) else ()
        if event["t"] == "hwm" and _is_outside(replica) and event["v"] > replica.sets.offset:
            self._removed[reign] = event
        return ()

    def _goes_on(self, event: Event, replica: Replica, removal: Event) -> Anomaly:
        return self._anomaly(
            f"{replica.id} still leads epoch {event['ep']} ({label(event)}) after it had"
            f" committed its own removal ({label(removal)})",
            removal,
            event,
            epoch=event["ep"],
        )


def _is_outside(replica: Replica) -> bool:
    return not holds(replica.sets.in_force, replica.key)
