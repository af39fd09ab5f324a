"""Commands with a store in object storage, on a real S3 server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.processes.python import module_argv
from harness.store.remote.address import Address
from harness.store.remote.copies import CACHE
from harness.store.remote.objects import Objects
from tests.support.commands.command import krucible
from tests.support.objects.server import BUCKET, Server, served
from tests.support.reports.browser import launched
from tools.chromium import CHROMIUM

STORE = f"s3://{BUCKET}/team"
OPTIONS = ("--workload", "register", "--time-limit", "3", "--voters", "3", "--observers", "0")
NIGHT = """
budget = "12s"
jobs = 1
[on-failure]
kept = 1
shrink = "0s"
[[sim]]
name = "little"
time-limit = 3
workload = "register"
[[sim]]
name = "broken"
time-limit = 3
workload = "register"
mutant = "ack-before-commit"
[[sim]]
name = "third"
time-limit = 3
[[sim]]
name = "fourth"
time-limit = 3
"""
TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture(autouse=True)
def _here(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    server.use(monkeypatch)
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.glob("store")) == []


def copies() -> list[Path]:
    return list((Path.home() / CACHE).glob("*/*"))


def objects(store: str) -> list[str]:
    return [entry.name for entry in Objects(Address.parse(store)).below("")]


@pytest.fixture(scope="module")
def failing(server: Server) -> str:
    """A store with one run, which is invalid; its summary is that of ``krucible sim``."""
    with pytest.MonkeyPatch.context() as patch:
        server.use(patch)
        done = krucible("sim", "--store", STORE, "--json", "--save", "--seed", 1, *OPTIONS)
        assert done.code == 0, done.err
        return str(done.json["store"])


# --------------------------------------------------------------------------- runs


def test_a_simulation_is_told_by_its_address(failing: str) -> None:
    assert failing.startswith(f"{STORE}/kraft-register/")
    name = failing.removeprefix(f"{STORE}/")
    there = objects(STORE)
    assert {f"{name}/spec.json", f"{name}/results.json", f".manifests/{name}.json"} <= {*there}
    assert copies() == []


def test_a_report_tells_how_to_replay_from_anywhere(failing: str) -> None:
    done = krucible("report", failing, "--json")
    assert done.json == {"report": f"{failing}/report.html"}
    name = failing.removeprefix(f"{STORE}/")
    page = Objects(Address.parse(STORE)).read(f"{name}/report.html")
    assert page is not None
    id_ = failing.rpartition("-")[2]
    assert f"repro {id_} --store {STORE}" in page.decode()
    assert str(CACHE) not in page.decode()


def test_a_run_is_replayed_and_judged_again(failing: str) -> None:
    id_ = failing.rpartition("-")[2]
    for run, store in ((failing, f"{STORE}/replays"), (id_, STORE)):
        done = krucible("repro", run, "--store", store, "--json")
        assert done.json["same_as_before"], done.err
        assert all(name.startswith(f"{store}/kraft-") for name in done.json["stores"])
    done = krucible("check", failing, "--json")
    assert [(row["path"], row["verdict"]) for row in done.json] == [(failing, "valid")]


def test_the_fleet_report_lies_in_the_store(failing: str) -> None:
    done = krucible("report", STORE, "--json")
    assert done.json == {"report": f"{STORE}/fleet.html"}
    page = Objects(Address.parse(STORE)).read("fleet.html")
    assert page is not None
    assert failing.removeprefix(f"{STORE}/") in page.decode()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("report", f"s3://{BUCKET}/nothing"), "there is no run in it, nor a night"),
        (("repro", f"{STORE}/kraft-register/none"), "there is no such run; want s3://"),
        (("sim", "--seed", "1", "--store", "s3://no-bucket"), "does not exist; make the bucket"),
        (("sim", "--seed", "1", "--store", "s3://u:p@b/x"), "want no credentials in the name"),
        (("nightly", "--store", "s3://B"), "'B' is no name of a bucket"),
        (("serve", "s3://no-bucket"), "does not exist; make the bucket first"),
        (("zoo", "--arm", "live-releases", "--store", "s3://no-bucket"), "make the bucket"),
    ],
)
def test_mistakes_are_one_line(words: tuple[str, ...], complaint: str) -> None:
    done = krucible(*words)
    assert done.code == 254
    assert complaint in done.complaint
    assert copies() == []


def test_heal_stores_what_a_killed_run_left(tmp_path: Path) -> None:
    store = f"{STORE}/killed"
    argv = [*module_argv("krucible"), "run", "--store", store, "--time-limit", "30"]
    said = tmp_path / "said.txt"
    with said.open("wb") as out:
        process = subprocess.Popen([*argv, "--seed", "3"], stdout=out, stderr=out)
    await_(lambda: "phase main" in said.read_text(encoding="utf-8"))
    process.kill()
    process.wait()
    assert objects(store) == []
    done = krucible("heal", "--json")
    (kept,) = [left for left in done.json if left["kind"] == "runs"]
    assert (kept["done"], kept["action"]) == (True, "1 runs stored")
    assert copies() == []
    done = krucible("check", store, "--json")
    assert [row["verdict"] for row in done.json] == ["unknown"]  # its harness died
    assert any(name.endswith("/results.json") for name in objects(store))


# --------------------------------------------------------------------------- nights


def test_a_killed_night_goes_on_from_the_bucket(tmp_path: Path) -> None:
    """Also on another machine, which has nothing of it."""
    store = f"{STORE}/night"
    plan = tmp_path / "night.toml"
    plan.write_text(NIGHT, encoding="utf-8")
    argv = ["nightly", "--plan", str(plan), "--store", store, "--seed", "1"]
    process = subprocess.Popen([*module_argv("krucible"), *argv], stderr=subprocess.DEVNULL)
    await_(lambda: any(name.endswith("/ledger.jsonl") for name in objects(store)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    elsewhere = {**os.environ, "HOME": str(tmp_path / "elsewhere")}
    done = subprocess.run(
        [*module_argv("krucible"), *argv, "--json"], env=elsewhere, capture_output=True, check=False
    )
    told = json.loads(done.stdout)
    assert told["resumed"] == 1, done.stderr
    assert told["report"].startswith(f"{store}/nights/")
    there = objects(store)
    for name in ("summary.json", "ledger.jsonl", "fleet.html", "junit.xml"):
        assert f"{told['folder'].removeprefix(f'{store}/')}/{name}" in there
    assert list((tmp_path / "elsewhere" / CACHE).glob("*/*")) == []
    # the first machine comes back: what it has is old, and nothing of the night is lost
    done_again = krucible("heal", "--json")
    assert all(left["done"] for left in done_again.json)
    assert set(there) <= set(objects(store)), "and a run that it had done, and not stored, is there"


def await_(holds: Any) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


# --------------------------------------------------------------------------- a browser


@pytest.fixture(scope="module")
def site(server: Server) -> Iterator[str]:
    argv = [*module_argv("krucible"), "serve", STORE, "--port", "0", "--json"]
    process = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **server.environ()},
    )
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["url"]
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 0
    assert list((server.home / CACHE).glob("*/*")) == []


def test_files_are_fetched_when_they_are_asked_for(site: str, failing: str) -> None:
    name = failing.removeprefix(f"{STORE}/")
    with urllib.request.urlopen(f"{site}{name}/history.jsonl") as file:
        got = file.read()
    assert got == Objects(Address.parse(STORE)).read(f"{name}/history.jsonl")
    with urllib.request.urlopen(f"{site}{name}/events/") as folder:
        assert "n1.jsonl" in folder.read().decode()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{site}{name}/nothing")


@pytest.mark.browser
@pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason="no Chromium")
def test_a_browser_shows_the_store_and_a_report(site: str, failing: str) -> None:
    with launched() as browser:
        page = browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(site)
        link = page.locator(f"a[href$='{failing.removeprefix(f'{STORE}/')}/report.html']").first
        link.click()
        page.wait_for_selector("html[data-ready]")
        assert f"--store {STORE}" in page.content()
        assert complaints == []
