"""Tells an event in words, without its node and its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from reports.cluster import own_fields
from reports.drawing.replay import word
from reports.text import clean

Name = Callable[[Any], str]  # of a node that a field means
SHOWN_MAX = 200


def words(event: Mapping[str, Any], name: Name) -> str:
    """A sentence for the events that people ask after; the bare fields of all others."""
    kind = word(event, "t")
    say = _SAY.get(kind)
    if say is not None:
        return say(event, name)
    return clean(f"{clean(event.get('t', '?'), limit=40)} {own_fields(event)}", limit=SHOWN_MAX)


def _of(event: Mapping[str, Any], field: str) -> str:
    value = event.get(field)
    return "?" if value is None else clean(value, limit=40)


def _leader(event: Mapping[str, Any], name: Name) -> str:
    return "no leader" if event.get("leader") is None else f"leader {name(event['leader'])}"


def _vote(event: Mapping[str, Any], name: Name) -> str:
    gives = "grants" if event.get("ok") is True else "refuses"
    what = "pre-vote" if event.get("pre") is True else "vote"
    return f"{gives} its {what} in epoch {_of(event, 'ep')} to {name(event.get('cand'))}"


def _role(event: Mapping[str, Any], name: Name) -> str:
    why = f" ({clean(event['why'], limit=60)})" if event.get("why") else ""
    led = f", {_leader(event, name)}" if event.get("to") == "follower" else ""
    return f"becomes {_of(event, 'to')} in epoch {_of(event, 'ep')}{led}{why}"


def _elected(event: Mapping[str, Any], name: Name) -> str:
    grants = event.get("grants")
    listed = list(grants) if isinstance(grants, list | tuple) else []
    by = f" by {', '.join(map(name, listed[:9]))}" if listed else ""
    return f"wins epoch {_of(event, 'ep')}{by}, its log ending at {_of(event, 'es')}"


def _start(event: Mapping[str, Any], name: Name) -> str:
    state = event.get("qs")
    found: Mapping[str, Any] = state if isinstance(state, Mapping) else {}
    vote = "no vote" if found.get("voted") is None else f"a vote for {name(found['voted'])}"
    begins = f"starts with log end {_of(event, 'leo')}"
    return f"{begins}, and on its disk epoch {_of(found, 'ep')}, {_leader(found, name)}, {vote}"


def _saved(event: Mapping[str, Any], name: Name) -> str:
    vote = "no vote" if event.get("voted") is None else f"its vote for {name(event['voted'])}"
    return f"writes down epoch {_of(event, 'ep')}, {_leader(event, name)}, {vote}"


def _append(event: Mapping[str, Any], name: Name) -> str:
    del name
    base, last = _of(event, "base"), _of(event, "last")
    offsets = f"offset {base}" if base == last else f"offsets {base}-{last}"
    where = f"{offsets} of epoch {_of(event, 'bep')}"
    return f"appends {where}, as {_of(event, 'src')}"


_SAY: Final[dict[str, Callable[[Mapping[str, Any], Name], str]]] = {
    "vote": _vote,
    "role": _role,
    "elected": _elected,
    "start": _start,
    "qs": _saved,
    "append": _append,
    "hwm": lambda e, _: f"has high watermark {_of(e, 'v')}, as {_of(e, 'as')}",
    "trunc": lambda e, _: f"cuts its log from {_of(e, 'was')} to {_of(e, 'to')} ({_of(e, 'why')})",
    "flush": lambda e, _: f"has all below {_of(e, 'upto')} on its disk",
    "ack": lambda e, _: f"answers {_of(e, 'api')} of offset {_of(e, 'off')} at {_of(e, 'hwm')}",
    "apply": lambda e, _: f"has applied all below {_of(e, 'off')}: state {_of(e, 'st')}",
    "image": lambda e, _: f"publishes its image at {_of(e, 'off')}: {_of(e, 'digest')}",
    "fetch_tx": lambda e, name: f"fetches at {_of(e, 'off')} from {name(e.get('to'))}",
    "stop": lambda e, _: f"stops ({_of(e, 'why')})",
}
