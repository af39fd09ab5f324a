"""One seed of a batch: simulated, judged, stored if need be, and told as a JSON object.

A trial is data, so that it can be done in any process, and on any machine. A seed that breaks the
harness is a result, too: it costs the other seeds nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.processes.outlook import expect
from harness.sessions.crash_points import CrashPoint
from harness.sessions.plan import Plan
from harness.sessions.reached import Reach, premises, reached, told_of
from harness.sessions.swarm import draw
from harness.store.folder import Store
from harness.store.signatures import of_doubt, signature
from harness.verdict import Valid

if TYPE_CHECKING:
    from harness.sessions.simulated import SimRun

Result = dict[str, Any]  # of a trial


@dataclass(frozen=True, slots=True)
class Trial:
    """A seed to be simulated; ``pinned`` are the fields of its RunSpec that are not drawn."""

    seed: int
    pinned: Mapping[str, Any]
    twice: bool
    keep: bool  # in the store, though it be valid
    store: Store
    crash: CrashPoint | None = None  # where the power fails, beside what the seed draws

    @property
    def name(self) -> str:
        """The seed, and where its power fails."""
        return str(self.seed) if self.crash is None else f"{self.seed}, {self.crash.told()}"

    def plan(self) -> Plan:
        """The plan of the seed; raises UsageError."""
        plan = Plan.simulated(draw(self.seed, self.pinned), asked_for="nemeses" in self.pinned)
        return plan if self.crash is None else self.crash.of(plan)

    def do(self) -> Result:
        """Simulate and judge; what is not valid, or wanted, goes into the store."""
        from harness.explore.play import seen_in  # noqa: PLC0415 - it brings the node
        from harness.sessions import simulated  # noqa: PLC0415 - as above

        try:
            plan = self.plan()
        except UsageError as error:  # the options do not go with what this seed draws
            told = {"harness_reasons": [str(error)], "exit_code": error.exit_code}
            return self._result({"seed": self.seed, "verdict": str(Valid.UNKNOWN), **told})
        began_s = time.process_time()
        try:
            run = simulated.simulate(plan)
            shown = {"premises": premises(run.judgement.results), "features": list(seen_in(run))}
            result = self._result({**run.summary(), "reached": reached(run.data), **shown})
            if self.crash is not None:
                result["struck"] = self.crash.struck(run.result.faults)
            if self.twice:
                again = simulated.simulate(plan)
                result["same_bytes"] = again.trace_sha256 == run.trace_sha256
            result["cpu_s"] = round(time.process_time() - began_s, 3)
            if self.keep or fails(result):
                result["store"] = simulated.save(run, self.store).told
        except Exception as error:
            reason, trace = simulated.reason_of(error), "".join(format_exception(error))
            return self._stored(simulated.never_done(plan, reason, trace))
        return result

    def died(self, reason: str) -> Result:
        """The result of a seed in which its process died; the run that is stored has no events."""
        from harness.sessions.simulated import never_done  # noqa: PLC0415 - as above

        return self._stored(never_done(self.plan(), reason))

    def _stored(self, run: SimRun) -> Result:
        from harness.sessions.simulated import save  # noqa: PLC0415 - as above

        return self._result({**run.summary(), "store": save(run, self.store).told})

    def _result(self, known: Mapping[str, Any]) -> Result:
        crash = {} if self.crash is None else {"crash": self.crash.to_json()}
        return _whole({**known, "name": self.name, **crash})


def import_ahead() -> None:
    """Import what all trials need; see ``harness.sessions.ahead``."""
    import harness.explore.play  # noqa: F401, PLC0415 - it brings the node
    from harness.sessions import ahead  # noqa: PLC0415 - it brings all plug-ins

    ahead.import_ahead()


def each(trials: Sequence[Trial]) -> Iterator[Result]:
    """Do trials one after the other; each tells of features that those before it did not show."""
    expect(len(trials))
    known: set[str] = set()
    for trial in trials:
        result = trial.do()
        result["features"] = [name for name in result["features"] if name not in known]
        known.update(result["features"])
        yield result


def fails(result: Mapping[str, Any]) -> bool:
    """Tell whether a seed is not valid, or not the same twice."""
    return result["verdict"] != "valid" or is_broken(result) or result["same_bytes"] is False


def is_broken(result: Mapping[str, Any]) -> bool:
    """Tell whether the harness broke in a seed, or could not play it."""
    return bool(result["harness_reasons"])


def way_to_fail(result: Mapping[str, Any]) -> str | None:
    """Name how a seed failed, as nights do: by what it broke first; None when it did not fail."""
    if result["anomalies"]:
        first = result["anomalies"][0]
        return signature(first["invariant"], first["message"])
    doubts = [*result["system_reasons"], *result["coverage_reasons"], *result["harness_reasons"]]
    if doubts:
        return of_doubt(doubts[0])
    return "not the same bytes twice" if result["same_bytes"] is False else None


def added_up(results: Sequence[Result]) -> Result:
    """Tell what many seeds came to, as a JSON object; those that fail by seed, each once."""
    invariants: Counter[str] = Counter()
    reach = Reach()
    for result in results:
        invariants.update({anomaly["invariant"] for anomaly in result["anomalies"]})
        premised = {name: (times, times > 0, 1) for name, times in result["premises"].items()}
        reach.add({"counts": result["reached"], "premises": premised})
    return {
        "seeds": len(results),
        "verdicts": dict(Counter(result["verdict"] for result in results)),
        "invariants": dict(invariants.most_common()),
        "known": _known(results),
        "broken": [r["seed"] for r in results if is_broken(r)],
        "not_same_bytes": [r["seed"] for r in results if r["same_bytes"] is False],
        "failing": [
            {"seed": r["seed"], "verdict": r["verdict"], "store": r["store"]}
            for r in results
            if fails(r)
        ],
        **told_of(reach),
        "events": sum(result["events"] for result in results),
        "simulated_s": round(sum(result["simulated_s"] for result in results), 3),
    }


def _known(results: Sequence[Result]) -> dict[str, dict[str, int]]:
    """Count by finding, commonest first, the seeds in which a system did what it is known to do."""
    found: dict[str, dict[str, int]] = {}
    for result in results:
        for finding, times in result.get("known", {}).items():
            seen = found.setdefault(finding, {"seeds": 0, "times": 0, "first": result["seed"]})
            seen["seeds"] += 1
            seen["times"] += times
    return dict(sorted(found.items(), key=lambda item: (-item[1]["seeds"], item[0])))


def _whole(known: Mapping[str, Any]) -> Result:
    """Complete the result of a seed: fields that are not known are empty."""
    nothing: dict[str, list[Any]] = {
        name: [] for name in ("anomalies", "system_reasons", "coverage_reasons", "harness_reasons")
    }
    blank = {"events": 0, "simulated_s": 0.0, "cpu_s": 0.0, "store": None, "same_bytes": None}
    reach: dict[str, Any] = {"reached": {}, "premises": {}, "features": []}
    return {**nothing, **blank, **reach, **known}
