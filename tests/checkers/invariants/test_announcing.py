"""L12, of a leader that tells a voter again and again that it leads."""

from __future__ import annotations

import pytest

from checkers.invariants.announcing import BEGIN, IN_A_ROW_MAX, Announcing
from checkers.invariants.haste import FETCH_SETTING
from checkers.monitor.monitor import Monitor
from harness.verdict import Anomaly
from tests.support.traces.traces import MS, Trace

SETTINGS = {FETCH_SETTING: "800"}
PAUSE_MS = 400


def judged(trace: Trace, settings: dict[str, str] = SETTINGS) -> list[Anomaly]:
    announcing = Announcing.of(settings)
    found = Monitor([announcing]).feed_all(trace.run().events)
    assert bool(announcing.checked) is bool(settings)
    return found


def told(*after_ms: int, peer: int = 1, again: int | None = None) -> Trace:
    """Node 2 hears, after these times, that its leader leads; ``again``: it restarts before."""
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    for number, wait_ms in enumerate(after_ms):
        trace.now_ns += wait_ms * MS
        if number == again:
            trace.start(2)
        trace.emit(2, "rpc_ok", api=BEGIN, peer=peer, peer_dir=None, req_ep=1)
    return trace


def test_a_leader_that_makes_no_pause_is_found_once() -> None:
    (found,) = judged(told(*[1] * 3 * IN_A_ROW_MAX))
    assert found.invariant == "L12"
    assert f"that it leads epoch 1 {IN_A_ROW_MAX + 1} times in a row" in found.message


@pytest.mark.parametrize(
    "trace",
    [
        told(*[PAUSE_MS] * 3 * IN_A_ROW_MAX),
        told(*[1] * IN_A_ROW_MAX),
        told(*([1] * (IN_A_ROW_MAX - 1) + [PAUSE_MS]) * 3),
        told(*[1] * 2 * (IN_A_ROW_MAX - 1), again=IN_A_ROW_MAX),
    ],
    ids=("with pauses", "not that often", "not in a row", "a voter that restarts"),
)
def test_pauses_lost_answers_and_voters_that_forget_are_no_matter(trace: Trace) -> None:
    assert judged(trace) == []


@pytest.mark.parametrize(("paused_ms", "is_found"), [(200, True), (17_000, False)])
def test_a_voter_that_was_paused_hears_at_once_what_was_sent_meanwhile(
    paused_ms: int, *, is_found: bool
) -> None:
    """Seed 32 of the simulator: a leader was elected and told a voter that was paused for 17 s."""
    found = judged(told(paused_ms, *[0] * (17_000 // PAUSE_MS)))
    assert bool(found) is is_found


def test_nothing_is_said_where_the_timeout_is_not_known() -> None:
    assert judged(told(*[1] * 3 * IN_A_ROW_MAX), {}) == []
