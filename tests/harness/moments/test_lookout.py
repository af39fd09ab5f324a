"""Triggers: their data, their words, and the matcher against one that looks at all events anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.moments.lookout import Lookout, NodeState
from harness.moments.trigger import DURING, ROLES, Match, Trigger, trigger_from_json
from harness.moments.words import ordinal, told

NODES = ("n1", "n2", "n3", "n4")
OBSERVERS = ("n4",)
ROLES_OF = ("leader", "follower", "candidate", "unattached")
LED = Match("role", {"to": "leader"})

Event = Mapping[str, Any]
small = st.integers(0, 4)
events = st.one_of(
    st.builds(lambda to: {"t": "role", "to": to}, st.sampled_from(ROLES_OF)),
    st.builds(
        lambda off, revert: {"t": "voters", "off": off, "revert": revert}, small, st.booleans()
    ),
    st.builds(lambda v: {"t": "hwm", "v": v}, small),
    st.builds(lambda to: {"t": "trunc", "to": to}, small),
    st.builds(lambda last: {"t": "append", "last": last}, small),
    st.builds(lambda upto: {"t": "flush", "upto": upto}, small),
    st.builds(lambda es: {"t": "elected", "es": es}, small),
    st.builds(lambda leo: {"t": "start", "leo": leo}, small),
    st.builds(lambda op: {"t": "change", "op": op}, st.sampled_from(("append", "fsync"))),
)
streams = st.lists(st.tuples(st.sampled_from(NODES), events), max_size=60)
matches = st.one_of(
    st.builds(Match, st.sampled_from(("role", "voters", "hwm", "append", "change", "trunc"))),
    st.builds(lambda to: Match("role", {"to": to}), st.sampled_from(ROLES_OF)),
    st.builds(lambda op: Match("change", {"op": op}), st.sampled_from(("append", "fsync"))),
)
triggers = st.builds(
    Trigger,
    on=matches,
    nth=st.integers(1, 5),
    role=st.sampled_from((*ROLES, *NODES)),
    after=st.none() | matches,
    during=st.none() | st.sampled_from(sorted(DURING)),
    until_ms=st.none() | st.integers(0, 60),
)


def moment(trigger: Trigger, stream: Sequence[tuple[str, Event]]) -> int | None:
    """The place of the event that a trigger means, by its definition: one event a millisecond."""
    for place, (node, _) in enumerate(stream):
        if trigger.until_ms is not None and place > trigger.until_ms:
            return None
        own = [event for where, event in stream[: place + 1] if where == node]
        if counted(trigger, node, own) == trigger.nth:
            return place
    return None


def counted(trigger: Trigger, node: str, own: Sequence[Event]) -> int | None:
    """The number of the node's last event among those that count; None if it does not count."""
    since = -1
    if trigger.after is not None:
        since = max((n for n, e in enumerate(own) if trigger.after.covers(e)), default=len(own))
    states = [state_after(own[: n + 1]) for n in range(len(own))]
    if trigger.during is not None:
        since = max([since, *(n for n, s in enumerate(states) if not s.during(trigger.during))])
    places = [
        n
        for n, event in enumerate(own)
        if n > since and trigger.on.covers(event) and is_of(trigger.role, node, states[n])
    ]
    return len(places) if places and places[-1] == len(own) - 1 else None


def state_after(own: Sequence[Event]) -> NodeState:
    state = NodeState()
    for event in own:
        state.update(event)
    return state


def is_of(role: str, node: str, state: NodeState) -> bool:
    if role == "any":
        return True
    if role in NODES:
        return role == node
    if role in ("voter", "observer"):
        return (role == "observer") == (node in OBSERVERS)
    return role == state.role and not (role == "follower" and node in OBSERVERS)


