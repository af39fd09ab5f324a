"""Verdict, anomalies and checkers of a run, out of its results, in plain words.

The results are JSON that may come from an older run or a hand: whatever is missing is not shown,
nothing is assumed to be good because it is missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.history.ops import Op
from harness.run.explained import AFTER, FINDING, rank
from reports import catalogue, sentences
from reports.cluster import own_fields
from reports.defects import naming
from reports.model import (
    AnomalyGroup,
    AnomalyView,
    CheckerView,
    EventRow,
    FaultView,
    Headline,
    KnownView,
    OpRow,
)
from reports.ops import Span
from reports.sentences import words
from reports.text import UNKNOWN, clean, compact, count, integer, listing, pretty, seconds

ANOMALIES_SHOWN_MAX = 200
SHOWN_PER_INVARIANT = 3  # the others of one invariant mostly say the same again
OPS_SHOWN_MAX = 60
EVENTS_SHOWN_MAX = 40
CULPRITS_MAX = 3
_NODE_NAME = re.compile(r"\bn\d+\b")
_PARTS = re.compile(r"([^0-9]*)([0-9]{0,18})")


# --------------------------------------------------------------------------- the sentence


def headline(
    result: Mapping[str, Any],
    anomalies: Sequence[AnomalyView],
    total: int,
    *,
    ops: int,
    faults: Sequence[FaultView],
) -> Headline:
    """The verdict in one sentence: invalid wins over a broken harness, that over unknown."""
    system, why_system = axis(result, "system")
    coverage, why_coverage = axis(result, "coverage")
    harness, why_harness = axis(result, "harness")
    if system == "invalid":
        return _broken_promise(anomalies, total)
    if harness not in ("valid", "ok", "unknown"):
        reasons = why_harness or ["the harness did not finish its work"]
        return Headline("broken", "HARNESS ERROR", _short(reasons), tuple(reasons))
    if system != "valid":
        reasons = why_system or unknown_reasons(result) or ["no checker came to a verdict"]
        return Headline("unknown", "UNKNOWN", _short(reasons), tuple(reasons))
    if coverage != "valid":
        reasons = why_coverage or never_installed(faults) or ["the run did not exercise enough"]
        return Headline("unknown", "UNKNOWN (coverage)", _short(reasons), tuple(reasons))
    if harness == "unknown":
        reasons = why_harness or ["the harness does not say whether it finished its work"]
        return Headline("unknown", "UNKNOWN", _short(reasons), tuple(reasons))
    installed = sum(fault.outcome == "installed" for fault in faults)
    parts = [count(ops, "op"), count(installed, "fault"), count(total, "anomaly", "anomalies")]
    return Headline("valid", "VALID", ", ".join(parts))


def _broken_promise(anomalies: Sequence[AnomalyView], total: int) -> Headline:
    if not anomalies:
        sentence = "a promise was broken, but the results do not say which"
        return Headline("invalid", "INVALID", sentence)
    first = min(anomalies, key=lambda a: (a.rank, a.time_ns is None, a.time_ns or 0, a.number))
    unnamed = [name for name in first.nodes if name not in first.defect]
    by = f", by {listing(unnamed)}" if 0 < len(unnamed) <= CULPRITS_MAX else ""
    at = "" if first.time_ns is None else f", at {first.time_ns / 1e9:.1f} s"
    more = f"; {count(total - 1, 'more anomaly', 'more anomalies')}" if total > 1 else ""
    findings = dict.fromkeys(each.finding for each in anomalies if each.finding)
    which = "known" if all(each.rank for each in anomalies) else "known of these"
    known = f"; {which}: {'; '.join(findings)}" if findings else ""
    sentence = f"{first.defect}{by}{at} ({first.invariant}){more}{known}"
    return Headline("invalid", "INVALID", sentence, expected=first.expected, found=first.found)


def _short(reasons: Sequence[str]) -> str:
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return reasons[0] + more


def axis(result: Mapping[str, Any], name: str) -> tuple[str, list[str]]:
    """One axis of the verdict and its reasons; an axis that is missing is unknown.

    The value may be a word, a truth value (True is ok) or an object with ``valid`` and
    ``reason`` or ``reasons``; reasons may also stand beside it as ``<name>_reasons``.
    """
    value = result.get(name)
    reasons: list[str] = []
    if isinstance(value, Mapping):
        for key in ("reason", "reasons", "error"):
            reasons += _texts(value.get(key))
        value = value.get("valid", value.get("verdict"))
    for key in (f"{name}_reason", f"{name}_reasons", f"{name}_error"):
        reasons += _texts(result.get(key))
    if value is None:
        return "unknown", reasons or [f"the results say nothing about: {name}"]
    if isinstance(value, bool):
        return ("valid" if value else "invalid"), reasons
    return clean(value, limit=40).lower(), reasons


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    items = value if isinstance(value, list | tuple) else [value]
    return [clean(i, limit=600) if isinstance(i, str) else compact(i, limit=600) for i in items]


def warnings(result: Mapping[str, Any]) -> list[str]:
    """Tell what could not be read of the run, as the results have it."""
    return _texts(result.get("warnings"))


def unknown_reasons(result: Mapping[str, Any]) -> list[str]:
    """Tell why checkers came to no verdict: ``checker: reason``."""
    return [
        f"{checker.name}: {checker.reason or 'no reason given'}"
        for checker in checkers(result)
        if checker.verdict == "unknown"
    ]


def never_installed(faults: Iterable[FaultView]) -> list[str]:
    """Kinds of fault that were planned or tried and never took hold, with why."""
    installed: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    for fault in faults:
        installed[fault.nemesis] += fault.outcome == "installed"
        if fault.reason:
            reasons.setdefault(fault.nemesis, fault.reason)
    return [
        f"{name} was never installed" + (f": {reasons[name]}" if name in reasons else "")
        for name in sorted(installed)
        if not installed[name]
    ]


# --------------------------------------------------------------------------- checkers


def checkers(result: Mapping[str, Any]) -> tuple[CheckerView, ...]:
    """Tell what every checker said, in the order of the results."""
    return tuple(
        CheckerView(
            name=clean(item.get("checker", "?"), limit=100),
            verdict=clean(item.get("valid", "unknown"), limit=40).lower(),
            anomalies=len(_objects(item.get("anomalies"))),
            reason="" if item.get("reason") is None else clean(item["reason"], limit=600),
            checked=tuple(pair for pair in pairs(item.get("checked")) if pair[1] != "0"),
            idle=tuple(name for name, told in pairs(item.get("checked")) if told == "0"),
            stats=tuple((name, told) for name, told in _stats(item.get("stats")) if told),
            known=sum(each.times for each in _known(item)),
        )
        for item in _objects(result.get("results"))
    )


def known(result: Mapping[str, Any]) -> tuple[KnownView, ...]:
    """Tell what the system is known to do and did in the run, checker by checker.

    Results of older versions count it by finding alone.
    """
    if found := [each for item in _objects(result.get("results")) for each in _known(item)]:
        return tuple(found)
    told = result.get("known")
    counts = told.items() if isinstance(told, Mapping) else ()
    return tuple(
        KnownView("", "", "", clean(finding, limit=200), False, integer(times) or 0, "", None)
        for finding, times in counts
    )


def _known(checker: Mapping[str, Any]) -> list[KnownView]:
    return [
        KnownView(
            checker=clean(checker.get("checker", "?"), limit=100),
            invariant=(name := clean(each.get("invariant", "?"), limit=60)),
            title=catalogue.meaning(name).title,
            finding=clean(each.get("finding", "?"), limit=200),
            red=each.get("red") is True,
            times=integer(each.get("times")) or 0,
            message=naming.plainly(clean(each.get("message", ""), limit=600)),
            time_ns=integer(each.get("time_ns")),
        )
        for each in _objects(checker.get("known"))
    ]


def _objects(value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, list | tuple):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def pairs(value: Any) -> tuple[tuple[str, str], ...]:
    """An object as sorted (name, text) pairs; anything else is none."""
    if not isinstance(value, Mapping):
        return ()
    shown = [
        (clean(k, limit=100), clean(v, limit=400) if isinstance(v, str) else compact(v))
        for k, v in value.items()
    ]
    return tuple(sorted(shown, key=lambda pair: (natural(pair[0]), pair)))


def _stats(value: Any) -> list[tuple[str, str]]:
    """Statistics in words, by name."""
    if not isinstance(value, Mapping):
        return []
    named = [(clean(k, limit=100).replace("_", " "), v) for k, v in value.items()]
    return sorted((name, "" if v in ([], {}, None) else words(v)) for name, v in named)


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """A key that sorts names as people do: S2 before S10."""
    return tuple((text, int(digits or 0)) for text, digits in _PARTS.findall(name))


# --------------------------------------------------------------------------- anomalies


def anomalies(
    result: Mapping[str, Any], spans: Sequence[Span], names: Mapping[int, str]
) -> tuple[tuple[AnomalyView, ...], int]:
    """The anomalies to show, as the judge ordered them, and how many there are in all."""
    found = distinct(result)
    by_index: dict[int, Span] = {}
    for span in spans if found else ():
        by_index[span.invocation.index] = span
        if span.completion is not None:
            by_index[span.completion.index] = span
    shown = [
        _anomaly(number, ", ".join(checkers), anomaly, by_index, names)
        for number, (anomaly, checkers) in enumerate(found[:ANOMALIES_SHOWN_MAX], start=1)
    ]
    return tuple(shown), max(len(found), integer(result.get("anomalies_total")) or 0)


def distinct(result: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], list[str]]]:
    """Each anomaly once, with all checkers that found it: the judge's list, then what it left."""
    found: dict[tuple[str, str], tuple[Mapping[str, Any], list[str]]] = {}
    for anomaly in _objects(result.get("anomalies")):
        found.setdefault(_identity(anomaly), (anomaly, []))
    for item in _objects(result.get("results")):
        checker = clean(item.get("checker", "?"), limit=100)
        for anomaly in _objects(item.get("anomalies")):
            _, by = found.setdefault(_identity(anomaly), (anomaly, []))
            if checker not in by:
                by.append(checker)
    return list(found.values())


