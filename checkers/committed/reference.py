"""The committed log as far as the disks still have it: from its beginning, or after a snapshot.

Logs are cleaned at their front. What one node has dropped another may still have, and what nobody
has is in a snapshot; only how that came about is not known any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from checkers.replay.world import Commits, stored
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch, LogSnapshot

Logs = Mapping[str, Sequence[LogBatch]]


@dataclass(frozen=True, slots=True)
class Reference:
    """A log, and the snapshot that stands for what it lacks; ``start`` is where the log begins."""

    log: Sequence[LogBatch] = ()
    snapshot: LogSnapshot | None = None

    @property
    def start(self) -> int:
        """Offset of the log's first record."""
        return self.log[0].base if self.log else 0

    @property
    def end(self) -> int:
        """Tell where the log ends, exclusive."""
        return self.log[-1].last + 1 if self.log else 0

    @property
    def begin(self) -> int | None:
        """Give the offset where the known log begins with a state; None when the start is lost."""
        if self.snapshot is not None:
            return self.snapshot.end
        return None if self.start else 0

    def batches(self, below: int) -> Iterator[LogBatch]:
        """Tell what the log goes on with from there, as far as it ends below an offset."""
        begin = self.begin
        if begin is None:
            return
        for batch in self.log:
            if batch.last >= below:
                return
            if batch.base >= begin:
                yield batch


def committed(run: RunData, commits: Commits) -> Reference:
    """Tell what nodes said is committed, from the beginning to where no disk has it any more.

    In the middle of a run a log may end in what is not.
    """
    found = {stored(batch): batch for log in run.logs.values() for batch in log}
    whole: list[LogBatch] = []
    for batch, _ in commits:
        known = found.get(batch)
        if known is None or known.base != (whole[-1].last + 1 if whole else 0):
            break
        whole.append(known)
    return Reference(whole)


def reference(run: RunData, commits: Commits | None = None) -> Reference:
    """The most up-to-date final log, be it of an observer: it holds all that is committed (S11).

    Its front is completed from other nodes' logs, and what then lacks from a snapshot. Where a
    disk was damaged since, and another still has what was committed there, that counts.
    """
    logs = [run.logs[node] for node in (*run.voters, *run.observers) if run.logs.get(node)]
    best = max(logs, key=lambda log: (log[-1].epoch, log[-1].last), default=())
    log = _completed(best, run.logs.values())
    if commits is not None:
        log = _as_committed(log, run.logs.values(), commits)
    if not log or not log[0].base:
        return Reference(log)
    return Reference(log, _before(log, run.snapshots.values()))


def _completed(log: Sequence[LogBatch], others: Iterable[Sequence[LogBatch]]) -> list[LogBatch]:
    """The log with what others have before it: logs that share a batch share all below (S8)."""
    whole = list(log)
    for other in sorted((o for o in others if o), key=lambda o: o[0].base, reverse=True):
        if whole and other[0].base < whole[0].base:
            place = next((i for i, b in enumerate(other) if _same(b, whole[0])), None)
            if place is not None:
                whole[:0] = other[:place]
    return whole


def _as_committed(
    log: list[LogBatch], others: Iterable[Sequence[LogBatch]], commits: Commits
) -> list[LogBatch]:
    """The log with committed batches, where it has others of the same place and epoch."""
    odd = {p: stored(batch) for p, batch in enumerate(log) if commits.contradicts(stored(batch))}
    if odd:
        held = {stored(batch): batch for other in others for batch in other}
        for place, batch in odd.items():
            found = commits.overlapping(batch)
            right = None if found is None else held.get(found[0])
            if right is not None and stored(right)[:3] == batch[:3]:
                log[place] = right
    return log


def _same(one: LogBatch, other: LogBatch) -> bool:
    return (one.base, one.epoch, one.crc) == (other.base, other.epoch, other.crc)


def _before(
    log: Sequence[LogBatch], snapshots: Iterable[Sequence[LogSnapshot]]
) -> LogSnapshot | None:
    """The oldest usable snapshot after which the log goes on without a gap."""
    found = [s for of_node in snapshots for s in of_node if s.error is None]
    ends = {log[0].base, *[batch.last + 1 for batch in log]}
    return min((s for s in found if s.end in ends), key=lambda s: s.end, default=None)


def known_from(logs: Logs) -> int:
    """The offset from which on the logs together leave no gap up to their end."""
    spans = sorted(((log[-1].last, log[0].base) for log in logs.values() if log), reverse=True)
    start = spans[0][1] if spans else 0
    for last, base in spans:
        if last + 1 >= start:
            start = min(start, base)
    return start
