"""Invariants of logs: a record has one content, logs match, committed records are not cut.

Source: Raft, log matching; LogMatching and Durability of the KRaft TLA+ specification.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import ClassVar

from checkers.replay.invariant import FinalLogs, Invariant
from checkers.replay.trace import Event, label
from checkers.replay.world import Batch, Replica, World, stored
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class RecordIdentity(Invariant):
    """S7: an (offset, epoch) has one content on all replicas at all times, committed or not."""

    name: ClassVar[str] = "S7"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="record identity",
        promise=(
            "An offset and an epoch name one batch: its content is the same on every node at every "
            "time, committed or not."
        ),
        why=(
            "Nodes compare offset and epoch to see whether their logs agree. If two batches share "
            "both, brokers apply different metadata and no check of Kafka ever notices."
        ),
        source="KIP-595; Raft paper, 5.3 (Log Matching); KAFKA-10527",
    )
    listens: ClassVar[tuple[str, ...]] = ("append",)

    def __init__(self) -> None:
        super().__init__()
        self._by_epoch: dict[int, _EpochBatches] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the batch with all others of its epoch."""
        return self._compare(world.appended(event), event, "")

    def finish(self, logs: FinalLogs, world: World) -> Iterator[Anomaly]:
        """The same for what the disks hold after the run."""
        del world
        for node, log in sorted(logs.items()):
            for batch in map(stored, log):
                yield from self._compare(batch, None, f"the final log of {node} holds")

    def _compare(self, batch: Batch, event: Event | None, where: str) -> Iterable[Anomaly]:
        self.checked += 1
        of_epoch = self._by_epoch.get(batch.epoch)
        if of_epoch is None:
            of_epoch = self._by_epoch[batch.epoch] = _EpochBatches()
        clash = of_epoch.add(batch, where, event)
        if clash is None or not self._once((clash[0], batch)):
            return ()
        other, other_where, other_event = clash
        there, here = _appender(other_event, other_where), _appender(event, where)
        return [
            self._anomaly(
                f"two contents at offset {max(other.base, batch.base)} of epoch {batch.epoch}:"
                f" {there} {other}, {here} {batch}",
                other_event,
                event,
                offset=max(other.base, batch.base),
                epoch=batch.epoch,
            )
        ]


def _appender(event: Event | None, where: str) -> str:
    """Tell who has a batch: who told of it, or else where it was found."""
    return where if event is None else f"n{event['node']} appended ({label(event)})"


class _EpochBatches:
    """The batches of one epoch, to be found by the offsets they share."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._seen: dict[int, tuple[Batch, str, Event | None]] = {}

    def add(
        self, batch: Batch, where: str, event: Event | None
    ) -> tuple[Batch, str, Event | None] | None:
        """Another batch on some of the same offsets; without one, the batch is kept."""
        same = self._seen.get(batch.base)
        if same is not None:
            return None if same[0] == batch else same
        place = bisect_left(self._bases, batch.base)
        for base in self._bases[max(0, place - 1) : place + 1]:
            other = self._seen[base]
            if other[0].base <= batch.last and batch.base <= other[0].last:
                return other
        insort(self._bases, batch.base)
        self._seen[batch.base] = batch, where, event
        return None


class LogMatching(Invariant):
    """S8: logs that hold the same batch hold the same batches below it, as far as both retain.

    It is enough that a batch has the same batch before it everywhere: the rest is induction.
    """

    name: ClassVar[str] = "S8"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="log matching",
        promise="Two logs that hold the same batch at an offset hold the same batches before it.",
        why=(
            "A node that fetches compares only the last batch of its log with the leader's. An "
            "earlier difference stays for ever: some brokers know a topic or an ACL that others do "
            "not."
        ),
        source=(
            "KIP-595 (diverging epochs); Raft paper, 5.3 (Log Matching); KRaft TLA+ specification "
            "(LogMatching)"
        ),
    )
    listens: ClassVar[tuple[str, ...]] = ("append",)

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[Batch, tuple[Batch, str, Event | None]] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare what lies before the batch with what lies before it elsewhere."""
        replica, batch = world.here, world.appended(event)
        tail = replica.log.tail if replica.known else None
        if tail is None or tail.last + 1 != batch.base:
            return ()  # nothing known to lie before it
        return self._compare(tail, batch, event, "")

    def finish(self, logs: FinalLogs, world: World) -> Iterator[Anomaly]:
        """The same for what the disks hold after the run, which must also be without holes."""
        del world
        for node, log in sorted(logs.items()):
            batches = [stored(batch) for batch in log]
            for before, batch in pairwise(batches):
                if before.last + 1 != batch.base:
                    yield self._anomaly(
                        f"the final log of {node} jumps from offset {before.last} to {batch.base}",
                        node=node,
                    )
                yield from self._compare(before, batch, None, f"in the final log of {node}")

    def _compare(
        self, before: Batch, batch: Batch, event: Event | None, where: str
    ) -> Iterable[Anomaly]:
        self.checked += 1
        first = self._before.setdefault(batch, (before, where, event))
        if first[0] == before or not self._once((batch, before)):
            return ()
        return [
            self._anomaly(
                f"logs differ below {batch}: {_holder(first[2], first[1])} it follows {first[0]},"
                f" {_holder(event, where)} it follows {before}",
                first[2],
                event,
                offset=before.base,
            )
        ]


