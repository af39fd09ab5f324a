"""Runs travel between stores: they arrive whole, under an id of their new store."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.sessions.plan import Plan
from harness.sessions.simulated import save, simulate
from harness.spec import SIM, RunSpec
from harness.store.folder import RunDir, Store, stores_in
from harness.store.parcels import Parcel, delivered, packed
from harness.store.reading import load_run

SPEC = RunSpec(seed=7, env=SIM, voters=1, observers=0, nemeses=("none",), time_limit_s=1.0)


@pytest.fixture
def made(tmp_path: Path) -> RunDir:
    """A run in a store called away."""
    return save(simulate(Plan.simulated(SPEC)), Store(tmp_path / "away"))


@pytest.fixture
def home(tmp_path: Path) -> Store:
    return Store(tmp_path / "home", render=lambda path: f"report of {path.name}")


def files(run: RunDir) -> dict[str, bytes]:
    own = {"run.json", "report.html"}
    return {
        str(path.relative_to(run.path)): path.read_bytes()
        for path in run.path.rglob("*")
        if path.is_file() and path.name not in own
    }


def test_a_run_arrives_with_all_its_files(made: RunDir, home: Store) -> None:
    before = files(made)
    (parcel,) = packed(Store(made.root))

    run = delivered(parcel, home)

    assert parcel.path == str(made.path)
    assert files(run) == before
    assert load_run(run.path).data.spec.seed == SPEC.seed
    assert run.read_origin().by == "sim"
    assert run.report.read_text() == f"report of {run.path.name}"
    assert home.resolve(run.id) == run
    assert home.resolve("latest") == run
    assert [path.name for path in home.root.iterdir() if path.name.startswith(".")] == []


def test_what_is_packed_is_gone(made: RunDir) -> None:
    store = Store(made.root)
    packed(store)
    assert not store.runs()
    assert packed(store) == []


def test_two_runs_that_began_in_one_moment_have_ids_of_their_own(made: RunDir, home: Store) -> None:
    (parcel,) = packed(Store(made.root))
    first, second = delivered(parcel, home), delivered(parcel, home)
    assert first.id != second.id
    assert home.runs() == sorted((first, second), key=lambda run: run.path.name)


def test_what_is_no_run_leaves_nothing_in_the_store(made: RunDir, home: Store) -> None:
    made.spec.write_text("not JSON")
    (parcel,) = packed(Store(made.root))
    with pytest.raises(UsageError, match=r"spec\.json"):
        delivered(parcel, home)
    assert list(home.root.iterdir()) == []


def test_what_is_on_its_way_is_no_run_of_the_store(made: RunDir, home: Store) -> None:
    seen: list[RunDir] = []

    def render(path: Path) -> str:
        seen.extend(home.runs())
        return path.name

    (parcel,) = packed(Store(made.root))
    run = delivered(parcel, Store(home.root, render=render))
    assert seen == [run]


def test_a_store_that_is_pickled_lies_where_it_is_read(tmp_path: Path) -> None:
    data = pickle.dumps(Store(tmp_path / "here", render=str))
    assert pickle.loads(data).root == tmp_path / "here"
    with stores_in(tmp_path / "there"):
        assert pickle.loads(data).root == tmp_path / "there"
    assert pickle.loads(data).root == tmp_path / "here"


@pytest.mark.parametrize(
    "member",
    [
        {"name": "../../outside"},
        {"name": "/outside"},
        {"name": "link", "type": tarfile.SYMTYPE, "linkname": "../../outside"},
    ],
    ids=["above", "absolute", "link"],
)
def test_an_archive_with_what_is_no_file_of_a_run_is_refused(
    member: dict[str, Any], home: Store
) -> None:
    evil = io.BytesIO()
    with tarfile.open(fileobj=evil, mode="w:gz") as archive:
        info = tarfile.TarInfo()
        for field, value in member.items():
            setattr(info, field, value)
        archive.addfile(info, io.BytesIO())
    with pytest.raises(UsageError, match="no file of it"):
        delivered(Parcel("x", evil.getvalue()), home)
    assert not (home.root.parent / "outside").exists()
    assert list(home.root.iterdir()) == []
