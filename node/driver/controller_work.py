"""Does the quorum controller's work in a node: writes, reads, claims, and applying commits.

Writes are proposed in the order in which the controller worked them out, and answered when the
high watermark has passed the last record that the answer may have seen. Committed records are
applied in slices, so that a node with much to catch up on goes on talking to its quorum.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from node.config import NodeConfig
from node.controller.controller import QuorumController
from node.controller.errors import ControllerError
from node.controller.feature_operations import BootstrapMetadata
from node.controller.operations import ControllerResult
from node.core import effects as fx
from node.core import inputs
from node.core.messages import Records
from node.driver.held import HeldRead, HeldWrite
from node.driver.long_work import LongWork
from node.driver.pump import NodeFatalError, Pump, Work
from node.driver.state_machine import StateMachine

log = logging.getLogger("krucible.node")

LOOKS_MAX = 4096  # that wait for the first image; clients that give up are among them
AGAIN_MS = 10  # between two parts of a large job: others get their turn
PARTITIONS_TO_FREE = 10_000  # at a time
SWEEPS_AHEAD = 8  # slices of a walk over partitions that are written and not committed

T = TypeVar("T")


def _more(most: int, is_more: Callable[[], bool], elected: int) -> bool:
    """Tell whether a round of elections goes on at once."""
    return elected >= most or is_more()


def no_answer() -> None:
    """Do nothing: the answer has no receiver."""


class ControllerWork:
    """Works for the controller and the state machine of a node.

    Args:
        config: The node's settings.
        pump: Queues proposals and reads, and sends answers.
        machine: Applies what is committed.
        controller: None on a node that is only a broker.
        bootstrap: The first records of a new cluster.
    """

    def __init__(
        self,
        config: NodeConfig,
        pump: Pump,
        machine: StateMachine,
        controller: QuorumController | None,
        bootstrap: BootstrapMetadata,
    ) -> None:
        self.config = config
        self.pump = pump
        self.replica = pump.replica
        self.machine = machine
        self.controller = controller
        self.on_applied: list[Callable[[], None]] = []  # called after each slice
        self._bootstrap = bootstrap
        self._lingering: list[Work] = []
        self._linger: asyncio.TimerHandle | None = None
        self._proposals: dict[int, HeldWrite] = {}
        self._writes: deque[HeldWrite] = deque()
        self._reads: dict[int, HeldRead] = {}
        self._confirmed: deque[tuple[int, HeldRead]] = deque()  # (offset to be applied first, read)
        self._claim_at: tuple[int, int] | None = None  # (epoch, epoch start) not yet claimed
        self._applying = False
        self._unpublished: list[Callable[[], None]] = []  # looks at an image that is not there yet
        self._sweeping = False  # a slice is queued
        self._swept = 0  # slices that are not committed
        self._freeing = False
        self.long_work = LongWork(self.pump.soon)

    def close(self) -> None:
        """Propose nothing more of what lingers. Idempotent."""
        if self._linger is not None:
            self._linger.cancel()

    # ------------------------------------------------------------------ requests of others

    def propose(self, entries: Sequence[Records], write: HeldWrite) -> None:
        """Append entries (each one atomic batch), and settle ``write`` when they are committed.

        With no entries the write waits for what it may have seen: the last record proposed
        before it. Must be called while the controller is active.
        """
        epoch = self.replica.epoch
        self._sweep_soon()
        if not entries:
            self._after_linger(lambda: self._await_accepted(write, epoch))
            return
        token = self.pump.new_token()
        self._proposals[token] = write
        self._after_linger(inputs.Propose(token, epoch, tuple(entries)))

    def read(self, pending: HeldRead) -> None:
        """Confirm leadership by fetches begun after now, then answer at a safe offset."""
        token = self.pump.new_token()
        pending.asked = self.pump.tracer.seq
        self._reads[token] = pending
        self.pump.enqueue(inputs.ReadBarrier(token))

    def when_published(self, look: Callable[[], None]) -> bool:
        """Look at the image once the node has caught up after its start, which may be now.

        What a broker serves before that could be far older than what clients know already
        (KAFKA-14857). False when too many wait already: then it will not look.
        """
        if self.machine.published is not None:
            look()
        elif len(self._unpublished) < LOOKS_MAX:
            self._unpublished.append(look)
        else:
            return False
        return True

    def fault(self, operation: str, error: Exception) -> None:
        """An operation of the active controller failed in a way that nobody thought of.

        Nothing of it was written, but what the controller believes may be wrong from here on:
        another one, or this one in another reign, begins with what is committed.
        """
        log.error("%s failed, so this controller gives up: %s", operation, error, exc_info=error)
        self._give_up()

    def _after_linger(self, work: Work) -> None:
        """Queue a write, after those before it and with those that come while it lingers."""
        linger_ms = self.config.timers.append_linger_ms
        if linger_ms == 0:
            self.pump.enqueue(work)
            return
        self._lingering.append(work)
        if self._linger is None:
            loop = asyncio.get_running_loop()
            self._linger = loop.call_later(linger_ms / 1000, self._linger_over)

    def _linger_over(self) -> None:
        self._linger = None
        lingering, self._lingering = self._lingering, []
        for work in lingering:
            self.pump.enqueue(work)

    # ------------------------------------------------------------------ the controller's own work

    def schedule(self) -> None:
        """Do from now on what an active controller does unasked; call once."""
        controller = self.controller
        if controller is None:
            return
        # NoOp records are the liveness probe of the quorum.
        if self.config.timers.idle_interval_ms > 0:
            self._schedule("NoOp", self.config.timers.idle_interval_ms, controller.no_op)
        self._schedule(
            "ExpireSessions",
            controller.session_check_interval_ms,
            lambda: controller.expire_sessions(self.pump.now_ms()),
            more=lambda broker: broker is not None,  # the next silent one need not wait
        )
        most = controller.config.elections_per_balance_max
        timers = self.config.timers
        for name, interval_ms, elect, is_more in (
            (
                "BalanceLeaders",
                timers.leader_balance_interval_ms,
                controller.balance_leaders,
                lambda: controller.balancing,
            ),
            (
                "ElectUnclean",
                timers.unclean_election_interval_ms,
                controller.elect_unclean,
                lambda: controller.electing_unclean,
            ),
        ):
            self._schedule(name, interval_ms, elect, more=partial(_more, most, is_more))

    def _schedule(
        self,
        name: str,
        interval_ms: int,
        operate: Callable[[], ControllerResult[T]],
        *,
        more: Callable[[T], bool] = lambda _: False,
    ) -> None:
        """Operate every so often, and again at once as long as the reply says there is ``more``."""

        def work() -> None:
            result = self._try(name, operate)
            if result is not None and more(result.reply):
                self.pump.after(f"{name} again", AGAIN_MS, when_free)

        def when_free() -> None:
            self.long_work.when_free(work)

        self.pump.every(name, interval_ms, when_free)

    def _try(
        self,
        name: str,
        operate: Callable[[], ControllerResult[T]],
        done: Callable[[], None] = no_answer,
    ) -> ControllerResult[T] | None:
        """Operate; a controller that fails in a way that nobody thought of gives up."""
        try:
            return self._operate(name, operate, done)
        except ControllerError:
            raise
        except Exception as error:
            self.fault(name, error)
            return None

    def _operate(
        self,
        name: str,
        operate: Callable[[], ControllerResult[T]],
        done: Callable[[], None] = no_answer,
    ) -> ControllerResult[T] | None:
        """Do and propose an operation that nobody has asked for; None of a controller at rest."""
        if self.controller is None or not self.controller.active:
            return None
        result = operate()
        self._sweep_soon()
        if result.entries:
            write = HeldWrite(name, done, no_answer, no_answer, result.notes)
            self.propose(result.entries, write)
        return result

    def _sweep_soon(self) -> None:
        """Go on with a walk over very many partitions, after a look at the sockets."""
        controller = self.controller
        if controller is None or not controller.sweeps or self._sweeping:
            return
        if self._swept < SWEEPS_AHEAD:
            self._sweeping = True
            self.pump.soon(lambda: self.long_work.when_free(self._sweep))

    def _sweep(self) -> None:
        self._sweeping = False
        controller = self.controller
        if controller is None or not controller.sweeps:
            return
        epoch = controller.epoch

        def committed() -> None:
            if controller.epoch == epoch:
                self._swept -= 1
                self._sweep_soon()

        result = self._try("Sweep", controller.sweep, committed)
        self._swept += bool(result is not None and result.entries)
        self._sweep_soon()

    # ------------------------------------------------------------------ commit and apply

    def commit(self, high_watermark: int) -> None:
        """Apply and acknowledge what has been committed below ``high_watermark``."""
        self.machine.commit(high_watermark)
        self.catch_up()
        self._acknowledge_due(high_watermark)

    def _acknowledge_due(self, high_watermark: int) -> None:
        """Answer what is committed and applied: who has its answer finds it in the image."""
        writes, below = self._writes, min(high_watermark, self.machine.applied)
        while writes and writes[0].wait_for < below:
            self._acknowledge(writes.popleft())

    def catch_up(self) -> None:
        """Apply what there is to apply, unless that is under way."""
        if not self._applying:
            self._apply()

    def _apply(self) -> None:
        """Apply a slice of what is committed, and the next one after a look at the sockets."""
        for offset, record in self.machine.advance(self.pump.now_ms()):
            if self.controller is not None:
                self.controller.committed(record, offset)
        self._applying = self.machine.is_behind
        if self._applying:
            self.pump.soon(self._apply_more)
        self._maybe_claim()
        while self._confirmed and self._confirmed[0][0] <= self.machine.applied:
            self._answer_read(self._confirmed.popleft()[1])
        if self._unpublished and self.machine.published is not None:
            looks, self._unpublished = self._unpublished, []
            for look in looks:
                look()
        for tell in tuple(self.on_applied):
            tell()
        if self.machine.loader.has_unused and not self._freeing:
            self._freeing = True
            self.pump.soon(self._let_go)

    def _apply_more(self) -> None:
        self._apply()
        self.pump.soon(self._acknowledge_applied)  # a large answer takes a turn of its own

    def _let_go(self) -> None:
        """Free what a loaded snapshot has replaced, some of it in each turn."""
        self._freeing = self.machine.loader.let_go(PARTITIONS_TO_FREE)
        if self._freeing:
            self.pump.soon(self._let_go)

    def _acknowledge_applied(self) -> None:
        if self.replica.high_watermark is not None:
            self._acknowledge_due(self.replica.high_watermark)

    def _acknowledge(self, write: HeldWrite) -> None:
        self.pump.trace("ack", api=write.api, off=write.wait_for, hwm=self.replica.high_watermark)
        for type_, fields in write.notes:
            self.pump.trace(type_, **fields, off=write.wait_for)
        self.pump.later(write.done)

    # ------------------------------------------------------------------ claim, renounce

    def lead(self, epoch: int, epoch_start: int) -> None:
        """Claim once everything before ``epoch_start`` is applied, which may be now."""
        self._claim_at = (epoch, epoch_start)
        self._maybe_claim()

    def _maybe_claim(self) -> None:
        if self._claim_at is None or self.controller is None:
            return
        epoch, epoch_start = self._claim_at
        if self.machine.applied > epoch_start:
            self._claim_at = None
            self.controller.claim(epoch, self.pump.now_ms())
            self.pump.trace("claim", applied=self.machine.applied)
            self._swept = 0
            self._operate("Activate", self._activate)
            self._sweep_soon()

    def _activate(self) -> ControllerResult[str | None]:
        assert self.controller is not None  # noqa: S101 - it has just claimed
        result = self.controller.activate(
            self._bootstrap, open_transaction=self.machine.loader.in_transaction
        )
        if result.reply is not None:
            log.info("active controller: %s", result.reply)
        return result

    def renounce(self) -> None:
        """Lose the leadership: the controller rests, and whoever waits for a write is told."""
        self._claim_at = None
        if self.controller is None:
            return
        if self.controller.active:
            self.controller.renounce()
            self.pump.trace(
                "renounce", applied=self.machine.applied, kept=self.controller.speculative
            )
        for write in self._writes:
            self.pump.later(write.abandoned)
        # Not stepped yet, and refused by the core when they are: they speak of an epoch gone by.
        for write in self._proposals.values():
            self.pump.later(write.refused)
        self._writes.clear()
        self._proposals.clear()
        self.long_work.give_up()

    def _give_up(self) -> None:
        """Renounce and resign: no leader goes on without an active controller (KAFKA-13104)."""
        epoch = None if self.controller is None else self.controller.epoch
        self.renounce()
        if epoch is not None:
            # Before what was proposed and is not stepped: that was refused just now.
            self.pump.do_next(inputs.Resign(epoch))

    # ------------------------------------------------------------------ what the core answers

    def _await_commit(self, write: HeldWrite) -> None:
        high_watermark = self.replica.high_watermark
        if high_watermark is not None and write.wait_for < min(
            high_watermark, self.machine.applied
        ):
            self._acknowledge(write)
        else:
            self._writes.append(write)  # sorted by wait_for: offsets are given in order

    def _await_accepted(self, write: HeldWrite, epoch: int) -> None:
        """Wait for every record accepted up to now; proposals before this one have been stepped."""
        if self.controller is None or self.controller.epoch != epoch:
            self.pump.later(write.refused)  # it may have seen what is lost now
            return
        write.wait_for = self._writes[-1].wait_for if self._writes else -1
        write.base = self.replica.log_end_offset
        self._await_commit(write)

    def proposal_accepted(self, effect: fx.ProposalAccepted) -> None:
        """Hold a write until its records are committed."""
        write = self._proposals.pop(effect.token)
        write.base, write.wait_for = effect.base_offset, effect.last_offset
        if self.controller is not None:
            self.controller.appended(effect.base_offset, effect.last_offset)
        self._await_commit(write)

    def proposal_rejected(self, effect: fx.ProposalRejected) -> None:
        """Refuse a write, and give up: the leadership is over."""
        write = self._proposals.pop(effect.token, None)
        if write is None or self.controller is None:
            return  # of a leadership that is over, refused with it
        self.pump.later(write.refused)
        self._give_up()  # what was worked out on top of the refused records is void too

    def barrier_confirmed(self, effect: fx.BarrierConfirmed) -> None:
        """Answer a read once all that it may look at is applied; raises NodeFatalError."""
        pending = self._reads.pop(effect.token)
        if self.machine.applied >= effect.read_offset and not self._confirmed:
            self._answer_read(pending)
        elif self._applying:
            self._confirmed.append((effect.read_offset, pending))
        else:
            raise NodeFatalError(
                f"a read at {effect.read_offset} was confirmed, applied is {self.machine.applied}"
            )

    def _answer_read(self, pending: HeldRead) -> None:
        self.pump.trace("read", api=pending.api, off=self.machine.applied, asked=pending.asked)
        pending.done()

    def barrier_failed(self, effect: fx.BarrierFailed) -> None:
        """Refuse a read: another one may lead."""
        self.pump.later(self._reads.pop(effect.token).refused)