def _holder(event: Event | None, where: str) -> str:
    return where if event is None else f"on n{event['node']} ({label(event)})"


class NoCommittedTruncation(Invariant):
    """S10: no truncation, no restart and no snapshot removes a record that is committed.

    A snapshot keeps the records that it covers. A follower of an older leader may truncate what a
    newer leader commits, because the newer leader does not count that follower as a holder.
    """

    name: ClassVar[str] = "S10"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="no truncation of committed records",
        promise=(
            "No node removes a committed record by truncation, at a restart, or for a snapshot "
            "that does not hold it."
        ),
        why=(
            "Each copy that a node removes is one failure less that the cluster survives. With the "
            "last majority of copies, acknowledged metadata is gone."
        ),
        source=(
            "KIP-595 (truncation); KRaft TLA+ specification (Durability); KAFKA-12460; CCF #5674"
        ),
    )
    listens: ClassVar[tuple[str, ...]] = ("trunc", "start", "snap")

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Look at what a truncation or a recovery leaves out."""
        replica = world.replica(event)
        if event["t"] == "trunc":
            return self._truncation(event, replica, world)
        if event["t"] == "snap":
            return self._install(event, replica, world) if event["op"] == "install" else ()
        return self._recovery(event, replica, world)

    def _truncation(self, event: Event, replica: Replica, world: World) -> Iterator[Anomaly]:
        self.checked += 1
        to: int = event["to"]
        if replica.hwm is not None and to < replica.hwm:
            yield self._anomaly(
                f"{replica.id} truncated its log to {to}, below its high watermark {replica.hwm}"
                f" ({label(event)})",
                event,
                to=to,
                hwm=replica.hwm,
            )
        elif replica.known:
            yield from self._removed(event, replica, to, replica.log.end or 0, world)

    def _recovery(self, event: Event, replica: Replica, world: World) -> Iterator[Anomaly]:
        flushed = replica.log.flushed
        if not replica.known or replica.log.end is None:
            return
        self.checked += 1
        if event["leo"] < flushed:
            yield from self._removed(event, replica, event["leo"], flushed, world)

    def _install(self, event: Event, replica: Replica, world: World) -> Iterator[Anomaly]:
        end, log_end = event["id"][0], replica.log.end
        if replica.known and log_end is not None:
            self.checked += 1
            yield from self._removed(event, replica, end, log_end, world)

    def _removed(
        self, event: Event, replica: Replica, low: int, high: int, world: World
    ) -> Iterator[Anomaly]:
        for batch in replica.log.between(low, high):
            if world.commits.contains(batch):
                found = world.commits.overlapping(batch)
                committed = None if found is None else found[1]
                if event["t"] == "trunc" and committed and committed["ep"] > event["ep"]:
                    continue
                how = {"trunc": "truncation", "snap": "snapshot"}.get(event["t"], "restart")
                yield self._anomaly(
                    f"{replica.id} lost the committed {batch} by a {how} to {low} ({label(event)})",
                    committed,
                    event,
                    offset=batch.base,
                )
                return
