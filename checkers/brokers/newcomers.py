"""L10 from outside: a broker that comes back after a silence is not taken for another one's double.

A registration may be refused as a duplicate while somebody else has the id. Nobody has it once the
broker is fenced and nothing was heard of it for longer than a session, whoever is the controller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from checkers.brokers.sessions import MS, Service
from checkers.brokers.words import HEARTBEATS
from checkers.invariants.decisions import SESSION_MS, SESSION_SETTING
from harness.contracts.checker import RunData
from harness.history.ops import Interval
from harness.verdict import Anomaly

DUPLICATE = "duplicate-broker-registration"
L10 = "L10"
OVER = frozenset({"disconnected", "not-controller"})  # of ops without an answer: nobody hears them
SLACK_MS = 500  # of clocks that go right
SPEAKS = HEARTBEATS | {"register"}


def turned_away(run: RunData, services: Sequence[Service]) -> tuple[int, list[Anomaly]]:
    """Find registrations that were refused for a broker which was fenced and long silent.

    Args:
        run: Its history has what brokers said; nodes' clocks kept time.
        services: When each incarnation was in service.

    Returns:
        How many refusals were looked at, and what was found.
    """
    session_ms = int(run.spec.settings.get(SESSION_SETTING, SESSION_MS))
    silent_ns = (session_ms + SLACK_MS) * MS
    spoken = [each for each in run.history.intervals() if each.invocation.f in SPEAKS]
    checked, found = 0, list[Anomaly]()
    for refused in spoken:
        broker, end = _broker(refused), refused.completion
        if broker is None or end is None or end.error != DUPLICATE:
            continue
        checked += 1
        asked_ns = refused.invocation.time_ns
        heard = [each for each in _heard(spoken, broker) if each[0] < end.time_ns]
        last_ns = max((until_ns for _, until_ns in heard), default=-inf)
        its = [s for s in services if s.who[0] == broker and s.begin_ns <= end.time_ns]
        serves = any(s.end_ns is None or s.end_ns >= asked_ns for s in its)
        fenced = bool(its) or _told_fenced(spoken, broker, asked_ns)
        if last_ns + silent_ns < asked_ns and fenced and not serves:
            found.append(_anomaly(refused, broker, (asked_ns - last_ns) / 1e9, session_ms / 1e3))
    return checked, found


def _heard(spoken: Sequence[Interval], broker: int) -> Iterator[tuple[int, float]]:
    """Give the times in which the controller may have heard of a broker.

    The controller learns nothing from what it refused. It may hear what had no answer at any later
    time, unless the connection was closed.
    """
    for each in spoken:
        end = each.completion
        who = _broker(each)
        if each.outcome == "fail" or who not in (broker, None):
            continue
        over = end is not None and (each.outcome == "ok" or end.error in OVER)
        yield each.invocation.time_ns, end.time_ns if end is not None and over else inf


def _told_fenced(spoken: Sequence[Interval], broker: int, until_ns: int) -> bool:
    """Tell whether the last answer that a broker got before a moment has it fenced.

    The log need not say so: the record that unfenced it may be gone for a snapshot, and a new
    controller gives who is in service a session anew.
    """
    answered = [
        (each.completion.time_ns, each.invocation.f, each.completion.value)
        for each in spoken
        if each.outcome == "ok" and each.completion is not None and _broker(each) == broker
    ]
    before = [answer for answer in answered if answer[0] < until_ns]
    if not before:
        return False
    at_ns, f, value = max(before, key=lambda answer: answer[0])
    if not isinstance(value, Mapping):
        return False
    if f != "register":
        return value.get("fenced") is True
    # An incarnation that registers again stays in service if it was.
    epochs = {v.get("epoch") for ns, _, v in before if ns < at_ns and isinstance(v, Mapping)}
    return value.get("epoch") not in epochs


def _broker(interval: Interval) -> int | None:
    end = interval.completion
    value = end.value if end is not None else None
    broker = value.get("broker") if isinstance(value, Mapping) else None
    return broker if isinstance(broker, int) else None


def _anomaly(refused: Interval, broker: int, silent_s: float, session_s: float) -> Anomaly:
    op, end = refused.invocation, refused.completion
    assert end is not None  # noqa: S101 - it was refused
    return Anomaly(
        L10,
        f"broker {broker} (op {end.index}) was refused as a duplicate, though it was fenced and"
        f" nobody had spoken for it for {silent_s:.3f} s; its session is {session_s:g} s",
        ops=(op.index, end.index),
        time_ns=end.time_ns,
    )
