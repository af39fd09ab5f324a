"""Faults for the report: the schedule joined with what the nemesis wrote into the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.contracts.nemesis import Fault
from harness.history.ops import Op
from harness.moments.trigger import trigger_from_json
from harness.moments.words import told
from reports.effects import Effect, effect
from reports.model import FaultView
from reports.sentences import sentence, words
from reports.text import clean, integer

EVIDENCE_SHOWN_MAX = 20


def fault_views(
    planned: Iterable[Fault], nemesis_ops: Iterable[Op], nodes: Sequence[str] = ()
) -> tuple[FaultView, ...]:
    """All faults that were planned or tried, in order of their begin.

    An ``inject`` op without ``outcome`` begins, the one with it ends; a ``heal`` op begins, the
    one with evidence ends. An op with an error is a try that broke. ``nodes`` are all of the run.
    """
    plans = {clean(fault.id, limit=40): fault for fault in planned}
    tried: dict[str, list[Op]] = {}
    for op in nemesis_ops:
        if isinstance(op.value, Mapping) and op.f in ("inject", "heal"):
            tried.setdefault(clean(op.value.get("id"), limit=40), []).append(op)
    views = [_view(id_, plans.get(id_), tried.get(id_, []), nodes) for id_ in {**plans, **tried}]
    far = 1 << 62
    return tuple(
        sorted(
            views,
            key=lambda v: (
                far if v.begin_ns is None else v.begin_ns,
                v.planned_ms or 0,
                len(v.id),
                v.id,
            ),
        )
    )


def _view(id_: str, plan: Fault | None, ops: list[Op], nodes: Sequence[str]) -> FaultView:
    inject = [op for op in ops if op.f == "inject"]
    heal = [op for op in ops if op.f == "heal"]
    injected = next((op for op in inject if "outcome" in op.value), None)
    healed = next((op for op in heal if _is_end(op) and op.error is None), None)
    value: dict[str, Any] = plan.to_json() if plan else {}
    for op in inject or heal:
        value.update(op.value)
    outcome, reason = _outcome(inject, injected)
    nemesis, targets = clean(value.get("nemesis", "?"), limit=60), _names(value.get("targets"))
    did = Effect((), 0, "")
    if injected is not None and outcome == "installed":
        seen = injected.value.get("evidence")
        did = effect(nemesis, targets, seen, None if healed is None else _after(healed), nodes)
    return FaultView(
        id=id_,
        nemesis=nemesis,
        params="; ".join(filter(None, (words(value.get("params") or ""), _moment(value)))),
        targets=targets,
        outcome=outcome,
        reason=reason,
        planned_ms=None if value.get("trigger") else integer(value.get("at_ms")),
        planned_duration_ms=integer(value.get("duration_ms")),
        begin_ns=inject[0].time_ns if inject else None,
        installed_ns=injected.time_ns if injected and outcome == "installed" else None,
        heal_begin_ns=heal[0].time_ns if heal else None,
        healed_ns=healed.time_ns if healed else None,
        heal_outcome=_heal_outcome(heal, healed),
        evidence=_evidence(injected.value.get("evidence")) if injected else (),
        heal_evidence=_evidence(healed.value.get("evidence")) if healed else (),
        aim=_aim(value),
        away=did.away,
        at_once=did.at_once,
        hit=did.words,
        leader=_leader(injected.value.get("evidence")) if injected else None,
    )


def _moment(value: Mapping[str, Any]) -> str:
    """Tell the moment that a fault waited for, and how long it was to last; else nothing."""
    trigger = value.get("trigger")
    if not trigger:
        return ""
    try:
        when = told(trigger_from_json(trigger))
    except ValueError:
        when = words(trigger)
    lasts_ms = integer(value.get("duration_ms"))
    return clean(when if lasts_ms is None else f"{when}, for {lasts_ms / 1_000:g} s", limit=300)


def _after(healed: Op) -> Any:
    return healed.value.get("evidence")


def _aim(value: Mapping[str, Any]) -> str:
    """Name the aim of a schedule: a target, or the side that the leader is on."""
    params = value.get("params")
    if not isinstance(params, Mapping):
        return ""
    if params.get("target") is not None:
        return clean(params["target"], limit=40)
    leader = params.get("leader")
    return "" if leader is None else f"leader in the {clean(leader, limit=40)}"


def _leader(evidence: Any) -> str | None:
    """The leader that the nemesis saw when it aimed."""
    for item in evidence if isinstance(evidence, list | tuple) else [evidence]:
        if isinstance(item, Mapping) and isinstance(item.get("leader"), str):
            return clean(item["leader"], limit=60)
    return None


def _is_end(op: Op) -> bool:
    """Tell whether a heal op says how the heal ended, rather than that it began."""
    return (
        op.error is not None
        or "evidence" in op.value
        or op.value.get("outcome") in ("healed", "failed")
    )


def _outcome(inject: list[Op], injected: Op | None) -> tuple[str, str]:
    """Tell what became of a fault, and why."""
    if injected is not None:
        return clean(injected.value["outcome"], limit=40), _words(injected.value.get("reason"))
    error = next((op.error for op in inject if op.error is not None), None)
    if error is not None:
        return "failed", _words(error)
    return ("begun" if inject else "planned"), ""


def _heal_outcome(heal: list[Op], healed: Op | None) -> str:
    errors = [op.error for op in heal if op.error is not None]
    tries = f"after {len(errors)} failed tries" if errors else ""
    if healed is not None:
        return tries
    return _words(errors[-1]) if errors else ("heal begun" if heal else "")


def _words(value: Any) -> str:
    return "" if value is None else clean(value, limit=600)


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, list | tuple):
        return tuple(clean(name, limit=60) for name in value[:EVIDENCE_SHOWN_MAX])
    return () if value is None else (clean(value, limit=60),)


def _evidence(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    items = value if isinstance(value, list | tuple) else [value]
    shown = [sentence(item) for item in items[:EVIDENCE_SHOWN_MAX]]
    if len(items) > EVIDENCE_SHOWN_MAX:
        shown.append(f"… +{len(items) - EVIDENCE_SHOWN_MAX} more in the history")
    return tuple(shown)


def timeline(views: Iterable[FaultView], end_ns: int) -> list[dict[str, Any]]:
    """The faults that were tried, for the script; times in µs."""
    out = []
    for view in views:
        if view.begin_ns is None:
            continue
        open_end = view.healed_ns or view.heal_begin_ns
        stuck = view.outcome == "installed" and view.healed_ns is None
        end = end_ns if stuck else (open_end or view.installed_ns or view.begin_ns)
        out.append(
            {
                "id": view.id,
                "nemesis": view.nemesis,
                "targets": list(view.targets),
                "params": view.params,
                "outcome": view.outcome,
                "reason": view.reason,
                "t0": view.begin_ns // 1000,
                "t1": max(end, view.begin_ns) // 1000,
                "healed": view.healed_ns is not None,
            }
        )
    return out
