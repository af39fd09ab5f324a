"""The broker's lifecycle, one sentence of KRAFT's broker states at a time."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

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
from node.broker.lifecycle import BrokerLifecycle, LifecycleConfig, LifecycleError
from node.broker.states import TRANSITIONS, BrokerState, kip500_name
from node.metadata.schemas import BrokerEndpoint, BrokerFeature

INCARNATION = UUID(int=7)
DIRS = (UUID(int=9), UUID(int=8))
LISTENERS = (BrokerEndpoint(name="PLAINTEXT", host="b1", port=9092, security_protocol=0),)
FEATURES = (
    BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=27),
)
CAUGHT_UP = HeartbeatAnswered(0, is_caught_up=True)
UNFENCED = HeartbeatAnswered(0, is_caught_up=True, is_fenced=False)


class Broker:
    """A lifecycle with a clock of its own; ``effects`` are those of the last step, not traced."""

    def __init__(self, **config: Any) -> None:
        self.now = 1_000_000
        self.effects: list[Effect] = []
        self.trace: list[Traced] = []
        self.lifecycle = BrokerLifecycle(
            LifecycleConfig(
                **{
                    "broker_id": 1,
                    "cluster_id": "c",
                    "incarnation_id": INCARNATION,
                    "listeners": LISTENERS,
                    "features": FEATURES,
                    "log_dirs": DIRS,
                    **config,
                }
            ),
            Random(0),
        )

    def step(self, event: Input) -> list[Effect]:
        effects = self.lifecycle.step(event, self.now)
        self.trace += [e for e in effects if isinstance(e, Traced)]
        self.effects = [e for e in effects if not isinstance(e, Traced)]
        return self.effects

    def after(self, ms: int, event: Input | None = None) -> list[Effect]:
        self.now += ms
        return self.step(event or Tick())

    def wait(self) -> int:
        """Let the next deadline come; returns after how many ms it did."""
        deadline = self.lifecycle.next_deadline_ms()
        assert deadline is not None
        waited = deadline - self.now
        self.after(max(0, waited))
        return waited

    def sent(self) -> Any:
        """The request that the last step sent."""
        [send] = [e for e in self.effects if isinstance(e, SendRegistration | SendHeartbeat)]
        return send.request

    @property
    def state(self) -> BrokerState:
        return self.lifecycle.state

    def is_in(self, state: BrokerState) -> bool:
        return self.lifecycle.state is state


def broker_in(state: BrokerState, **config: Any) -> Broker:
    """A broker in that state with nothing in flight."""
    broker = Broker(**config)
    if state is BrokerState.NOT_RUNNING:
        return broker
    broker.step(Start())
    if state is BrokerState.STARTING:
        broker.step(SendFailed("no controller"))
        return broker
    broker.step(RegistrationAnswered(0, 42))
    broker.step(CAUGHT_UP)
    if state is BrokerState.RECOVERY:
        return broker
    broker.step(ReadyToUnfence())
    broker.step(UNFENCED)
    if state is BrokerState.RUNNING:
        return broker
    broker.step(BeginControlledShutdown())
    broker.step(UNFENCED)
    if state is BrokerState.SHUTTING_DOWN:
        broker.step(BeginShutdown())
    assert broker.state is state
    return broker


# --------------------------------------------------------------------------- the way up


def test_the_way_of_a_broker_from_start_to_clean_stop() -> None:
    broker = Broker()
    seen = []

    def step(event: Input) -> None:
        broker.step(event)
        seen.extend([e for e in broker.effects if isinstance(e, StateChanged)])

    step(Start())
    step(RegistrationAnswered(0, 42))
    step(CAUGHT_UP)
    step(ReadyToUnfence())
    step(UNFENCED)
    step(BeginControlledShutdown())
    step(HeartbeatAnswered(0, is_fenced=True, should_shut_down=True))
    state = BrokerState
    assert [(e.from_, e.to, e.name) for e in seen] == [
        (state.NOT_RUNNING, state.STARTING, "Fenced"),
        (state.STARTING, state.RECOVERY, "Fenced"),
        (state.RECOVERY, state.RUNNING, "Online"),
        (state.RUNNING, state.PENDING_CONTROLLED_SHUTDOWN, "Stopping"),
        (state.PENDING_CONTROLLED_SHUTDOWN, state.SHUTTING_DOWN, "Stopping"),
    ]
    assert broker.effects[-1] == Stopped(clean=True)


def test_a_start_sends_the_registration_at_once_with_everything_the_broker_is() -> None:
    broker = Broker(rack="r1", previous_broker_epoch=17)
    broker.step(Start())
    request = broker.sent()
    assert (request.broker_id, request.cluster_id, request.incarnation_id) == (1, "c", INCARNATION)
    assert (request.listeners, request.features, request.rack) == (LISTENERS, FEATURES, "r1")
    assert request.log_dirs == tuple(sorted(DIRS))
    assert request.previous_broker_epoch == 17


def test_a_registered_broker_sends_a_heartbeat_at_once_and_wants_to_stay_fenced() -> None:
    broker = Broker()
    broker.step(MetadataPublished(30))
    broker.step(Start())
    effects = broker.step(RegistrationAnswered(0, 42))
    assert effects[0] == Registered(42)
    heartbeat = broker.sent()
    assert (heartbeat.broker_id, heartbeat.broker_epoch) == (1, 42)
    assert heartbeat.current_metadata_offset == 30
    assert (heartbeat.want_fence, heartbeat.want_shut_down) == (True, False)


def test_while_starting_heartbeats_come_every_10_ms_until_caught_up() -> None:
    broker = Broker()
    broker.step(Start())
    broker.step(RegistrationAnswered(0, 42))
    for offset in (40, 41, 42):
        broker.step(HeartbeatAnswered(0))
        assert broker.state is BrokerState.STARTING
        broker.step(MetadataPublished(offset))
        assert broker.wait() == 10
        assert broker.sent().current_metadata_offset == offset
    effects = broker.step(CAUGHT_UP)
    assert broker.state is BrokerState.RECOVERY
    assert CaughtUp() in effects
    assert broker.wait() == 10


def test_a_broker_ready_to_unfence_says_so_at_once() -> None:
    broker = broker_in(BrokerState.RECOVERY)
    broker.step(ReadyToUnfence())
    assert broker.sent().want_fence is False


def test_readiness_while_a_request_is_in_flight_is_said_right_after_the_answer() -> None:
    broker = Broker()
    broker.step(Start())
    broker.step(RegistrationAnswered(0, 42))
    assert broker.step(ReadyToUnfence()) == []  # never two in flight
    broker.step(CAUGHT_UP)
    assert broker.sent().want_fence is False


def test_a_broker_in_recovery_runs_when_unfenced_and_waits_while_fenced() -> None:
    broker = broker_in(BrokerState.RECOVERY)
    broker.step(ReadyToUnfence())
    broker.step(CAUGHT_UP)
    assert broker.is_in(BrokerState.RECOVERY)
    assert broker.wait() == 2000
    effects = broker.step(UNFENCED)
    assert broker.is_in(BrokerState.RUNNING)
    assert Unfenced(42) in effects
    assert broker.wait() == 2000


# --------------------------------------------------------------------------- failures


@pytest.mark.parametrize("error", [101, 35, 42, 41, 119, 999])
def test_a_refused_registration_is_tried_again_with_backoff_until_the_timeout(error: int) -> None:
    broker = Broker()
    broker.step(Start())
    waits: list[int] = []
    while not (waits and isinstance(broker.effects[-1], Fatal)):
        broker.after(1, RegistrationAnswered(error))
        waits.append(broker.wait())
    for wait, nominal in zip(waits, [100, 200, 400, 800, 1600] + [2000] * 3, strict=False):
        assert 0.8 * nominal <= wait + 1 <= nominal + 1
    assert sum(waits) + len(waits) == 60_000
    fatal = broker.effects[-1]
    assert isinstance(fatal, Fatal)
    assert "initial.broker.registration.timeout.ms" in fatal.reason
    assert broker.state is BrokerState.SHUTTING_DOWN


def test_a_duplicate_registration_succeeds_when_the_old_session_has_expired() -> None:
    broker = Broker()
    broker.step(Start())
    for _ in range(9):
        broker.step(RegistrationAnswered(101))
        broker.wait()
    broker.step(RegistrationAnswered(0, 50))
    assert broker.lifecycle.broker_epoch == 50
    broker.after(60_000)
    assert broker.state is BrokerState.STARTING  # the timeout is over


def test_a_registration_without_an_answer_times_out_too() -> None:
    broker = Broker()
    broker.step(Start())
    assert broker.wait() == 60_000
    assert isinstance(broker.effects[-1], Fatal)


def test_another_cluster_is_fatal_at_once() -> None:
    broker = Broker()
    broker.step(Start())
    effects = broker.step(RegistrationAnswered(104))
    assert isinstance(effects[-1], Fatal)
    assert "'c'" in effects[-1].reason
    assert broker.lifecycle.next_deadline_ms() is None


@pytest.mark.parametrize("state", [s for s in BrokerState if 1 <= s <= 6])
@pytest.mark.parametrize(
    "failure",
    [HeartbeatAnswered(77), HeartbeatAnswered(102), HeartbeatAnswered(41), SendFailed("cut")],
    ids=str,
)
def test_a_failed_heartbeat_is_repeated_and_changes_nothing(
    state: BrokerState, failure: Input
) -> None:
    broker = broker_in(state)
    if state is BrokerState.STARTING:
        broker.wait()
        broker.step(RegistrationAnswered(0, 42))
    else:
        broker.wait()
    assert broker.sent().broker_epoch == 42
    assert not [e for e in broker.step(failure) if isinstance(e, StateChanged)]
    assert broker.state is state
    assert 80 <= broker.wait() <= 100
    assert broker.sent().broker_epoch == 42  # a heartbeat, no registration


def test_a_failure_is_never_answered_at_once_even_when_there_is_news() -> None:
    broker = broker_in(BrokerState.RECOVERY)
    broker.wait()
    broker.step(ReadyToUnfence())
    assert broker.step(SendFailed("cut")) == []
    assert 80 <= broker.wait() <= 100
    assert broker.sent().want_fence is False


def test_a_success_resets_the_backoff() -> None:
    broker = broker_in(BrokerState.RUNNING)
    for _ in range(4):
        broker.wait()
        broker.step(SendFailed("cut"))
    assert broker.wait() > 600
    broker.step(UNFENCED)
    broker.wait()
    broker.step(SendFailed("cut"))
    assert broker.wait() <= 100


def test_never_more_than_one_request_is_in_flight() -> None:
    broker = broker_in(BrokerState.RUNNING)
    broker.wait()
    for event in (Tick(), ReadyToUnfence(), MetadataPublished(99)):
        assert broker.after(100, event) == []


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (BrokerState.RUNNING, UNFENCED),
        (BrokerState.RUNNING, RegistrationAnswered(0, 1)),
        (BrokerState.RUNNING, SendFailed("x")),
        (BrokerState.NOT_RUNNING, SendFailed("x")),
        (BrokerState.RUNNING, Start()),
    ],
)
def test_an_input_that_cannot_be_is_an_error(state: BrokerState, event: Input) -> None:
    with pytest.raises(LifecycleError):
        broker_in(state).step(event)


def test_an_answer_of_the_wrong_kind_is_an_error() -> None:
    broker = Broker()
    broker.step(Start())
    with pytest.raises(LifecycleError, match="an answer to"):
        broker.step(UNFENCED)


# --------------------------------------------------------------------------- sessions


def test_a_broker_that_lost_its_session_is_fenced_and_unfenced_again_without_registering() -> None:
    broker = broker_in(BrokerState.RUNNING)
    broker.wait()
    effects = broker.step(HeartbeatAnswered(0, is_caught_up=True, is_fenced=True))
    assert effects == [Fenced(42, "controller")]
    assert (broker.state, broker.lifecycle.name) == (BrokerState.RUNNING, "Fenced")
    broker.wait()
    assert broker.sent().want_fence is False
    assert broker.step(UNFENCED) == [Unfenced(42)]
    assert broker.lifecycle.name == "Online"


def test_a_broker_that_nobody_answers_for_a_session_takes_itself_for_fenced() -> None:
    broker = broker_in(BrokerState.RUNNING)
    broker.wait()  # sent at 0
    broker.after(500, UNFENCED)
    broker.after(1500 + 500)
    fenced: list[Fenced] = []
    while not fenced:
        broker.step(SendFailed("cut"))
        broker.wait()
        while broker.lifecycle._in_flight is None:
            fenced += [e for e in broker.effects if isinstance(e, Fenced)]
            broker.wait()
        fenced += [e for e in broker.effects if isinstance(e, Fenced)]
    assert fenced == [Fenced(42, "session")]
    assert broker.state is BrokerState.RUNNING
    broker.step(UNFENCED)
    assert Unfenced(42) in broker.effects


def test_the_session_counts_from_when_the_answered_heartbeat_was_sent() -> None:
    broker = broker_in(BrokerState.RUNNING)
    broker.wait()
    sent_ms = broker.now
    broker.after(3000, UNFENCED)
    broker.wait()
    assert broker.lifecycle.next_deadline_ms() == sent_ms + 9000  # the next is in flight


def test_the_published_offset_never_falls() -> None:
    broker = broker_in(BrokerState.RUNNING)
    broker.step(MetadataPublished(50))
    with pytest.raises(LifecycleError, match="50 to 49"):
        broker.step(MetadataPublished(49))


# --------------------------------------------------------------------------- the way down


def test_a_running_broker_asks_the_controller_at_once_to_let_it_go() -> None:
    broker = broker_in(BrokerState.RUNNING)
    broker.step(BeginControlledShutdown())
    assert broker.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    assert broker.sent().want_shut_down is True


def test_the_second_heartbeat_of_a_shutdown_comes_after_50_ms_and_later_ones_as_always() -> None:
    broker = broker_in(BrokerState.RUNNING)
    broker.step(BeginControlledShutdown())
    waits = []
    for _ in range(3):
        broker.step(UNFENCED)
        waits.append(broker.wait())
    assert waits == [50, 2000, 2000]


@pytest.mark.parametrize(
    "state", [BrokerState.NOT_RUNNING, BrokerState.STARTING, BrokerState.RECOVERY]
)
def test_a_broker_that_does_not_run_stops_without_asking(state: BrokerState) -> None:
    broker = broker_in(state)
    assert broker.step(BeginControlledShutdown())[-1] == Stopped(clean=False)
    assert broker.state is BrokerState.SHUTTING_DOWN


@pytest.mark.parametrize("state", [s for s in BrokerState if s is not BrokerState.SHUTTING_DOWN])
def test_every_state_can_be_left_at_once(state: BrokerState) -> None:
    broker = broker_in(state)
    assert broker.step(BeginShutdown())[-1] == Stopped(clean=False)
    assert broker.state is BrokerState.SHUTTING_DOWN


def test_a_second_request_to_shut_down_changes_nothing() -> None:
    broker = broker_in(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
    assert broker.step(BeginControlledShutdown()) == []


def test_after_the_end_nothing_is_heard_and_nothing_is_due() -> None:
    broker = broker_in(BrokerState.RUNNING)
    broker.wait()
    broker.step(BeginShutdown())
    for event in (UNFENCED, SendFailed("late"), Tick(), Start(), BeginControlledShutdown()):
        assert broker.after(10_000, event) == []
    assert broker.lifecycle.next_deadline_ms() is None


# --------------------------------------------------------------------------- names, trace


def test_every_state_but_the_last_has_a_way_out_and_no_way_leads_back() -> None:
    assert set(TRANSITIONS) == set(BrokerState)
    for state, nexts in TRANSITIONS.items():
        assert all(after > state for after in nexts)
        assert bool(nexts) == (state is not BrokerState.SHUTTING_DOWN)


@pytest.mark.parametrize(
    ("state", "fenced", "name"),
    [
        (BrokerState.NOT_RUNNING, True, "Offline"),
        (BrokerState.STARTING, True, "Fenced"),
        (BrokerState.RECOVERY, True, "Fenced"),
        (BrokerState.RUNNING, True, "Fenced"),
        (BrokerState.RUNNING, False, "Online"),
        (BrokerState.PENDING_CONTROLLED_SHUTDOWN, False, "Stopping"),
        (BrokerState.SHUTTING_DOWN, True, "Stopping"),
    ],
)
def test_kip_500_names(state: BrokerState, fenced: bool, name: str) -> None:
    assert kip500_name(state, fenced=fenced) == name


def test_the_trace_tells_of_registration_heartbeats_fencing_and_states() -> None:
    broker = broker_in(BrokerState.RUNNING)
    kinds = [e.type for e in broker.trace]
    assert kinds == ["bstate", "reg", "hb", "bstate", "hb", "fence", "bstate"]
    assert broker.trace[1].fields["err"] == 0
    assert broker.trace[5].fields == {"b_ep": 42, "fenced": False, "why": "controller"}
    assert broker.trace[6].fields == {"from": "RECOVERY", "to": "RUNNING", "name": "Online"}
    broker.wait()
    broker.step(SendFailed("cut"))
    assert broker.trace[-1] == Traced("hb", {"b_ep": 42, "err": None, "why": "cut"})