def groups(anomalies: Sequence[AnomalyView]) -> tuple[AnomalyGroup, ...]:
    """Anomalies by invariant, in the order in which each first appears."""
    by_invariant: dict[str, list[AnomalyView]] = {}
    for anomaly in anomalies:
        by_invariant.setdefault(anomaly.invariant, []).append(anomaly)
    return tuple(
        AnomalyGroup(name, tuple(of[:SHOWN_PER_INVARIANT]), tuple(of[SHOWN_PER_INVARIANT:]))
        for name, of in by_invariant.items()
    )


def _identity(anomaly: Mapping[str, Any]) -> tuple[str, str]:
    return str(anomaly.get("invariant")), str(anomaly.get("message"))


def _anomaly(
    number: int,
    checker: str,
    anomaly: Mapping[str, Any],
    by_index: Mapping[int, Span],
    names: Mapping[int, str],
) -> AnomalyView:
    raw_ops = anomaly.get("ops")
    wanted = [i for i in raw_ops if integer(i) is not None] if isinstance(raw_ops, list) else []
    ops = _involved(wanted, by_index)
    raw_events = _objects(anomaly.get("events"))
    events = [_event_row(event, names) for event in raw_events]
    invariant = clean(anomaly.get("invariant", "?"), limit=60)
    meaning = catalogue.meaning(invariant)
    message = clean(anomaly.get("message", ""))
    time_ns = integer(anomaly.get("time_ns"))
    times = [op.time_ns for op in ops]
    times += [event.time_ns for event in events if event.time_ns is not None]
    times += [] if time_ns is None else [time_ns]
    details = anomaly.get("details")
    said = details if isinstance(details, Mapping) else {}
    asked = next((op.node for op in reversed(ops) if op.node is not None), "a node")
    given = {"node": asked, **said}
    told = naming.defect(invariant, message, given, meaning.title)
    return AnomalyView(
        number=number,
        invariant=invariant,
        title=meaning.title,
        promise=meaning.promise,
        why=meaning.why,
        checker=checker,
        message=message,
        nodes=_culprits(details, events, message, names),
        time_ns=time_ns,
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        ops=tuple(op_row(op) for op in ops[:OPS_SHOWN_MAX]),
        ops_left_out=max(0, len(ops) - OPS_SHOWN_MAX),
        events=tuple(events[:EVENTS_SHOWN_MAX]),
        events_left_out=max(0, len(events) - EVENTS_SHOWN_MAX),
        details=pretty(details) if details else "",
        defect=told.title,
        expected=told.expected,
        found=told.found,
        finding=clean(said.get(FINDING, ""), limit=200),
        after=clean(said.get(AFTER, ""), limit=200),
        rank=rank(said),
    )


