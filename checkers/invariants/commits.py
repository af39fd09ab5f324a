"""Invariants of the high watermark: backed by a quorum, of the present epoch, never taken back.

Source: Raft 5.4.2; KIP-595; MajorityReachedHighWatermark, MonotonicHighWatermark and
ConsistentCommittedData of Kafka's own simulation tests.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

from checkers.invariants.membership import voters_of
from checkers.replay.invariant import FinalLogs, Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.voter_sets import VoterKey
from checkers.replay.world import Batch, Replica, World, stored
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class CommitStability(Invariant):
    """S9: what is committed at an offset is the same for every replica, and for ever."""

    name: ClassVar[str] = "S9"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="commit stability",
        promise="All nodes commit the same record at an offset, and it never changes.",
        why=(
            "A commit makes a change of the metadata final. If it changes later, a topic, config "
            "or ACL that a client was told is in place disappears or becomes another one."
        ),
        source=(
            "KIP-595; Raft paper, 5.4.3 (State Machine Safety); RaftEventSimulationTest "
            "(ConsistentCommittedData)"
        ),
    )
    listens: ClassVar[tuple[str, ...]] = ("hwm", "apply")

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare what the replica now takes for committed with what was committed before."""
        replica = world.here
        below = event["v"] if event["t"] == "hwm" else event["off"]
        if not replica.known or replica.agreed >= below:
            return ()
        new = replica.log.between(replica.agreed, below)
        self.checked += len(new)
        odd = [batch for batch in new if world.commits.contradicts(batch)]
        return self._newly(odd, event, replica, world) if odd else ()

    def _newly(
        self, odd: Iterable[Batch], event: Event, replica: Replica, world: World
    ) -> Iterator[Anomaly]:
        for batch in odd:
            yield from self._compare(batch, event, f"{replica.id} ({label(event)}) has", world)

    def finish(self, logs: FinalLogs, world: World) -> Iterator[Anomaly]:
        """Every final log holds what its replica knew to be committed."""
        for node, log in sorted(logs.items()):
            hwm = max((r.hwm_max for r in world.replicas.values() if str(r.id) == node), default=0)
            for batch in map(stored, log):
                if batch.last >= hwm:
                    break
                self.checked += 1
                where = f"the final log of {node} holds"
                yield from self._compare(batch, None, where, world)

    def _compare(
        self, batch: Batch, event: Event | None, where: str, world: World
    ) -> Iterator[Anomaly]:
        found = world.commits.overlapping(batch)
        if found is None or found[0] == batch or not self._once((found[0], batch)):
            return
        committed, by = found
        yield self._anomaly(
            f"offset {max(committed.base, batch.base)} was committed as {committed}"
            f" by {label(by)}, but {where} {batch} there",
            by,
            event,
            offset=max(committed.base, batch.base),
        )


