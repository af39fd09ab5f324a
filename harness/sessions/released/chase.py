"""The zoo's arm of releases: bugs that were released are found again, and the fixes hold.

Each seed is played twice, with the affected release and with the fixed one: the same options,
faults and ops. The affected one is to be caught by an invariant that the bug breaks; the fixed one
must not break any of those on the same seeds. Seeds are simulated, or run as processes where a bug
says how it is seen there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any, Final

from harness.errors import UsageError
from harness.sessions.released.quarry import ARM, FIRST, LIVE_ARM, Quarry

_TIMES: Final = ("elapsed_s", "cpu_s", "simulated_s")


@dataclass(frozen=True, slots=True)
class Played:
    """The anomalies of a seed with one release: the first message of each invariant."""

    anomalies: Mapping[str, str] = field(default_factory=dict)
    known: frozenset[str] = frozenset()  # findings that were counted apart
    simulated_s: float = 0.0


# Plays a seed with a release; what came of it, and why the harness broke, if it did.
Play = Callable[[Quarry, int, str], tuple[Played | None, str | None]]


@dataclass(slots=True)
class Chase:
    """The outcome of one bug."""

    mutant: str  # the name of the bug, as every arm of the zoo calls it
    affected: str
    fixed: str
    arm: str = ARM
    caught_by: list[str] = field(default_factory=list)  # of what it breaks
    seed: int | None = None  # that caught it
    said: str = ""  # the first anomaly that did
    tried: int = 0  # seeds, with both releases
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    simulated_s: float = 0.0
    wrong: dict[str, int] = field(default_factory=dict)  # other invariants, of the affected one
    alarms: dict[str, int] = field(default_factory=dict)  # of the fixed one: of what it breaks
    others: dict[str, int] = field(default_factory=dict)  # of the fixed one: other invariants
    broken: dict[str, int] = field(default_factory=dict)  # why seeds could not be judged

    @property
    def caught(self) -> bool:
        """Tell whether the affected release was caught for the right reason."""
        return bool(self.caught_by)

    def to_json(self) -> dict[str, Any]:
        """Give it as a JSON object."""
        times = {name: round(getattr(self, name), 3) for name in _TIMES}
        return {**asdict(self), **times, "caught": self.caught}


def chase(quarry: Quarry, budget_s: float, play: Play, arm: str = ARM) -> Iterator[Chase]:
    """Hunt a bug until it is caught or the time is up; the chase so far after each seed.

    A seed that is under way when the time is up is finished, with both releases. ``play`` plays
    one, as said by ``arm``.
    """
    bug = quarry.bug
    if bug.fixed is None:
        raise UsageError(f"{bug.name}: no release has it fixed")
    so_far = Chase(bug.name, bug.affected, bug.fixed, arm)
    breaks = frozenset((arm == LIVE_ARM and bug.live_breaks) or bug.breaks)
    wrong, alarms, others, broken = (Counter[str]() for _ in range(4))
    began_s, cpu_began_s = time.monotonic(), time.process_time()
    for seed in count(FIRST):
        for release in (bug.affected, bug.fixed):
            run, reason = play(quarry, seed, release)
            if reason is not None:
                broken[f"{release}: {reason}"] += 1
            if run is None:
                continue
            so_far.simulated_s += run.simulated_s
            told = dict(run.anomalies)
            if release == bug.fixed:
                alarms.update(told.keys() & breaks)
                others.update(told.keys() - breaks)
                continue
            caught = sorted(told.keys() & breaks)
            if bug.known is not None and bug.known in run.known:
                caught, told = list(bug.breaks), {bug.breaks[0]: bug.known}
            if caught:
                so_far.caught_by, so_far.seed, so_far.said = caught, seed, told[caught[0]]
            else:
                wrong.update(told.keys())
        so_far.tried += 1
        so_far.elapsed_s = time.monotonic() - began_s
        so_far.cpu_s = time.process_time() - cpu_began_s
        so_far.wrong, so_far.broken = dict(wrong), dict(broken)
        so_far.alarms, so_far.others = dict(alarms), dict(others)
        yield so_far
        if so_far.caught or so_far.elapsed_s >= budget_s:
            return