def _involved(indices: Iterable[int], by_index: Mapping[int, Span]) -> list[Op]:
    """The ops of these indices, each with its other half, in order of the history."""
    found: dict[int, Op] = {}
    for index in indices:
        span = by_index.get(index)
        for op in (span.invocation, span.completion) if span else ():
            if op is not None:
                found[op.index] = op
    return [found[index] for index in sorted(found)]


def _culprits(
    details: Any, events: Sequence[EventRow], message: str, names: Mapping[int, str]
) -> tuple[str, ...]:
    """Name the nodes that broke it: as the checker says, else by its events, else by its text."""
    if isinstance(details, Mapping):
        for key in ("nodes", "node"):
            value = details.get(key)
            named = value if isinstance(value, list | tuple) else [value]
            if named and all(isinstance(name, str | int) for name in named):
                return tuple(dict.fromkeys(_node_name(name, names) for name in named))
    if nodes := sorted({event.node for event in events if event.node}):
        return tuple(nodes)
    return tuple(dict.fromkeys(_NODE_NAME.findall(message)))


def _node_name(node: Any, names: Mapping[int, str]) -> str:
    """A node as the harness calls it; events have ids."""
    id_ = integer(node)
    return clean(node, limit=60) if id_ is None else names.get(id_, f"n{id_}")


