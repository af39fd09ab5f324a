"""L2 of live runs: who is healed and does nothing is invalid, once its timers are over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkers.availability import availability
from checkers.liveness.standstill import calm, patience_ms
from checkers.timeline.windows import FaultWindow
from harness.spec import SIM
from harness.verdict import CheckResult, Valid
from tests.support.histories.histories import MS, Tale

LIMIT_MS = patience_ms({})


def healed(*, still_ms: float) -> Tale:
    """A fault that is healed at 2 s; the next op that is done ends so long after."""
    tale = Tale()
    tale.op(0, 10)
    tale.inject(20, 1, "clock-strobe", "installed")
    tale.heal(2_000, 1, "clock-strobe")
    tale.op(1_000, 2_000 + still_ms - 100, "info")
    tale.op(1_900, 2_000 + still_ms)
    return tale


def messages(result: CheckResult) -> list[str]:
    assert {each.invariant for each in result.anomalies} <= {"L2"}
    return [each.message for each in result.anomalies]


def test_the_time_is_three_times_the_timers_and_some_seconds() -> None:
    assert patience_ms({}) == 3 * (2_000 + 2 * 1_000) + 5_000
    slow = {
        "controller.quorum.fetch.timeout.ms": "6000",
        "controller.quorum.election.timeout.ms": "2000",
    }
    assert patience_ms(slow) == 3 * (6_000 + 2 * 2_000) + 5_000


def test_who_works_again_in_time_is_valid() -> None:
    result = availability(healed(still_ms=LIMIT_MS - 1_000).run())
    assert result.valid is Valid.VALID
    assert result.checked["L2"] == 2


def test_who_is_healed_and_does_nothing_is_invalid() -> None:
    result = availability(healed(still_ms=LIMIT_MS + 1_000).run())
    assert result.valid is Valid.INVALID
    (message,) = messages(result)
    assert message.startswith(
        f"nothing that clients asked for was done for {LIMIT_MS / 1e3 + 1:.1f} s"
    )


def test_a_simulation_is_judged_by_liveness() -> None:
    live = healed(still_ms=LIMIT_MS + 1_000).run()
    result = availability(replace(live, spec=replace(live.spec, env=SIM)))
    assert result.valid is Valid.VALID
    assert "L2" not in result.checked


def test_while_a_fault_may_be_in_force_nothing_is_due() -> None:
    tale = healed(still_ms=LIMIT_MS + 1_000)
    tale.inject(9_000, 2, "kill", "installed")
    tale.heal(12_000, 2, "kill")
    assert availability(tale.run()).valid is Valid.VALID


def test_what_a_guard_saw_may_not_be_the_system_s_fault() -> None:
    tale = healed(still_ms=LIMIT_MS + 1_000)
    tale.abort(2_000 + LIMIT_MS, "n4 cannot be reached")
    assert availability(tale.run()).valid is Valid.VALID


@pytest.mark.parametrize(
    ("more", "valid"),
    [
        ({"elapsed_ms": LIMIT_MS}, Valid.INVALID),
        ({"elapsed_ms": LIMIT_MS - 1}, Valid.VALID),
        ({"elapsed_ms": LIMIT_MS, "recovered": True}, Valid.VALID),
        ({"elapsed_ms": LIMIT_MS, "down": {"n2": "exit code 1"}}, Valid.VALID),
    ],
)
def test_a_recovery_that_does_not_come_is_invalid(more: dict[str, object], valid: Valid) -> None:
    tale = Tale()
    tale.op(0, 10)
    tale.recover(60_000, **{"recovered": False, **more})  # type: ignore[arg-type]
    result = availability(tale.run())
    assert result.valid is valid
    assert len(messages(result)) == (valid is Valid.INVALID)


def test_a_recovery_that_does_not_come_names_whose_fetches_arrive_nowhere() -> None:
    tale = Tale()
    tale.op(0, 10)
    tale.recover(60_000, recovered=False, elapsed_ms=LIMIT_MS)
    asked = {"t": "fetch_tx", "off": 0, "to": 2, "rx_ns": 59_000 * MS}
    events = {"n1": [asked] * 4, "n2": [{"t": "hwm", "v": 3, "rx_ns": 59_500 * MS}]}
    (message,) = messages(availability(tale.run(events=events)))
    assert message.endswith("all nodes follow; n2 took none of the 4 Fetches that n1 sent to it")


def test_calm_is_what_no_fault_covers() -> None:
    windows = [
        FaultWindow(2, "kill", 30 * MS, end_ns=40 * MS),
        FaultWindow(1, "pause", 0, end_ns=10 * MS),
        FaultWindow(3, "pause", 35 * MS, end_ns=50 * MS),
        FaultWindow(4, "kill", 80 * MS),
    ]
    found = [(a // MS, b // MS) for a, b in calm((5 * MS, 90 * MS), windows)]
    assert found == [(10, 30), (50, 80)]
    assert list(calm((0, 5), [])) == [(0, 5)]
