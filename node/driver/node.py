"""The driver of one node: runs the core's effects, in order, on a log, a trace and sockets.

Everything happens on one event loop thread. Inputs queue up while a batch of socket reads is
handled, then ``_pump`` steps the core through all of them; whatever they want told to others
waits in an outbox until the trace is written, and the log is fsynced once for all of them
(group commit). The outbox leaves *before* that fsync, so that followers copy while the leader
flushes; the core counts the leader only up to what it flushed, so nothing commits early.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from node.config import NodeConfig
from node.controller.controller import QuorumController
from node.core import effects as fx
from node.core import inputs
from node.core.messages import Batch, LeaderChange, Records, Response
from node.core.replica import LogState, Replica, ReplicaConfig
from node.core.types import ElectionState, ReplicaKey
from node.driver.clock import Clock
from node.driver.peers import Peers
from node.driver.state_machine import StateMachine
from node.log.batch import Record, encode_batch
from node.log.control import encode_leader_change
from node.log.file_log import FileLog
from node.log.quorum_state import ElectionStateStore
from node.trace import TraceWriter

log = logging.getLogger("krucible.node")

BATCH_LINGER_MAX_OPS = 10_000  # proposals drained into one fsync


class NodeFatalError(Exception):
    """Raised when the node must not go on: its own state contradicts the protocol."""


@dataclass(slots=True)
class Storage:
    """What a node has on disk."""

    log: FileLog
    elections: ElectionStateStore
    key: ReplicaKey
    cluster_id: str


@dataclass(slots=True)
class HeldWrite:
    """A client's write that waits until the high watermark passes its last record."""

    api: str
    done: Callable[[], None]
    abandoned: Callable[[], None]
    wait_for: int = -1  # offset of the last record it depends on; -1 = nothing pending


@dataclass(slots=True)
class HeldRead:
    """A client's read behind the barrier."""

    api: str
    done: Callable[[], None]
    refused: Callable[[], None]
    read_offset: int | None = None


@dataclass(slots=True)
class Counters:
    """What the node did, for its log and for tests."""

    steps: int = 0
    flushes: int = 0
    rejected_connections: int = 0
    extra: dict[str, int] = field(default_factory=dict)


class Parts(Protocol):
    """The classes a node is made of; see ``node.driver.parts``."""

    @property
    def replica(self) -> type[Replica]:
        """The consensus core."""
        ...

    @property
    def controller(self) -> type[QuorumController]:
        """The quorum controller."""
        ...


