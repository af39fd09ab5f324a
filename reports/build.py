"""From a run and its results to the report's model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.processes.command import KRUCIBLE, Program
from harness.spec import RunSpec
from harness.store.folder import RunDir
from reports import (
    cluster,
    columns,
    command,
    faults,
    findings,
    making,
    nemesis_table,
    op_table,
    ops,
    overview,
    pictures,
    sentences,
    source,
)
from reports.blocks import Picture
from reports.cluster import NodeTrack
from reports.drawing.scene import Scene
from reports.model import AnomalyView, Fact, FaultView, NodeView, OpStats, ReportModel
from reports.node_log import LINE_CHARS_MAX, NodeLog
from reports.op_table import OpTable
from reports.source import Run
from reports.text import UNKNOWN, clean, compact, count, duration, integer, seconds

TAIL_LINES = 40
ALARMS_MAX = 40
NOTES_MAX = 20
_ALARM = re.compile(r"\b(ERROR|FATAL|CRITICAL|WARN|WARNING|Traceback|Exception|panic|Killed)\b")


def build_model(
    run: Run,
    result: Mapping[str, Any],
    place: RunDir | None = None,
    program: Program = KRUCIBLE,
) -> ReportModel:
    """Build all that the report shows of what the run left behind and what the judge said.

    Of ``place``, the run's folder, only ``run.json`` is read; ``program`` stands in its commands.
    """
    table = op_table.read(run.history, _named(result))
    names = node_names(run)
    tracks = [
        cluster.track(name, source.telling(run.events.get(name, ())), table.last_ns)
        for name in names
    ]
    end_ns = max([table.last_ns, *(track.last_ns for track in tracks)])
    cluster.extend(tracks, end_ns)
    fault_views = nemesis_table.placed(
        faults.fault_views(run.faults, table.nemesis, names), tracks, run.voters
    )
    ids = cluster.names_by_id(run.events)
    anomalies, total = findings.anomalies(result, table.wanted, ids)
    windows = [
        (a.start_ns, a.end_ns) for a in anomalies if a.start_ns is not None and a.end_ns is not None
    ]
    logs = {
        track.name: NodeLog(
            f"node-{number}",
            run.output.get(track.name, ()),
            [mark.time_ns for mark in track.marks if mark.type == "start"],
        )
        for number, track in enumerate(tracks, start=1)
    }
    scene = Scene(source.around(run, windows), table.wanted, tracks, fault_views, end_ns, logs)
    drawn = _pictures(result, anomalies, scene)
    anomalies = tuple(_linked(anomaly, scene) for anomaly in anomalies)
    op_stats = op_table.stats(table)
    lanes = op_table.lanes(table, end_ns, width=run.spec.concurrency)
    blocks = columns.blocks(table)
    ops_head = overview.head(table, lanes, blocks, end_ns // 1000)
    notes = [*findings.warnings(result), *table.notes, *_unplaced(tracks)]
    return ReportModel(
        title=clean(f"{run.spec.system} {run.spec.workload}, seed {run.spec.seed}", limit=200),
        headline=findings.headline(result, anomalies, total, ops=len(table), faults=fault_views),
        commands=command.commands(run.spec, result, place, program),
        facts=_facts(run, table, tracks, fault_views, end_ns),
        settings=_settings(run.spec),
        versions=findings.pairs(result.get("versions")),
        anomalies=anomalies,
        anomaly_groups=findings.groups(anomalies),
        anomalies_left_out=total - len(anomalies),
        faults=fault_views,
        coverage=findings.coverage(result, fault_views, _outcomes(op_stats)),
        checkers=findings.checkers(result),
        op_stats=op_stats,
        errors=op_table.errors(table),
        nodes=_nodes(run, tracks, anomalies, logs),
        notes=_first(notes, NOTES_MAX),
        timeline=_timeline(run, ops_head, tracks, fault_views, anomalies, end_ns),
        pictures=drawn,
        blocks=tuple(blocks),
        nemeses=nemesis_table.rows(fault_views),
        made=making.made(run.spec, result, place),
        known=findings.known(result),
    )


def _pictures(
    result: Mapping[str, Any], anomalies: Sequence[AnomalyView], scene: Scene
) -> dict[int, tuple[Picture, ...]]:
    """Pictures of the anomalies that are shown, by number; those folded away come last."""
    raw = [anomaly for anomaly, _ in findings.distinct(result)]
    groups = findings.groups(anomalies)
    shown = [a for group in groups for a in group.shown] + [a for g in groups for a in g.folded]
    return {
        view.number: pictures.draw(
            pictures.Finding.of(
                view.number, raw[view.number - 1], view.nodes, [op.index for op in view.ops]
            ),
            scene,
        )
        for view in shown[: pictures.DRAWN_MAX]
    }


def _linked(anomaly: AnomalyView, scene: Scene) -> AnomalyView:
    """Link each event of an anomaly to the line that its node wrote last by then."""
    events = tuple(
        event
        if event.time_ns is None
        else replace(event, href=scene.link(event.node, event.time_ns))
        for event in anomaly.events
    )
    return replace(anomaly, events=events)


def node_names(run: Run) -> list[str]:
    """All nodes that anything is known of: voters, observers, then others by name."""
    known = [*run.voters, *run.observers]
    others = sorted({*run.events, *run.output} - set(known))
    return list(dict.fromkeys([*known, *others]))


def _named(result: Mapping[str, Any]) -> set[int]:
    """Indices of the ops that anomalies name."""
    found: set[int] = set()
    for anomaly, _ in findings.distinct(result):
        named = anomaly.get("ops")
        found.update(i for i in named if integer(i) is not None) if isinstance(
            named, list
        ) else None
    return found


def _unplaced(tracks: Iterable[NodeTrack]) -> list[str]:
    return [
        f"{clean(t.name, limit=60)}: {count(t.unplaced, 'event')} without a usable rx_ns, not drawn"
        for t in tracks
        if t.unplaced
    ]


def _first(notes: Sequence[str], most: int) -> tuple[str, ...]:
    rest = len(notes) - most
    return (*notes[:most], *([f"… and {count(rest, 'more note')}"] if rest > 0 else []))


def _outcomes(stats: Iterable[OpStats]) -> Counter[str]:
    out: Counter[str] = Counter()
    for item in stats:
        out.update(ok=item.ok, fail=item.fail, info=item.info)
    return out


def _facts(
    run: Run,
    table: OpTable,
    tracks: Sequence[NodeTrack],
    fault_views: Sequence[FaultView],
    end_ns: int,
) -> tuple[Fact, ...]:
    outcomes = {name: table.outcome.count(at) for at, name in enumerate(ops.OUTCOMES)}
    times = table.ok_latencies()
    p50, p99 = ops.percentile(times, 50), ops.percentile(times, 99)
    gap = op_table.longest_gap(table)
    first_ns, last_ns = op_table.work_time(table)
    installed = sum(fault.outcome == "installed" for fault in fault_views)
    reigns = sorted((span.start_ns, t.name, span.epoch) for t in tracks for span in t.reigns)
    highest = max((epoch for _, _, epoch in reigns if epoch is not None), default=None)
    hwm = max((value for t in tracks for _, value in t.hwm), default=None)
    rate = outcomes["ok"] / ((last_ns - first_ns) / 1e9) if last_ns > first_ns else 0.0
    return (
        Fact("duration", duration(end_ns), f"of {run.spec.time_limit_s:g} s planned for faults"),
        Fact("ops", f"{len(table):,}", sentences.outcomes(outcomes)),
        Fact("ok rate", f"{rate:,.1f}/s", f"asked for {run.spec.rate_hz:g}/s"),
        Fact("ok latency p50", duration(p50), f"p99 {duration(p99)}"),
        Fact(
            "longest stall",
            UNKNOWN if gap is None else duration(gap[1] - gap[0]),
            "no ok op" if gap is None else f"no ok op after {seconds(gap[0])}",
        ),
        Fact("faults", f"{installed}", f"installed, of {len(fault_views)} planned"),
        Fact("reigns", f"{len(reigns)}", "" if highest is None else f"highest epoch {highest}"),
        Fact("high watermark", UNKNOWN if hwm is None else f"{hwm:,}", "at the end, highest node"),
    )


def _settings(spec: RunSpec) -> tuple[tuple[str, str], ...]:
    shown = {k: v for k, v in spec.to_json().items() if k not in ("settings", "version")}
    if "asked" in shown:
        kinds = len(shown["nemeses"])
        shown["asked"] = f"{', '.join(shown['asked'])} ({count(kinds, 'kind')} of fault)"
    rows = [(name, _setting(value)) for name, value in sorted(shown.items())]
    return (*rows, *findings.pairs(spec.settings))


def _setting(value: Any) -> str:
    if isinstance(value, list | tuple):
        return clean(", ".join(map(str, value)) or "none")
    if value is None:
        return "none"
    return clean(value) if isinstance(value, str) else compact(value)


def _nodes(
    run: Run,
    tracks: Sequence[NodeTrack],
    anomalies: Sequence[AnomalyView],
    logs: Mapping[str, NodeLog],
) -> tuple[NodeView, ...]:
    named = {name for anomaly in anomalies for name in anomaly.nodes}
    out = []
    for number, track in enumerate(tracks, start=1):
        lines, log = run.output.get(track.name, ()), logs[track.name]
        head = lines[: max(0, len(lines) - TAIL_LINES)]
        alarms = [(n, line) for n, line in enumerate(head, start=1) if _ALARM.search(str(line))]
        kind = "voter" if track.name in run.voters else "node"
        out.append(
            NodeView(
                anchor=f"node-{number}",
                name=clean(track.name, limit=60),
                kind="observer" if track.name in run.observers else kind,
                starts=track.starts,
                reigns=len(track.reigns),
                hwm=track.hwm[-1][1] if track.hwm else None,
                log_end=track.log_end,
                longest_turn_ms=track.longest_turn_ms,
                alarms=tuple(
                    f"{n}: {clean(line, limit=LINE_CHARS_MAX)}" for n, line in alarms[-ALARMS_MAX:]
                ),
                alarms_left_out=max(0, len(alarms) - ALARMS_MAX),
                around=log.around(len(head) + 1),
                tail=log.rows(len(head) + 1, len(lines)),
                lines=len(lines),
                involved=clean(track.name, limit=60) in named,
            )
        )
    return tuple(out)


def _timeline(
    run: Run,
    ops_head: Mapping[str, Any],
    tracks: Sequence[NodeTrack],
    fault_views: Sequence[FaultView],
    anomalies: Sequence[AnomalyView],
    end_ns: int,
) -> dict[str, Any]:
    return {
        "version": 1,
        "end": end_ns // 1000,
        "nodes": [clean(track.name, limit=60) for track in tracks],
        "observers": [track.name in run.observers for track in tracks],
        "ops": ops_head,
        "faults": faults.timeline(fault_views, end_ns),
        "anomalies": [
            [a.number, a.invariant, at // 1000]
            for a in anomalies
            if (at := a.end_ns if a.time_ns is None else a.time_ns) is not None
        ],
        **cluster.timeline(tracks),
    }