class QuorumBacked(Invariant):
    """S13: at a leader's high watermark a majority of voters has all below it on disk.

    Their records are the leader's; the leader counts only as a voter and only what it flushed. A
    snapshot counts as the records that it covers.
    """

    name: ClassVar[str] = "S13"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="high watermark backed by a quorum",
        promise=(
            "When a leader moves the high watermark, a majority of the voters has every record "
            "below it on disk, equal to the leader's. The leader counts itself only if it is a "
            "voter, and only up to what it has flushed."
        ),
        why=(
            "Below the high watermark a change counts as safe, and clients get their answer. If "
            "fewer disks hold it, the loss of one machine can undo a change that was acknowledged."
        ),
        source="KIP-595; Raft paper, 5.3; RaftEventSimulationTest (MajorityReachedHighWatermark)",
    )
    listens: ClassVar[tuple[str, ...]] = ("hwm",)

    def __init__(self) -> None:
        super().__init__()
        self.undecided = 0

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Count the voters that hold the newly committed records on disk."""
        if event["as"] != "leader":
            return ()
        leader = world.here
        voters = voters_of(event, leader)
        if voters is None:
            return ()
        value: int = event["v"]
        new = leader.log.between(leader.agreed, value) if leader.known else ()
        holds = {key: _holds(world.voter(key), value, new) for key in voters}
        told = [*holds.values()]
        sure, majority = told.count(True), len(told) // 2 + 1
        if sure < majority <= sure + told.count(None):
            self.undecided += 1
            return ()
        self.checked += 1
        return () if sure >= majority else [self._too_few(event, leader, holds, world)]

    def _too_few(
        self, event: Event, leader: Replica, holds: Mapping[VoterKey, bool | None], world: World
    ) -> Anomaly:
        keys = sorted(holds, key=str)
        flushed = {str(key): _flushed(world.voter(key)) for key in keys}
        told = ", ".join(f"{node} {upto}" for node, upto in flushed.items())
        sure = sum(holding is True for holding in holds.values())
        return self._anomaly(
            f"{leader.id} raised the high watermark of epoch {event['ep']} to {event['v']}"
            f" ({label(event)}) with {sure} of {len(holds)} voters holding those records on"
            f" disk, and {len(holds) // 2 + 1} needed; flushed: {told}",
            event,
            hwm=event["v"],
            flushed=flushed,
            holds={str(key): holds[key] for key in keys},
        )


def _holds(voter: Replica | None, below: int, batches: Iterable[Batch]) -> bool | None:
    """Tell whether the voter has flushed these batches, the last of them up to ``below``.

    None when the trace does not tell.
    """
    if voter is None or not voter.known or voter.log.end is None:
        return None
    if voter.log.flushed < below:
        return False
    holds: bool | None = True
    for batch in batches:
        if batch.last < voter.log.start:
            continue  # a snapshot has it
        own = voter.log.at(batch.base)
        if own is None and not voter.log.knows(batch.base):
            holds = None
        elif own != batch:
            return False
    return holds


def _flushed(voter: Replica | None) -> int | None:
    return None if voter is None else voter.log.flushed


class CurrentEpochCommit(Invariant):
    """S14: the first high watermark that a leader exposes covers a record of its own epoch.

    Committing older records by counting replicas alone loses them (Raft 5.4.2, figure 8).
    """

    name: ClassVar[str] = "S14"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="commit in the current epoch",
        promise=(
            "The first high watermark that a new leader tells covers a record of its own epoch."
        ),
        why=(
            "Until then a later leader may still replace older records, even when a majority has "
            "them. A leader that commits them too early acknowledges changes that the next leader "
            "removes."
        ),
        source="KIP-595; Raft paper, 5.4.2 and figure 8; logcabin #44",
    )
    listens: ClassVar[tuple[str, ...]] = ("hwm",)

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare a leader's high watermark with the start of its epoch."""
        if event["as"] != "leader":
            return ()
        replica, epoch = world.here, event["ep"]
        epoch_start = replica.epoch_starts.get(epoch)
        if epoch_start is None or not self._once((replica.id, epoch)):
            return ()
        return self._first(event, replica, epoch, epoch_start)

    def _first(
        self, event: Event, replica: Replica, epoch: int, epoch_start: int
    ) -> Iterator[Anomaly]:
        self.checked += 1
        last = replica.log.at(event["v"] - 1) if replica.known else None
        if event["v"] <= epoch_start or (last is not None and last.epoch != epoch):
            found = "" if last is None else f"; the last record below it is of epoch {last.epoch}"
            yield self._anomaly(
                f"{replica.id} exposed high watermark {event['v']} in epoch {epoch}, which it"
                f" began at offset {epoch_start} ({label(event)}){found}",
                event,
                hwm=event["v"],
                epoch_start=epoch_start,
            )


