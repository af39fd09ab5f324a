"""Simulations on a Spark cluster: what comes back is what this machine would have made."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from harness.batch import trial
from harness.batch.trial import Trial
from harness.explore.play import Exploration, Played
from harness.processes.crew import Ended, Job, Local, Said
from harness.sessions.plan import Plan
from harness.sessions.swarm import draw
from harness.store.folder import Store
from harness.store.reading import load_run
from pipeline.crew import SparkCrew, spark_crew
from tests.support.spark.cluster import standalone_cluster

# executors have no tests
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
pytestmark = [pytest.mark.spark, pytest.mark.slow]

WAIT_S = 120.0  # a limit and no pause
KEPT = 2
# Each seed of it fails, and in the same way.
FAILING: dict[str, Any] = {
    "mutant": "commit-without-majority",
    "time_limit_s": 1.0,
    "nemeses": ("none",),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The store that the crew's runs come into."""
    folder = tmp_path_factory.mktemp("store")
    return Store(folder, render=lambda path: f"report of {path.name}")


@pytest.fixture(scope="module")
def crew(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCrew]:
    """Two executors of one processor, whose Python has no packages but those that are sent."""
    folder = tmp_path_factory.mktemp("cluster")
    bare = str(getattr(sys, "_base_executable", sys.executable))
    with (
        pytest.MonkeyPatch.context() as patch,
        standalone_cluster(folder, workers=2) as master,
    ):
        patch.setenv("PYSPARK_PYTHON", bare)
        with spark_crew(master, store, kept=KEPT, way=way, cache=folder / "cache") as there:
            yield there


def way(told: Any) -> str | None:
    """Name how a trial, or a run of a search, failed."""
    return told.way or None if isinstance(told, Played) else trial.way_to_fail(told)


def trials(store: Store, seeds: range, **pinned: Any) -> list[Trial]:
    return [Trial(seed, pinned, False, False, store) for seed in seeds]


def done(crew: SparkCrew | Local, all_of: list[Trial]) -> list[trial.Result]:
    jobs = [Job(str(each.seed), partial(trial.each, (each,))) for each in all_of]
    told = list(crew.work_off(jobs))
    assert [each.broken for each in told if isinstance(each, Ended)] == [None] * len(jobs)
    results = [each.value for each in told if isinstance(each, Said)]
    return sorted(results, key=lambda result: int(result["seed"]))


def test_a_cluster_gives_the_results_of_this_machine(crew: SparkCrew, tmp_path: Path) -> None:
    some = trials(Store(tmp_path / "elsewhere"), range(1, 5), time_limit_s=2.0)

    there, here = done(crew, some), done(Local(1), some)

    for result in (*there, *here):
        del result["cpu_s"]
    assert there == here


def test_failing_runs_come_back_whole_so_many_of_each_way(
    crew: SparkCrew, store: Store, tmp_path: Path
) -> None:
    failing = done(crew, trials(Store(tmp_path / "not-here"), range(1, 7), **FAILING))

    assert all(trial.fails(result) for result in failing)
    ways = Counter(trial.way_to_fail(result) for result in failing)
    stored = Counter(trial.way_to_fail(result) for result in failing if result["store"])
    assert stored == {way: min(times, KEPT) for way, times in ways.items()}
    for result in (result for result in failing if result["store"]):
        (run,) = [run for run in store.runs() if str(run.path) == result["store"]]
        read = load_run(run.path)
        assert read.data.spec.seed == result["seed"]
        assert not read.warnings
        assert run.report.read_text() == f"report of {run.path.name}"
    assert not list(store.root.glob(".arriving-*"))


def test_a_search_is_the_same_on_a_cluster(crew: SparkCrew, tmp_path: Path) -> None:
    def plan(seed: int) -> Plan:
        return Plan.simulated(draw(seed, {**FAILING, "voters": 1, "observers": 0}))

    told = []
    for players in (crew, Local(2)):
        store = Store(tmp_path / type(players).__name__)
        with closing(Exploration(7, plan, store, players).rounds()) as rounds:
            told.append([(each.step, each.way, each.seen) for each in next(rounds)])
    assert told[0] == told[1]
    assert "S13" in {way for _, way, _ in told[0]}


def test_what_an_executor_had_under_way_is_done_again_when_it_is_killed(
    crew: SparkCrew, tmp_path: Path
) -> None:
    jobs = [Job(str(n), partial(wait_for_go, tmp_path, n)) for n in range(6)]
    told: list[Said | Ended] = []
    listener = threading.Thread(target=lambda: told.extend(crew.work_off(jobs)))
    listener.start()
    await_true(lambda: len(list(tmp_path.glob("began-*"))) >= 2)

    os.kill(int(next(tmp_path.glob("began-*")).read_text()), signal.SIGKILL)
    (tmp_path / "go").touch()

    listener.join(WAIT_S)
    assert not listener.is_alive()
    assert sorted(each.value["number"] for each in told if isinstance(each, Said)) == list(range(6))
    assert [each.broken for each in told if isinstance(each, Ended)] == [None] * 6
    assert any(path.read_text() for path in tmp_path.glob("again-*")), "nothing was done again"


def test_who_stops_listening_ends_what_runs(crew: SparkCrew, tmp_path: Path) -> None:
    quick = Job("quick", lambda: iter([{"number": 0}]))
    told = crew.work_off([quick, Job("for ever", partial(wait_for_go, tmp_path, 1))])
    assert isinstance(next(told), Said)
    await_true(lambda: any(tmp_path.glob("pid-*")))
    pid = int(next(tmp_path.glob("pid-*")).name.removeprefix("pid-"))
    told.close()

    await_true(lambda: not Path(f"/proc/{pid}").exists())


def await_true(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def wait_for_go(folder: Path, number: int) -> Iterator[dict[str, Any]]:
    """Tell which executor does it, and be done when the test says so."""
    mine = folder / f"began-{number}"
    draft = folder / f".began-{number}-{os.getpid()}"
    draft.write_text(str(executor()))
    again = mine.exists()
    draft.replace(folder / f"again-{number}" if again else mine)
    (folder / f"pid-{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    yield {"number": number}


def executor() -> int:
    """The pid of the JVM that this process is a descendant of."""
    pid = os.getpid()
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        status = Path(f"/proc/{pid}/status").read_text()
        pid = int(next(x for x in status.splitlines() if x.startswith("PPid")).split()[1])
    return pid
