"""One replica on a bench: hand it inputs, look at its effects."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from node.core import effects as fx
from node.core import inputs
from node.core.messages import (
    Batch,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    QuorumEpochResponse,
    Records,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from node.core.replica import LogState, Replica, ReplicaConfig
from node.core.types import (
    ElectionState,
    Endpoint,
    OffsetAndEpoch,
    ReplicaKey,
    Voter,
    VoterSet,
)

T = TypeVar("T")
CLUSTER_ID = "bench"


def endpoint(node_id: int) -> Endpoint:
    return Endpoint(f"n{node_id}", node_id)


def voter_set(count: int) -> VoterSet:
    return VoterSet.of(*(Voter(ReplicaKey(i), endpoint(i)) for i in range(1, count + 1)))


def batch(base: int, last: int, epoch: int) -> Batch:
    return Batch(base, last, epoch, crc=base * 1_000 + epoch, is_control=False, data=b"")


class One:
    """Replica ``id`` of ``voters``; an id above that is an observer. Flushes are immediate."""

    def __init__(
        self,
        id_: int = 1,
        voters: int = 3,
        *,
        election: ElectionState | None = None,
        log: LogState | None = None,
        auto_flush: bool = True,
        voter_set_: VoterSet | None = None,
        replica: type[Replica] = Replica,
        **config: Any,
    ) -> None:
        self.now_ms = 1_000_000
        self.auto_flush = auto_flush
        self.effects: list[fx.Effect] = []  # of the last call
        self.all: list[fx.Effect] = []
        self._token = 0
        config.setdefault("key", ReplicaKey(id_))
        self.replica = replica(
            ReplicaConfig(
                cluster_id=CLUSTER_ID,
                voters=voter_set_ or voter_set(voters),
                endpoint=endpoint(id_),
                **config,
            ),
            election or ElectionState(),
            log or LogState(),
            Random(5),
        )
        self._take(self.replica.start(self.now_ms))

    def _take(self, effects: list[fx.Effect]) -> list[fx.Effect]:
        self.effects = list(effects)
        if self.auto_flush:
            for effect in effects:
                if isinstance(effect, fx.FlushLog):
                    self.effects += self.replica.step(inputs.LogFlushed(effect.upto), self.now_ms)
        self.all += self.effects
        return self.effects

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
        majority = range(2, len(self.replica.config.voters) // 2 + 2)
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
        replica: int,
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
        response = self.ask(
            FetchRequest(
                ReplicaKey(replica),
                known if epoch is None else epoch,
                offset,
                (known if offset else 0) if last_epoch is None else last_epoch,
                max_wait_ms=wait_ms,
                max_bytes=1_000,
                high_watermark=hwm,
                **more,
            ),
            replica if connection is None else connection,
        )
        assert response is None or isinstance(response, FetchResponse)
        return response

    def fetched(
        self,
        *batches: Batch,
        hwm: int | None = None,
        diverging: OffsetAndEpoch | None = None,
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
                batches=batches,
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
