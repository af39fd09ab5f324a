"""A quorum of replicas in memory: every message, timer, flush and crash is the test's to decide.

Each node has its own clock, so that one timer can expire and no other. A message waits in
``Cluster.wire`` until the test delivers, drops or duplicates it. What happens is kept as readable
lines (``Cluster.lines``) and shown to the ``Invariants`` after every step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from node.core import effects as fx
from node.core import inputs
from node.core.messages import (
    AddVoterRequest,
    FetchResponse,
    FetchSnapshotResponse,
    Records,
    RemoveVoterRequest,
    Request,
    Response,
    UpgradeVersionRequest,
    VoterChangeResponse,
)
from node.core.parts import CoreParts
from node.core.replica import HEALTHY, Replica, ReplicaConfig
from node.core.types import (
    KRAFT_VERSIONS,
    OffsetAndEpoch,
    ReplicaKey,
    Voter,
    VoterSet,
)
from tests.support.raft.disk import BOOTSTRAP, Disk, Snapshot
from tests.support.raft.invariants import Invariants
from tests.support.raft.lines import describe
from tests.support.raft.node import Message, Node, directory, endpoint, listeners

CLUSTER_ID = "raft-env"
ADMIN = 0  # who asks for voter changes
__all__ = [
    "ADMIN",
    "CLUSTER_ID",
    "Cluster",
    "Message",
    "Node",
    "directory",
    "endpoint",
    "listeners",
]


class Cluster:
    """Voters 1..n and observers n+1..n+m.

    With ``dynamic`` the voters are in the log: nodes 1..n begin with a bootstrap snapshot that
    names them, and the observers are controllers that may become voters. With ``upgrading`` they
    are static to begin with, and may be told to put themselves into the log.
    """

    def __init__(  # noqa: PLR0913 - the knobs of a bench
        self,
        voters: int = 3,
        observers: int = 0,
        *,
        seed: int = 0,
        core: CoreParts = HEALTHY,
        start: bool = True,
        reset_loses: bool = False,
        dynamic: bool = False,
        upgrading: bool = False,
        **timers: Any,
    ) -> None:
        self.rng = Random(seed)
        self.core = core
        self.wire: list[Message] = []
        self.reset_loses = reset_loses  # requests die with their connection; else they arrive late
        self.cut: set[tuple[int, int]] = set()  # (source, target) pairs that hear nothing
        self.lines: list[str] = []
        self.effects: list[tuple[int, fx.Effect]] = []  # of the last step
        self.invariants = Invariants(self)
        self.barriers: dict[int, str] = {}
        self.dynamic = dynamic or upgrading
        self.upgrading = upgrading
        self.frozen: dict[OffsetAndEpoch, Snapshot] = {}  # every snapshot there ever was
        self.lost: dict[ReplicaKey, Disk] = {}  # by the key that they gave their nodes
        self.changes: dict[int, str] = {}  # voter changes by number, and how they ended
        self.answering: Request | None = None  # the request that the last reply was for
        self._counter = 0
        self.voters = VoterSet.of(*(self._voter(i) for i in range(1, voters + 1)))
        self._timers = timers
        self._sizes = voters, voters + observers
        self.nodes: dict[int, Node] = {}
        for i in range(1, voters + observers + 1):
            self.nodes[i] = Node(self._config(i, self._key(i)), self._disk(i))
        if start:
            for i in self.nodes:
                self.start(i)

    # -------------------------------------------------------------- making it

    def _key(self, node_id: int, disk: int = 0) -> ReplicaKey:
        return ReplicaKey(node_id, directory(node_id, disk) if self.dynamic else None)

    def _voter(self, node_id: int) -> Voter:
        if self.upgrading or not self.dynamic:
            return Voter(ReplicaKey(node_id), endpoint(node_id))
        return Voter(self._key(node_id), endpoint(node_id), listeners(node_id), KRAFT_VERSIONS)

    def _config(self, node_id: int, key: ReplicaKey) -> ReplicaConfig:
        voters, nodes = self._sizes
        known = nodes if self.dynamic else voters
        return ReplicaConfig(
            key=key,
            cluster_id=CLUSTER_ID,
            voters=self.voters if self.upgrading or not self.dynamic else VoterSet({}),
            endpoint=endpoint(node_id),
            listeners=listeners(node_id) if self.dynamic else (),
            bootstrap=tuple(endpoint(v) for v in range(1, known + 1)),
            flush_before_fetch=self.dynamic or node_id <= voters,
            **self._timers,
        )

    def _disk(self, node_id: int) -> Disk:
        disk = Disk()
        if self.dynamic and not self.upgrading and node_id <= self._sizes[0]:
            disk.snapshots[BOOTSTRAP] = Snapshot(BOOTSTRAP, (), self.voters, 1)
        return disk

    def voters_on_disk(self, node_id: int) -> VoterSet:
        """The newest voter set in a node's log, else the static one."""
        node = self.nodes[node_id]
        sets = node.disk.voter_sets()
        return sets[-1][1] if sets else node.config.voters

    def disk_of(self, key: ReplicaKey) -> Disk:
        """The disk of that very key, wiped or not."""
        node = self.nodes[key.id]
        return node.disk if key.matches(node.key) else self.lost[key]

    # -------------------------------------------------------------- processes

    def count(self) -> int:
        """A number never given before."""
        self._counter += 1
        return self._counter

    def start(self, node_id: int) -> None:
        node = self.nodes[node_id]
        assert node.replica is None, f"node {node_id} is already up"
        node.incarnation += 1
        node.replica = Replica(
            node.config,
            node.disk.election,
            node.disk.state(),
            Random(self.rng.random()),
            self.core,
        )
        self._run(node_id, node.replica.start(node.now_ms))

    def crash(self, node_id: int, *, keep: int | None = None) -> None:
        """Stop at once; of the unflushed records those below ``keep`` survive, by default none."""
        node = self.nodes[node_id]
        self.invariants.crashed(node_id)
        node.replica = None
        node.disk.crash(keep or 0)
        node.pending.clear()
        node.tokens.clear()
        node.flushes.clear()
        node.connections.clear()
        # The kernel may still deliver what had been sent; answers to it go nowhere.

    def wipe(self, node_id: int) -> None:
        """A stopped node gets a new disk, formatted without voters."""
        node = self.nodes[node_id]
        assert node.replica is None, f"node {node_id} is up"
        self.lost[node.key] = node.disk
        node.config = self._config(node_id, self._key(node_id, self.count()))
        node.disk = Disk()

    def step(self, node_id: int, input_: inputs.Input) -> None:
        node = self.nodes[node_id]
        self._run(node_id, node.up.step(input_, node.now_ms))

    # -------------------------------------------------------------- time

    def advance(self, node_id: int, ms: int) -> None:
        """Let time pass for one node, in the steps that its own timers ask for."""
        node = self.nodes[node_id]
        until_ms = node.now_ms + ms
        while node.replica is not None:
            due = [due for _, due in node.pending.values()]
            deadline_ms = node.up.next_deadline_ms()
            due += [] if deadline_ms is None else [deadline_ms]
            if not due or min(due) > until_ms:
                break
            before = (node.now_ms, len(self.lines), len(node.pending))
            node.now_ms = max(node.now_ms, min(due))
            self._tick(node_id)
            if before == (node.now_ms, len(self.lines), len(node.pending)):
                raise AssertionError(f"node {node_id} spins: due at {deadline_ms}, does nothing")
        node.now_ms = until_ms
        if node.replica is not None:
            self._tick(node_id)

    def expire(self, node_id: int) -> None:
        """Let exactly so much time pass that the node's role timer fires."""
        node = self.nodes[node_id]
        before = node.up.role, node.up.epoch
        for _ in range(10_000):
            if (node.up.role, node.up.epoch) != before:
                return
            deadline_ms = node.up.next_deadline_ms()
            assert deadline_ms is not None, f"node {node_id} waits for nothing"
            self.advance(node_id, max(0, deadline_ms - node.now_ms))
        raise AssertionError(f"node {node_id} stays {node.up.role}")

    def _tick(self, node_id: int) -> None:
        node = self.nodes[node_id]
        for peer, (correlation, due_ms) in list(node.pending.items()):
            if due_ms <= node.now_ms and node.pending.get(peer) == (correlation, due_ms):
                self.fail(node_id, peer, correlation, "timed out")
        self.step(node_id, inputs.Tick())

    # -------------------------------------------------------------- network

    def deliver(self, message: Message, *, again: bool = False) -> None:
        """Hand a message over; ``again`` leaves a copy on the wire.

        The copy counts as another connection's: within one connection a request is sent after
        the reply to the one before, and the read barrier relies on that.
        """
        place = self.wire.index(message)
        if again:
            self.wire[place] = dataclasses.replace(message, connection=self.count())
        else:
            del self.wire[place]
        if message.target == ADMIN:
            self._change_answered(message)
            return
        node = self.nodes[message.target]
        if node.replica is None or (message.source, message.target) in self.cut:
            return
        if message.is_request:
            token = self.count()
            node.tokens[token] = message
            request: Any = message.body
            self._note(f"{message.source}->{message.target} {describe(request)}")
            self.step(message.target, inputs.RequestReceived(token, message.connection, request))
        else:
            pending = node.pending.get(message.peer)
            if pending is not None and pending[0] == message.correlation:
                del node.pending[message.peer]
            response: Any = message.body
            self._note(f"{message.source}->{message.target} {describe(response)}")
            self.step(
                message.target,
                inputs.ResponseReceived(message.peer, message.correlation, response),
            )

    def drop(self, message: Message) -> None:
        """Lose a message; its sender finds out by timeout."""
        self.wire.remove(message)

    def fail(self, node_id: int, peer: int, correlation: int, reason: str) -> None:
        """Tell a requester that there will be no answer; its connection is gone."""
        node = self.nodes[node_id]
        del node.pending[peer]
        node.connections.pop(peer, None)
        self.step(node_id, inputs.SendFailed(peer, correlation, reason))

    def refuse(self, message: Message) -> None:
        """Lose a request in a way that its sender notices at once."""
        self.wire.remove(message)
        node = self.nodes[message.source]
        if message.is_request and node.pending.get(message.peer, (0, 0))[0] == message.correlation:
            self.fail(message.source, message.peer, message.correlation, "refused")

    def isolate(self, node_id: int) -> None:
        for other in self.nodes:
            if other != node_id:
                self.cut |= {(node_id, other), (other, node_id)}

    def flush(self, node_id: int) -> None:
        """Let the oldest pending flush reach the disk."""
        node = self.nodes[node_id]
        upto = min(node.flushes.pop(0), node.disk.end)
        node.disk.flushed = max(node.disk.flushed, upto)
        self.step(node_id, inputs.LogFlushed(upto))

    def settle(self, allowed: Callable[[Message], bool] = lambda _: True) -> None:
        """Deliver and flush, oldest first, until nothing moves without a timer."""
        for _ in range(10_000):
            flushing = [i for i, node in self.nodes.items() if node.replica and node.flushes]
            ready = [m for m in self.wire if allowed(m)]
            if flushing:
                self.flush(flushing[0])
            elif ready and (ready[0].source, ready[0].target) in self.cut:
                self.drop(ready[0])
            elif ready:
                self.deliver(ready[0])
            else:
                return
        raise AssertionError("the cluster does not settle")

    # -------------------------------------------------------------- whole scenarios

    def run_for(self, ms: int, *, nodes: Sequence[int] | None = None, slice_ms: int = 10) -> None:
        """Let time pass evenly for all (or some) nodes, delivering everything between them."""
        among = set(self.nodes if nodes is None else nodes)
        for _ in range(0, ms, slice_ms):
            for i in sorted(among):
                if self.nodes[i].replica is not None:
                    self.advance(i, slice_ms)
            self.settle(lambda m: {m.source, m.target} <= among | {ADMIN})

    def elect(self, node_id: int) -> Replica:
        """Make ``node_id`` leader by its timer, the others following; gives its replica."""
        for _ in range(20):
            if self.nodes[node_id].up.is_leader:
                return self.nodes[node_id].up
            self.expire(node_id)
            self.settle()
        raise AssertionError(f"node {node_id} is not elected")

    def propose(self, node_id: int, *counts: int) -> int:
        """Propose batches of so many records; gives the token."""
        token = self.count()
        entries = tuple(Records(count, self.count()) for count in counts)
        self.step(node_id, inputs.Propose(token, self.nodes[node_id].up.epoch, entries))
        return token

    def read(self, node_id: int) -> int:
        """Ask for a read barrier; gives the token, its result is in ``barriers``."""
        token = self.count()
        self.invariants.barrier_asked(token)
        self.barriers[token] = "pending"
        self.step(node_id, inputs.ReadBarrier(token))
        return token

    def add_voter(self, leader: int, node_id: int) -> int:
        """Ask ``leader`` to make ``node_id`` a voter; gives the number in ``changes``."""
        key = self.nodes[node_id].key
        addresses = self.nodes[node_id].config.listeners
        return self._ask_change(leader, AddVoterRequest(key, addresses, 1_000, CLUSTER_ID))

    def remove_voter(self, leader: int, key: ReplicaKey) -> int:
        """Ask ``leader`` to remove a voter."""
        return self._ask_change(leader, RemoveVoterRequest(key, CLUSTER_ID))

    def upgrade(self, leader: int) -> int:
        """Ask ``leader`` to put the voters into the log."""
        return self._ask_change(leader, UpgradeVersionRequest(1))

    def _ask_change(self, leader: int, request: Request) -> int:
        number = self.count()
        self.changes[number] = "pending"
        message = Message(
            number, ADMIN, leader, ADMIN, number, self.count(), request, is_request=True
        )
        self.wire.append(message)
        self.deliver(message)
        return number

    def _change_answered(self, message: Message) -> None:
        assert isinstance(message.body, VoterChangeResponse), message.body
        self.changes[message.correlation] = message.body.error.name
        self._note(f"{message.source}->{ADMIN} {describe(message.body)}")

    def voters_of(self, node_id: int) -> VoterSet:
        """The voter set that is in force for a node."""
        return self.nodes[node_id].up.voters

    def freeze(self, node_id: int) -> bool:
        """Make a snapshot of what the node has committed; says whether there was anything new."""
        node = self.nodes[node_id]
        committed, latest = node.up.high_watermark or 0, node.disk.latest
        ends = [b.last_offset + 1 for b in node.disk.batches if b.last_offset < committed]
        if not ends or (latest is not None and latest.id.offset >= ends[-1]):
            return False
        made = self._freeze(node_id, ends[-1])
        same = self.frozen.setdefault(made.id, made)
        assert same == made, f"SnapshotIdentity: node {node_id} made another {made.id}"
        self._snapshots_changed(node_id)
        return True

    def _freeze(self, node_id: int, end: int) -> Snapshot:
        return self.nodes[node_id].disk.freeze(end)

    def clean(self, node_id: int) -> bool:
        """Begin the log after the node's newest snapshot; says whether that moved it."""
        disk = self.nodes[node_id].disk
        latest = disk.latest
        if latest is None or latest.id.offset <= disk.start:
            return False
        disk.clean(latest.id.offset)
        self._snapshots_changed(node_id)
        return True

    def _snapshots_changed(self, node_id: int) -> None:
        disk = self.nodes[node_id].disk
        self.step(node_id, inputs.SnapshotsChanged(disk.infos, disk.start))

    @property
    def leaders(self) -> list[int]:
        return [i for i, n in self.nodes.items() if n.replica is not None and n.replica.is_leader]

    @staticmethod
    def describe(message: Message) -> str:
        """A message as one line."""
        return describe(message.body)

    # -------------------------------------------------------------- effects

    def _note(self, line: str) -> None:
        self.lines.append(line)

    def _run(self, node_id: int, effects: list[fx.Effect]) -> None:
        self.effects = [(node_id, effect) for effect in effects]
        for effect in effects:
            line = describe(effect)
            if line:
                self._note(f"{node_id}: {line}")
            self._apply(node_id, effect)
            self.invariants.after_effect(node_id, effect)
        node = self.nodes[node_id]
        if node.installing is not None:
            snapshot, node.installing = self.frozen[node.installing], None
            self.invariants.installing(node_id, snapshot)
            node.disk.install(snapshot)
            voters, version = snapshot.voters, snapshot.kraft_version
            self.step(
                node_id, inputs.SnapshotInstalled(snapshot.info, voters, version, snapshot.sha)
            )
            return
        self.invariants.after_step(node_id)

    def _apply(self, node_id: int, effect: fx.Effect) -> None:
        node = self.nodes[node_id]
        node.disk.apply(effect, self.count)
        match effect:
            case fx.InstallSnapshot(id_):
                node.installing = id_
            case fx.FlushLog(upto):
                node.flushes.append(upto)
            case fx.Send():
                self._send(node, effect)
            case fx.ResetConnections():
                node.pending.clear()
                node.connections.clear()
                if self.reset_loses:
                    self.wire = [m for m in self.wire if m.source != node_id or not m.is_request]
            case fx.Reply(token, response):
                self._reply(node_id, node.tokens.pop(token), response)
            case fx.BarrierConfirmed(token, read_offset):
                self.barriers[token] = f"read {read_offset}"
            case fx.BarrierFailed(token):
                self.barriers[token] = "failed"
            case _:
                pass

    def _send(self, node: Node, send: fx.Send) -> None:
        assert send.peer not in node.pending, f"{send} while {node.pending[send.peer]} waits"
        node.pending[send.peer] = (send.correlation, node.now_ms + send.timeout_ms)
        connection = node.connections.setdefault(send.peer, self.count())
        self.wire.append(
            Message(
                self.count(),
                node.key.id,
                send.endpoint.port,
                send.peer,
                send.correlation,
                connection,
                send.request,
                is_request=True,
            )
        )

    def _reply(self, node_id: int, request: Message, response: Response) -> None:
        asked: Any = request.body
        self.answering = asked
        if isinstance(response, FetchResponse) and response.records is not None:
            range_ = response.records
            batches = self.nodes[node_id].disk.read(range_.offset, range_.max_bytes)
            response = dataclasses.replace(response, records=None, batches=batches)
        if isinstance(response, FetchSnapshotResponse) and response.chunk is not None:
            chunk = response.chunk
            whole = self.nodes[node_id].disk.snapshots[chunk.snapshot].data
            data = whole[chunk.position : chunk.position + chunk.max_bytes]
            response = dataclasses.replace(response, chunk=None, data=data)
        self.wire.append(
            Message(
                self.count(),
                node_id,
                request.source,
                request.peer,
                request.correlation,
                request.connection,
                response,
                is_request=False,
            )
        )
