"""Builds the traces, logs and histories of small clusters, healthy unless a test breaks them.

A ``Trace`` plays a quorum step by step the way healthy nodes would write it down. A test takes a
healthy trace and adds, drops or changes a single event to break one promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from checkers.committed.fold import MakeFold, fold
from checkers.committed.reference import Reference
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch, LogSnapshot
from harness.history.ops import History, Op
from harness.spec import RunSpec
from node.metadata.image import ImageError

MS = 1_000_000
RX_LAG_NS = 3 * MS
QUORUM_MS = 3000  # of check quorum
VOTERS_RECORD = "KRaftVotersRecord"
Event = dict[str, Any]
Key = tuple[int, str]  # node and directory id


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
    covered: list[LogBatch] = field(default_factory=list)  # by its snapshot, and not in its log
    flushed: int = 0
    hwm: int = 0
    applied: int = 0
    active: bool = False  # its controller
    start: int = 0
    snapshots: dict[int, int] = field(default_factory=dict)  # epoch by end offset
    voters: list[tuple[int, list[Key]]] = field(default_factory=list)  # sets by offset

    @property
    def dir(self) -> str:
        return f"{self.node:032x}"

    @property
    def end(self) -> int:
        return self.log[-1].last + 1 if self.log else self.start

    @property
    def last_epoch(self) -> int:
        return self.log[-1].epoch if self.log else self.snapshots.get(self.start, 0)


class RecordsFold:
    """A state that is the list of all records so far: any difference shows."""

    def __init__(self) -> None:
        self._records: list[str] = []

    def load(self, records: Sequence[Mapping[str, Any]], end: int) -> None:
        self._records = []
        for record in records:
            if record["offset"] >= end:
                raise ImageError(f"{record['offset']} in a snapshot of all below {end}")
            self.apply(record, record["offset"])

    @property
    def digest(self) -> str:
        return blake2b("\n".join(self._records).encode(), digest_size=8).hexdigest()

    def open_digest(self) -> str | None:
        return None

    def bare_digest(self) -> str | None:
        return None

    def without_eligible(self) -> RecordsFold:
        return self

    def topic_settings(self) -> Mapping[str, str]:
        return {}

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
        self.contents: dict[int, LogSnapshot] = {}  # of the snapshots, by end offset
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

    def start(self, *nodes: int, flushed: int | None = None) -> None:
        """Processes start (again); a crash keeps what was appended, flushed or not."""
        for node in nodes or self.disks:
            disk = self.disks[node]
            self._incs += 1
            disk.inc, disk.seq, disk.hwm = 1_000 + self._incs, 0, 0
            disk.flushed = disk.end if flushed is None else flushed
            disk.applied, disk.active = max(disk.snapshots, default=0), False
            self.emit(
                node,
                "start",
                leo=disk.end,
                last_ep=disk.last_epoch,
                log_start=disk.start,
                flushed=disk.flushed,
                qs=self._quorum(disk),
                snaps=[[end, epoch] for end, epoch in sorted(disk.snapshots.items())],
                voters=[key[0] for key in disk.voters[-1][1]] if disk.voters else self.voters,
                roles=["controller" if node in self.voters else "broker"],
            )
            state = self._quorum(disk)
            written = state["ep"] or state["voted"] or state["leader"]
            self.left(node, "quorum-state", state if written else None)
            self.durable(node, disk.start)

    @staticmethod
    def _quorum(disk: Disk) -> dict[str, Any]:
        voted_dir = None if disk.voted is None else f"{disk.voted:032x}"
        return {
            "ep": disk.epoch,
            "leader": disk.leader,
            "voted": disk.voted,
            "voted_dir": voted_dir,
        }

    def left(self, node: int, file: str, *may: dict[str, Any] | None, torn: bool = False) -> Event:
        """The simulated host tells what a loss of power may leave of a file."""
        return self.emit(node, "left", file=file, may=list(may), torn=torn)

    def durable(self, node: int, since: int, **changes: Any) -> Event:
        """The simulated host tells what a loss of power would leave of the log, from an offset."""
        disk = self.disks[node]
        batches = [[b.base, b.last, b.epoch, b.crc] for b in disk.log if since <= b.base]
        fields: dict[str, Any] = {"begin": disk.start, "upto": disk.end, "from": since}
        fields |= {"batches": batches, "back": []}
        return self.emit(node, "durable", **(fields | changes))

    def damage(self, node: int, what: str) -> Event:
        """The disk of a node that is down is damaged."""
        self._incs += 1
        self.disks[node].inc, self.disks[node].seq = 1_000 + self._incs, 0
        return self.emit(node, "disk", what=what)

    def persist(
        self, node: int, epoch: int, *, leader: int | None = None, voted: int | None = None
    ) -> Event:
        """Write quorum-state; a vote of the same epoch is kept."""
        disk = self.disks[node]
        if epoch == disk.epoch and voted is None:
            voted = disk.voted
        disk.epoch, disk.leader, disk.voted = epoch, leader, voted
        state = self._quorum(disk)
        self.left(node, "quorum-state", state)
        state = {name: value for name, value in state.items() if name != "ep"}
        return self.emit(node, "qs", **state)

    def role(self, node: int, to: str, **fields: Any) -> Event:
        """A change of role in the node's present epoch."""
        fields = {"from": "unattached", "leader": None, "voted": None, "why": "test"} | fields
        event = self.emit(node, "role", to=to, **fields)
        disk = self.disks[node]
        if disk.active and to != "leader":
            disk.active = False
            self.emit(node, "renounce", applied=disk.applied, kept=0)
        return event

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
            req_ep=disk.epoch,
            err=0,
            due=(5_000, 5_000),
        )

    # ------------------------------------------------------------------ whole steps

    def elect(self, winner: int, epoch: int, voters: Iterable[int] | None = None) -> None:
        """An election that ``winner`` wins with the votes of ``voters``; appends LeaderChange."""
        others = [v for v in (self.voters if voters is None else voters) if v != winner]
        self.role(winner, "prospective", by=None)
        for other in others:
            self.emit(winner, "votereq", pre=True, to=other)
            if self.role_of(other) != "leader":
                self.role(other, "prospective", by=None)  # it misses its leader, too
            self.grant(other, winner, pre=True)
        self.persist(winner, epoch, voted=winner)
        self.role(winner, "candidate", voted=winner, by=None)
        for other in others:
            self.emit(winner, "votereq", pre=False, to=other)
        for other in others:
            self.persist(other, epoch, voted=winner)
            self.grant(other, winner)
        disk = self.disks[winner]
        self.persist(winner, epoch, leader=winner)
        self.role(winner, "leader", leader=winner)
        fields: dict[str, Any] = {"grants": [winner, *others], "voters": self.in_force(winner)}
        self.emit(winner, "elected", **fields, es=disk.end, quorum_ms=QUORUM_MS)
        self.append(winner, control=True)
        self.flush(winner)
        for other in [*others, *self.observers]:
            self.follow(other, winner)

    def role_of(self, node: int) -> str | None:
        """The role of a node's process, as far as it has told."""
        told = [e for e in self.events[f"n{node}"] if e["t"] == "role"]
        return told[-1]["to"] if told and told[-1]["inc"] == self.disks[node].inc else None

    def follow(self, node: int, leader: int) -> None:
        """A node learns of the leader."""
        self.persist(node, self.disks[leader].epoch, leader=leader)
        self.role(node, "follower", leader=leader, by="BeginQuorumEpochRequest")

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
        disk = self.disks[node]
        disk.log.append(batch)
        fields = {"base": batch.base, "last": batch.last, "bep": batch.epoch, "h": batch.crc}
        event = self.emit(node, "append", **fields, ctl=batch.control, src=src)
        for record in batch.records:
            if record.get("type") == VOTERS_RECORD:
                disk.voters.append((batch.base, record["fields"]["voters"]))
                self._voters(node, revert=False)
        return event

    def _voters(self, node: int, *, revert: bool) -> Event:
        offset, keys = self.disks[node].voters[-1]
        return self.emit(node, "voters", off=offset, set=keys, kv=1, revert=revert)

    def in_force(self, node: int) -> list[Any]:
        """The voters as the node's log has them: keys, or ids while none are in the log."""
        voters = self.disks[node].voters
        return voters[-1][1] if voters else self.voters

    def change_voters(self, leader: int, *nodes: int) -> LogBatch:
        """The leader appends another voter set."""
        keys = [(node, self.disks[node].dir) for node in nodes]
        record = {"type": VOTERS_RECORD, "fields": {"voters": keys}}
        return self.append(leader, record, control=True)

    # ------------------------------------------------------------------ snapshots

    def freeze(self, node: int, **changes: Any) -> Event:
        """The node makes a snapshot of all that it knows to be committed."""
        disk = self.disks[node]
        last = next(b for b in reversed(disk.log) if b.last < disk.hwm)
        disk.snapshots[last.last + 1] = last.epoch
        id_ = [last.last + 1, last.epoch]
        keys = [keys for offset, keys in disk.voters if offset <= last.last]
        records = [r for b in self._whole(disk) if b.last < id_[0] for r in b.records]
        self.contents[id_[0]] = LogSnapshot(id_[0], last.epoch, tuple(_data(records)))
        fields: dict[str, Any] = {"id": id_, "size": 100, "sha": f"{id_}", "kv": len(keys[:1])}
        fields["voters"] = keys[-1] if keys else None
        self.left_snapshot(node, id_, fields)
        return self.emit(node, "snap", op="freeze", **(fields | changes))

    def left_snapshot(self, node: int, id_: list[int], fields: Mapping[str, Any]) -> Event:
        """The simulated host tells that a snapshot is on the disk."""
        file = f"{id_[0]:020d}-{id_[1]:010d}.checkpoint"
        return self.left(node, file, {"size": fields.get("size"), "sha": fields.get("sha")})

    def clean(self, node: int) -> Event:
        """The node's log begins after its newest snapshot."""
        disk = self.disks[node]
        for end in sorted(disk.snapshots)[:-1]:
            self.emit(node, "snap", op="delete", id=[end, disk.snapshots.pop(end)], size=100)
        disk.start = max(disk.snapshots)
        disk.covered += [batch for batch in disk.log if batch.base < disk.start]
        disk.log = [batch for batch in disk.log if batch.base >= disk.start]
        return self.emit(node, "lstart", v=disk.start)

    def install(self, node: int, leader: int) -> Event:
        """The node gets the leader's newest snapshot, and its log begins anew after it."""
        disk, source = self.disks[node], self.disks[leader]
        end, epoch = max(source.snapshots.items())
        disk.snapshots, disk.log = {end: epoch}, []
        disk.covered = [batch for batch in self._whole(source) if batch.last < end]
        disk.start = disk.flushed = end
        keys = [each for each in source.voters if each[0] < end][-1:]
        voters = keys[0][1] if keys else None
        fields: dict[str, Any] = {
            "id": [end, epoch],
            "size": 100,
            "voters": voters,
            "kv": len(keys),
        }
        self.left_snapshot(node, [end, epoch], fields)
        event = self.emit(node, "snap", op="install", **fields)
        self.emit(node, "lstart", v=end)
        disk.voters = [(end - 1, voters)] if voters else []
        if voters:
            self._voters(node, revert=False)
        disk.hwm = disk.applied = end
        told: dict[str, Any] = {"as": "follower" if node in self.voters else "observer"}
        self.emit(node, "hwm", v=end, **told)
        return event

    def flush(self, node: int) -> Event:
        """Fsync all of a node's log."""
        disk = self.disks[node]
        self.durable(node, disk.flushed)
        disk.flushed = disk.end
        return self.emit(node, "flush", upto=disk.end)

    def truncate(self, node: int, to: int) -> Event:
        """Drop the end of a node's log."""
        disk = self.disks[node]
        was = disk.end
        disk.log = [batch for batch in disk.log if batch.last < to]
        disk.flushed = min(disk.flushed, to)
        event = self.emit(node, "trunc", to=to, was=was, why="diverging")
        left = [each for each in disk.voters if each[0] < to]
        if left and left != disk.voters:
            disk.voters = left
            self._voters(node, revert=True)
        return event

    def fetch(self, node: int, leader: int) -> Event:
        """A fetch leaves at the node's log end, and is served."""
        disk = self.disks[node]
        told = self.emit(node, "fetch_tx", off=disk.end, last_ep=disk.last_epoch, to=leader)
        self.served(node, leader)
        return told

    def read(self, leader: int, *by: int) -> Event:
        """The leader answers a read, for which these voters, or all others, have fetched anew."""
        asked = self.events[f"n{leader}"][-1]["seq"]
        for node in by or [voter for voter in self.voters if voter != leader]:
            self.served(node, leader)
        off = self.disks[leader].applied
        return self.emit(leader, "read", api="DescribeConfigs", off=off, asked=asked)

    def heard(self, leader: int, *nodes: int, ok: bool = True) -> Event:
        """The leader tells who has fetched from it, or has not."""
        keys = [(node, self.disks[node].dir, 100) for node in nodes]
        since: dict[str, Any] = {"since_ms": 1000 if ok else QUORUM_MS, "quorum_ms": QUORUM_MS}
        return self.emit(leader, "quorum", ok=ok, heard=keys, **since)

    def served(self, node: int, leader: int, **changes: Any) -> Event:
        """The leader gets a fetch of the node's log end."""
        disk, by = self.disks[node], self.disks[leader]
        fields: dict[str, Any] = {"from": node, "from_dir": disk.dir, "off": disk.end}
        fields |= {"last_ep": disk.last_epoch, "req_ep": by.epoch, "res": "ok", "end": by.end}
        return self.emit(leader, "fetch_rx", **(fields | changes))

    def replicate(self, leader: int, *nodes: int) -> None:
        """Followers copy, flush what they copied, and fetch again."""
        source = self.disks[leader]
        for node in nodes or [n for n in self.disks if n != leader]:
            disk = self.disks[node]
            both = [batch.last + 1 for batch in disk.log if batch in source.log]
            common = max([disk.start, min(disk.end, source.start), *both])
            if common < disk.end:
                self.truncate(node, common)
            for batch in source.log:
                if batch.base >= common:
                    self.store(node, batch)
            self.flush(node)
            self.fetch(node, leader)

    def commit(self, leader: int, *nodes: int) -> int:
        """The leader's high watermark goes to its log end, then that of the nodes."""
        value = self.disks[leader].end
        voters = self.in_force(leader)
        ids = [key if isinstance(key, int) else key[0] for key in voters]
        acks = [[v, self.disks[v].dir, self.disks[v].end] for v in ids]
        self.raise_hwm(leader, value, as_="leader", acks=acks, voters=voters)
        disk = self.disks[leader]
        if not disk.active:
            disk.active = True
            self.emit(leader, "claim", applied=disk.applied)
        for node in nodes or [n for n in self.disks if n != leader]:
            as_ = "follower" if node in self.voters else "observer"
            self.raise_hwm(node, value, as_=as_)
        return value

    def raise_hwm(self, node: int, value: int, *, as_: str, **fields: Any) -> None:
        """Expose a high watermark and apply up to it."""
        disk = self.disks[node]
        before, disk.hwm, disk.applied = disk.applied, value, value
        told: dict[str, Any] = {"v": value, "as": as_, **fields}
        self.emit(node, "hwm", **told)
        digest = self.digest(node, value)
        self.emit(node, "apply", off=value, n=value - before, st=digest)
        if node in self.observers:
            self.emit(node, "image", off=value, digest=digest)

    def digest(self, node: int, below: int) -> str:
        """What the node's state is at an offset."""
        known = Reference(self._whole(self.disks[node]))
        return fold(known, below, self.make_fold).digests.get(below, "?")

    @staticmethod
    def _whole(disk: Disk) -> list[LogBatch]:
        return [*disk.covered, *disk.log]

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
            "snapshots": {
                f"n{n}": tuple(self.contents[end] for end in sorted(disk.snapshots))
                for n, disk in self.disks.items()
            },
            "voters": tuple(f"n{n}" for n in self.voters),
            "observers": tuple(f"n{n}" for n in self.observers),
        }
        return RunData(**(fields | changes))


