"""``krucible analyze`` says of each run what the checkers of single runs said of it.

``test_analysis.py`` holds that for a few runs; ``--long`` for a mixed store of a thousand: every
other run is healthy, a draw of the swarm cut short, and the others take all seeded bugs in turn,
each in its own scenario, first stopped at what it breaks and the next time around to the end.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from harness.sessions.plan import Plan
from harness.sessions.simulated import save, simulate
from harness.sessions.swarm import draw
from harness.sessions.zoo import bugs, plan_of
from harness.store.folder import Store
from pipeline.analysis import TABLES_FOLDER, Options, analyse
from pipeline.layout import Layout
from pipeline.summary import newest
from tests.support.spark.sessions import quiet_session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
TIME_LIMIT_S = 5.0  # of healthy runs


def simulated(store: Path, number: int) -> None:
    if number % 2 == 0:
        plan = Plan.simulated(draw(number, {"time_limit_s": TIME_LIMIT_S}), asked_for=False)
    else:
        plan = with_a_bug(number // 2)
    save(simulate(plan), Store(store))


def with_a_bug(number: int) -> Plan:
    """All bugs in turn, each time around with the next of their seeds."""
    known = [bug for bug in bugs() if bug.scenario is not None]
    around, place = divmod(number, len(known))
    bug = known[place]
    assert bug.scenario is not None
    seeds = bug.scenario["seeds"]
    stop_at = None if around % 2 else tuple(sorted(bug.breaks))
    return plan_of(bug.scenario, seeds[around // 2 % len(seeds)], bug.name, stop_at)


@pytest.mark.parametrize("runs", [1_000])
def test_every_verdict_is_that_of_the_single_run(runs: int, tmp_path: Path) -> None:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(partial(simulated, tmp_path), range(runs)))
    out = tmp_path / TABLES_FOLDER
    with quiet_session() as spark:
        told = analyse(spark, Options(tmp_path, out))
        verdicts = newest(spark, Layout(out), "verdicts")
        wrong = verdicts.where("not coalesce(agrees, false) or size(details) > 0").collect()
        whole = verdicts.count()
    assert [row.asDict() for row in wrong] == []
    assert (told["runs"], whole, told["not_compared"]) == (runs, runs, 0)
    assert runs / 4 < told["invalid"] < runs * 3 / 4
