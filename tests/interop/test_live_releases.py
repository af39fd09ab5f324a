"""Releases of Apache Kafka as processes: several in one cluster, upgrades, and finalised levels."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harness.spec import RunSpec
from harness.systems.kafka.builds import fetch_builds
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import HOME, UPGRADE, VERSION
from harness.systems.nodes.levels import METADATA_SETTING
from node.metadata.features import IBP_3_9_IV0, IBP_4_1_IV1, METADATA_VERSION
from tests.support.commands.command import krucible
from tests.support.live.scene import LiveScene, play

pytestmark = pytest.mark.slow

OLD, NEW = "3.9.2", "4.1.2"
LOADED_S = 20.0


def test_a_node_goes_over_and_not_back_once_a_level_is_finalised(
    kafka: KafkaDist, tmp_path: Path
) -> None:
    """One node alone is the whole cluster: an older release must not come back to a newer level."""
    assert kafka.archive.is_file()
    settings = {VERSION: OLD, UPGRADE: NEW}
    fetch_builds(settings)
    spec = RunSpec(
        3, system="kafka", workload="producer-ids", voters=1, observers=0, settings=settings
    )

    async def main(scene: LiveScene) -> None:
        system: Any = scene.system
        assert system.said_release("n1") == OLD
        async with asyncio.timeout(LOADED_S):  # what it is formatted with, once that is loaded
            while (await system.finalized("n1") or {}).get(METADATA_VERSION) != IBP_3_9_IV0:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert METADATA_VERSION not in system.raisable()
        upgrade = await scene.inject("upgrade", target="one", stays=False)
        (told,) = upgrade.saw("releases")
        assert (told["before"], told["after"]) == ({"n1": OLD}, {"n1": NEW})
        assert (told["says"], told["killed"]) == ({"n1": NEW}, [])
        assert system.raisable()[METADATA_VERSION][-1] == IBP_4_1_IV1
        while (await system.finalized("n1") or {}).get(METADATA_VERSION) != IBP_4_1_IV1:
            raised = await scene.inject("finalize", highest=True)
            if raised.injection.outcome == "installed":
                healed = await raised.heal()
                assert set(healed["finalized"].values()) == {healed["asked"]}
        assert system.other_releases("n1") == []
        healed = await upgrade.heal()
        (told,) = (each for each in healed["seen"] if each["saw"] == "releases")
        assert (told["kept"], told["says"]) == (["n1"], {"n1": NEW})
        assert healed["releases"] == {"n1": NEW}

    play(tmp_path, main, spec, frozenset())


@pytest.mark.long
@pytest.mark.parametrize("quorum", ["static", "dynamic"])
def test_a_mixed_cluster_survives_a_rolling_upgrade_beside_other_faults(
    quorum: str, kafka: KafkaDist, tmp_path: Path
) -> None:
    assert kafka.archive.is_file()
    options = "--system kafka --workload producer-ids --observers 0 --seed 3 --time-limit 60"
    options += " --pace long"
    settings = {
        f"{VERSION}.n2": "4.0.2",
        UPGRADE: "4.3.1",
        METADATA_SETTING: "3.9",  # so that there is always a level to raise
        "krucible.quorum": quorum,
    }
    told = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    faults = "rolling-upgrade,finalize,kill"
    done = krucible("run", *options.split(), *told, "--nemesis", faults, "--store", tmp_path)
    assert done.code == 0, done.out + done.err
    run = (tmp_path / "latest").resolve()
    results = json.loads((run / "results.json").read_bytes())
    assert results["versions"]["kafka of n2"] == "4.0.2"
    assert results["versions"]["kafka upgrades"] == "4.3.1"
    assert "kafka of n2" in (run / "report.html").read_text()
    consensus = next(each for each in results["results"] if each["checker"] == "consensus")
    assert "undecided" not in str(consensus["stats"])  # each hook took hold, in each release
    ops = map(json.loads, (run / "history.jsonl").read_text().splitlines())
    faults_seen = [op["value"] for op in ops if op["f"] == "inject" and "outcome" in op["value"]]
    installed = [each["nemesis"] for each in faults_seen if each["outcome"] == "installed"]
    assert {"rolling-upgrade", "finalize"} <= set(installed)


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "workload"),
    [
        ("3.3.2", "topics"),
        ("3.4.1", "list-append"),
        ("3.5.2", "isr"),
        ("3.6.2", "brokers"),
        ("3.8.1", "register"),
    ],
)
def test_an_old_release_is_judged_from_inside(version: str, workload: str, tmp_path: Path) -> None:
    """Each hook of its agent takes hold, and clients find its controllers and see its brokers."""
    options = f"--system kafka --kafka-version {version} --workload {workload} --observers 1"
    faults = ("--seed", 8, "--time-limit", 30, "--nemesis", "kill,pause,partition-isolate-leader")
    done = krucible("run", *options.split(), *faults, "--store", tmp_path)
    assert done.code == 0, done.out + done.err
    results = json.loads((tmp_path / "latest" / "results.json").read_bytes())
    consensus = next(each for each in results["results"] if each["checker"] == "consensus")
    assert "undecided" not in str(consensus["stats"])
    assert consensus["checked"]["S14"]
    assert consensus["checked"]["S20"]


@pytest.mark.long
@pytest.mark.parametrize(("version", "readmits"), [("3.4.1", True), ("3.5.2", False)])
def test_a_replica_that_restarted_is_readmitted_before_3_5(
    version: str, readmits: bool, tmp_path: Path
) -> None:
    """KAFKA-14617 (KIP-903): with the same seed, thus ops and restarts, in both releases."""
    options = f"--system kafka --kafka-version {version} --workload isr --observers 1 --seed 8"
    brief = ("--time-limit", 40, "--nemesis", "none", "--store", tmp_path)
    done = krucible("run", *options.split(), *brief)
    assert done.code == (1 if readmits else 0), done.out + done.err
    results = json.loads((tmp_path / "latest" / "results.json").read_bytes())
    isr = next(each for each in results["results"] if each["checker"] == "isr")
    assert {each["invariant"] for each in isr["anomalies"]} == ({"C5"} if readmits else set())
    assert isr["stats"]["changed"] > 20


@pytest.mark.long
@pytest.mark.parametrize(("version", "lives_on"), [("3.4.0", True), ("3.4.1", False)])
def test_a_process_lives_on_without_its_raft_client_in_3_4_0(
    version: str, lives_on: bool, tmp_path: Path
) -> None:
    """KAFKA-14644: after an I/O error nothing ends it, so that nobody starts it again."""
    options = f"--system kafka --kafka-version {version} --workload producer-ids --observers 0"
    faults = ("--nemesis", "disk-io-error", "--pace", "long", "--time-limit", 40)
    done = krucible("run", *options.split(), "--seed", 11, *faults, "--store", tmp_path)
    assert done.code == (1 if lives_on else 0), done.out + done.err
    assert ("L2 progress" in done.out) is lives_on


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new", "seed"), [("3.3.2", "3.9.2", 3), ("3.7.2", "4.3.1", 12)]
)  # seed 12 lets the nodes stay: there is a level to raise
def test_an_old_release_goes_over_to_a_newer_one(
    old: str, new: str, seed: int, tmp_path: Path
) -> None:
    """Its agent has hooks of its own, and its controllers no advertised listeners."""
    options = f"--system kafka --kafka-version {old} --workload producer-ids --observers 0"
    options += f" --seed {seed}"
    faults = "rolling-upgrade,kill" if old == "3.3.2" else "rolling-upgrade,finalize,kill"
    told = ("--set", f"{UPGRADE}={new}", "--nemesis", faults, "--store", tmp_path)
    done = krucible("run", *options.split(), "--time-limit", "60", "--pace", "long", *told)
    assert done.code == 0, done.out + done.err
    results = json.loads((tmp_path / "latest" / "results.json").read_bytes())
    consensus = next(each for each in results["results"] if each["checker"] == "consensus")
    assert "undecided" not in str(consensus["stats"])  # each hook took hold, in each release
    assert consensus["checked"]["S14"]


@pytest.mark.long
def test_played_brokers_of_a_release_that_gives_them_new_epochs(tmp_path: Path) -> None:
    options = "--system kafka --kafka-version 3.7.2 --workload brokers --seed 5 --time-limit 30"
    done = krucible("run", *options.split(), "--nemesis", "kill,power", "--store", tmp_path)
    assert done.code == 0, done.out + done.err
    assert "another epoch for the same incarnation" in done.out


@pytest.mark.long
def test_a_build_of_ones_own_runs_as_processes(kafka: KafkaDist, tmp_path: Path) -> None:
    options = "--system kafka --workload producer-ids --observers 0 --seed 5 --time-limit 10"
    own = ("--kafka-home", kafka.home, "--nemesis", "none", "--voters", "1")
    done = krucible("run", *options.split(), *own, "--store", tmp_path)
    assert done.code == 0, done.out + done.err
    run = (tmp_path / "latest").resolve()
    assert json.loads((run / "spec.json").read_bytes())["settings"][HOME] == str(kafka.home)
    told = json.loads((run / "results.json").read_bytes())["versions"]["kafka"]
    assert told == f"{NEW} of {kafka.home}"
