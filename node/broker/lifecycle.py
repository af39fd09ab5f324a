"""A broker's life with the controller, sans-IO: register, catch up, serve, hand over, stop.

``BrokerLifecycle.step(input, now_ms)`` takes one input and returns effects, to be run in order.
The duties of whoever drives it:

1. Give every ``SendRegistration`` and ``SendHeartbeat`` exactly one answer or ``SendFailed``; there
   is never more than one in flight. Find the active controller and repeat a request that went to
   another one (NOT_CONTROLLER) on your own: here it is a failure like others.
2. Call ``step(Tick(), now_ms)`` no later than ``next_deadline_ms()``.
3. After ``CaughtUp`` step ``ReadyToUnfence`` as soon as the broker can serve.
4. On ``Fatal`` stop at once.

Rules of Kafka that surprise: a broker that loses its session stays RUNNING here and says in each
heartbeat that it does not want to be fenced, and the controller unfences it; STALE_BROKER_EPOCH
(77) and BROKER_ID_NOT_REGISTERED (102) in a heartbeat are failures to be retried, never a reason
to register anew, because only an operator unregisters a broker that lives.

Source: Kafka's BrokerLifecycleManager; KIP-631.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from uuid import UUID

from node.broker.events import (
    BeginControlledShutdown,
    BeginShutdown,
    CaughtUp,
    Effect,
    Fatal,
    Fenced,
    HeartbeatAnswered,
    Input,
    MetadataPublished,
    ReadyToUnfence,
    Registered,
    RegistrationAnswered,
    SendFailed,
    SendHeartbeat,
    SendRegistration,
    Start,
    StateChanged,
    Stopped,
    Tick,
    Traced,
    Unfenced,
)
from node.broker.states import TRANSITIONS, BrokerState, kip500_name
from node.controller.broker_operations import BrokerHeartbeatRequest, BrokerRegistrationRequest
from node.controller.errors import ApiError
from node.metadata.schemas import BrokerEndpoint, BrokerFeature

CATCH_UP_INTERVAL_MS: Final = 10
FIRST_SHUTDOWN_INTERVAL_MS: Final = 50
RETRY_BACKOFF_MS: Final = 100  # doubled by every failure, up to the heartbeat interval
_JITTER: Final = 0.2
_NO_EPOCH: Final = -1


class LifecycleError(Exception):
    """Raised when an input cannot be: the driver breaks the contract, the node must stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleConfig:
    """The identity of a broker, and what it tells the controller; times in milliseconds.

    ``previous_broker_epoch`` is the epoch that was written down at the last clean stop, else -1.
    """

    broker_id: int
    cluster_id: str
    incarnation_id: UUID
    listeners: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    log_dirs: tuple[UUID, ...] = ()
    previous_broker_epoch: int = _NO_EPOCH
    heartbeat_interval_ms: int = 2000
    session_timeout_ms: int = 9000
    registration_timeout_ms: int = 60_000