class Node:
    """One KRaft node over real or simulated effects; see the module's text for the order."""

    def __init__(
        self,
        config: NodeConfig,
        storage: Storage,
        *,
        parts: Parts,
        trace: TraceWriter,
        clock: Clock,
        rng: Random,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.config = config
        self.storage = storage
        self.machine = StateMachine(storage.log, trace, broker="broker" in config.roles)
        self.controller: QuorumController | None = None
        if config.is_controller:
            self.controller = parts.controller(
                rng=rng, image=self.machine.image, broker_ids=config.brokers
            )
        self.counters = Counters()
        self._peers = Peers(self.submit, source_host=config.source_host)
        self._trace = trace
        self._clock = clock
        self.rng = rng
        self._on_fatal = on_fatal
        self._inputs: deque[inputs.Input | Callable[[], None]] = deque()
        self._outbox: list[Callable[[], None]] = []
        self._replies: dict[int, Callable[[Response, bytes], None]] = {}
        self._proposals: dict[int, HeldWrite] = {}
        self._writes: deque[HeldWrite] = deque()
        self._reads: dict[int, HeldRead] = {}
        self._tokens = 0
        self._pump_handle: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._flush_wanted = False
        self._claim_at: tuple[int, int] | None = None  # (epoch, epoch start) not yet claimed
        self._stopped = False
        self._loop = asyncio.get_running_loop()
        self.replica = parts.replica(
            self._replica_config(),
            storage.elections.load() or ElectionState(),
            self._log_state(),
            rng,
        )

    # ------------------------------------------------------------------ lifecycle

    def start(self) -> None:
        """Say where we start from, then let the core begin."""
        log_ = self.storage.log
        loaded = self.replica.election_state
        self._trace.emit(
            "start",
            self.replica.epoch,
            {
                "leo": log_.end_offset,
                "last_ep": log_.last_epoch,
                "log_start": log_.start_offset,
                "flushed": log_.flushed_offset,
                "qs": _election_fields(loaded),
                "voters": list(self.config.voters.ids),
                "roles": sorted(self.config.roles),
            },
        )
        self._run(self.replica.start(self._clock.now_ms()))
        self._settle()

    def submit(self, input_: inputs.Input) -> None:
        """Queue an input; it is stepped when the present batch of events has been read."""
        self._enqueue(input_)

    def _enqueue(self, work: inputs.Input | Callable[[], None]) -> None:
        self._inputs.append(work)
        if self._pump_handle is None and not self._stopped:
            self._pump_handle = self._loop.call_soon(self._pump)

    def shutdown(self) -> None:
        """Tell the quorum that we leave; the caller gives it a moment before ``close``."""
        self.submit(inputs.Shutdown())

    def close(self, why: str) -> None:
        """Stop stepping, flush and close the log and the trace. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        for handle in (self._pump_handle, self._timer):
            if handle is not None:
                handle.cancel()
        self._peers.close()
        self._trace.emit("stop", self.replica.epoch, {"why": why})
        self.storage.log.flush()
        self.storage.log.close()
        self._trace.close()

    # ------------------------------------------------------------------ requests of others

    def request(
        self,
        make: Callable[[int], inputs.RequestReceived],
        reply: Callable[[Response, bytes], None],
    ) -> None:
        """Hand a quorum request to the core; ``reply`` gets the answer and its record bytes."""
        token = self._token()
        self._replies[token] = reply
        self.submit(make(token))

    def propose(self, entries: Sequence[Records], write: HeldWrite) -> None:
        """Append entries (each one atomic batch), and settle ``write`` when they are committed.

        With no entries the write waits for what it may have seen: the last record proposed
        before it. Must be called while the controller is active.
        """
        if not entries:
            self._enqueue(lambda: self._await_accepted(write))
            return
        token = self._token()
        self._proposals[token] = write
        self.submit(inputs.Propose(token, self.replica.epoch, tuple(entries)))

    def write_no_op(self) -> None:
        """Propose a NoOp record, while this is the active controller."""
        if self.controller is not None and self.controller.active:
            result = self.controller.no_op()
            self.propose(result.entries, HeldWrite("NoOp", _nothing, _nothing))

    def read(self, pending: HeldRead) -> None:
        """Confirm leadership by fetches begun after now, then answer at a safe offset."""
        token = self._token()
        self._reads[token] = pending
        self.submit(inputs.ReadBarrier(token))

    def later(self, send: Callable[[], None]) -> None:
        """Do ``send`` once the trace of everything before it is written."""
        self._outbox.append(send)
        if self._pump_handle is None and not self._stopped:
            self._pump_handle = self._loop.call_soon(self._pump)

    def trace(self, type_: str, **fields: object) -> None:
        """Trace an event of the present epoch."""
        self._trace.emit(type_, self.replica.epoch, fields)

    # ------------------------------------------------------------------ the pump

    def _pump(self) -> None:
        self._pump_handle = None
        if self._stopped:
            return
        try:
            while self._inputs:
                now_ms = self._clock.now_ms()
                for _ in range(min(len(self._inputs), BATCH_LINGER_MAX_OPS)):
                    self._do(self._inputs.popleft(), now_ms)
                self._flush_if_wanted()
            self._settle()
        except Exception as error:  # whatever it is, this node must not go on
            self._fail(error)

    def _do(self, work: inputs.Input | Callable[[], None], now_ms: int) -> None:
        if callable(work):
            work()
            return
        self.counters.steps += 1
        self._run(self.replica.step(work, now_ms))

    def _flush_if_wanted(self) -> None:
        if not self._flush_wanted:
            return
        self._flush_wanted = False
        self._release()
        if self.config.fsync:
            self.storage.log.flush()
        upto = self.storage.log.end_offset
        self.counters.flushes += 1
        self._inputs.append(inputs.LogFlushed(upto))

    def _settle(self) -> None:
        self._release()
        if self._inputs and self._pump_handle is None:
            self._pump_handle = self._loop.call_soon(self._pump)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.replica.next_deadline_ms()
        if deadline_ms is not None:
            wait_s = max(0, deadline_ms - self._clock.now_ms()) / 1000
            self._timer = self._loop.call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.submit(inputs.Tick())

    def _release(self) -> None:
        """Trace first, then everything that others may see."""
        self._trace.flush()
        outbox, self._outbox = self._outbox, []
        for send in outbox:
            send()

    def _fail(self, error: BaseException) -> None:
        self._stopped = True
        self._trace.flush()
        log.critical("fatal: %s: %s", type(error).__name__, error, exc_info=error)
        self._on_fatal(error)

    # ------------------------------------------------------------------ effects

    def _run(self, effects: Sequence[fx.Effect]) -> None:
        for effect in effects:
            self._run_one(effect)

    def _run_one(self, effect: fx.Effect) -> None:  # noqa: C901, PLR0912 - one line per effect
        match effect:
            case fx.Trace():
                self._trace.emit(effect.type, effect.epoch, effect.fields)
            case fx.Send():
                self._outbox.append(lambda: self._peers.send(effect))
            case fx.Reply():
                self._reply(effect)
            case fx.AppendAsLeader():
                self._append_as_leader(effect)
            case fx.AppendBatches():
                self.storage.log.append_batches(effect.batches)
            case fx.FlushLog():
                self._flush_wanted = True
            case fx.HighWatermarkAdvanced():
                self._committed(effect.high_watermark)
            case fx.PersistElectionState():
                self.storage.elections.save(effect.state)
            case fx.TruncateLog():
                self.storage.log.truncate_to(effect.to)
            case fx.ProposalAccepted():
                self._proposal_accepted(effect)
            case fx.ProposalRejected():
                self._proposal_rejected(effect)
            case fx.BarrierConfirmed():
                self._barrier_confirmed(effect)
            case fx.BarrierFailed():
                self._barrier_failed(effect)
            case fx.LeadershipAcquired():
                self._claim_at = (effect.epoch, effect.epoch_start)
                self._maybe_claim()
            case fx.LeadershipLost():
                self._renounce()
            case fx.ResetConnections():
                self._outbox.append(self._peers.reset)
            case fx.Fatal():
                raise NodeFatalError(effect.reason)

    def _reply(self, effect: fx.Reply) -> None:
        reply = self._replies.pop(effect.token)
        records = b""
        range_ = getattr(effect.response, "records", None)
        if range_ is not None:
            records = self.storage.log.read(range_.offset, range_.max_bytes)
        self._outbox.append(lambda: reply(effect.response, records))

    def _append_as_leader(self, effect: fx.AppendAsLeader) -> None:
        content = effect.content
        records: Sequence[Record]
        if isinstance(content, LeaderChange):
            records = (encode_leader_change(content),)
        else:
            records = [(None, value) for value in content.payload]
        data = encode_batch(
            effect.base_offset,
            effect.epoch,
            records,
            control=isinstance(content, LeaderChange),
            timestamp_ms=self._clock.wall_ms(),
        )
        self._trace_append(self.storage.log.append_as_leader(data), "leader")

    def _trace_append(self, batch: Batch, source: str) -> None:
        self.trace(
            "append",
            base=batch.base_offset,
            last=batch.last_offset,
            bep=batch.epoch,
            h=batch.crc,
            ctl=batch.is_control,
            src=source,
        )

    # ------------------------------------------------------------------ commit, claim, renounce

    def _committed(self, high_watermark: int) -> None:
        for offset, record in self.machine.advance(high_watermark, self.replica.epoch):
            if self.controller is not None:
                self.controller.committed(record, offset)
        self._maybe_claim()
        writes = self._writes
        while writes and writes[0].wait_for < high_watermark:
            self._acknowledge(writes.popleft())

    def _acknowledge(self, write: HeldWrite) -> None:
        self.trace("ack", api=write.api, off=write.wait_for, hwm=self.replica.high_watermark)
        self._outbox.append(write.done)

    def _maybe_claim(self) -> None:
        if self._claim_at is None or self.controller is None:
            return
        epoch, epoch_start = self._claim_at
        if self.machine.applied > epoch_start:
            self._claim_at = None
            self.controller.claim(epoch)
            self.trace("claim", applied=self.machine.applied)

    def _renounce(self) -> None:
        self._claim_at = None
        if self.controller is None:
            return
        if self.controller.active:
            self.controller.renounce()
            self.trace("renounce", applied=self.machine.applied)
        abandoned = [*self._writes, *self._proposals.values()]
        self._writes.clear()
        self._proposals.clear()
        for write in abandoned:
            self._outbox.append(write.abandoned)

    def _await_commit(self, write: HeldWrite) -> None:
        high_watermark = self.replica.high_watermark
        if high_watermark is not None and write.wait_for < high_watermark:
            self._acknowledge(write)
        else:
            self._writes.append(write)  # sorted by wait_for: offsets are given in order

    def _await_accepted(self, write: HeldWrite) -> None:
        """Wait for every record accepted up to now; proposals before this one have been stepped."""
        write.wait_for = self._writes[-1].wait_for if self._writes else -1
        self._await_commit(write)

    def _proposal_accepted(self, effect: fx.ProposalAccepted) -> None:
        write = self._proposals.pop(effect.token)
        write.wait_for = effect.last_offset
        if self.controller is not None:
            self.controller.appended(effect.base_offset, effect.last_offset)
        self._await_commit(write)

    def _proposal_rejected(self, effect: fx.ProposalRejected) -> None:
        write = self._proposals.pop(effect.token, None)
        if write is not None:
            self._outbox.append(write.abandoned)
        self._renounce()  # what was worked out on top of the refused records is void too

    def _barrier_confirmed(self, effect: fx.BarrierConfirmed) -> None:
        pending = self._reads.pop(effect.token)
        self.trace("read", api=pending.api, off=self.machine.applied)
        self._outbox.append(pending.done)

    def _barrier_failed(self, effect: fx.BarrierFailed) -> None:
        self._outbox.append(self._reads.pop(effect.token).refused)

    # ------------------------------------------------------------------ helpers

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens

    def _replica_config(self) -> ReplicaConfig:
        config, timers = self.config, self.config.timers
        return ReplicaConfig(
            key=self.storage.key,
            cluster_id=self.storage.cluster_id,
            voters=config.voters,
            endpoint=config.advertised,
            election_timeout_ms=timers.election_timeout_ms,
            fetch_timeout_ms=timers.fetch_timeout_ms,
            request_timeout_ms=timers.request_timeout_ms,
            retry_backoff_ms=timers.retry_backoff_ms,
            election_backoff_max_ms=timers.election_backoff_max_ms,
            fetch_max_wait_ms=timers.fetch_max_wait_ms,
            flush_before_fetch=config.is_controller,
        )

    def _log_state(self) -> LogState:
        log_ = self.storage.log
        return LogState(
            log_.start_offset, log_.end_offset, log_.flushed_offset, tuple(log_.epoch_entries)
        )


def _nothing() -> None:
    """Nobody waits for this answer."""


def _election_fields(state: ElectionState) -> dict[str, object]:
    voted = state.voted
    directory = None if voted is None or voted.directory_id is None else voted.directory_id.hex
    return {
        "ep": state.epoch,
        "leader": state.leader_id,
        "voted": None if voted is None else voted.id,
        "voted_dir": directory,
    }
