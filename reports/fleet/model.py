"""Many runs at a glance: what the fleet report shows, counted from each run's spec and results.

Events and histories are not read: a fleet of ten thousand runs costs ten thousand small files.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from harness.errors import UsageError
from harness.nightly.proportion import wilson
from harness.spec import RunSpec
from harness.store.folder import RunDir, Store
from harness.store.reading import load_results, load_spec
from harness.store.signatures import signature
from reports.fleet.nights import Night, read_nights

VERDICTS: Final = ("invalid", "broken", "unknown", "unjudged", "valid")  # the worst first
BUCKETS_MAX: Final = 24  # bars of the chart: each is wide enough on a phone, too
_STARTED: Final = re.compile(r"(\d{8}T\d{6})(?:\.(\d{1,3}))?")
_WRONG_KIND: Final = (KeyError, TypeError, AttributeError)  # what a field of one raises
_HOUR_S, _DAY_S = 3600, 86_400
_SPANS_S: Final = (
    *(60, 300, 900, _HOUR_S, 3 * _HOUR_S, 6 * _HOUR_S, 12 * _HOUR_S),
    *(days * _DAY_S for days in (1, 2, 7, 14, 28, 91, 364, 3640)),
)


@dataclass(frozen=True, slots=True)
class FleetRun:
    """One run as its ``spec.json`` and ``results.json`` tell."""

    path: str  # of its folder, from the store's root
    started_s: float  # since 1970, UTC; 0 when its name does not tell
    spec: RunSpec
    verdict: str  # one of VERDICTS
    anomalies: tuple[tuple[str, str], ...] = ()  # (invariant, message), each way to fail once
    detected_s: float | None = None  # of the run's clock: the first moment anything was broken
    ops_ok: int = 0
    unavailable_ms: float = 0.0
    recoveries: tuple[tuple[str, float | None], ...] = ()  # (nemesis, ms until an op was ok again)
    doubt: str = ""  # the first reason of what is not invalid and not valid
    words: tuple[str, ...] = ()  # the arguments that name it to krucible from any folder
    known: Mapping[str, int] = field(default_factory=dict)  # what its system is known to do

    @property
    def group(self) -> str:
        """Tell what it is a run of."""
        spec = self.spec
        return f"{spec.system}/{spec.workload} on {spec.env}"


@dataclass(frozen=True, slots=True)
class Bucket:
    """Runs that began in one span of time."""

    start_s: float
    counts: Mapping[str, int]  # by verdict


@dataclass(frozen=True, slots=True)
class WayToFail:
    """Runs that broke the same first of all: what ``signature`` names."""

    signature: str
    invariant: str
    message: str  # of its first run
    runs: int
    also: tuple[tuple[str, int], ...]  # what some of these runs broke besides, and how many
    first: FleetRun
    last: FleetRun
    mutants: tuple[str, ...]  # of the runs, when all had one
    detected_s: float | None  # median


@dataclass(frozen=True, slots=True)
class Rate:
    """k of n, with a 95 % interval."""

    name: str
    hits: int
    of: int
    interval: tuple[float, float] | None  # of nothing there is none
    typical_s: float | None = None
    left_out: int = 0  # runs that say nothing: cut short, never started, or in doubt


@dataclass(frozen=True, slots=True)
class Recovery:
    """The times until ops were ok again after heals of one kind of fault."""

    nemesis: str
    heals: int
    never: int  # heals after which no op was ok any more
    p50_ms: float | None
    p95_ms: float | None
    max_ms: float | None


@dataclass(frozen=True, slots=True)
class Known:
    """A finding that systems are known by, and the runs in which they did it."""

    finding: str  # where it is told
    runs: int
    times: int
    last: FleetRun


@dataclass(frozen=True, slots=True)
class Flaky:
    """A seed that did not come to the same verdict each time."""

    name: str
    seed: int
    verdicts: tuple[tuple[str, int], ...]
    run: FleetRun


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything that the fleet report shows."""

    runs: tuple[FleetRun, ...]  # the latest first
    counts: Mapping[str, int]
    span_s: int  # of a bucket
    buckets: tuple[Bucket, ...]
    ways: tuple[WayToFail, ...]
    zoo: tuple[Rate, ...]
    groups: tuple[tuple[str, Mapping[str, int]], ...]
    recoveries: tuple[Recovery, ...]
    flaky: tuple[Flaky, ...]
    known: tuple[Known, ...]
    nights: tuple[Night, ...]
    unreadable: tuple[str, ...]  # runs and nights that could not be read, and why

    @property
    def failing(self) -> tuple[FleetRun, ...]:
        """Invalid runs without a seeded bug."""
        return tuple(
            run for run in self.runs if run.verdict == "invalid" and run.spec.mutant is None
        )


