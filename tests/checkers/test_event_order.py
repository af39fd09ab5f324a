"""The events of a finished trace, taken all at once, are what they are one by one."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.replay.trace import TORN, Intake, Whole, merged

Event = dict[str, Any]
ODD: st.SearchStrategy[Any] = st.sampled_from([None, True, 1.5, "x", [], {}, -1, 0])
FIELDS = {"ts": 7, "seq": 1, "node": 1, "dir": "a", "inc": 1, "t": "flush", "upto": 3}
KINDS = ["flush", "snap", "hwm", "read", TORN]


@st.composite
def of_a_node(draw: st.DrawFn) -> list[Event]:
    """Mostly whole and in order; here and there a line is gone, told twice, moved or damaged."""
    events: list[Event] = []
    ts, seq, incarnation, node = 0, 0, 1, draw(st.integers(1, 3))
    for _ in range(draw(st.integers(0, 12))):
        ts += draw(st.sampled_from([0, 1, 5, -3]))
        if draw(st.integers(0, 9)) == 0:
            seq, incarnation = 0, incarnation + 1
        seq += draw(st.sampled_from([1, 1, 1, 1, 1, 0, 2]))
        event = FIELDS | {
            "ts": ts,
            "seq": seq,
            "inc": incarnation,
            "node": node,
            "t": draw(st.sampled_from(KINDS)),
        }
        event |= {"ep": 1, "v": 1, "as": "leader", "op": "freeze", "id": [1, 1]}
        field = draw(st.sampled_from([*FIELDS, "id"]))
        match draw(st.integers(0, 9)):
            case 0:
                del event[field]
            case 1:
                event[field] = draw(ODD)
            case _:
                pass
        events.append(event)
    if draw(st.integers(0, 4)) == 0:
        events.reverse()
    return events


TRACES = st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), of_a_node(), max_size=3)


def number(value: object) -> int:
    return value if isinstance(value, int) else 0


def plainly(events: dict[str, list[Event]]) -> list[Event]:
    timed: list[tuple[int, Event]] = []
    for _, of_node in sorted(events.items()):
        time = 0
        for event in sorted(of_node, key=lambda e: (number(e.get("inc")), number(e.get("seq")))):
            time = max(time, number(event.get("ts")))
            timed.append((time, event))
    return [event for _, event in sorted(timed, key=lambda each: each[0])]


@settings(max_examples=100, deadline=None)
@given(TRACES)
def test_all_events_are_in_one_order_by_time_over_nodes_and_as_written_within_one(
    events: dict[str, list[Event]],
) -> None:
    assert list(map(id, merged(events))) == list(map(id, plainly(events)))


@settings(max_examples=100, deadline=None)
@given(TRACES)
def test_a_whole_trace_lets_through_and_lacks_what_its_events_do_one_by_one(
    events: dict[str, list[Event]],
) -> None:
    found, single = Whole.of(events), Intake()
    assert found.events == [event for event in merged(events) if single.admit(event)]
    assert (found.intake.gaps, found.intake.gaps_total) == (single.gaps, single.gaps_total)
    assert found.intake.blind == single.blind