def op_row(op: Op) -> OpRow:
    """An op as a row of text."""
    return OpRow(
        index=op.index,
        time_ns=op.time_ns,
        process=clean(op.process, limit=40),
        type=op.type,
        f=clean(op.f, limit=100),
        key="" if op.key is None else clean(op.key, limit=100),
        value="" if op.value is None else compact(op.value),
        error="" if op.error is None else clean(op.error, limit=400),
        node="" if op.node is None else clean(op.node, limit=60),
    )


def _event_row(event: Mapping[str, Any], names: Mapping[int, str]) -> EventRow:
    node = event.get("node")
    return EventRow(
        time_ns=integer(event.get("rx_ns")),
        node="" if node is None else _node_name(node, names),
        epoch="" if event.get("ep") is None else clean(event["ep"], limit=40),
        type=clean(event.get("t", "?"), limit=60),
        rest=own_fields(event),
    )


# --------------------------------------------------------------------------- coverage


def coverage(
    result: Mapping[str, Any], faults: Sequence[FaultView], ops: Counter[str]
) -> tuple[tuple[str, str], ...]:
    """Tell what the run exercised: per kind of fault how often it took hold, and ops by outcome."""
    verdict, reasons = axis(result, "coverage")
    rows = [("verdict", verdict), *(("reason", reason) for reason in reasons)]
    for nemesis in sorted({fault.nemesis for fault in faults}):
        outcomes = Counter(fault.outcome for fault in faults if fault.nemesis == nemesis)
        healed = sum(f.nemesis == nemesis and f.healed_ns is not None for f in faults)
        others = [f", {n} {name}" for name, n in sorted(outcomes.items()) if name != "installed"]
        taken = f"{outcomes['installed']} installed of {sum(outcomes.values())}{''.join(others)}"
        rows.append((nemesis, f"{taken}; {healed} healed"))
    rows.append(("client ops", f"{count(ops.total(), 'op')}: {sentences.outcomes(ops)}"))
    return tuple(rows)


def last_moment(fault: FaultView) -> str:
    """Tell when a fault was over, in words."""
    if fault.healed_ns is not None:
        return seconds(fault.healed_ns)
    return "not healed" if fault.outcome == "installed" else UNKNOWN
