"""Invariant of recovery: a disk keeps what was flushed to it, and nothing else appears there.

Source: KIP-595 on durable logs; etcd #14143, Redpanda #2932.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from checkers.replay.invariant import FinalLogs, Invariant
from checkers.replay.trace import Event, ReplicaId, label, replica_of
from checkers.replay.world import Batch, Replica, World, stored
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class Recovery(Invariant):
    """S25: after a restart, and at the end, a log holds what was flushed and not cut since.

    A process that was killed may have cut its log without telling: what no leader could have asked
    it to cut is missed at a start. After an orderly stop the trace is all there is to the log.
    """

    name: ClassVar[str] = "S25"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="recovery",
        promise=(
            "After a restart a log holds all that was flushed and not cut since, and nothing else."
        ),
        why=(
            "The leader counts on what a voter has flushed. If a restart loses some of it or "
            "brings back what was cut, a committed change is on fewer disks than the quorum needs."
        ),
        source="KIP-595; Kafka's LogLoader; KAFKA-14104; etcd #14143",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "stop")
    uses: ClassVar[tuple[str, ...]] = ("qs",)

    def __init__(self) -> None:
        super().__init__()
        self._stopped: set[ReplicaId] = set()

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare what a start finds with what was flushed before."""
        replica = replica_of(event)
        if event["t"] == "stop":
            self._stopped.add(replica)
            return ()
        self._stopped.discard(replica)
        return self._start(event, world.replica(event), world)

    def _start(self, event: Event, replica: Replica, world: World) -> Iterator[Anomaly]:
        log, end = replica.log, event["leo"]
        if not replica.known or log.end is None or not world.whole:
            return
        self.checked += 1
        for batch in log.between(end, log.flushed) if end < log.flushed else ():
            if not _may_be_cut(batch, event, replica, world):
                yield self._anomaly(
                    f"{replica.id} had flushed its log up to {log.flushed}, and found {batch}"
                    f" missing at a restart: its log ends at {end} ({label(event)})",
                    event,
                    flushed=log.flushed,
                    end=end,
                )
                return

    def finish(self, logs: FinalLogs, world: World) -> Iterator[Anomaly]:
        """Compare the logs of nodes that stopped in good order with their traces."""
        for replica in [world.replicas[id_] for id_ in sorted(self._stopped)]:
            node = str(replica.id)
            if not replica.known or replica.log.end is None or node not in logs:
                continue
            self.checked += 1
            found = [stored(batch) for batch in logs[node]]
            yield from self._final(node, replica, found)

    def _final(self, node: str, replica: Replica, found: list[Batch]) -> Iterator[Anomaly]:
        log = replica.log
        end = found[-1].last + 1 if found else log.start
        if end < log.flushed:
            yield self._anomaly(
                f"the final log of {node} ends at {end}, but {node} had flushed up to"
                f" {log.flushed}",
                node=node,
            )
        for batch in found:
            own = log.at(batch.base)
            if batch.base >= log.start and own != batch and log.knows(batch.base):
                told = "nothing" if own is None else str(own)
                yield self._anomaly(
                    f"the final log of {node} holds {batch}, where its trace tells of {told}",
                    node=node,
                    offset=batch.base,
                )
                return


def _may_be_cut(batch: Batch, event: Event, replica: Replica, world: World) -> bool:
    """Tell whether a leader may have had the batch cut just before the process was killed.

    A leader cuts nothing, and has others cut only what it has not itself.
    """
    epoch, before = event["qs"].get("ep"), replica.quorum
    if before is None or before.epoch != epoch:
        return True
    leader = next((r for r in world.replicas.values() if epoch in r.epoch_starts), None)
    if leader is None or leader is replica:
        return False
    return not leader.known or leader.log.at(batch.base) != batch
