"""Runs in object storage, on a real S3 server: whole or not there, whenever a harness is killed."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Timer

import pytest

from harness.errors import EnvError, HarnessError, UsageError
from harness.nightly.rotation import rotate
from harness.spec import RunSpec
from harness.store.folder import RunDir, Store
from harness.store.origin import Origin
from harness.store.remote import copies
from harness.store.remote.address import Address
from harness.store.remote.manifest import FOLDER
from harness.store.remote.mirror import Mirror, opened, store_left
from harness.store.remote.objects import Objects
from tests.support.objects.server import BUCKET, READER, WRITER, Server, served

VALID = {"system": "valid", "coverage": "valid", "harness": "ok"}
ROOT = Path(__file__).parents[4]
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture(autouse=True)
def _credentials(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.use(monkeypatch)


@pytest.fixture
def address(request: pytest.FixtureRequest) -> Address:
    name = "".join(c for c in request.node.name if c.isalnum())
    return Address.parse(f"s3://{BUCKET}/team/{name}")


def made(mirror: Mirror, seed: int, verdict: dict[str, str] | None = None) -> RunDir:
    """A run in the folder of a store, as a harness leaves it."""
    run = Store(mirror.root, home=mirror).new_run(RunSpec(seed=seed))
    run.history.write_text(f'{{"seed": {seed}}}\n' * 1000, encoding="utf-8")
    run.events("n1").write_text("{}\n", encoding="utf-8")
    if verdict is not None:
        run.write_results(verdict)
    return run


def stored(address: Address, seed: int, verdict: dict[str, str] | None = None) -> str:
    """The name of a run that is in the store."""
    mirror = opened(address)
    name = made(mirror, seed, verdict).told
    mirror.close()
    return name


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    return {name: data for name, data in found.items() if not name.startswith(".")}


def names(address: Address) -> list[str]:
    return [entry.name for entry in Objects(address).below("")]


def no_copies() -> bool:
    return not copies.has_copies()


# --------------------------------------------------------------------------- whole runs


def test_a_run_comes_back_as_it_was(address: Address) -> None:
    mirror = opened(address)
    run = made(mirror, 7)
    before = content(run.path)
    mirror.close()
    assert no_copies()
    again = opened(address)
    store = Store(again.root, home=again)
    for text in (run.id, "7", "latest", run.path.name, f"{address}/{run.family}/{run.path.name}"):
        found = store.resolve(text)
        assert content(found.path) == before
        assert found.words == (run.id, "--store", str(address))
    with pytest.raises(UsageError, match=rf"no run in {address} has the seed 8: it has 7"):
        store.resolve("8")
    again.close()


def test_two_runs_of_one_seed_are_told_apart(address: Address) -> None:
    stored(address, 7), stored(address, 7)
    mirror = opened(address)
    with pytest.raises(UsageError, match="2 runs have the seed 7: want one of their ids"):
        Store(mirror.root, home=mirror).resolve("7")
    mirror.close()


def test_without_its_manifest_a_run_is_none(address: Address) -> None:
    name = stored(address, 7).removeprefix(f"{address}/")
    Objects(address).remove([f"{FOLDER}/{name}.json"])
    mirror = opened(address)
    assert mirror.runs() == []
    assert mirror.sweep(datetime.now(UTC) - DAY) == []  # it may be on its way
    assert mirror.sweep(datetime.now(UTC) + DAY) == [name]
    mirror.close()
    assert names(address) == []


def test_an_object_that_somebody_changed_is_not_taken_for_the_run(address: Address) -> None:
    name = stored(address, 7)
    Objects(address).write(f"{name.removeprefix(f'{address}/')}/history.jsonl", b"{}\n")
    mirror = opened(address)
    with pytest.raises(EnvError, match=r"history\.jsonl: not what the run's manifest says"):
        Store(mirror.root, home=mirror).resolve("7")
    mirror.close()


def test_a_run_that_is_judged_anew_is_whole_at_all_times(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(address, 7, VALID)
    seen: list[str] = []
    upload, write = Objects.upload, Objects.write

    def look() -> None:
        other = opened(address)
        run = Store(other.root, home=other).resolve("7")
        results = run.results.read_text(encoding="utf-8")
        seen.append(f"{'invalid' in results} {run.report.is_file()}")
        other.close()

    def uploads(self: Objects, path: Path, name: str) -> None:
        look()
        upload(self, path, name)
        look()

    def writes(self: Objects, name: str, content: bytes) -> None:
        write(self, name, content)
        look()

    mirror = opened(address)
    run = Store(mirror.root, home=mirror).resolve("7")
    run.write_results({**VALID, "system": "invalid"})
    run.report.write_text("new", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "upload", uploads)
        patch.setattr(Objects, "write", writes)
        mirror.keep()
    mirror.close()
    look()
    assert seen == [
        "False False",
        "False False",
        "False True",
        "False True",
        "True True",
        "True True",
    ]


def test_a_run_of_the_same_name_is_left_alone(address: Address) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    mirrors = [opened(address), opened(address)]
    for number, mirror in enumerate(mirrors):
        store = Store(mirror.root, home=mirror, now=lambda: moment)
        run = store.new_run(RunSpec(seed=7), Origin(("sim", "run")[number]))
        run.history.write_text(f"{number}\n", encoding="utf-8")
    mirrors[0].close()
    with pytest.raises(UsageError, match=r"another run of this name is there.*1 runs are kept in"):
        mirrors[1].close()
    again = opened(address)
    assert Store(again.root, home=again).resolve("7").history.read_text(encoding="utf-8") == "0\n"
    again.close()
    shutil.rmtree(mirrors[1].root)


# --------------------------------------------------------------------------- killed harnesses

KILLED = """
import os, signal, sys
from pathlib import Path
from harness.store.remote.address import Address
from harness.store.remote.objects import Objects
from harness.store.remote.mirror import opened
from tests.harness.store.remote.test_mirror import VALID, made

