"""Builds the traces, logs and histories of small clusters, healthy unless a test breaks them.

A ``Trace`` plays a quorum step by step the way healthy nodes would write it down. A test takes a
healthy trace and adds, drops or changes a single event to break one promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from checkers.invariants.fold import MakeFold, fold
from harness.history import History, Op
from harness.protocols import LogBatch, RunData
from harness.spec import RunSpec

MS = 1_000_000
RX_LAG_NS = 3 * MS
Event = dict[str, Any]


@dataclass
class Disk:
    """What one node of the builder has."""

    node: int
    inc: int = 0
    seq: int = 0
    epoch: int = 0
    leader: int | None = None
    voted: int | None = None
    log: list[LogBatch] = field(default_factory=list)
    flushed: int = 0
    hwm: int = 0

    @property
    def dir(self) -> str:
        return f"{self.node:032x}"

    @property
    def end(self) -> int:
        return self.log[-1].last + 1 if self.log else 0

    @property
    def last_epoch(self) -> int:
        return self.log[-1].epoch if self.log else 0


class RecordsFold:
    """A state that is the list of all records so far: any difference shows."""

    def __init__(self) -> None:
        self._records: list[str] = []

    @property
    def digest(self) -> str:
        return blake2b("\n".join(self._records).encode(), digest_size=8).hexdigest()

    def apply(self, record: Mapping[str, Any], offset: int) -> None:
        self._records.append(f"{offset} {sorted(record['fields'].items())}")


class Trace:
    """A quorum of ``voters`` nodes and some observers, writing events."""

    def __init__(
        self, voters: int = 3, observers: int = 0, make_fold: MakeFold = RecordsFold
    ) -> None:
        self.make_fold = make_fold
        self.voters = list(range(1, voters + 1))
        self.observers = list(range(voters + 1, voters + observers + 1))
        self.disks = {n: Disk(n) for n in [*self.voters, *self.observers]}
        self.events: dict[str, list[Event]] = {f"n{n}": [] for n in self.disks}
        self.ops: list[Op] = []
        self.now_ns = 1_000 * MS
        self._incs = 0

    # ------------------------------------------------------------------ single events

    def emit(self, node: int, type_: str, ep: int | None = None, **fields: Any) -> Event:
        """One event of a node, later than all before it."""
        disk = self.disks[node]
        disk.seq += 1
        self.now_ns += MS
        event: Event = {
            "ts": self.now_ns,
            "rx_ns": self.now_ns + RX_LAG_NS,
            "seq": disk.seq,
            "node": node,
            "dir": disk.dir,
            "inc": disk.inc,
            "ep": disk.epoch if ep is None else ep,
            "t": type_,
            **fields,
        }
        self.events[f"n{node}"].append(event)
        return event

    def start(self, *nodes: int) -> None:
        """Processes start (again); a crash keeps what was appended."""
        for node in nodes or self.disks:
            disk = self.disks[node]
            self._incs += 1
            disk.inc, disk.seq, disk.hwm = 1_000 + self._incs, 0, 0
            disk.flushed = disk.end
            self.emit(
                node,
                "start",
                leo=disk.end,
                last_ep=disk.last_epoch,
                log_start=0,
                flushed=disk.flushed,
                qs=self._quorum(disk),
                voters=self.voters,
                roles=["controller" if node in self.voters else "broker"],
            )

    @staticmethod
    def _quorum(disk: Disk) -> dict[str, Any]:
        voted_dir = None if disk.voted is None else f"{disk.voted:032x}"
        return {
            "ep": disk.epoch,
            "leader": disk.leader,
            "voted": disk.voted,
            "voted_dir": voted_dir,
        }

    def persist(
        self, node: int, epoch: int, *, leader: int | None = None, voted: int | None = None
    ) -> Event:
        """Write quorum-state; a vote of the same epoch is kept."""
        disk = self.disks[node]
        if epoch == disk.epoch and voted is None:
            voted = disk.voted
        disk.epoch, disk.leader, disk.voted = epoch, leader, voted
        state = self._quorum(disk)
        del state["ep"]
        return self.emit(node, "qs", **state)

    def role(self, node: int, to: str, **fields: Any) -> Event:
        """A change of role in the node's present epoch."""
        fields = {"from": "unattached", "leader": None, "voted": None, "why": "test"} | fields
        return self.emit(node, "role", to=to, **fields)

    def grant(self, node: int, candidate: int, *, ok: bool = True, pre: bool = False) -> Event:
        """Answer a vote request in the node's present epoch."""
        disk, asks = self.disks[node], self.disks[candidate]
        return self.emit(
            node,
            "vote",
            pre=pre,
            ok=ok,
            cand=candidate,
            cand_dir=asks.dir,
            cl_ep=asks.last_epoch,
            cl_leo=asks.end,
            my_ep=disk.last_epoch,
            my_leo=disk.end,
            err=0,
        )

    # ------------------------------------------------------------------ whole steps

    def elect(self, winner: int, epoch: int, voters: Iterable[int] | None = None) -> None:
        """An election that ``winner`` wins with the votes of ``voters``; appends LeaderChange."""
        others = [v for v in (self.voters if voters is None else voters) if v != winner]
        self.persist(winner, epoch, voted=winner)
        self.role(winner, "candidate", voted=winner)
        for other in others:
            self.emit(winner, "votereq", pre=False, to=other)
        for other in others:
            self.persist(other, epoch, voted=winner)
            self.grant(other, winner)
        disk = self.disks[winner]
        self.persist(winner, epoch, leader=winner)
        self.role(winner, "leader", leader=winner)
        self.emit(winner, "elected", grants=[winner, *others], voters=self.voters, es=disk.end)
        self.append(winner, control=True)
        self.flush(winner)
        for other in [*others, *self.observers]:
            self.follow(other, winner)

    def follow(self, node: int, leader: int) -> None:
        """A node learns of the leader."""
        self.persist(node, self.disks[leader].epoch, leader=leader)
        self.role(node, "follower", leader=leader)

    def append(
        self, leader: int, *records: Mapping[str, Any], control: bool = False, crc: int = 0
    ) -> LogBatch:
        """The leader appends one batch."""
        disk = self.disks[leader]
        base = disk.end
        numbered = tuple({"offset": base + i, **record} for i, record in enumerate(records))
        last = base + max(1, len(records)) - 1
        crc = crc or disk.epoch * 1_000_000 + base + 7
        batch = LogBatch(base, last, disk.epoch, crc, control, numbered)
        self.store(leader, batch, src="leader")
        return batch

    def store(self, node: int, batch: LogBatch, *, src: str = "follower") -> Event:
        """Put a batch into a node's log."""
        self.disks[node].log.append(batch)
        return self.emit(
            node,
            "append",
            base=batch.base,
            last=batch.last,
            bep=batch.epoch,
            h=batch.crc,
            ctl=batch.control,
            src=src,
        )

    def flush(self, node: int) -> Event:
        """Fsync all of a node's log."""
        disk = self.disks[node]
        disk.flushed = disk.end
        return self.emit(node, "flush", upto=disk.end)

    def truncate(self, node: int, to: int) -> Event:
        """Drop the end of a node's log."""
        disk = self.disks[node]
        was = disk.end
        disk.log = [batch for batch in disk.log if batch.last < to]
        disk.flushed = min(disk.flushed, to)
        return self.emit(node, "trunc", to=to, was=was, why="diverging")

    def fetch(self, node: int, leader: int) -> Event:
        """A fetch leaves at the node's log end."""
        disk = self.disks[node]
        return self.emit(node, "fetch_tx", off=disk.end, last_ep=disk.last_epoch, to=leader)

    def replicate(self, leader: int, *nodes: int) -> None:
        """Followers copy, flush what they copied, and fetch again."""
        source = self.disks[leader]
        for node in nodes or [n for n in self.disks if n != leader]:
            disk = self.disks[node]
            common = sum(a == b for a, b in zip(disk.log, source.log, strict=False))
            if common < len(disk.log):
                self.truncate(node, disk.log[common].base)
            for batch in source.log[common:]:
                self.store(node, batch)
            self.flush(node)
            self.fetch(node, leader)

    def commit(self, leader: int, *nodes: int) -> int:
        """The leader's high watermark goes to its log end, then that of the nodes."""
        value = self.disks[leader].end
        acks = {str(v): self.disks[v].end for v in self.voters}
        self.raise_hwm(leader, value, as_="leader", acks=acks, voters=self.voters)
        for node in nodes or [n for n in self.disks if n != leader]:
            as_ = "follower" if node in self.voters else "observer"
            self.raise_hwm(node, value, as_=as_)
        return value

    def raise_hwm(self, node: int, value: int, *, as_: str, **fields: Any) -> None:
        """Expose a high watermark and apply up to it."""
        disk = self.disks[node]
        before, disk.hwm = disk.hwm, value
        told: dict[str, Any] = {"v": value, "as": as_, **fields}
        self.emit(node, "hwm", **told)
        digest = self.digest(node, value)
        self.emit(node, "apply", off=value, n=value - before, st=digest)
        if node in self.observers:
            self.emit(node, "image", off=value, digest=digest)

    def digest(self, node: int, below: int) -> str:
        """What the node's state is at an offset."""
        return fold(self.disks[node].log, below, self.make_fold).digests.get(below, "?")

    def write(self, leader: int, key: str, value: int, *nodes: int) -> int:
        """A register write from invocation to acknowledgement; returns its offset."""
        invoked = self.op("invoke", "write", value, key=key)
        batch = self.append(leader, register_record(key, value))
        self.replicate(leader, *nodes)
        self.flush(leader)
        self.commit(leader, *nodes)
        self.emit(leader, "ack", api="IncrementalAlterConfigs", off=batch.last, hwm=batch.last + 1)
        self.op("ok", "write", value, key=key, process=invoked.process)
        return batch.last

    def op(
        self,
        type_: Any,
        f: str,
        value: Any = None,
        *,
        key: str | None = None,
        process: int | str = 0,
        **fields: Any,
    ) -> Op:
        """One op of the history, later than all before it."""
        self.now_ns += MS
        op = Op(len(self.ops), self.now_ns, process, type_, f, value, key, **fields)
        self.ops.append(op)
        return op

    # ------------------------------------------------------------------ results

    def run(self, **changes: Any) -> RunData:
        """All of it, as checkers get it."""
        fields: dict[str, Any] = {
            "spec": RunSpec(seed=1),
            "history": History(self.ops),
            "events": {node: tuple(events) for node, events in self.events.items()},
            "logs": {f"n{n}": tuple(disk.log) for n, disk in self.disks.items()},
            "voters": tuple(f"n{n}" for n in self.voters),
            "observers": tuple(f"n{n}" for n in self.observers),
        }
        return RunData(**(fields | changes))


def register_record(key: str, value: object) -> dict[str, Any]:
    """The metadata record of a register write."""
    return {
        "type": "ConfigRecord",
        "fields": {
            "resource_type": 2,
            "resource_name": f"register-{key}",
            "name": "retention.ms",
            "value": str(value),
        },
    }


def topic_record(name: str, topic_id: str) -> dict[str, Any]:
    """The metadata record of a created topic."""
    return {"type": "TopicRecord", "fields": {"name": name, "topic_id": topic_id}}


def healthy(voters: int = 3, observers: int = 1, make_fold: MakeFold = RecordsFold) -> Trace:
    """Two leaders, writes under both, a divergent tail cut off, and a crash of a follower."""
    trace = Trace(voters, observers, make_fold)
    trace.start()
    trace.elect(1, 1)
    trace.replicate(1)
    trace.commit(1)
    for value in (1, 2, 3):
        trace.write(1, "r0", value)
    trace.append(1, register_record("r9", 99))  # never leaves the old leader
    trace.elect(2, 2, voters=[v for v in trace.voters if v != 1])
    trace.follow(1, 2)
    trace.replicate(2)
    trace.commit(2)
    trace.start(3)
    trace.follow(3, 2)
    trace.write(2, "r0", 4)
    return trace
