"""``krucible analyze`` of a store in object storage: what was read is not even fetched again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import EnvError
from harness.sessions.plan import Plan
from harness.sessions.simulated import save, simulate
from harness.spec import SIM, RunSpec
from harness.store.home import found
from harness.store.remote import seen
from harness.store.remote.address import Address
from harness.store.remote.mirror import Mirror
from harness.store.remote.mirror import opened as opened_at
from krucible.commands import analyze as command
from krucible.stores import closing, opened
from pipeline.analysis import Options, analyse
from tests.support.objects.server import BUCKET, Server, served
from tests.support.spark.sessions import quiet_session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
STORE = f"s3://{BUCKET}/team"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("s3")) as server_:
        yield server_


@pytest.fixture(autouse=True)
def fetched(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The bucket is the server's, and no Spark is started: what would be read is only named."""
    names: list[str] = []

    def looked_at(store: Path, master: str, tables: Path | None, top: int) -> dict[str, Any]:
        assert (master, top) == ("local[2]", 20)
        assert tables is not None
        tables.mkdir(exist_ok=True)
        names[:] = [f"{run.parent.name}/{run.name}" for run in sorted(found(store))]
        return {}

    server.use(monkeypatch)
    monkeypatch.setattr(command, "_analyse", looked_at)
    return names


def add_run(store: str, seed: int) -> str:
    """Simulate a run into a store; its name."""
    spec = RunSpec(seed=seed, env=SIM, observers=0, time_limit_s=2.0, rate_hz=20.0, concurrency=2)
    with closing():
        made = save(simulate(Plan.simulated(spec)), opened(store))
        assert made is not None
        return made.path.relative_to(made.path.parents[1]).as_posix()


def analysed(store: str, tables: Path | None = None) -> dict[str, Any]:
    with closing():
        return command._analyse_remote(store, "local[2]", tables, 20)


def remote(store: str) -> Mirror:
    return opened_at(Address.parse(store))


def lose(store: str, run: str) -> None:
    """Take a file of a run out of the bucket: who fetches the run fails."""
    mirror = remote(store)
    mirror._objects.remove([f"{run}/history.jsonl"])
    mirror.close()


def judge_anew(store: str, run: str) -> None:
    """Write the run's results once more, as ``krucible check`` does."""
    mirror = remote(store)
    mirror.fetch(mirror.root / run)
    results = mirror.root / run / "results.json"
    results.write_bytes(results.read_bytes() + b"\n")
    mirror.close()


@pytest.mark.long
def test_spark_adds_what_is_new_to_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    store = f"{STORE}/added"
    first, second = add_run(store, 1), add_run(store, 2)
    with quiet_session() as spark:

        def in_session(store: Path, master: str, tables: Path | None, top: int) -> dict[str, Any]:
            assert (master, tables is None) == ("local[2]", False)
            return analyse(spark, Options(store, tables or store, top))

        monkeypatch.setattr(command, "_analyse", in_session)
        told = analysed(store)
        assert (told["runs"], told["new"]["runs"], told["disagreements"]) == (2, 2, 0)
        lose(store, first)
        judge_anew(store, second)
        add_run(store, 3)
        told = analysed(store)
        assert (told["runs"], told["new"]["runs"], told["disagreements"]) == (3, 2, 0)


@pytest.mark.parametrize("beside", [False, True], ids=("in the bucket", "in a folder"))
def test_of_a_store_that_grew_only_what_is_new_is_fetched(
    beside: bool,
    tmp_path: Path,
    fetched: list[str],
) -> None:
    store = f"{STORE}/{'beside' if beside else 'within'}"
    tables = tmp_path / "tables" if beside else None
    first, second = add_run(store, 1), add_run(store, 2)
    analysed(store, tables)
    assert fetched == [first, second]
    third = add_run(store, 3)
    judge_anew(store, second)
    analysed(store, tables)
    assert fetched == [second, third]
    analysed(store, tables)
    assert fetched == []


def test_where_the_tables_were_removed_all_runs_are_fetched(fetched: list[str]) -> None:
    store = f"{STORE}/removed"
    first = add_run(store, 1)
    analysed(store)
    mirror = remote(store)
    mirror._objects.remove([f"{command.TABLES}/{seen.NAME}"])
    mirror.close()
    analysed(store)
    assert fetched == [first]
    lose(store, first)
    analysed(store)
    assert fetched == []
    second = add_run(store, 2)
    lose(store, second)
    with pytest.raises(EnvError, match=rf"{second}/history\.jsonl: .*; it was removed meanwhile"):
        analysed(store)


def test_a_run_that_nobody_judged_is_fetched_until_somebody_did(fetched: list[str]) -> None:
    store = f"{STORE}/unjudged"
    with closing():
        run = opened(store).new_run(RunSpec(seed=1))
        run.history.write_text("{}\n")
    for _ in range(2):
        analysed(store)
        assert len(fetched) == 1


def test_a_file_of_what_was_seen_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    (tmp_path / seen.NAME).write_text('{"kraft-register/1": 2}')
    with pytest.raises(EnvError, match=r"seen\.json: want names of runs and tags; remove it"):
        seen.tags_in(tmp_path)
    (tmp_path / seen.NAME).write_text("{")
    with pytest.raises(EnvError, match=r"seen\.json: .*; remove it to have all runs fetched"):
        seen.tags_in(tmp_path)
    assert seen.tags_in(tmp_path / "nowhere") == {}
