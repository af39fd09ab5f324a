"""Drives a broker's lifecycle: its clock, its requests, its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

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
from node.broker.exchange import Channel, exchange
from node.broker.lifecycle import BrokerLifecycle
from node.broker.states import BrokerState
from node.clock import Clock
from node.controller.errors import ApiError
from node.trace import Tracer

log = logging.getLogger(__name__)

_MS = 1000


class BrokerFatalError(Exception):
    """Given to ``on_fatal`` when the broker can never join its cluster; the message says why."""


class BrokerRunner:
    """A broker's lifecycle in an event loop.

    Args:
        lifecycle: A new one; the runner alone steps it.
        channel: The way to the active controller; closed with the runner.
        clock: Whose ``now_ms`` the times are of.
        trace: Where ``reg``, ``hb``, ``fence`` and ``bstate`` go, with the epoch of ``epoch()``.
        epoch: The quorum's epoch as the node knows it.
        on_fatal: Told once when the process must die.
        on_caught_up: Called when the broker has caught up for the first time; must lead to
            ``ready_to_unfence``. None: it is ready at once.
    """

    def __init__(
        self,
        lifecycle: BrokerLifecycle,
        channel: Channel,
        *,
        clock: Clock,
        trace: Tracer,
        epoch: Callable[[], int],
        on_fatal: Callable[[BaseException], None],
        on_caught_up: Callable[[], None] | None = None,
    ) -> None:
        self._lifecycle = lifecycle
        self._config = lifecycle.config
        self._channel = channel
        self._clock = clock
        self._trace = trace
        self._epoch = epoch
        self._on_fatal = on_fatal
        self._on_caught_up = on_caught_up or self.ready_to_unfence
        # Half a session: a heartbeat that is lost can be repeated in time (KAFKA-14392).
        self._request_timeout_s = self._config.session_timeout_ms / 2 / _MS
        self._timer: asyncio.TimerHandle | None = None
        self._exchange: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self._unfenced = asyncio.Event()
        self._clean = False
        self._dead = False
        self._trouble: str | None = None

    # ------------------------------------------------------------------ what others may see

    @property
    def state(self) -> BrokerState:
        """Kafka's state of the broker."""
        return self._lifecycle.state

    @property
    def name(self) -> str:
        """KIP-500's name of it: Offline, Fenced, Online, Stopping."""
        return self._lifecycle.name

    @property
    def broker_epoch(self) -> int:
        """The epoch of the registration, -1 before it."""
        return self._lifecycle.broker_epoch

    @property
    def is_fenced(self) -> bool:
        """Tell whether the broker is fenced, as far as it knows itself."""
        return self._lifecycle.is_fenced

    @property
    def stopped_cleanly(self) -> bool:
        """Tell whether the controller agreed to the stop; then ``broker_epoch`` is to be saved."""
        return self._clean

    async def wait_unfenced(self) -> None:
        """Wait until the broker is unfenced."""
        await self._unfenced.wait()

    # ------------------------------------------------------------------ what happens to it

    def start(self) -> None:
        """Register, and go on from there. Call in a running event loop."""
        self._step(Start())

    def on_published(self, offset: int) -> None:
        """The published image holds all up to ``offset``, inclusive."""
        self._step(MetadataPublished(offset))

    def ready_to_unfence(self) -> None:
        """The broker can serve."""
        self._step(ReadyToUnfence())

    async def stop(self, timeout_s: float) -> bool:
        """Hand over and stop; after ``timeout_s`` seconds stop all the same.

        Returns:
            Whether the controller agreed. The channel is closed either way. Idempotent.
        """
        if not self._dead:
            self._step(BeginControlledShutdown())
            try:
                async with asyncio.timeout(timeout_s):
                    await self._stopped.wait()
            except TimeoutError:
                log.warning(
                    "broker %d stops without the controller's consent: none in %s s",
                    self._config.broker_id,
                    timeout_s,
                )
                self._step(BeginShutdown())
        await self._close()
        return self._clean

    def halt(self) -> None:
        """Stop at once and send nothing more: the process is about to die. Idempotent."""
        self._dead = True
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._exchange is not None:
            self._exchange.cancel()
        self._channel.close()

    # ------------------------------------------------------------------ helpers

    async def _close(self) -> None:
        task = self._exchange
        self.halt()
        if task is not None:
            await asyncio.wait([task])

    def _step(self, event: Input) -> None:
        if self._dead:
            return
        try:
            effects = self._lifecycle.step(event, self._clock.now_ms())
            for effect in effects:
                self._run(effect)
            self._trace.flush()  # nothing else may happen here for a while
        except Exception as error:
            log.critical("fatal: the broker's lifecycle: %s", error, exc_info=error)
            self._die(error)
            return
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self._lifecycle.next_deadline_ms()
        if deadline_ms is not None and not self._dead:
            delay_s = max(0, deadline_ms - self._clock.now_ms()) / _MS
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._step, Tick())

    def _run(self, effect: Effect) -> None:
        broker = self._config.broker_id
        match effect:
            case Traced(type_, fields):
                self._trace.emit(type_, self._epoch(), fields)
            case SendRegistration() | SendHeartbeat():
                self._trace.flush()  # what led to the request is known before it
                self._exchange = asyncio.create_task(self._talk(effect))
            case CaughtUp():
                asyncio.get_running_loop().call_soon(self._on_caught_up)
            case Registered(epoch):
                log.info("broker %d is registered with epoch %d", broker, epoch)
            case StateChanged(from_, to, name):
                log.info("broker %d goes from %s to %s (%s)", broker, from_.name, to.name, name)
            case Unfenced(epoch):
                log.info("broker %d epoch %d is unfenced", broker, epoch)
                self._unfenced.set()
            case Fenced(epoch, why):
                log.warning("broker %d epoch %d is fenced (%s)", broker, epoch, why)
                self._unfenced.clear()
            case Stopped(clean):
                self._clean = clean
                self._trace.flush()
                self._stopped.set()
            case Fatal(reason):
                log.critical("fatal: %s", reason)
                self._trace.flush()
                self._die(BrokerFatalError(reason))

    async def _talk(self, send: SendRegistration | SendHeartbeat) -> None:
        try:
            answer = await exchange(self._channel, send, self._request_timeout_s)
        except Exception as error:
            self._exchange = None
            log.critical("fatal: the broker's requests: %s", error, exc_info=error)
            self._die(error)
            return
        self._exchange = None
        self._tell(answer)
        self._step(answer)

    def _tell(self, answer: RegistrationAnswered | HeartbeatAnswered | SendFailed) -> None:
        """Log why the controller does not have us, once as long as that stays the same."""
        why = answer.reason if isinstance(answer, SendFailed) else _refusal(answer)
        if why is not None and why != self._trouble:
            log.warning("broker %d is not in touch: %s", self._config.broker_id, why)
        self._trouble = why

    def _die(self, error: BaseException) -> None:
        if not self._dead:
            self.halt()
            self._on_fatal(error)


def _refusal(answer: RegistrationAnswered | HeartbeatAnswered) -> str | None:
    if not answer.error:
        return None
    what = "registration" if isinstance(answer, RegistrationAnswered) else "heartbeat"
    name = ApiError(answer.error).name if answer.error in set(ApiError) else "an unknown error"
    return f"the controller answered the {what} with {name} ({answer.error})"