address, method, number = Address.parse(sys.argv[1]), sys.argv[2], int(sys.argv[3])
plain, count = getattr(Objects, method), 0

def counted(self, *args):
    global count
    if count == number:
        os.kill(os.getpid(), signal.SIGKILL)
    count += 1
    return plain(self, *args)

mirror = opened(address)
setattr(Objects, method, counted)
run = made(mirror, 7, VALID)
ledger = mirror.root / "nights" / "1" / "ledger.jsonl"
if method == "entry":
    ledger.parent.mkdir(parents=True)
    ledger.write_text("{}\\n", encoding="utf-8")
if method == "remove":
    mirror.keep()
    mirror.drop(run.path)
else:
    mirror.close()
"""


def killed(address: Address, method: str, number: int) -> None:
    """A harness that dies of SIGKILL at its nth request of a kind."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(address), method, str(number)], cwd=ROOT, check=False
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("method", "number"), [("upload", 0), ("upload", 3), ("write", 0)])
def test_a_killed_upload_is_no_run_until_the_next_harness_completes_it(
    address: Address, method: str, number: int
) -> None:
    killed(address, method, number)
    (copy,) = (Path.home() / copies.CACHE).glob("*/*")
    (path,) = copy.glob("*/*/spec.json")
    before = content(path.parent)
    mirror = opened(address)
    assert mirror.runs() == []
    (left,) = store_left(address)
    assert (left.done, left.action) == (True, "1 runs stored")
    mirror.close()
    assert no_copies()
    mirror = opened(address)
    assert content(Store(mirror.root, home=mirror).resolve("7").path) == before
    mirror.close()


def test_a_run_is_put_twice_when_the_harness_dies_right_after(address: Address) -> None:
    killed(address, "entry", 0)  # of the ledger: the run is stored, and nobody knows
    (left,) = store_left()
    assert left.done
    mirror = opened(address)
    assert len(mirror.runs()) == 1
    mirror.close()


@pytest.mark.parametrize("number", [0, 1])
def test_a_killed_removal_is_completed(address: Address, number: int) -> None:
    killed(address, "remove", number)
    (left,) = store_left(address)
    assert left.done
    assert names(address) == []
    assert no_copies()


def test_a_living_harness_keeps_its_folder(address: Address) -> None:
    mirror = opened(address)
    run = made(mirror, 7)
    assert list(store_left(address)) == []
    assert run.spec.is_file()
    mirror.close()


def test_a_folder_waits_for_those_who_still_work_in_it(address: Address) -> None:
    """A killed night's live runs end a moment after it."""
    copy = copies.Copy.made(address)
    (copy.root / copies.LOCK).write_text("999999999\n", encoding="utf-8")  # nobody's pid
    lock = copies.joined(copy.root)
    assert lock is not None
    copy.close(empty=False)
    Timer(0.3, lock.close).start()
    (left,) = store_left(address)
    assert lock.closed
    assert left.done