class BrokerLifecycle:
    """The state machine; read ``state``, ``broker_epoch``, ``is_fenced`` and ``name``."""

    def __init__(self, config: LifecycleConfig, rng: Random) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = _NO_EPOCH
        self.is_fenced = True
        self.published_offset = _NO_EPOCH  # inclusive
        self.config = config
        self._rng = rng
        self._effects: list[Effect] = []
        self._now_ms = 0
        self._registered = False  # what the controller has is what we would say now
        self._ready_to_unfence = False
        self._got_shutdown_answer = False
        self._failures = 0
        self._in_flight: SendRegistration | SendHeartbeat | None = None
        self._sent_ms = 0
        self._hurry = False  # communicate as soon as nothing is in flight any more
        self._next_ms: int | None = None
        self._registration_deadline_ms: int | None = None
        self._session_deadline_ms: int | None = None
        self._handlers: Mapping[type[Input], Callable[[Any], None]] = {
            Tick: self._on_tick,
            Start: self._on_start,
            RegistrationAnswered: self._on_registration,
            HeartbeatAnswered: self._on_heartbeat,
            SendFailed: self._on_send_failed,
            MetadataPublished: self._on_published,
            ReadyToUnfence: self._on_ready,
            BeginControlledShutdown: self._on_controlled_shutdown,
            BeginShutdown: self._on_shutdown,
        }

    @property
    def name(self) -> str:
        """KIP-500's name of the state."""
        return kip500_name(self.state, fenced=self.is_fenced)

    def next_deadline_ms(self) -> int | None:
        """Give the time when the next ``Tick`` is due; None: never, only other inputs matter."""
        if self.state in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN):
            return None
        deadlines = (
            self._next_ms if self._in_flight is None else None,
            self._registration_deadline_ms,
            self._session_deadline_ms,
        )
        return min((ms for ms in deadlines if ms is not None), default=None)

    def step(self, event: Input, now_ms: int) -> list[Effect]:
        """Take one input; returns what is to be done, in order.

        Raises:
            LifecycleError: An answer came to a request that is not in flight, or a second start.
        """
        self._now_ms = now_ms
        self._effects = []
        if self.state is not BrokerState.SHUTTING_DOWN:  # what comes after the end is not heard
            self._handlers[type(event)](event)
            self._tick()
        return self._effects

    # ------------------------------------------------------------------ inputs

    def _on_tick(self, _: Tick) -> None:
        """Do nothing more: what is due happens after every input."""

    def _on_start(self, _: Start) -> None:
        if self.state is not BrokerState.NOT_RUNNING:
            raise LifecycleError(f"start in state {self.state.name}")
        self._move(BrokerState.STARTING)
        self._registration_deadline_ms = self._now_ms + self.config.registration_timeout_ms
        self._communicate_at(self._now_ms)

    def _on_registration(self, answer: RegistrationAnswered) -> None:
        self._settle(SendRegistration)
        self._trace(
            "reg",
            b_ep=answer.broker_epoch,
            inc_id=self.config.incarnation_id.hex,
            prev=self.config.previous_broker_epoch,
            err=answer.error,
        )
        if answer.error == ApiError.NONE:
            self._failures = 0
            self.broker_epoch = answer.broker_epoch
            self._registered = True
            self._registration_deadline_ms = None
            self._effects.append(Registered(answer.broker_epoch))
            self._communicate_at(self._now_ms)
        elif answer.error == ApiError.INCONSISTENT_CLUSTER_ID:
            self._die(
                f"broker {self.config.broker_id} is of cluster {self.config.cluster_id!r}, and "
                "the controller is of another: check cluster.id and the controllers' addresses"
            )
        else:
            self._communicate_after_failure()

    def _on_heartbeat(self, answer: HeartbeatAnswered) -> None:
        request = self._settle(SendHeartbeat).request
        assert isinstance(request, BrokerHeartbeatRequest)  # noqa: S101 - as settled
        self._trace(
            "hb",
            b_ep=request.broker_epoch,
            off=request.current_metadata_offset,
            want_fence=request.want_fence,
            want_shut_down=request.want_shut_down,
            err=answer.error,
            caught_up=answer.is_caught_up,
            fenced=answer.is_fenced,
            shut_down=answer.should_shut_down,
        )
        if answer.error != ApiError.NONE:
            self._communicate_after_failure()
            return
        self._failures = 0
        # the controller counts from when the request came, which was not before it was sent
        self._session_deadline_ms = self._sent_ms + self.config.session_timeout_ms
        self._heard_fenced(answer.is_fenced)
        self._communicate_at(self._now_ms + self._advance(answer))

    def _on_send_failed(self, failure: SendFailed) -> None:
        sent = self._settle(SendRegistration, SendHeartbeat)
        self._trace(
            "reg" if isinstance(sent, SendRegistration) else "hb",
            b_ep=self.broker_epoch,
            err=None,
            why=failure.reason,
        )
        self._communicate_after_failure()

    def _on_published(self, published: MetadataPublished) -> None:
        if published.offset < self.published_offset:
            raise LifecycleError(
                f"published offset fell from {self.published_offset} to {published.offset}"
            )
        self.published_offset = published.offset

    def _on_ready(self, _: ReadyToUnfence) -> None:
        self._ready_to_unfence = True
        self._communicate_now()

    def _on_controlled_shutdown(self, _: BeginControlledShutdown) -> None:
        if self.state is BrokerState.RUNNING:
            self._move(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            self._communicate_now()
        elif self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._stop(clean=False)  # it leads nothing: there is nothing to hand over

    def _on_shutdown(self, _: BeginShutdown) -> None:
        self._stop(clean=False)

    # ------------------------------------------------------------------ decisions

    def _advance(self, answer: HeartbeatAnswered) -> int:
        """Go on to the next state if the answer allows it; returns when to speak next, in ms."""
        interval_ms = self.config.heartbeat_interval_ms
        if self.state is BrokerState.STARTING:
            if answer.is_caught_up:
                self._move(BrokerState.RECOVERY)
                self._effects.append(CaughtUp())
            return CATCH_UP_INTERVAL_MS
        if self.state is BrokerState.RECOVERY and not answer.is_fenced:
            self._move(BrokerState.RUNNING)
        elif self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            if answer.should_shut_down:
                self._stop(clean=True)
            elif not self._got_shutdown_answer:
                self._got_shutdown_answer = True
                return FIRST_SHUTDOWN_INTERVAL_MS
        return interval_ms

    def _heard_fenced(self, fenced: bool) -> None:
        if fenced and not self.is_fenced:
            self._fence("controller")
        elif not fenced and self.is_fenced:
            self.is_fenced = False
            self._trace("fence", b_ep=self.broker_epoch, fenced=False, why="controller")
            self._effects.append(Unfenced(self.broker_epoch))

    def _fence(self, why: str) -> None:
        self.is_fenced = True
        self._trace("fence", b_ep=self.broker_epoch, fenced=True, why=why)
        self._effects.append(Fenced(self.broker_epoch, why))

    def _tick(self) -> None:
        if self._expired(self._registration_deadline_ms):
            self._die(
                f"broker {self.config.broker_id} could not register with the controller quorum "
                f"in {self.config.registration_timeout_ms} ms "
                "(initial.broker.registration.timeout.ms)"
            )
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        if self._expired(self._session_deadline_ms):
            self._session_deadline_ms = None
            if not self.is_fenced:
                self._fence("session")
        if self._in_flight is None and self._expired(self._next_ms):
            self._communicate()

    def _expired(self, deadline_ms: int | None) -> bool:
        return deadline_ms is not None and self._now_ms >= deadline_ms

    # ------------------------------------------------------------------ talking

    def _communicate(self) -> None:
        self._next_ms = None
        self._hurry = False
        self._sent_ms = self._now_ms
        self._in_flight = (
            SendHeartbeat(self._heartbeat()) if self._registered else SendRegistration(self._who())
        )
        self._effects.append(self._in_flight)

    def _who(self) -> BrokerRegistrationRequest:
        config = self.config
        return BrokerRegistrationRequest(
            broker_id=config.broker_id,
            cluster_id=config.cluster_id,
            incarnation_id=config.incarnation_id,
            listeners=config.listeners,
            features=config.features,
            rack=config.rack,
            log_dirs=tuple(sorted(config.log_dirs)),
            previous_broker_epoch=config.previous_broker_epoch,
        )

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self.config.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.published_offset,
            want_fence=not self._ready_to_unfence,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
        )

    def _settle(
        self, *kinds: type[SendRegistration | SendHeartbeat]
    ) -> SendRegistration | SendHeartbeat:
        sent, self._in_flight = self._in_flight, None
        if not isinstance(sent, kinds):
            raise LifecycleError(f"an answer to {[k.__name__ for k in kinds]}, in flight is {sent}")
        return sent

    def _communicate_now(self) -> None:
        """Send the next request as soon as possible, after the answer that is under way."""
        if self.state is BrokerState.NOT_RUNNING:
            return
        if self._in_flight is None:
            self._communicate_at(self._now_ms)
        else:
            self._hurry = True

    def _communicate_at(self, at_ms: int) -> None:
        self._next_ms = self._now_ms if self._hurry else at_ms
        self._hurry = False

    def _communicate_after_failure(self) -> None:
        """Never at once after a failure, however much it hurries: controllers may be drowning."""
        self._hurry = False
        most_ms = self.config.heartbeat_interval_ms
        backoff_ms = min(RETRY_BACKOFF_MS << min(self._failures, 16), most_ms)
        self._failures += 1
        jitter = 1 - _JITTER * self._rng.random()
        self._communicate_at(self._now_ms + max(1, int(backoff_ms * jitter)))

    # ------------------------------------------------------------------ states

    def _move(self, to: BrokerState) -> None:
        from_, self.state = self.state, to
        if to not in TRANSITIONS[from_]:
            raise LifecycleError(f"no way from {from_.name} to {to.name}")
        self._trace("bstate", **{"from": from_.name, "to": to.name, "name": self.name})
        self._effects.append(StateChanged(from_, to, self.name))

    def _stop(self, *, clean: bool) -> None:
        self._move(BrokerState.SHUTTING_DOWN)
        self._effects.append(Stopped(clean))

    def _die(self, reason: str) -> None:
        self._move(BrokerState.SHUTTING_DOWN)
        self._effects.append(Fatal(reason))

    def _trace(self, type_: str, **fields: Any) -> None:
        self._effects.append(Traced(type_, fields))
