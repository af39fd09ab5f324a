"""Releases of Apache Kafka in the simulator: each does what it should, and replays.

Each simulation runs in a process of its own: a JVM cannot be started twice in one, nor forked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.nemesis import Chooses
from harness.errors import UsageError
from harness.registry import nemeses
from harness.spec import RunSpec
from harness.systems.kafka.distribution import (
    REQUIRE_VARIABLE,
    KafkaMissingError,
    fetch_classes,
)
from harness.systems.kafka.releases import (
    DEFAULT,
    KNOWN,
    UPGRADE,
    VERSION,
    Release,
    line_of,
)
from harness.systems.kafka.settings import check_settings
from harness.systems.kafka.simulated.registers import SNAPSHOT_BYTES
from harness.systems.nodes.levels import METADATA_SETTING

pytestmark = pytest.mark.slow

TIMEOUT_S = 300
WIPE = "disk-wipe-keep-id"
EARLY = "docs/kafka.md, a leader before 3.6 is told early"
OLDEST, NEWEST = KNOWN[0], KNOWN[-1]
OTHERS = [version for version in KNOWN if version not in (DEFAULT, NEWEST)]
# Leaders before 3.6 send who has nothing their whole log, if they have it still.
SENDS_SNAPSHOTS = [version for version in OTHERS if line_of(version) >= (3, 6)]
PEACE = ("--nemesis", "none")
BRIEF = [(version, "producer-ids") for version in (NEWEST, OLDEST)]


def fetched(*versions: str) -> None:
    """See to it that releases are there; else skip, or fail where they must be."""
    try:
        for version in versions:
            fetch_classes(Release(version))
    except KafkaMissingError as error:
        if os.environ.get(REQUIRE_VARIABLE) == "1":
            pytest.fail(f"{REQUIRE_VARIABLE}=1, but {error}", pytrace=False)
        pytest.skip(f"no Apache Kafka here: {error}")


def simulate(store: Path, *options: object) -> list[dict[str, Any]]:
    """The results of a few brief runs, by seed; each has its spec."""
    argv = [sys.executable, "-m", "krucible", "sim", "--system", "kafka", "--jobs", "1", "--save"]
    argv += ["--seeds", "1..2", "--voters", "3", "--observers", "0", "--time-limit", "2"]
    argv += ["--go-on", "--json", "--store", str(store), *map(str, options)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stdout[-2000:]
    found = [
        {
            **json.loads(path.read_bytes()),
            "spec": json.loads((path.parent / "spec.json").read_bytes()),
        }
        for path in store.glob("*/*/results.json")
        if not path.parent.is_symlink()
    ]
    return sorted(found, key=lambda told: int(told["spec"]["seed"]))


def twice(tmp_path: Path, *options: object) -> list[dict[str, Any]]:
    """The results, of two processes that did the same."""
    with ThreadPoolExecutor(2) as pool:
        once, again = pool.map(lambda name: simulate(tmp_path / name, *options), ("once", "again"))
    hashes = [told["trace_sha256"] for told in once]
    assert hashes == [told["trace_sha256"] for told in again]
    assert len(set(hashes)) == 2
    return once


@pytest.mark.parametrize(
    ("version", "workload"),
    [
        *BRIEF,
        *(
            pytest.param(version, workload, marks=pytest.mark.long)
            for version in (NEWEST, *OTHERS)
            for workload in ("register", "producer-ids")
            if (version, workload) not in BRIEF
        ),
    ],
)
def test_a_release_is_valid_and_replays(version: str, workload: str, tmp_path: Path) -> None:
    fetched(version)
    for told in twice(tmp_path, "--kafka-version", version, "--workload", workload):
        assert told["system"] == "valid", told["anomalies"]
        assert told["versions"]["kafka"] == version
        assert told["spec"]["settings"][VERSION] == version
        checked = {name for each in told["results"] for name in each.get("checked", {})}
        assert {"S1", "S4", "S9", "S13"} <= checked


@pytest.mark.long
def test_the_raft_client_of_3_3_survives_kills_and_cuts(tmp_path: Path) -> None:
    fetched("3.3.2")
    options = ("--kafka-version", "3.3.2", "--workload", "register", "--time-limit", "15")
    for told in twice(tmp_path, *options, "--nemesis", "kill,partition-isolate-leader"):
        assert told["system"] == "valid", told["anomalies"]
        checked = {
            name: n for each in told["results"] for name, n in each.get("checked", {}).items()
        }
        assert {"S20", "S21", "L4"} <= {name for name, n in checked.items() if n}
        assert not checked.get("C8"), "above the raft client alone there are no images"
        assert told["known"][EARLY]


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "workload"),
    [
        (version, workload)
        for version in ("3.3.2", "3.4.1", "3.5.2", "3.6.2")
        for workload in ("brokers", "reassign", "admin")
        if (version, workload) != ("3.3.2", "admin")  # it leaves settings: KAFKA-14612
    ],
)
def test_controllers_before_3_7_serve_what_they_can(
    version: str, workload: str, tmp_path: Path
) -> None:
    """They have no directories, and no controller says which levels it knows."""
    fetched(version)
    options = ("--workload", workload, "--observers", "1", "--time-limit", "8", *PEACE)
    for told in twice(tmp_path, "--kafka-version", version, *options):
        assert told["system"] == "valid", told["anomalies"]
        checked = sum((Counter(each.get("checked", {})) for each in told["results"]), Counter())
        assert min(checked[name] for name in ("C8", "C16", "C17", "S21")) > 0, checked


@pytest.mark.long
@pytest.mark.parametrize("version", [*SENDS_SNAPSHOTS, NEWEST])
def test_an_observer_whose_disk_was_wiped_fetches_a_snapshot(version: str, tmp_path: Path) -> None:
    fetched(version)
    options = ("--seeds", "1..1", "--observers", "2", "--time-limit", "10", "--nemesis", WIPE)
    often = ("--set", f"{SNAPSHOT_BYTES}=2000")
    (told,) = simulate(
        tmp_path, "--kafka-version", version, "--workload", "producer-ids", *options, *often
    )
    assert told["system"] == "valid", told["anomalies"]
    checked = {name: n for each in told["results"] for name, n in each.get("checked", {}).items()}
    assert checked["S24"] > 0, "it took a snapshot of the leader"


@pytest.mark.parametrize(
    ("most", "one"),
    [
        # nodes that go over to another release, below, make such a quorum in each run of the tests
        pytest.param(NEWEST, DEFAULT, marks=pytest.mark.long),
        pytest.param(NEWEST, "3.9.2", marks=pytest.mark.long),  # other versions of requests
        pytest.param("3.9.2", NEWEST, marks=pytest.mark.long),
        pytest.param(DEFAULT, "3.7.2", marks=pytest.mark.long),  # with other raft clients
        pytest.param("3.7.2", "3.3.2", marks=pytest.mark.long),
    ],
)
def test_two_releases_are_one_quorum(most: str, one: str, tmp_path: Path) -> None:
    fetched(most, one)
    options = ("--kafka-version", most, "--set", f"{VERSION}.n2={one}")
    for told in twice(tmp_path, *options, "--workload", "register"):
        assert told["system"] == "valid", told["anomalies"]
        assert told["versions"]["kafka"] == most
        assert told["versions"]["kafka of n2"] == one


@pytest.mark.parametrize(
    ("release", "workload"),
    [
        (DEFAULT, "membership"),
        pytest.param(DEFAULT, "producer-ids", marks=pytest.mark.long),
        pytest.param(NEWEST, "brokers", marks=pytest.mark.long),
        pytest.param("3.9.2", "producer-ids", marks=pytest.mark.long),
    ],
)
def test_a_node_of_ours_is_of_one_quorum_with_kafkas(
    release: str, workload: str, tmp_path: Path
) -> None:
    fetched(release)
    mixture = ("--kafka-version", release, "--set", "krucible.system.n2=kraft")
    # With more changes of the voters Kafka's miss some: docs/findings.md, a truncated voter.
    rate = () if workload == "membership" else ("--rate", 40)
    faults = ("--nemesis", "kill,partition-isolate-leader", *rate)
    for told in twice(tmp_path, *mixture, *faults, "--workload", workload):
        assert told["system"] == "valid", told["anomalies"]
        assert told["versions"]["krucible of n2"]
    led = set()
    for path in (tmp_path / "once").glob("*/2*/events/*.jsonl"):
        events = list(map(json.loads, path.read_text().splitlines()))
        led |= {event["node"] for event in events if event["t"] == "elected"}
        applied = [event for event in events if event["t"] == "apply"]
        assert applied, path
        is_ours = any("st" in event for event in applied)  # Kafka's tell no digest of their state
        assert is_ours == (path.stem == "n2")
        assert any(event["t"] == "durable" for event in events), path
    assert len(led) > 1


def test_reads_beside_nodes_of_ours_wait_for_a_barrier(tmp_path: Path) -> None:
    """Kafka's controllers answer none: from their images they would tell what is old."""
    fetched(DEFAULT)
    argv = [sys.executable, "-m", "krucible", "sim", "--system", "kafka", "--seed", "12", "--json"]
    argv += ["--set", "krucible.system.n2=kraft", "--go-on", "--store", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize(
    ("release", "later"),
    [(DEFAULT, NEWEST), pytest.param(DEFAULT, "3.9.2", marks=pytest.mark.long)],
)
def test_nodes_go_over_to_another_release_and_back(
    release: str, later: str, tmp_path: Path
) -> None:
    fetched(release, later)
    versions = ("--kafka-version", release, "--set", f"{UPGRADE}={later}")
    for told in twice(tmp_path, *versions, "--nemesis", "upgrade", "--workload", "producer-ids"):
        assert told["system"] == "valid", told["anomalies"]
        assert told["versions"]["kafka upgrades"] == later
    taken = []
    for path in (tmp_path / "once").glob("*/2*/history.jsonl"):
        for op in map(json.loads, path.read_text().splitlines()):
            fault = op["value"]
            if op["f"] == "inject" and fault.get("nemesis") == "upgrade" and "outcome" in fault:
                assert fault["outcome"] == "installed", fault
                taken += [e for e in fault["evidence"] if e["saw"] == "releases"]
    assert taken
    for seen in taken:
        (before,), (after,) = seen["before"].values(), seen["after"].values()
        assert {before, after} == {release, later}
        assert [node["answered"] for node in seen["nodes"]] == [True]


@pytest.mark.long
def test_levels_are_finalised_on_the_way_and_no_node_goes_back_behind_them(tmp_path: Path) -> None:
    fetched("3.9.2", DEFAULT)
    versions = ("--kafka-version", "3.9.2", "--set", f"{UPGRADE}={DEFAULT}", "--time-limit", "12")
    faults = ("--nemesis", "rolling-upgrade,finalize", "--workload", "producer-ids")
    for told in twice(tmp_path, *versions, "--set", f"{METADATA_SETTING}=3.8", *faults):
        assert told["system"] == "valid", told["anomalies"]
    raised = []
    for path in (tmp_path / "once").glob("*/2*/history.jsonl"):
        for op in map(json.loads, path.read_text().splitlines()):
            fault = op["value"]
            if op["f"] == "heal" and fault.get("nemesis") == "finalize" and "evidence" in fault:
                seen = fault["evidence"]
                raised.append(seen["feature"])
                assert set(seen["finalized"].values()) == {seen["asked"]}, fault
    assert raised


def test_an_upgrade_fits_where_there_are_releases() -> None:
    upgrade = nemeses.get("upgrade")()
    assert isinstance(upgrade, Chooses)
    spec = RunSpec(seed=1, system="kafka", env="sim")
    assert upgrade.misfit(spec) == f"there is one release: add --set {UPGRADE}=VERSION"
    assert upgrade.misfit(replace(spec, settings={UPGRADE: NEWEST})) is None
    assert upgrade.misfit(replace(spec, settings={f"{VERSION}.n2": NEWEST})) is None
    assert upgrade.misfit(replace(spec, settings={UPGRADE: DEFAULT})) is not None
    assert upgrade.misfit(replace(spec, system="kraft")) == "system 'kraft' has no releases"
    assert upgrade.misfit(replace(spec, env="local", settings={UPGRADE: NEWEST})) is None


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ("krucible.system.n2=etcd", "krucible.system.n2=etcd: want kraft"),
        ("krucible.system.2=kraft", "want the name of a node"),
        ("krucible.system.n2=kraft,krucible.kafka.version.n2=4.1.2", "n2 is a node of ours"),
        ("krucible.system.n2=kraft,a.setting=1", "a.setting"),
        (f"krucible.system.n2=kraft,{VERSION}=3.7.2", "want Apache Kafka 3.9 or newer, not 3.7.2"),
        (f"{UPGRADE}=2.8.2", "2.8.2: want a release from 3.3 on"),
    ],
)
def test_what_no_run_can_be_made_of_is_refused(setting: str, refusal: str) -> None:
    with pytest.raises(UsageError, match=refusal):
        check_settings(dict(each.split("=") for each in setting.split(",")))


@pytest.mark.long
def test_a_build_of_ones_own_is_the_release_that_its_jars_say(tmp_path: Path) -> None:
    fetched(NEWEST)
    home = fetch_classes(Release(NEWEST)).home
    (told, _) = simulate(tmp_path / "own", "--kafka-home", home, "--workload", "register")
    (same, _) = simulate(tmp_path / "known", "--kafka-version", NEWEST, "--workload", "register")
    assert told["trace_sha256"] == same["trace_sha256"]
    assert told["versions"]["kafka"] == f"{NEWEST} of {home}"
    assert told["spec"]["settings"][VERSION] == NEWEST


@pytest.mark.long
def test_an_event_that_asks_for_itself_at_once_does_not_stop_the_time(tmp_path: Path) -> None:
    """Of seed 6: a controller of 3.9 looks for brokers to fence until its clock has gone on."""
    fetched("3.9.2")
    argv = [
        sys.executable,
        "-m",
        "krucible",
        "sim",
        "--system",
        "kafka",
        "--kafka-version",
        "3.9.2",
    ]
    argv += ["--seed", "6", "--time-limit", "3", "--json", "--store", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