class MonotonicHighWatermark(Invariant):
    """S15: a high watermark never falls, within a process nor from one leader to the next.

    A follower's is not above its own log end, nor above every leader's so far.
    """

    name: ClassVar[str] = "S15"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="monotone high watermark",
        promise=(
            "The high watermark never falls, on a running node or from one leader to the next. A "
            "follower's is never above the end of its own log, nor above every leader's."
        ),
        why=(
            "Brokers go by all that is below the high watermark. When it falls, metadata that "
            "clients have already seen is open again and may change."
        ),
        source="KIP-595; RaftEventSimulationTest (MonotonicHighWatermark)",
    )
    listens: ClassVar[tuple[str, ...]] = ("hwm",)

    def __init__(self) -> None:
        super().__init__()
        self._epochs: list[int] = []
        self._ranges: dict[int, tuple[Event, Event]] = {}  # lowest and highest of each epoch

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare with the replica's own, its log end, and the leaders'."""
        self.checked += 1
        replica, value, highest = world.here, event["v"], world.leader_hwm_max
        if event["as"] == "leader":
            return [*self._own(event, replica), *self._leaders(event)]
        end = replica.log.end
        fell = replica.hwm is not None and value < replica.hwm
        above = replica.known and end is not None and value > end
        if fell or above or (highest is not None and value > highest):
            return [*self._own(event, replica), *self._follower(event, replica, world)]
        return ()

    def _own(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        value = event["v"]
        if replica.hwm is not None and value < replica.hwm:
            yield self._anomaly(
                f"the high watermark of {replica.id} fell from {replica.hwm} to {value}"
                f" ({label(event)})",
                event,
                hwm=value,
                before=replica.hwm,
            )

    def _follower(self, event: Event, replica: Replica, world: World) -> Iterator[Anomaly]:
        value, end, highest = event["v"], replica.log.end, world.leader_hwm_max
        if replica.known and end is not None and value > end:
            yield self._anomaly(
                f"the high watermark {value} of {replica.id} is above its log end {end}"
                f" ({label(event)})",
                event,
                hwm=value,
                log_end=end,
            )
        seen = replica.known and world.sees_all(replica.voters)
        if seen and highest is not None and value > highest:
            yield self._anomaly(
                f"the high watermark {value} of {replica.id} is above every leader's so far,"
                f" {highest} ({label(event)})",
                event,
                hwm=value,
                leaders=highest,
            )

    def _leaders(self, event: Event) -> Iterator[Anomaly]:
        epoch, value = event["ep"], event["v"]
        place = bisect_left(self._epochs, epoch)
        if epoch not in self._ranges:
            insort(self._epochs, epoch)
            self._ranges[epoch] = event, event
        low, high = self._ranges[epoch]
        self._ranges[epoch] = (
            (event if value < low["v"] else low),
            (event if value > high["v"] else high),
        )
        earlier = self._ranges[self._epochs[place - 1]][1] if place > 0 else None
        later = self._ranges[self._epochs[place + 1]][0] if place + 1 < len(self._epochs) else None
        for before, after in ((earlier, event), (event, later)):
            if before is None or after is None or before["v"] <= after["v"]:
                continue
            if self._once((before["ep"], after["ep"])):
                yield self._anomaly(
                    f"the leader of epoch {before['ep']} exposed high watermark {before['v']}"
                    f" ({label(before)}), that of the later epoch {after['ep']} only"
                    f" {after['v']} ({label(after)})",
                    before,
                    after,
                    epochs=[before["ep"], after["ep"]],
                )


FOUND: Final = ", and has not flushed what it found when it started"


class DurableBeforeFetch(Invariant):
    """S16: a voter fetches at an offset only when all below it is on its disk.

    To the leader a voter's fetch at an offset is its promise to hold everything before it.
    """

    name: ClassVar[str] = "S16"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="durable before fetch",
        promise=(
            "A voter fetches from an offset only when everything before that offset is flushed to "
            "its disk."
        ),
        why=(
            "The leader takes the fetch as proof that the voter has the earlier records, and "
            "commits them. When a power cut takes them from several voters at once, acknowledged "
            "metadata is lost."
        ),
        source="KIP-595 (Fetch); KAFKA-10533",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "trunc", "fetch_tx")

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[ReplicaId, int] = {}  # what is left of it: the end of the log at a start

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the fetch offset with what was flushed."""
        replica = world.here
        if event["t"] == "start":
            self._found[replica.id] = event["leo"]
            return ()
        if event["t"] == "trunc":
            self._found[replica.id] = min(self._found.get(replica.id, 0), event["to"])
            return ()
        if not replica.known or event["node"] not in replica.sets.nodes:
            return ()
        self.checked += 1
        flushed = replica.log.flushed
        if event["off"] <= flushed:
            return ()
        return [
            self._anomaly(
                f"{replica.id} fetched at offset {event['off']} with only {flushed}"
                f" on its disk ({label(event)})"
                f"{FOUND if event['off'] <= self._found.get(replica.id, 0) else ''}",
                event,
                offset=event["off"],
                flushed=flushed,
            )
        ]
