"""C1 from outside: no incarnation of a broker follows another one whose session goes on."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.brokers.plugin import brokers
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch
from harness.history.ops import History, Op
from harness.spec import RunSpec

S = 1_000_000_000
B, FIRST, SECOND = 1001, 5, 9
SESSION = {"broker.session.timeout.ms": "4000"}
BEAT = {"broker": B, "epoch": FIRST, "offset": FIRST, "caught_up": True, "shut_down": False}
Claims = dict[str, list[tuple[float, str]]]
ONE: Claims = {"n1": [(1.0, "claim")]}


def record(offset: int, type_: str, **fields: Any) -> LogBatch:
    told = {"offset": offset, "type": type_, "fields": {"broker_id": B, **fields}}
    return LogBatch(offset, offset, 1, offset, control=False, records=(told,))


def found(
    *,
    followed_s: float,
    claims: Claims = ONE,
    same: bool = False,
    beat: str = "heartbeat",
    fenced: bool = False,
    gone: bool = False,
) -> list[str]:
    """Judge a run: a broker is heard at 5 s, and another incarnation registers at `followed_s`."""
    first, second = "one", "one" if same else "two"
    log = (
        record(FIRST, "RegisterBrokerRecord", broker_epoch=FIRST, incarnation_id=first),
        record(6, "BrokerRegistrationChangeRecord", broker_epoch=FIRST, fenced=-1),
        *([record(7, "UnregisterBrokerRecord", broker_epoch=FIRST)] if gone else ()),
        record(SECOND, "RegisterBrokerRecord", broker_epoch=SECOND, incarnation_id=second),
    )
    times = {FIRST: 2.0, 6: 3.0, 7: 5.5, SECOND: followed_s}
    hwm = [
        {"t": "hwm", "v": batch.last + 1, "as": "leader", "ep": 1, "at": times[batch.base]}
        for batch in log
    ]
    events = {
        node: tuple(
            {**each, "ts": int(each["at"] * S), "rx_ns": int(each["at"] * S)}
            for each in sorted(
                [*told, *(hwm if node == "n1" else ())], key=lambda each: float(each["at"])
            )
        )
        for node, told in (
            (node, [{"t": kind, "ep": 1, "at": at} for at, kind in its])
            for node, its in claims.items()
        )
    }
    answer = {**BEAT, "fenced": fenced}
    ops = [Op(0, 5 * S, 0, "invoke", beat, None), Op(1, int(5.1 * S), 0, "ok", beat, answer)]
    spec = RunSpec(1, env="sim", settings=SESSION)
    run = RunData(spec, History(ops), events, {"n1": log}, voters=tuple(claims))
    return [each.message for each in brokers(run).anomalies if each.invariant == "C1"]


def test_a_session_that_goes_on_is_not_followed() -> None:
    (message,) = found(followed_s=8.0)
    assert message == (
        "broker 1001 (op 1) was followed by an incarnation with epoch 9 only 3.000 s after it "
        "sent this heartbeat; its session is 4 s"
    )


@pytest.mark.parametrize(
    "how",
    [
        {"followed_s": 9.1},  # the session is over
        {"followed_s": 8.0, "same": True},  # it is the same process
        {"followed_s": 8.0, "beat": "shut-down"},  # it had wanted to go
        {"followed_s": 8.0, "fenced": True},  # it was not in service
        {"followed_s": 8.0, "gone": True},  # somebody took it away
        {"followed_s": 8.0, "claims": {"n1": [(6.0, "claim")]}},  # another one heard it
        {"followed_s": 8.0, "claims": {**ONE, "n2": [(0.5, "claim"), (5.2, "renounce")]}},
    ],
)
def test_who_may_be_followed_at_once(how: dict[str, Any]) -> None:
    assert not found(**how)
