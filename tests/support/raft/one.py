"""One replica on a bench: hand it inputs, look at its effects."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar
from uuid import UUID

from node.core import effects as fx
from node.core import inputs
from node.core.messages import (
    Batch,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumEpochResponse,
    Records,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from node.core.parts import CoreParts
from node.core.replica import HEALTHY, LogState, Replica, ReplicaConfig
from node.core.types import (
    KRAFT_VERSIONS,
    ElectionState,
    Endpoint,
    Listener,
    OffsetAndEpoch,
    ReplicaKey,
    SnapshotInfo,
    Voter,
    VoterSet,
)

T = TypeVar("T")
CLUSTER_ID = "bench"


def endpoint(node_id: int) -> Endpoint:
    return Endpoint(f"n{node_id}", node_id)


def voter_set(count: int) -> VoterSet:
    return VoterSet.of(*(Voter(ReplicaKey(i), endpoint(i)) for i in range(1, count + 1)))


def key(node_id: int, disk: int = 0) -> ReplicaKey:
    """The key of a node of a dynamic quorum, on its first, second... disk."""
    return ReplicaKey(node_id, UUID(int=node_id << 64 | disk))


def listeners(node_id: int) -> tuple[Listener, ...]:
    return (Listener("CONTROLLER", endpoint(node_id)),)


def keyed_voter(node_id: int) -> Voter:
    return Voter(key(node_id), endpoint(node_id), listeners(node_id), KRAFT_VERSIONS)


def keyed_voters(*node_ids: int) -> VoterSet:
    return VoterSet.of(*map(keyed_voter, node_ids))


def batch(base: int, last: int, epoch: int) -> Batch:
    return Batch(base, last, epoch, crc=base * 1_000 + epoch, is_control=False, data=b"")


class One:
    """Replica ``id`` of ``voters``; an id above that is an observer. Flushes are immediate."""

    def __init__(  # noqa: PLR0913 - the knobs of a bench
        self,
        id_: int = 1,
        voters: int = 3,
        *,
        election: ElectionState | None = None,
        log: LogState | None = None,
        auto_flush: bool = True,
        auto_install: bool = True,
        voter_set_: VoterSet | None = None,
        core: CoreParts = HEALTHY,
        **config: Any,
    ) -> None:
        self.now_ms = 1_000_000
        self.auto_flush = auto_flush
        self.auto_install = auto_install
        self.keyed = False
        self.effects: list[fx.Effect] = []  # of the last call
        self.all: list[fx.Effect] = []
        self._token = 0
        config.setdefault("key", ReplicaKey(id_))
        self.replica = Replica(
            ReplicaConfig(
                cluster_id=CLUSTER_ID,
                voters=voter_set(voters) if voter_set_ is None else voter_set_,
                endpoint=endpoint(id_),
                **config,
            ),
            election or ElectionState(),
            log or LogState(),
            Random(5),
            core,
        )
        self._take(self.replica.start(self.now_ms))

    @classmethod
    def dynamic(
        cls, id_: int = 1, voters: int = 3, *, log: LogState | None = None, **more: Any
    ) -> One:
        """A controller of a quorum whose voters 1..n are in its bootstrap snapshot."""
        bootstrap = LogState(
            voters=((-1, keyed_voters(*range(1, voters + 1))),), kraft_versions=((-1, 1),)
        )
        more.setdefault("key", key(id_))
        more.setdefault("listeners", listeners(id_))
        one = cls(id_, log=log or bootstrap, voter_set_=VoterSet({}), **more)
        one.keyed = True
        return one

    def key_of(self, node_id: int) -> ReplicaKey:
        """The key by which that node is known here."""
        return key(node_id) if self.keyed else ReplicaKey(node_id)

    def _take(self, effects: list[fx.Effect]) -> list[fx.Effect]:
        self.effects = list(effects)
        for effect in self.effects:  # grows while it is read
            self.effects += self._carry_out(effect)
        self.all += self.effects
        return self.effects

    def _carry_out(self, effect: fx.Effect) -> list[fx.Effect]:
        if isinstance(effect, fx.FlushLog) and self.auto_flush:
            return self.replica.step(inputs.LogFlushed(effect.upto), self.now_ms)
        if isinstance(effect, fx.InstallSnapshot) and self.auto_install:
            info = SnapshotInfo(effect.id, 100)
            return self.replica.step(inputs.SnapshotInstalled(info, None, 0), self.now_ms)
        return []

    # -------------------------------------------------------------- acting

    def step(self, input_: inputs.Input) -> list[fx.Effect]:
        return self._take(self.replica.step(input_, self.now_ms))

    def wait(self, ms: int) -> list[fx.Effect]:
        self.now_ms += ms
        return self.step(inputs.Tick())

    def ask(self, request: Request, connection: int = 1) -> Any:
        """Hand in a request; gives the response, None when it is held back."""
        self._token += 1
        self.step(inputs.RequestReceived(self._token, connection, request))
        for effect in self.effects:
            if isinstance(effect, fx.Reply) and effect.token == self._token:
                return effect.response
        return None

    @property
    def token(self) -> int:
        """The token of the last request."""
        return self._token

    def answer(self, send: fx.Send, response: Response) -> list[fx.Effect]:
        return self.step(inputs.ResponseReceived(send.peer, send.correlation, response))

    def fail(self, send: fx.Send, *, unsupported: bool = False) -> list[fx.Effect]:
        return self.step(
            inputs.SendFailed(send.peer, send.correlation, "test", unsupported_version=unsupported)
        )

    # -------------------------------------------------------------- looking

    def of(self, kind: type[T]) -> list[T]:
        """Effects of that kind of the last call."""
        return [e for e in self.effects if isinstance(e, kind)]

    def sends(self, kind: type[Request]) -> list[fx.Send]:
        """Requests of that kind sent in the last call."""
        return [e for e in self.of(fx.Send) if isinstance(e.request, kind)]

    def sent(self, kind: type[Request]) -> fx.Send:
        """The latest request of that kind."""
        for effect in reversed(self.all):
            if isinstance(effect, fx.Send) and isinstance(effect.request, kind):
                return effect
        raise AssertionError(f"no {kind.__name__} was ever sent")

    def index(self, kind: type[Any]) -> int:
        """Where the first effect of that kind stands among those of the last call."""
        return next(i for i, e in enumerate(self.effects) if isinstance(e, kind))

    def traces(self, type_: str) -> list[Any]:
        """Fields of the traces of that type of the last call."""
        return [e.fields for e in self.of(fx.Trace) if e.type == type_]

    # -------------------------------------------------------------- shortcuts

    def stand(self) -> None:
        """Let the election or fetch timer expire: prospective."""
        for _ in range(400):
            if self.replica.role in ("prospective", "candidate", "leader"):
                return
            self.wait(10)
        raise AssertionError(f"still {self.replica.role}")

    def grant(self, *peers: int, pre_vote: bool) -> None:
        """Let those voters say yes."""
        for peer in peers:
            send = next(
                e
                for e in reversed(self.all)
                if isinstance(e, fx.Send)
                and e.peer == peer
                and isinstance(e.request, VoteRequest)
                and e.request.pre_vote == pre_vote
            )
            epoch = self.replica.epoch
            self.answer(send, VoteResponse(Error.NONE, epoch, None, granted=True))

    def lead(self) -> int:
        """Win an election; gives the epoch."""
        self.stand()
        majority = range(2, len(self.replica.voters) // 2 + 2)
        if majority:
            self.grant(*majority, pre_vote=True)
            self.grant(*majority, pre_vote=False)
        assert self.replica.is_leader
        return self.replica.epoch

    def begin(self, leader: int, epoch: int) -> Any:
        """``leader`` announces itself."""
        return self.ask(
            BeginQuorumEpochRequest(leader, epoch, endpoint(leader), cluster_id=CLUSTER_ID)
        )

    def end(self, leader: int, epoch: int, *preferred: int) -> Any:
        """``leader`` resigns."""
        keys = tuple(ReplicaKey(i) for i in preferred)
        return self.ask(
            EndQuorumEpochRequest(leader, epoch, keys, endpoint(leader), cluster_id=CLUSTER_ID)
        )

    def vote(
        self,
        candidate: int,
        epoch: int,
        end: int = 0,
        last_epoch: int = 0,
        *,
        pre: bool = False,
        **more: Any,
    ) -> Any:
        """``candidate`` asks for a vote."""
        return self.ask(
            VoteRequest(ReplicaKey(candidate), epoch, OffsetAndEpoch(end, last_epoch), pre, **more)
        )

    def fetch(
        self,
        replica: int | ReplicaKey,
        offset: int,
        last_epoch: int | None = None,
        *,
        epoch: int | None = None,
        connection: int | None = None,
        hwm: int | None = None,
        wait_ms: int = 500,
        **more: Any,
    ) -> FetchResponse | None:
        """``replica`` fetches; None when parked."""
        known = self.replica.epoch
        who = self.key_of(replica) if isinstance(replica, int) else replica
        response = self.ask(
            FetchRequest(
                who,
                known if epoch is None else epoch,
                offset,
                (known if offset else 0) if last_epoch is None else last_epoch,
                max_wait_ms=wait_ms,
                max_bytes=1_000,
                high_watermark=hwm,
                **more,
            ),
            who.id if connection is None else connection,
        )
        assert response is None or isinstance(response, FetchResponse)
        return response

    def fetched(
        self,
        *batches: Batch,
        hwm: int | None = None,
        diverging: OffsetAndEpoch | None = None,
        snapshot: OffsetAndEpoch | None = None,
        error: Error = Error.NONE,
        leader: int | None = None,
        epoch: int | None = None,
    ) -> list[fx.Effect]:
        """Answer the latest Fetch."""
        return self.answer(
            self.sent(FetchRequest),
            FetchResponse(
                error,
                self.replica.epoch if epoch is None else epoch,
                self.replica.leader_id if leader is None else leader,
                high_watermark=hwm,
                diverging=diverging,
                snapshot=snapshot,
                batches=batches,
            ),
        )

    def chunk(
        self,
        data: bytes = b"",
        *,
        size: int = 100,
        error: Error = Error.NONE,
        **other: Any,
    ) -> list[fx.Effect]:
        """Answer the latest FetchSnapshot."""
        send = self.sent(FetchSnapshotRequest)
        asked = send.request
        assert isinstance(asked, FetchSnapshotRequest)
        fields: dict[str, Any] = {"snapshot": asked.snapshot, "position": asked.position} | other
        return self.answer(
            send,
            FetchSnapshotResponse(
                error, self.replica.epoch, self.replica.leader_id, size=size, data=data, **fields
            ),
        )

    def heard(self, send: fx.Send, error: Error = Error.NONE) -> list[fx.Effect]:
        """Acknowledge a Begin- or EndQuorumEpoch."""
        epoch, leader = self.replica.epoch, self.replica.leader_id
        return self.answer(send, QuorumEpochResponse(error, epoch, leader))

    def propose(self, *counts: int, epoch: int | None = None) -> list[fx.Effect]:
        """The controller writes."""
        entries = tuple(Records(count, None) for count in counts)
        known = self.replica.epoch if epoch is None else epoch
        return self.step(inputs.Propose(77, known, entries))


def log_of(*epochs: tuple[int, int], end: int) -> LogState:
    """A flushed log of ``end`` records with those (epoch, start) pairs."""
    return LogState(0, end, end, epochs)