# --------------------------------------------------------------------------- reading


def read_fleet(root: Path) -> Fleet:
    """All runs and nights of a store; one that cannot be read is named, and costs no other."""
    runs: list[FleetRun] = []
    unreadable: list[str] = []
    for run_dir in Store(root).runs():
        try:
            runs.append(read_run(run_dir, root))
        except (UsageError, OSError, ValueError, *_WRONG_KIND) as error:
            if not run_dir.spec.is_file():
                continue  # it went while we looked
            told = repr(error)
            if isinstance(error, UsageError):
                told = str(error).removeprefix(f"{run_dir.path}/")
            unreadable.append(f"{run_dir.path.relative_to(root)}: {told}")
    return build(runs, read_nights(root, unreadable.append), unreadable)


def read_run(run: RunDir, root: Path) -> FleetRun:
    """A run; raises UsageError for damaged files, and what fields of a wrong kind raise."""
    spec, damaged = load_spec(run.spec), list[str]()
    path = run.path.relative_to(root).as_posix()
    started_s = _started(run.path.name)
    results = load_results(run, damaged.append)
    if damaged:
        raise UsageError(damaged[0])
    if results is None:
        return FleetRun(
            path, started_s, spec, "unjudged", doubt="it was not judged", words=run.words
        )
    first: dict[str, tuple[str, str]] = {}
    for anomaly in results["anomalies"]:
        found = str(anomaly["invariant"]), str(anomaly["message"])
        first.setdefault(signature(*found), found)
    times = [a["time_ns"] for a in results["anomalies"] if a.get("time_ns") is not None]
    stats = {each["checker"]: each["stats"] for each in results["results"]}
    counts = stats.get("stats", {}).get("counts", {})
    availability = stats.get("availability", {})
    doubts = [
        str(reason)
        for axis in ("harness", "system", "coverage")
        for reason in results.get(f"{axis}_reasons", ())
    ]
    return FleetRun(
        path,
        started_s,
        spec,
        verdict_of(results),
        anomalies=tuple(first.values()),
        detected_s=min(times) / 1e9 if times else None,
        ops_ok=sum(each.get("ok", 0) for each in counts.values()),
        unavailable_ms=availability.get("unavailable_ms", 0.0),
        recoveries=tuple(
            (str(each["nemesis"]), each["recovery_ms"])
            for each in availability.get("recoveries", ())
        ),
        doubt=doubts[0] if doubts else "",
        words=run.words,
        known={str(name): int(times) for name, times in results.get("known", {}).items()},
    )


def verdict_of(results: Mapping[str, Any]) -> str:
    """The one word for a run's results: invalid wins, then a broken harness, then doubt."""
    if results["system"] == "invalid":
        return "invalid"
    if results["harness"] != "ok":
        return "broken"
    axes = (results["system"], results["coverage"])
    return "valid" if axes == ("valid", "valid") else "unknown"


