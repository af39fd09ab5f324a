"""Measure how long faults last: as paces promise, as seeds draw, and as simulations play.

    python bench/schedules.py [--seeds 1..1500] [--play 30]

For each pace: of the seeds that draw it, how long their main phase and their faults are. A schedule
silences a broker for so long as a fault of it may keep one dead, frozen, or cut off from those it
reports to: faults that aim at brokers by name, or at all nodes; others that happen to hit one are
not counted. A session is 9 s, and C12 allows an eighth and 3 s more. ``--play`` simulates some
of the seeds: from the end of a fault's injection to the begin of its heal. Takes some seconds, and
two seconds for each seed that is played.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.support.figures import percentile, say, table
from checkers.invariants.decisions import GRACE_MS, SESSION_MS
from harness.clock import NS_PER_MS
from harness.contracts.nemesis import Fault
from harness.faults.schedule import PACES
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.sessions.swarm import draw
from harness.spec import FAIR

LATE_MS = SESSION_MS * 9 // 8 + GRACE_MS
TIMED: Mapping[str, Any] = {"moments": 0, "weather": FAIR}  # faults that go by time, and no others
CAN_SILENCE = frozenset({"kill", "pause", "power", "stop"})
CUTS = frozenset({"partition-isolate-one", "partition-one-way"})
HEAD = (
    *("pace", "seeds", "main s", "faults", "kinds", "promised s", "p1", "median", "p99"),
    f"silence > {SESSION_MS / 1_000:g} s",
    f"> {LATE_MS / 1_000:g} s",
)
EARLY_MS = 10  # played shorter than drawn by more than that


@dataclass(frozen=True, slots=True)
class Drawn:
    """The schedule of a seed, and its setting."""

    pace: str
    limit_s: float
    faults: tuple[Fault, ...]
    observers: int

    @classmethod
    def of(cls, seed: int) -> Drawn:
        """Draw the run of a seed as the swarm does."""
        plan = Plan.simulated(draw(seed, TIMED), asked_for=False)
        spec = plan.spec
        return cls(spec.pace, spec.time_limit_s, tuple(plan.faults), spec.observers)

    def silence_ms(self) -> int:
        """The longest that a fault silences a broker for; 0 when none aims at one."""
        if not self.observers:
            return 0
        return max((f.duration_ms for f in self.faults if silences(f)), default=0)


def silences(fault: Fault) -> bool:
    """Tell whether a fault aims at brokers, and keeps what they say from all controllers."""
    target = fault.params.get("target")
    if fault.nemesis in CUTS:
        return target == "observer" and fault.params.get("direction") != "deaf"
    return fault.nemesis in CAN_SILENCE and target in ("observer", "all")


def row(pace: str, drawn: Sequence[Drawn]) -> tuple[str, ...]:
    """The figures of a pace."""
    low_ms, high_ms = PACES[pace].fault_ms
    lasts = [fault.duration_ms / 1_000 for each in drawn for fault in each.faults]
    counts = [len(each.faults) for each in drawn]
    kinds = [len({fault.nemesis for fault in each.faults}) for each in drawn]
    return (
        pace,
        str(len(drawn)),
        f"{statistics.mean(each.limit_s for each in drawn):.1f}",
        f"{statistics.mean(counts):.1f}",
        f"{statistics.mean(kinds):.1f}",
        f"{low_ms / 1_000:g} to {high_ms / 1_000:g}",
        f"{percentile(lasts, 1):.1f}",
        f"{statistics.median(lasts):.1f}",
        f"{percentile(lasts, 99):.1f}",
        share(drawn, SESSION_MS),
        share(drawn, LATE_MS),
    )


def share(drawn: Sequence[Drawn], above_ms: int) -> str:
    """Count the schedules that silence a broker for longer."""
    number = sum(each.silence_ms() > above_ms for each in drawn)
    return f"{number} ({number / len(drawn):.1%})"


def played(seeds: Iterable[int]) -> Iterator[tuple[str, float, float]]:
    """Kind, drawn and played time of each fault that was installed and healed, in ms."""
    for seed in seeds:
        plan = Plan.simulated(draw(seed, TIMED), asked_for=False)
        for report in simulate(plan).result.faults:
            if report.injection.outcome == "installed" and report.healed_ns is not None:
                lasted_ms = (report.healed_ns - report.injected_ns) / NS_PER_MS
                yield report.fault.nemesis, report.fault.duration_ms, lasted_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="1..1500", help="first and last (default: %(default)s)")
    parser.add_argument("--play", type=int, default=0, help="how many of them to simulate")
    arguments = parser.parse_args()
    first, last = map(int, arguments.seeds.split(".."))
    seeds = range(first, last + 1)
    drawn = [Drawn.of(seed) for seed in seeds]
    rows = [row(pace, [d for d in drawn if d.pace == pace]) for pace in PACES]
    say(table(HEAD, rows))
    say(f"all: main phase {statistics.mean(d.limit_s for d in drawn):.1f} s")
    say(f"silence > {SESSION_MS / 1_000:g} s: {share(drawn, SESSION_MS)}")
    say(f"silence > {LATE_MS / 1_000:g} s: {share(drawn, LATE_MS)}")
    if arguments.play:
        found = list(played(seeds[: arguments.play]))
        early = Counter(kind for kind, want, got in found if got < want - EARLY_MS)
        longer = statistics.median(got - want for _, want, got in found)
        say(f"played: {len(found)} faults, median {longer:+.0f} ms of what was drawn")
        say(f"healed early: {early.total()} {dict(early)}")


if __name__ == "__main__":
    main()