def test_what_cannot_be_stored_is_kept(
    address: Address, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.use(monkeypatch, READER)
    mirror = opened(address)
    made(mirror, 7)
    with pytest.raises(UsageError, match=r"access is denied: .*1 runs are kept in .*krucible heal"):
        mirror.close()
    (left,) = store_left(address)
    assert not left.done
    assert "access is denied" in left.action
    server.use(monkeypatch, WRITER)
    (left,) = store_left(address)
    assert left.done
    assert no_copies()


# --------------------------------------------------------------------------- rotation and nights


def test_rotation_drops_valid_runs_of_the_bucket(address: Address) -> None:
    runs = [stored(address, seed, VALID) for seed in (1, 2, 3)]
    runs += [stored(address, 4, {**VALID, "system": "invalid"})]
    mirror = opened(address)
    store = Store(mirror.root, home=mirror)
    sizes = {RunDir(run.path).told: mirror.size(run.path) for run in store.runs()}
    assert list(sizes) == runs
    done = rotate(store, sizes[runs[0]] + sizes[runs[3]], keep={runs[0]})
    assert [RunDir(path).told for path in done.dropped] == runs[1:3]
    assert done.left_bytes == sizes[runs[0]] + sizes[runs[3]]
    mirror.close()
    left = {"/".join(name.split("/")[:2]) for name in names(address) if not name.startswith(".")}
    assert left == {run.removeprefix(f"{address}/") for run in (runs[0], runs[3])}


def test_a_night_goes_on_where_another_machine_left_it(address: Address) -> None:
    first = opened(address)
    night = first.root / "nights" / "20260101T000000Z"
    night.mkdir(parents=True)
    ledger = night / "ledger.jsonl"
    ledger.write_text("1\n", encoding="utf-8")
    first.keep()
    second = opened(address)
    second.fetch_nights()
    other = second.root / "nights" / night.name / "ledger.jsonl"
    assert other.read_text(encoding="utf-8") == "1\n"
    other.write_text("1\n2\n", encoding="utf-8")
    second.close()
    ledger.write_text("1\n3\n", encoding="utf-8")
    with pytest.raises(EnvError, match="another harness continues this night"):
        first.close()
    (left,) = store_left(address)  # what it did since is done again by the other one
    assert left.done
    third = opened(address)
    third.fetch_nights()
    found = third.root / "nights" / night.name / "ledger.jsonl"
    assert found.read_text(encoding="utf-8") == "1\n2\n"
    third.close()


def test_of_a_night_that_is_over_comes_the_summary_only(address: Address) -> None:
    mirror = opened(address)
    for name, files in {"1": ("ledger.jsonl", "summary.json"), "2": ("ledger.jsonl",)}.items():
        for file in files:
            path = mirror.root / "nights" / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}\n", encoding="utf-8")
    mirror.close()
    mirror = opened(address)
    mirror.refresh()
    there = content(mirror.root)
    assert sorted(there) == ["nights/1/summary.json", "nights/2/ledger.jsonl"]
    mirror.bring("nights/1/ledger.jsonl")
    assert "nights/1/ledger.jsonl" in content(mirror.root)
    mirror.close()


# --------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "access is denied: .*signature.*AWS_PROFILE"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "access is denied"),
        ({"AWS_ACCESS_KEY_ID": None}, "s3://krucible-runs: .*credentials.*AWS_PROFILE"),
        ({"AWS_PROFILE": "nobody"}, "s3://krucible-runs: .*profile.*nobody"),
    ],
)
def test_access_that_fails_is_told_at_once(
    address: Address,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str | None],
    text: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    with pytest.raises(HarnessError, match=text) as raised:
        opened(address)
    assert "\n" not in str(raised.value)
    assert no_copies()


def test_a_bucket_that_is_not_there() -> None:
    with pytest.raises(
        UsageError, match=r"s3://no-bucket: .*does not exist; make the bucket first"
    ):
        opened(Address.parse("s3://no-bucket/runs"))


def test_without_the_extra(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"need s3fs: install krucible with its extra \[s3\]"):
        opened(address)
