"""Holds answers to clients against what is committed at that moment: S17, S18 and S34.

Source: the guarantee of KIP-595 and KIP-631 that what is answered is committed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from checkers.committed.effects import topic_of_record, write_of_op, write_of_record
from checkers.committed.records import Committed, file_records
from checkers.invariants.acknowledged import judge_creates, judge_writes
from checkers.invariants.inventions import Asked, invented_in
from checkers.invariants.local_reads import dirty
from checkers.replay.trace import Event
from harness.contracts.evidence import LogBatch
from harness.history.ops import NEMESIS, Interval, Op
from harness.verdict import Anomaly

Write = tuple[str, str]


class Promises:
    """Fed with each op and each committed batch when they come; both only once.

    An op that is still open may have done anything. ``anomalies`` has all that was found.
    """

    def __init__(self) -> None:
        self.anomalies: list[Anomaly] = []
        self._committed = Committed()
        self._asked = Asked()
        self._open: dict[int | str, Op] = {}
        self._writes: dict[Write, list[Interval]] = defaultdict(list)
        self._creates: dict[str, list[Interval]] = defaultdict(list)

    def batch(self, batch: LogBatch, by: Event) -> list[Anomaly]:
        """Tell what a committed batch holds that nobody asked for, or that was refused or done."""
        if batch.control:
            return []
        file_records(batch, self._committed, by)
        writes = {write for record in batch.records if (write := write_of_record(record))}
        names = {topic[0] for record in batch.records if (topic := topic_of_record(record))}
        found = [*invented_in(self._committed, self._asked, sorted(writes), sorted(names))]
        for write in sorted(writes & self._writes.keys()):
            found += self._written(write)
        for name in sorted(names & self._creates.keys()):
            found += self._created(name)
        return self._keep(found)

    def op(self, op: Op, *, behind: bool) -> list[Anomaly]:
        """Tell what the answer to an op breaks.

        ``behind``: not all that is committed was seen, so that nothing can be missing.
        """
        if op.process == NEMESIS:
            return []
        if op.type == "invoke":
            self._invoked(op)
            return []
        invocation = self._open.pop(op.process, None)
        if invocation is None:
            return []
        attempt, write = Interval(invocation, op), write_of_op(invocation)
        found: list[Anomaly] = []
        if write is not None:
            _complete(self._writes[write], attempt)
            found += () if behind else self._written(write)
        elif invocation.f == "create" and invocation.key is not None:
            _complete(self._creates[invocation.key], attempt)
            found += () if behind else self._created(invocation.key)
        elif not behind:
            found += self._read(attempt)
        return self._keep(found)

    def _invoked(self, op: Op) -> None:
        self._open[op.process] = op
        self._asked.add(op)
        write = write_of_op(op)
        if write is not None:
            self._writes[write].append(Interval(op, None))
        elif op.f == "create" and op.key is not None:
            self._creates[op.key].append(Interval(op, None))

    def _written(self, write: Write) -> Iterator[Anomaly]:
        return judge_writes(write, self._writes[write], self._committed)

    def _created(self, name: str) -> Iterator[Anomaly]:
        return judge_creates(name, self._creates[name], self._committed)

    def _read(self, attempt: Interval) -> Iterator[Anomaly]:
        done = attempt.completion
        if done is None or done.type != "ok" or not done.f.endswith("read") or done.key is None:
            return
        seen = done.key, str(done.value)
        if done.value is not None and seen in self._writes and seen not in self._committed.writes:
            yield dirty(attempt, self._committed.last(done.key))

    def _keep(self, found: list[Anomaly]) -> list[Anomaly]:
        known = {anomaly.message for anomaly in self.anomalies} if found else set()
        new = [anomaly for anomaly in found if anomaly.message not in known]
        self.anomalies += new
        return new


def _complete(attempts: list[Interval], attempt: Interval) -> None:
    """Put the attempt in the place of its invocation, which is among the last."""
    for place in range(len(attempts) - 1, -1, -1):
        if attempts[place].invocation is attempt.invocation:
            attempts[place] = attempt
            return
