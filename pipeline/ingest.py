"""From run folders to tables: what the tasks of the first stage do with the runs that they get."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import TaskContext

from checkers.committed.pruning import pruned
from checkers.replay.trace import Whole
from checkers.timeline.windows import fault_windows
from harness.processes.imports import without_hypothesis
from harness.store.reading import StoredRun
from pipeline.event_rows import event_rows, life_rows
from pipeline.judging import Judged, judge_whole, stored_columns
from pipeline.keyed import by_key, judge_key
from pipeline.names import RunName
from pipeline.parts import Parts
from pipeline.reading import Read, read_run
from pipeline.replicas import Folded, fold
from pipeline.rows import (
    anomaly_rows,
    batch_rows,
    fault_rows,
    keyed_op_rows,
    latency_rows,
    op_rows,
    rows,
)
from pipeline.schemas import ANOMALIES, KEYS, LATENCIES, RUNS

# What a task of the first stage tells of its runs.
DONE: Final = pa.schema(
    [(name, pa.int64()) for name in ("runs", "unreadable", "lines_bad", "events", "ops", "spread")]
)
Batches = Iterator[pa.RecordBatch]
WARNINGS_KEPT_MAX = 10
OBJECTS_LEFT_MAX = 500_000  # some 50 MB, before garbage is collected


def ingest(
    store: Path, out: Path, batch: int, transformed: Collection[str], spread_ops: int
) -> Callable[[Batches], Batches]:
    """Tell what a task does: rows of LISTING in, table parts written, one row of DONE out.

    One run is in memory at a time. Keys of ``spread_ops`` or more are left to ``pipeline.keyed``.
    """

    def work(listed: Batches) -> Batches:
        done = dict.fromkeys(DONE.names, 0)
        context = TaskContext.get()
        assert context is not None, "runs in a task"  # noqa: S101
        without_hypothesis()
        with (
            Parts(out, batch, context.partitionId(), context.taskAttemptId()) as parts,
            collected() as collect,
        ):
            for row in chain.from_iterable(each.to_pylist() for each in listed):
                told = _take(store / row["run"], row, parts, transformed, spread_ops)
                collect()
                done["runs"] += 1
                for name in DONE.names[2:]:
                    done[name] += told.get(name) or 0
                done["unreadable"] += not told["readable"]
        yield rows(DONE, [done])

    return work


@contextmanager
def collected() -> Iterator[Callable[[], object]]:
    """Collect garbage between runs, and only where much was left: what grows is not looked at."""

    def collect() -> None:
        if gc.get_count()[0] > OBJECTS_LEFT_MAX:  # made and not freed since it was done last
            gc.collect()

    gc.disable()
    gc.freeze()  # the code itself
    try:
        yield collect
    finally:
        gc.unfreeze()
        gc.enable()


def _take(
    path: Path, listed: dict[str, Any], parts: Parts, transformed: Collection[str], spread_ops: int
) -> dict[str, Any]:
    """Read, judge and write one run; gives its row of RUNS."""
    read = read_run(path)
    name = RunName(listed["run"], listed["run_id"])
    row = {
        **name._asdict(),
        "fingerprint": listed["fingerprint"],
        "size_bytes": listed["size_bytes"],
        "started": path.name.partition("-")[0],
        "readable": read.stored is not None,
        "problem": read.problem,
        "lines_bad": read.lines_bad,
    }
    if read.stored is not None:
        try:
            trace = Whole.of(read.stored.data.events)
            judged = judge_whole(read.stored, trace, transformed)
            folded = fold(trace)
            row |= _columns(read, read.stored, folded, judged)
            row["spread"] = _keys(name, read.stored, judged, parts, spread_ops)
        except Exception as error:  # one strange run must not cost all the others
            row |= {"readable": False, "problem": f"could not be judged: {error!r}"}
        else:
            _write(name, read.stored, folded, judged, parts)
    parts.add("runs", rows(RUNS, [row]))
    return row


def _write(name: RunName, stored: StoredRun, folded: Folded, judged: Judged, parts: Parts) -> None:
    data = stored.data
    recoveries = judged.stats("availability").get("recoveries", ())
    windows = fault_windows(data.history)
    for table, made in (
        ("events", event_rows(name, folded)),
        ("lives", life_rows(name, folded)),
        ("ops", op_rows(name, data.history)),
        ("batches", batch_rows(name, data, folded.exposed)),
        ("faults", fault_rows(name, windows, recoveries)),
    ):
        for each in made:
            parts.add(table, each)
    parts.add("latencies", rows(LATENCIES, latency_rows(name.run, data.history, windows)))
    parts.add("anomalies", rows(ANOMALIES, anomaly_rows(name.run, "run", judged.anomalies)))


def _keys(name: RunName, stored: StoredRun, judged: Judged, parts: Parts, spread_ops: int) -> int:
    """Judge the keys that are not big, and hand on the ops of the others; gives how many these."""
    known = pruned(stored.data) if judged.keyed else stored.data.history
    found: list[dict[str, Any]] = []
    spread = 0
    for checker in judged.keyed:
        for key, ops in by_key(checker, known).items():
            if len(ops) < spread_ops:
                found.append(judge_key(name.run, key, checker, ops))
                continue
            spread += len(ops)
            for each in keyed_op_rows(name, checker, ops):
                parts.add("keyed_ops", each)
    parts.add("keys", rows(KEYS, found))
    parts.add("anomalies", rows(ANOMALIES, [a for row in found for a in row["anomalies"]]))
    return spread


def _columns(read: Read, stored: StoredRun, folded: Folded, judged: Judged) -> dict[str, Any]:
    """The columns of RUNS for a run that could be read."""
    data, spec = stored.data, stored.data.spec
    outages = judged.stats("availability")
    crashed = (stored.results or {}).get("harness_reasons")
    return {
        "seed": spec.seed,
        "system": spec.system,
        "env": spec.env,
        "workload": spec.workload,
        "mutant": spec.mutant,
        "nemeses": list(spec.nemeses),
        "voters": spec.voters,
        "observers": spec.observers,
        "events": sum(map(len, data.events.values())),
        "ops": len(data.history),
        "lines_bad": read.lines_bad,
        "warnings": list(stored.warnings[:WARNINGS_KEPT_MAX]),
        "duration_ns": data.history[-1].time_ns if len(data.history) else 0,
        "elections": len(folded.rows["elected"][0]) if "elected" in folded.rows else 0,
        "outages": len(outages.get("outages", ())),
        "unavailable_ms": float(outages.get("unavailable_ms", 0.0)),
        "harness_ok": not crashed,
        "checked": [
            {"checker": r.checker, "valid": str(r.valid), "reason": r.reason}
            for r in judged.results
        ],
        "keyed": list(judged.keyed),
        **stored_columns(stored),
    }
