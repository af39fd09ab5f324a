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
from random import Random
from typing import Protocol

from node.config import NodeConfig
from node.controller.controller import QuorumController
from node.core import effects as fx
from node.core import inputs
from node.core.messages import ControlRecords, Records, Response
from node.core.replica import LogState, Replica, ReplicaConfig
from node.core.types import ElectionState
from node.driver.clock import Clock
from node.driver.held import Counters, HeldRead, HeldWrite, Storage
from node.driver.peers import Peers
from node.driver.state_machine import StateMachine
from node.log.batch import Record, encode_batch
from node.log.control import encode_control
from node.trace import Tracer

log = logging.getLogger("krucible.node")

INPUTS_PER_FLUSH_MAX = 10_000  # what is stepped before one fsync


Work = inputs.Input | Callable[[], None]


class NodeFatalError(Exception):
    """Raised when the node must not go on: its own state contradicts the protocol."""


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
        trace: Tracer,
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
        self._peers = Peers(self.submit, source_host=config.source_host, on_error=self._fail)
        self._trace = trace
        self._clock = clock
        self.rng = rng
        self._on_fatal = on_fatal
        self._inputs: deque[Work] = deque()
        self._lingering: list[Work] = []
        self._outbox: list[Callable[[], None]] = []
        self._replies: dict[int, Callable[[Response, bytes], None]] = {}
        self._proposals: dict[int, HeldWrite] = {}
        self._writes: deque[HeldWrite] = deque()
        self._reads: dict[int, HeldRead] = {}
        self._tokens = 0
        self._pump_handle: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0  # on the clock of the core
        self._linger: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._flush_wanted = False
        self._claim_at: tuple[int, int] | None = None  # (epoch, epoch start) not yet claimed
        self._started = False
        self._stopped = False
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self.replica = parts.replica(
            self._replica_config(),
            storage.elections.load() or ElectionState(),
            self._log_state(),
            rng,
        )

    # ------------------------------------------------------------------ lifecycle

    def start(self) -> None:
        """Let the core begin; whatever was submitted before is stepped after that."""
        self._started = True
        self._inputs.appendleft(self._begin)
        self._schedule_pump()
        self._schedule_no_op()

    def _begin(self) -> None:
        log_ = self.storage.log
        self._trace.emit(
            "start",
            self.replica.epoch,
            {
                "leo": log_.end_offset,
                "last_ep": log_.last_epoch,
                "log_start": log_.start_offset,
                "flushed": log_.flushed_offset,
                "qs": _election_fields(self.replica.election_state),
                "voters": list(self.config.voters.ids),
                "roles": sorted(self.config.roles),
            },
        )
        self._run(self.replica.start(self._clock.now_ms()))

    def submit(self, input_: inputs.Input) -> None:
        """Queue an input; it is stepped when the present batch of events has been read."""
        self._enqueue(input_)

    async def shutdown(self, timeout_s: float) -> None:
        """Leave the quorum: a leader resigns, and its successors get a moment to hear of it."""
        left = asyncio.Event()
        self._enqueue(inputs.Shutdown())
        self.later(left.set)
        try:
            async with asyncio.timeout(timeout_s):
                await left.wait()
                await self._peers.drain()
        except TimeoutError:
            log.warning("not everybody heard within %g s that we leave", timeout_s)

    def halt(self) -> None:
        """Do nothing any more. Idempotent."""
        self._stopped = True
        for handle in (self._pump_handle, self._timer, self._linger, self._idle):
            if handle is not None:
                handle.cancel()
        self._peers.close()

    def close(self, why: str | None = None) -> None:
        """Halt, and close the log and the trace, which tells ``why`` if the end is orderly."""
        self.halt()
        if self._closed:
            return
        self._closed = True
        if why is not None and self._started:
            self._trace.emit("stop", self.replica.epoch, {"why": why})
        try:
            self.storage.log.close()
        finally:
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
        epoch = self.replica.epoch
        if not entries:
            self._after_linger(lambda: self._await_accepted(write, epoch))
            return
        token = self._token()
        self._proposals[token] = write
        self._after_linger(inputs.Propose(token, epoch, tuple(entries)))

    def read(self, pending: HeldRead) -> None:
        """Confirm leadership by fetches begun after now, then answer at a safe offset."""
        token = self._token()
        self._reads[token] = pending
        self.submit(inputs.ReadBarrier(token))

    def later(self, send: Callable[[], None]) -> None:
        """Do ``send`` once the trace of everything before it is written."""
        self._outbox.append(send)
        self._schedule_pump()

    def trace(self, type_: str, **fields: object) -> None:
        """Trace an event of the present epoch."""
        self._trace.emit(type_, self.replica.epoch, fields)

    # ------------------------------------------------------------------ the pump

    def _enqueue(self, work: Work) -> None:
        self._inputs.append(work)
        self._schedule_pump()

    def _schedule_pump(self) -> None:
        if self._pump_handle is None and self._started and not self._stopped:
            self._pump_handle = self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        if self._stopped:
            return
        try:
            while self._inputs:
                now_ms = self._clock.now_ms()
                for _ in range(min(len(self._inputs), INPUTS_PER_FLUSH_MAX)):
                    self._do(self._inputs.popleft(), now_ms)
                self._flush_if_wanted()
            self._release()
            self._pump_handle = None
            if self._inputs or self._outbox:  # the peers that were answered had more to ask
                self._schedule_pump()
            self._arm_timer()
        except Exception as error:  # whatever it is, this node must not go on
            self._fail(error)

    def _do(self, work: Work, now_ms: int) -> None:
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
        upto = self.storage.log.flush()
        self.counters.flushes += 1
        # Before all that queued up meanwhile: an input in between might truncate the log.
        self._inputs.appendleft(inputs.LogFlushed(upto))

    def _release(self) -> None:
        """Trace first, then everything that others may see."""
        self._trace.flush()
        outbox, self._outbox = self._outbox, []
        for send in outbox:
            send()

    def _fail(self, error: BaseException) -> None:
        if self._stopped:
            return
        self.halt()
        log.critical("fatal: %s: %s", type(error).__name__, error, exc_info=error)
        try:
            self._trace.flush()
        except OSError as lost:
            log.critical("the end of the trace is lost: %s", lost)
        self._on_fatal(error)

    # ------------------------------------------------------------------ timers

    def _arm_timer(self) -> None:
        """Wake no later than the core wants; too early does no harm and saves re-arming."""
        deadline_ms = self.replica.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        wait_ms = max(0, deadline_ms - self._clock.now_ms())
        self._timer_ms = deadline_ms
        self._timer = self._loop.call_later(wait_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.submit(inputs.Tick())

    def _after_linger(self, work: Work) -> None:
        """Queue a write, after those before it and with those that come while it lingers."""
        linger_ms = self.config.timers.append_linger_ms
        if linger_ms == 0:
            self._enqueue(work)
            return
        self._lingering.append(work)
        if self._linger is None:
            self._linger = self._loop.call_later(linger_ms / 1000, self._linger_over)

    def _linger_over(self) -> None:
        self._linger = None
        self._inputs.extend(self._lingering)
        self._lingering.clear()
        self._schedule_pump()

    def _schedule_no_op(self) -> None:
        """NoOp records while this is the active controller: the liveness probe of the quorum."""
        interval_ms = self.config.timers.idle_interval_ms
        if interval_ms > 0 and self.controller is not None and not self._stopped:
            self._idle = self._loop.call_later(interval_ms / 1000, self._on_idle)

    def _on_idle(self) -> None:
        self._enqueue(self._write_no_op)
        self._schedule_no_op()

    def _write_no_op(self) -> None:
        if self.controller is not None and self.controller.active:
            result = self.controller.no_op()
            self.propose(result.entries, HeldWrite("NoOp", _nothing, _nothing, _nothing))

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
        if isinstance(content, ControlRecords):
            records = [encode_control(record) for record in content.records]
        else:
            records = [(None, value) for value in content.payload]
        data = encode_batch(
            effect.base_offset,
            effect.epoch,
            records,
            control=isinstance(content, ControlRecords),
            timestamp_ms=self._clock.wall_ms(),
        )
        batch = self.storage.log.append_as_leader(data)
        self._trace.emit(
            "append",
            effect.epoch,
            {
                "base": batch.base_offset,
                "last": batch.last_offset,
                "bep": batch.epoch,
                "h": batch.crc,
                "ctl": batch.is_control,
                "src": "leader",
            },
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
        self._outbox += [write.abandoned for write in self._writes]
        # Not stepped yet, and refused by the core when they are: they speak of an epoch gone by.
        self._outbox += [write.refused for write in self._proposals.values()]
        self._writes.clear()
        self._proposals.clear()

    def _await_commit(self, write: HeldWrite) -> None:
        high_watermark = self.replica.high_watermark
        if high_watermark is not None and write.wait_for < high_watermark:
            self._acknowledge(write)
        else:
            self._writes.append(write)  # sorted by wait_for: offsets are given in order

    def _await_accepted(self, write: HeldWrite, epoch: int) -> None:
        """Wait for every record accepted up to now; proposals before this one have been stepped."""
        if self.controller is None or self.controller.epoch != epoch:
            self._outbox.append(write.refused)  # it may have seen what is lost now
            return
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
        if write is None or self.controller is None:
            return  # of a leadership that is over, refused with it
        self._outbox.append(write.refused)
        # What was worked out on top of the refused records is void too, and a leader without an
        # active controller must not stay leader (KAFKA-13104).
        epoch = self.controller.epoch
        self._renounce()
        if epoch is not None:
            self._inputs.append(inputs.Resign(epoch))

    def _barrier_confirmed(self, effect: fx.BarrierConfirmed) -> None:
        if self.machine.applied < effect.read_offset:
            raise NodeFatalError(
                f"a read at {effect.read_offset} was confirmed, applied is {self.machine.applied}"
            )
        pending = self._reads.pop(effect.token)
        self.trace("read", api=pending.api, off=self.machine.applied)
        pending.done()

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
