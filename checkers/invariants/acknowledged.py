"""S17: what clients were told is committed was committed, and is still there at the end.

Acknowledgements are ordered against commits by the nodes' own events, never by when a line of
their trace happened to arrive; survival is judged on the logs that the run left on the disks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from checkers.committed.effects import topic_id, write_of_op
from checkers.committed.records import Committed
from checkers.replay.invariant import FinalLogs, Invariant
from checkers.replay.trace import Event, ReplicaId, label, replica_of
from checkers.replay.world import Batch, Commits, Replica, World, stored
from harness.contracts.meaning import Meaning
from harness.history.ops import History, Interval
from harness.verdict import Anomaly

NAME = "S17"
ADD_VOTER = "AddVoter"
_CHANGES = frozenset({ADD_VOTER, "RemoveVoter"})  # of voters, one at a time


class AcknowledgedAfterCommit(Invariant):
    """S17: a write is acknowledged only after the high watermark passed its last record.

    A change of the voters too, unless an AddVoter asked for an answer before that (KIP-1186).
    """

    name: ClassVar[str] = NAME
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="acknowledged writes survive",
        promise=(
            "A write that was acknowledged is committed by then, and it stays. One that was "
            "refused never takes effect; one without an answer takes effect at most once."
        ),
        why=(
            "An operator creates a topic or an ACL, is told that it worked, and it is gone after "
            "the next failover. Or a request that failed works all the same."
        ),
        source="KIP-595; DeferredEventQueue (answers wait for the high watermark); etcd #14143",
    )
    listens: ClassVar[tuple[str, ...]] = ("ack", "rpc_ok")

    def __init__(self) -> None:
        super().__init__()
        self._early: set[ReplicaId] = set()  # those of which the last AddVoter asked for that

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the write's offset with the acknowledging node's high watermark."""
        if event["t"] == "ack":
            return self._acknowledged(event, world.replica(event))
        if event["api"] == ADD_VOTER:
            change = self._early.add if event.get("early") is True else self._early.discard
            change(replica_of(event))
        return ()

    def _acknowledged(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        offset = event["off"]
        if offset < 0:
            return  # nothing was written
        if event.get("api") == ADD_VOTER and replica.id in self._early:
            return
        self.checked += 1
        if event.get("api") in _CHANGES and replica.known and offset < replica.sets.offset:
            yield self._anomaly(
                f"{replica.id} acknowledged a change of the voters as that at offset {offset};"
                f" its newest voter set stands at {replica.sets.offset} ({label(event)})",
                event,
                offset=offset,
            )
            return
        said = event.get("hwm")
        known = replica.hwm if replica.known else said
        if any(not isinstance(hwm, int) or hwm <= offset for hwm in (said, known)):
            yield self._anomaly(
                f"{replica.id} acknowledged offset {offset} at high watermark {said}"
                f" ({label(event)}); the highest it had exposed was {replica.hwm}",
                event,
                offset=offset,
            )


@dataclass(slots=True)
class Survival:
    """The fate of the acknowledged ops; ``undecided`` says why nothing could be looked up."""

    anomalies: list[Anomaly] = field(default_factory=list)
    checked: int = 0
    undecided: str | None = None


def survival(
    history: History,
    logs: FinalLogs,
    commits: Commits,
    voters: tuple[str, ...],
    committed: Committed,
) -> Survival:
    """Each ok op is in the committed log, each fail is not, each info is at most once. O(n).

    A committed batch must also be in the final logs of a majority of the voters, unless the run was
    stopped: then these are not final. A log that is not given speaks for neither side: of a voter
    whose disk the host has damaged, and which was not back since, none is to be given.
    """
    found = Survival()
    intervals = [i for i in history.intervals() if i.invocation.f in ("write", "create")]
    if not logs or not len(commits):
        if any(i.outcome == "ok" for i in intervals):
            missing = "final logs" if not logs else "high watermark events"
            found.undecided = f"acknowledged ops were not looked up: there are no {missing}"
        return found
    _judge_writes(intervals, committed, found)
    _judge_creates(intervals, committed, found)
    if history.stopped is None:
        found.anomalies += _under_retained(logs, commits, voters, _owners(intervals, committed))
    return found


def _judge_writes(intervals: list[Interval], committed: Committed, found: Survival) -> None:
    by_write: dict[tuple[str, str], list[Interval]] = defaultdict(list)
    for interval in intervals:
        write = write_of_op(interval.invocation)
        if write is not None:
            by_write[write].append(interval)
    for write, attempts in by_write.items():
        found.checked += 1
        found.anomalies += judge_writes(write, attempts, committed)


def _judge_creates(intervals: list[Interval], committed: Committed, found: Survival) -> None:
    by_name: dict[str, list[Interval]] = defaultdict(list)
    for interval in intervals:
        if interval.invocation.f == "create" and interval.invocation.key is not None:
            by_name[interval.invocation.key].append(interval)
    for name, attempts in by_name.items():
        found.checked += 1
        found.anomalies += judge_creates(name, attempts, committed)


def judge_writes(
    write: tuple[str, str], attempts: list[Interval], committed: Committed
) -> Iterator[Anomaly]:
    """Compare how often a write is committed with what came of all tries of it."""
    offsets = [at for at, _ in committed.writes.get(write, ())]
    return _judge(f"write {write[0]}={write[1]}", attempts, offsets, committed)


def judge_creates(name: str, attempts: list[Interval], committed: Committed) -> Iterator[Anomaly]:
    """Compare the topics of a name that are committed with what came of all tries to create it."""
    records = committed.topics.get(name, [])
    ids = {id_ for id_, _ in records}
    for attempt in attempts:
        told = _created_id(attempt)
        if told is not None and told not in ids and committed.must_hold(attempt):
            yield _lost(f"create of topic {name} (id {told})", attempt)
    possible = [a for a in attempts if a.outcome != "fail"]
    if len(records) > len(possible):
        offsets = [at for _, (at, _) in records]
        yield _surplus(f"create of topic {name}", attempts, offsets)


def _created_id(interval: Interval) -> str | None:
    value = interval.completion.value if interval.completion else None
    if interval.outcome != "ok" or not isinstance(value, Mapping) or "id" not in value:
        return None
    return topic_id(value["id"])


def _judge(
    what: str, attempts: list[Interval], offsets: list[int], committed: Committed
) -> Iterator[Anomaly]:
    """Compare how often an effect is in the log with how often it may be."""
    oks = [a for a in attempts if a.outcome == "ok"]
    possible = len(oks) + sum(a.outcome == "info" for a in attempts)
    lost = [ok for ok in oks if committed.must_hold(ok)]
    if lost and not offsets:
        yield _lost(what, lost[0])
    if len(offsets) > possible:
        yield _surplus(what, attempts, offsets)


def _lost(what: str, attempt: Interval) -> Anomaly:
    done = attempt.completion or attempt.invocation
    return Anomaly(
        NAME,
        f"acknowledged {what} (op {done.index}) is not in the committed log",
        ops=(attempt.invocation.index, done.index),
        time_ns=done.time_ns,
    )


def _surplus(what: str, attempts: list[Interval], offsets: list[int]) -> Anomaly:
    outcomes = ", ".join(sorted(a.outcome for a in attempts))
    return Anomaly(
        NAME,
        f"{what} ended as {outcomes}, but is committed {len(offsets)} times:"
        f" at offsets {', '.join(map(str, sorted(offsets)))}",
        ops=tuple(a.invocation.index for a in attempts),
        details={"offsets": sorted(offsets)},
    )


def _owners(intervals: list[Interval], committed: Committed) -> dict[int, Interval]:
    """The ok write at each offset that holds one."""
    owners: dict[int, Interval] = {}
    for interval in intervals:
        write = write_of_op(interval.invocation)
        if write is not None and interval.outcome == "ok":
            owners.update((at, interval) for at, _ in committed.writes.get(write, ()))
    return owners


def _under_retained(
    logs: FinalLogs, commits: Commits, voters: tuple[str, ...], owners: Mapping[int, Interval]
) -> Iterator[Anomaly]:
    """Committed batches that too few voters still hold; a missing log speaks for neither side."""
    held: dict[Batch, int] = defaultdict(int)
    seen = {node: logs[node] for node in voters if logs.get(node)}
    starts = [log[0].base for log in seen.values()]
    for log in seen.values():
        for batch in map(stored, log):
            held[batch] += 1
    majority = len(voters) // 2 + 1
    for batch, event in commits:
        absent = len(voters) - len(seen) + sum(start > batch.base for start in starts)
        if held[batch] + absent >= majority:
            continue
        owner = next((owners[o] for o in range(batch.base, batch.last + 1) if o in owners), None)
        yield _forgotten(batch, event, held[batch], len(voters), owner)


def _forgotten(
    batch: Batch, event: Event, holders: int, voters: int, owner: Interval | None
) -> Anomaly:
    what = "" if owner is None else f", which acknowledged op {owner.invocation.index} wrote,"
    return Anomaly(
        "S9" if owner is None else NAME,
        f"the committed {batch}{what} is in the final logs of only {holders} of {voters} voters",
        ops=() if owner is None else (owner.invocation.index,),
        events=(dict(event),),
        details={"offset": batch.base, "holders": holders},
    )