@given(triggers, streams)
def test_a_trigger_strikes_at_the_event_that_it_means_and_at_no_other(
    trigger: Trigger, stream: list[tuple[str, Event]]
) -> None:
    lookout = Lookout(OBSERVERS, {})
    lookout.arm(7, trigger)
    fed = [lookout.feed(node, event, now) for now, (node, event) in enumerate(stream)]
    wanted = moment(trigger, stream)
    assert [n for n, keys in enumerate(fed) if keys] == ([] if wanted is None else [wanted])
    assert all(keys in ([], [7]) for keys in fed)


@given(st.lists(triggers, max_size=4), streams)
def test_triggers_do_not_disturb_each_other(
    many: list[Trigger], stream: list[tuple[str, Event]]
) -> None:
    together = Lookout(OBSERVERS, {})
    for key, trigger in enumerate(many):
        together.arm(key, trigger)
    found: dict[int, int] = {}
    for now, (node, event) in enumerate(stream):
        found.update(dict.fromkeys(together.feed(node, event, now), now))
    alone = {key: moment(trigger, stream) for key, trigger in enumerate(many)}
    assert found == {key: place for key, place in alone.items() if place is not None}


@given(triggers)
def test_a_trigger_is_the_same_after_json(trigger: Trigger) -> None:
    assert trigger_from_json(trigger.to_json()) == trigger


@given(triggers, triggers)
def test_triggers_that_differ_are_told_in_other_words(one: Trigger, other: Trigger) -> None:
    plain = (one.on, one.nth, one.role, one.after, one.during)
    if plain != (other.on, other.nth, other.role, other.after, other.during):
        assert told(one) != told(other)


def test_words() -> None:
    assert told(Trigger(Match("trunc"))) == "at the first `trunc`"
    assert told(Trigger(Match("change"), 2, after=LED)) == (
        "before the 2nd disk change after `role -> leader`"
    )
    assert told(Trigger(Match("change", {"op": "fsync", "file": "log"}), 12, "n2")) == (
        "before the 12th fsync of log on n2"
    )
    assert told(Trigger(Match("voters"), role="observer", during="voter-change")) == (
        "at the first `voters` on an observer while a voter change is written and not committed"
    )
    assert [ordinal(n) for n in (1, 3, 11, 23, 112)] == ["first", "3rd", "11th", "23rd", "112th"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("soon", "trigger is 'soon', want an object"),
        ({"on": {"t": "trunc"}, "nth": 0}, "trigger.nth is 0, want an integer of 1 or more"),
        ({"on": {"op": "fsync"}}, "want an object with a type"),
        ({"on": {"t": "a", "b": [1]}}, r"trigger.on.b is \[1\]"),
        ({"on": {"t": "a"}, "role": "king"}, "trigger.role is 'king', want a node or one of any"),
        ({"on": {"t": "a"}, "during": "lunch"}, "trigger.during is 'lunch'"),
        ({"on": {"t": "a"}, "of": 1}, r"unknown fields \['of'\]"),
    ],
)
def test_what_is_no_trigger_is_refused(fields: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trigger_from_json(fields)


def test_a_voter_change_is_pending_until_it_is_committed_or_cut_off() -> None:
    state = NodeState()
    for event, pending in (
        ({"t": "voters", "off": 5, "revert": False}, True),
        ({"t": "hwm", "v": 5}, True),
        ({"t": "hwm", "v": 6}, False),
        ({"t": "voters", "off": 9, "revert": False}, True),
        ({"t": "trunc", "to": 9}, False),
        ({"t": "voters", "off": None, "revert": False}, False),
    ):
        state.update(event)
        assert state.during("voter-change") is pending


def test_roles_that_are_known_before_count() -> None:
    lookout = Lookout(OBSERVERS, {"n1": "leader", "n4": "observer"})
    lookout.arm(1, Trigger(Match("hwm"), role="leader"))
    lookout.arm(2, Trigger(Match("hwm"), role="observer"))
    assert [lookout.feed(n, {"t": "hwm", "v": 1}, 0) for n in ("n2", "n4", "n1")] == [[], [2], [1]]
    assert lookout.waiting == ()
