"""Answers that no order explains: the ops as bars over time, and the longest order there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.blocks import Bar, Lane, Lanes, Mark, Note, Notes, Picture
from reports.drawing.axis import Axis
from reports.drawing.scene import Scene
from reports.pictures import Finding, painter
from reports.text import clean, integer, listing, seconds

OPS_MAX = 24  # bars
LANES_MAX = 10
WHAT_MAX = 120
WHY_MAX = 8
STATES_MAX = 6
TITLE = "The longest order of ops that real time and the answers allow: the dotted line"
STEP = 0.6  # percent of the width, from one op of the order to the next in one moment


@dataclass(frozen=True, slots=True)
class _Call:
    """An op of the window, as the checker tells of it; times in ns."""

    op: int
    process: str
    what: str
    outcome: str
    begin_ns: int
    end_ns: int | None


@painter(10)
def no_order(finding: Finding, scene: Scene) -> Picture | None:
    """The ops of the smallest window that fails, by process, and the longest legal order."""
    calls = list(_calls(finding.details.get("ops")))
    stuck = _call(finding.details.get("stuck"))
    if not calls or stuck is None:
        return None
    partial = _partial(finding.details)
    shown = _nearest(calls, stuck, partial)
    numbers = {call.op: str(at) for at, call in enumerate(shown, start=1)}
    axis = _axis(shown, scene)
    lanes = _lanes(shown, stuck, numbers, axis, finding)
    order = [op for op in partial.get("order", ()) if op in numbers]
    way = _way(order, shown, lanes, axis)
    caption = f"op {stuck.op} ({stuck.what}) fits nowhere: bars are ops, from call to answer"
    alt = f"{caption}. Processes {listing([lane.label for lane in lanes])}; the ops are text below."
    return Picture(
        "no-order",
        caption,
        (
            Lanes(tuple(lanes), axis.ticks(), alt, ways=(way,) if way else ()),
            Notes(tuple(_notes(shown, stuck, numbers, finding))),
            *_told(partial, finding.details, stuck, numbers),
        ),
        tuple(_remarks(calls, shown)),
    )


def _calls(value: Any) -> Iterator[_Call]:
    for item in value if isinstance(value, list | tuple) else ():
        call = _call(item)
        if call is not None:
            yield call


def _call(value: Any) -> _Call | None:
    if not isinstance(value, Mapping):
        return None
    op, begin = integer(value.get("op")), integer(value.get("began_ns"))
    if op is None or begin is None:
        return None
    return _Call(
        op,
        clean(value.get("process", "?"), limit=40),
        clean(value.get("what", ""), limit=WHAT_MAX),
        clean(value.get("outcome", ""), limit=20),
        begin,
        integer(value.get("ended_ns")),
    )


def _partial(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """The longest legal order that the checker found."""
    found = details.get("partials")
    first = found[0] if isinstance(found, list | tuple) and found else {}
    return first if isinstance(first, Mapping) and isinstance(first.get("order"), list) else {}


def _nearest(calls: Sequence[_Call], stuck: _Call, partial: Mapping[str, Any]) -> list[_Call]:
    """Choose the ops to draw: the stuck one and those around it, in the order of their begins."""
    blocked = {integer(each.get("op")) for each in _blocked(partial)}
    ranked = sorted(
        calls,
        key=lambda c: (c.op != stuck.op, c.op not in blocked, abs(stuck.begin_ns - c.begin_ns)),
    )
    return sorted(ranked[:OPS_MAX], key=lambda c: (c.begin_ns, c.op))


def _blocked(partial: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = partial.get("cannot_follow")
    items = found if isinstance(found, list | tuple) else ()
    return [item for item in items if isinstance(item, Mapping)]


def _axis(calls: Sequence[_Call], scene: Scene) -> Axis:
    """Calls and answers in their order; what was never answered lasts to the end."""
    begins = [(call.begin_ns, 2 * at + 1) for at, call in enumerate(calls)]
    ends = [(call.end_ns, 2 * at) for at, call in enumerate(calls) if call.end_ns is not None]
    last = max(time for time, _ in [*begins, *ends])
    after = min(scene.end_ns, last + 1) if scene.end_ns > last else last + 1
    return Axis([*begins, *ends, (after, 2 * len(calls) + 1)])


def _lanes(
    calls: Sequence[_Call],
    stuck: _Call,
    numbers: Mapping[int, str],
    axis: Axis,
    finding: Finding,
) -> list[Lane]:
    """One for each process; more processes than there is room for share the last."""
    by_process: dict[str, list[_Call]] = {}
    for call in calls:
        by_process.setdefault(call.process, []).append(call)
    names = sorted(by_process, key=lambda name: (len(name), name))
    out = []
    for name in names[:LANES_MAX]:
        bars, marks = [], []
        for call in by_process[name]:
            x, width = _extent(call, axis)
            fits_not = call.op == stuck.op
            tone = f"op-{call.outcome}" if call.outcome in ("ok", "fail", "info") else "op-info"
            anchor = f"#{finding.anchor(f'n{numbers[call.op]}')}"
            title = f"op {call.op}: {call.what}, {_times(call)}"
            bars.append(Bar(x, width, tone, call.what, title, anchor, marked=fits_not))
            mark = "t-bad" if fits_not else "t-quiet"
            marks.append(Mark(x + 0.01, mark, numbers[call.op], title, anchor))
        out.append(Lane(f"process {name}", tuple(bars), tuple(marks)))
    return out


def _extent(call: _Call, axis: Axis) -> tuple[float, float]:
    x = axis.at(call.begin_ns, last=True)
    end = axis.at(call.end_ns) if call.end_ns is not None else 99.5
    return x, round(max(0.8, end - x), 2)


def _way(
    order: Sequence[int], calls: Sequence[_Call], lanes: Sequence[Lane], axis: Axis
) -> tuple[tuple[float, int], ...]:
    """Tell where each op of the order may have taken effect: as early as those before it allow."""
    by_op = {call.op: call for call in calls}
    rows = {lane.label: at for at, lane in enumerate(lanes)}
    way: list[tuple[float, int]] = []
    x = 0.0
    for op in order:
        call = by_op[op]
        row = rows.get(f"process {call.process}")
        if row is None:
            continue
        begin, width = _extent(call, axis)
        x = round(min(max(x + STEP, begin + STEP), begin + width), 2)
        way.append((x, row))
    return tuple(way)


def _times(call: _Call) -> str:
    end = "never answered" if call.end_ns is None else seconds(call.end_ns)
    return f"{seconds(call.begin_ns)} to {end}"


def _notes(
    calls: Sequence[_Call], stuck: _Call, numbers: Mapping[int, str], finding: Finding
) -> Iterator[Note]:
    for call in calls:
        number, fits_not = numbers[call.op], call.op == stuck.op
        outcome = "" if call.outcome == "ok" else f" ({call.outcome})"
        text = f"op {call.op}: {call.what}{outcome}" + (
            " — cannot be placed in the order" if fits_not else ""
        )
        yield Note(
            number,
            "t-bad" if fits_not else "t-quiet",
            text,
            call.begin_ns,
            f"process {call.process}",
            call.op,
            finding.op_link(call.op),
            finding.anchor(f"n{number}"),
        )


def _told(
    partial: Mapping[str, Any], details: Mapping[str, Any], stuck: _Call, numbers: Mapping[int, str]
) -> Iterator[Notes]:
    """The longest order in words, the state it ends in, and why nothing can follow."""
    if not partial:
        return
    order, what = partial.get("order"), partial.get("what")
    steps = list(zip(order, what, strict=False)) if isinstance(what, list) and order else []
    window = details.get("window")
    starts = window.get("start_states") if isinstance(window, Mapping) else None
    notes = []
    if isinstance(starts, list | tuple) and starts:
        listed = [clean(state, limit=60) for state in starts[:STATES_MAX]]
        more = len(starts) - len(listed)
        text = f"may begin with {' or '.join(listed)}" + (f", or {more} others" if more else "")
        notes.append(Note("0", "t-quiet", text))
    notes += [
        Note(numbers.get(op, "·"), "t-good", f"op {op}: {clean(said, limit=WHAT_MAX)}", op=op)
        for op, said in steps
        if integer(op) is not None
    ][-OPS_MAX:]
    state = clean(partial.get("state", "?"), limit=200)
    notes.append(Note("=", "t-good", f"then the value is {state}"))
    for item in _blocked(partial)[:WHY_MAX]:
        op = integer(item.get("op"))
        said, why = clean(item.get("what", ""), limit=WHAT_MAX), clean(item.get("why", ""))
        tone = "t-bad" if op == stuck.op else "t-quiet"
        number = "✗" if op is None else numbers.get(op, "✗")
        notes.append(Note(number, tone, f"op {op}: {said} cannot follow: {why}", op=op))
    yield Notes(
        tuple(notes),
        "The longest order of ops that real time and the answers allow (the dotted line)",
    )


def _remarks(calls: Sequence[_Call], shown: Sequence[_Call]) -> Iterator[str]:
    yield "Time is stretched: bars overlap exactly when the ops were under way at the same time."
    if len(shown) < len(calls):
        yield f"{len(calls) - len(shown)} more ops of the window are not drawn."