def _started(name: str) -> float:
    match = _STARTED.match(name)
    if match is None:
        return 0.0
    whole = datetime.strptime(match[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    return whole.timestamp() + int(match[2] or 0) / 1e3


# --------------------------------------------------------------------------- counting


def build(
    runs: Iterable[FleetRun], nights: Sequence[Night] = (), unreadable: Sequence[str] = ()
) -> Fleet:
    """Count what the runs came to. Pure; equal runs in any order give an equal fleet."""
    ordered = sorted(runs, key=lambda run: (run.started_s, run.path))
    span_s, buckets = _buckets(ordered)
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for run in ordered:
        groups[run.group][run.verdict] += 1
    return Fleet(
        runs=tuple(reversed(ordered)),
        counts=Counter(run.verdict for run in ordered),
        span_s=span_s,
        buckets=buckets,
        ways=tuple(_ways(ordered)),
        zoo=tuple(_zoo(ordered)),
        groups=tuple(sorted(groups.items())),
        recoveries=tuple(_recoveries(ordered)),
        flaky=tuple(_flaky(ordered)),
        known=tuple(_known(ordered)),
        nights=tuple(nights),
        unreadable=tuple(unreadable),
    )


def _buckets(runs: Sequence[FleetRun]) -> tuple[int, tuple[Bucket, ...]]:
    """Runs by the time they began, in the finest spans of which there are not too many."""
    times = [run.started_s for run in runs if run.started_s]
    if not times:
        return _SPANS_S[0], ()
    first_s, last_s = min(times), max(times)
    span_s = next((s for s in _SPANS_S if (last_s - first_s) / s < BUCKETS_MAX), _SPANS_S[-1])
    start = int(first_s // span_s)
    counts = [Counter[str]() for _ in range(int(last_s // span_s) - start + 1)]
    for run in runs:
        if run.started_s:
            counts[int(run.started_s // span_s) - start][run.verdict] += 1
    return span_s, tuple(Bucket((start + n) * span_s, count) for n, count in enumerate(counts))


def _ways(runs: Sequence[FleetRun]) -> Iterator[WayToFail]:
    """Most runs first; of runs without a seeded bug before any others."""
    by_name: dict[str, list[FleetRun]] = defaultdict(list)
    for run in runs:
        if run.anomalies:
            by_name[signature(*run.anomalies[0])].append(run)
    found = []
    for name, hits in by_name.items():
        mutants = {run.spec.mutant for run in hits}
        times = [run.detected_s for run in hits if run.detected_s is not None]
        also = Counter(signature(*more) for run in hits for more in run.anomalies[1:])
        invariant, message = hits[0].anomalies[0]
        found.append(
            WayToFail(
                signature=name,
                invariant=invariant,
                message=message,
                runs=len(hits),
                also=tuple(also.most_common()),
                first=hits[0],
                last=hits[-1],
                mutants=() if None in mutants else tuple(sorted(filter(None, mutants))),
                detected_s=percentile(times, 50),
            )
        )
    yield from sorted(found, key=lambda way: (bool(way.mutants), -way.runs, way.signature))


def _zoo(runs: Sequence[FleetRun]) -> Iterator[Rate]:
    """Rate how often each seeded bug is caught, by runs that ended and were decided."""
    by_mutant: dict[str, list[FleetRun]] = defaultdict(list)
    for run in runs:
        if run.spec.mutant is not None:
            by_mutant[run.spec.mutant].append(run)
    for mutant, all_ in sorted(by_mutant.items()):
        of = [run for run in all_ if run.verdict in ("invalid", "valid")]
        caught = [run for run in of if run.verdict == "invalid"]
        times = [run.detected_s for run in caught if run.detected_s is not None]
        interval = wilson(len(caught), len(of)) if of else None
        found_s, left_out = percentile(times, 50), len(all_) - len(of)
        yield Rate(mutant, len(caught), len(of), interval, found_s, left_out)


def _recoveries(runs: Sequence[FleetRun]) -> Iterator[Recovery]:
    """Sum up recoveries by nemesis, only of runs without a seeded bug."""
    by_kind: dict[str, list[float | None]] = defaultdict(list)
    for run in runs:
        if run.spec.mutant is None:
            for nemesis, took_ms in run.recoveries:
                by_kind[nemesis].append(took_ms)
    for nemesis, took in sorted(by_kind.items()):
        known = [ms for ms in took if ms is not None]
        yield Recovery(
            nemesis,
            len(took),
            len(took) - len(known),
            percentile(known, 50),
            percentile(known, 95),
            max(known, default=None),
        )


def _known(runs: Sequence[FleetRun]) -> Iterator[Known]:
    """Count the known findings over all runs; those of most runs come first."""
    by_finding: dict[str, list[FleetRun]] = defaultdict(list)
    for run in runs:
        for finding in run.known:
            by_finding[finding].append(run)
    found = [
        Known(finding, len(hits), sum(run.known[finding] for run in hits), hits[-1])
        for finding, hits in by_finding.items()
    ]
    yield from sorted(found, key=lambda known: (-known.runs, known.finding))


def _flaky(runs: Sequence[FleetRun]) -> Iterator[Flaky]:
    """Runs with the same options and seed that came to different verdicts."""
    by_spec: dict[str, list[FleetRun]] = defaultdict(list)
    for run in runs:
        if run.verdict != "unjudged":
            by_spec[repr(sorted(run.spec.to_json().items()))].append(run)
    for same in by_spec.values():
        verdicts = Counter(run.verdict for run in same)
        if len(verdicts) > 1:
            last = same[-1]
            yield Flaky(last.group, last.spec.seed, tuple(verdicts.most_common()), last)


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The nearest-rank percentile; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(percent) // 100) - 1)]
