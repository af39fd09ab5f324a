"""The in-memory quorum with its trace fed to a ``Monitor``, event by event, as it happens."""

from __future__ import annotations

from typing import Any

from checkers.monitor.catalogue import invariants_for
from checkers.monitor.monitor import Monitor
from harness.verdict import Anomaly
from node.core import effects as fx
from node.core.own_log import voter_keys
from node.core.parts import CoreParts
from node.core.replica import HEALTHY
from node.core.types import ElectionState
from tests.support.raft import walk as raft_walk
from tests.support.raft.disk import Snapshot
from tests.support.raft.env import Cluster


class Unjudged:
    """Stands in for the environment's own invariants: the monitor is to find what they would."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class TracedCluster(Cluster):
    """A cluster whose replicas leave the trace that the driver would write."""

    def __init__(self, voters: int = 3, observers: int = 0, **options: Any) -> None:
        self.monitor = Monitor(invariants_for({}, checker="consensus"))
        self.anomalies: list[Anomaly] = []
        self.events: dict[str, list[dict[str, Any]]] = {}
        self._now_ns = 0
        self._seqs: dict[tuple[int, int], int] = {}
        super().__init__(voters, observers, start=False, **options)
        unjudged: Any = Unjudged()
        self.invariants = unjudged
        for node_id in self.nodes:
            self.start(node_id)

    def start(self, node_id: int) -> None:
        node = self.nodes[node_id]
        disk = node.disk
        node.incarnation += 1  # as the process about to start will be called
        self._emit(
            node_id,
            "start",
            disk.election.epoch,
            leo=disk.end,
            last_ep=disk.last_epoch,
            log_start=disk.start,
            flushed=disk.flushed,
            qs={"ep": disk.election.epoch, **_election(disk.election)},
            voters=list(self.voters_on_disk(node_id).ids),
            snaps=[list(id_) for id_ in sorted(disk.snapshots)],
            roles=[],
        )
        node.incarnation -= 1
        super().start(node_id)

    def _freeze(self, node_id: int, end: int) -> Snapshot:
        made = super()._freeze(node_id, end)
        voters = None if made.voters is None else voter_keys(made.voters)
        self._snap(node_id, "freeze", made, sha=made.sha, voters=voters, kv=made.kraft_version)
        return made

    def clean(self, node_id: int) -> bool:
        disk = self.nodes[node_id].disk
        latest = disk.latest
        for snapshot in disk.snapshots.values():
            if latest is not None and snapshot.id.offset < latest.id.offset:
                self._snap(node_id, "delete", snapshot)
        return super().clean(node_id)

    def _snap(self, node_id: int, op: str, snapshot: Snapshot, **fields: Any) -> None:
        id_, epoch = list(snapshot.id), self.nodes[node_id].up.epoch
        self._emit(node_id, "snap", epoch, op=op, id=id_, size=snapshot.info.size, **fields)

    def _apply(self, node_id: int, effect: fx.Effect) -> None:
        super()._apply(node_id, effect)
        if isinstance(effect, fx.Trace):
            self._emit(node_id, effect.type, effect.epoch, **dict(effect.fields))
        elif isinstance(effect, fx.AppendAsLeader):
            batch = self.nodes[node_id].disk.batches[-1]
            self._emit(
                node_id,
                "append",
                effect.epoch,
                base=batch.base_offset,
                last=batch.last_offset,
                bep=batch.epoch,
                h=batch.crc,
                ctl=batch.is_control,
                src="leader",
            )

    def _emit(self, node_id: int, type_: str, epoch: int, **fields: Any) -> None:
        incarnation = self.nodes[node_id].incarnation
        seq = self._seqs[node_id, incarnation] = self._seqs.get((node_id, incarnation), 0) + 1
        self._now_ns += 1
        directory_id = self.nodes[node_id].key.directory_id
        dir_ = f"{node_id:032x}" if directory_id is None else directory_id.hex
        common = {"ts": self._now_ns, "seq": seq, "node": node_id, "dir": dir_}
        event = {**common, "inc": incarnation, "ep": epoch, "t": type_, **fields}
        self.events.setdefault(f"n{node_id}", []).append(event)
        self.anomalies += self.monitor.feed(event)


def _election(state: ElectionState) -> dict[str, Any]:
    directory_id = None if state.voted is None else state.voted.directory_id
    return {
        "leader": state.leader_id,
        "voted": None if state.voted is None else state.voted.id,
        "voted_dir": None if directory_id is None else directory_id.hex,
    }


def walk(
    seed: int, steps: int, *, kind: str = "static", core: CoreParts = HEALTHY
) -> TracedCluster:
    """Take a random walk and give its cluster; a buggy core may end it early by a crash."""
    journey = raft_walk.Walk(seed, kind=kind, core=core)
    cluster = journey.cluster
    assert isinstance(cluster, TracedCluster), "raft_walk.Cluster is to be replaced by a fixture"
    try:
        journey.run(steps)
    except AssertionError:
        assert core is not HEALTHY, "a healthy replica broke the environment"
    return cluster