def _data(records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The records that are no control records."""
    return (record for record in records if record.get("type") != VOTERS_RECORD)


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
    trace.emit(1, "rpc_err", api="Fetch", peer=3, req_ep=1, code=74)
    trace.replicate(2)
    trace.commit(2)
    trace.start(3)
    trace.follow(3, 2)
    trace.write(2, "r0", 4)
    trace.read(2)
    return trace


def one_leader() -> Trace:
    """Three voters; node 1 leads epoch 1, and has committed one write."""
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    trace.replicate(1)
    trace.commit(1)
    trace.write(1, "r0", 1)
    return trace


def changing(voters: int = 3) -> Trace:
    """Snapshots, a cleaned log, an install, and voters that come, are taken back and go.

    Node ``voters + 1`` becomes a voter, and the leader that has seen to that is removed.
    """
    trace = Trace(voters, 2)
    late, never = voters + 1, voters + 2
    trace.start()
    trace.elect(1, 1)
    trace.change_voters(1, *trace.voters)
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    for value in (1, 2):
        trace.write(1, "r0", value, *[n for n in trace.disks if n not in (1, never)])
    for node in (1, 2, late):
        trace.freeze(node)
        trace.clean(node)
    trace.install(never, 1)
    trace.replicate(1)
    trace.change_voters(1, *trace.voters, never)
    trace.store(late, trace.disks[1].log[-1])  # and then its leader is lost for a while
    others = [v for v in trace.voters if v != 1]
    trace.elect(3, 2, voters=others)
    trace.follow(1, 3)
    trace.emit(1, "rpc_err", api="Fetch", peer=2, req_ep=2, code=6)
    trace.replicate(3)
    trace.flush(3)
    trace.commit(3)
    trace.change_voters(3, *trace.voters, late)
    trace.replicate(3)
    trace.flush(3)
    trace.commit(3)
    trace.start(2)
    trace.follow(2, 3)
    left = [v for v in [*trace.voters, late] if v != 3]
    trace.change_voters(3, *left)
    trace.replicate(3)
    trace.flush(3)
    trace.commit(3)
    trace.role(3, "resigned")
    trace.elect(1, 3, voters=left)
    trace.follow(3, 1)
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    trace.read(1, *(v for v in left if v != 1))
    return trace
