"""Makes the starting corpus that comes with krucible: ``python -m harness.explore.remake [FILE]``.

It plays seeds of the swarm of our own node, each cut short after its first fault, and distils those
that are valid. What it writes does not depend on how many processes play.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from harness.errors import HarnessError
from harness.explore.distil import CORPUS_COST, Shown, distilled
from harness.explore.moves import cut_short
from harness.explore.play import LIMIT_S, Played, candidate_of, play
from harness.explore.search import Step
from harness.explore.starting import OURS, save
from harness.processes.crew import Crew, Job, Local, Said
from harness.sessions.ahead import import_ahead
from harness.sessions.plan import Plan
from harness.sessions.swarm import draw
from harness.verdict import Valid

SEEDS: Final = range(1, 1_201)


def shown(seeds: Iterable[int], crew: Crew) -> list[Shown]:
    """Play the cut runs of seeds; gives what the valid ones showed, in the order of the seeds."""
    jobs = [Job(str(seed), partial(_played, seed), LIMIT_S, import_ahead) for seed in seeds]
    done: dict[int, Shown] = {}
    with closing(crew.work_off(jobs)) as told:
        for each in told:
            if isinstance(each, Said):
                run: Played = each.value
                if run.verdict is Valid.VALID and run.seen is not None:
                    candidate, names = run.step.candidate, tuple(run.seen)
                    done[run.step.number] = Shown(candidate, names, run.events)
    return [done[seed] for seed in sorted(done)]


def _played(seed: int) -> Iterator[Played]:
    plan = Plan.simulated(draw(seed), asked_for=False)
    step = Step(seed, cut_short(candidate_of(plan)), fresh=True, tentative=True)
    yield play(step, None)


def main(path: Path) -> None:
    """Play all seeds, and write the file."""
    runs = shown(SEEDS, Local(os.cpu_count() or 1))
    chosen = distilled(runs, CORPUS_COST)
    save(path, (run.candidate for run in chosen))
    sys.stdout.write(f"{path}: {len(chosen)} of {len(runs)} valid runs\n")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]) if sys.argv[1:] else OURS)
    except HarnessError as error:
        sys.exit(str(error))
