"""Releases of Kafka: which are known, and which one a node of a run is of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.contracts.nemesis import Chooses
from harness.errors import UsageError
from harness.registry import nemeses, systems
from harness.sessions.swarm import draw
from harness.spec import SIM, RunSpec
from harness.systems.kafka.releases import (
    DEFAULT,
    HOME,
    JOIN,
    KNOWN,
    UPGRADE,
    VERSION,
    Release,
    build_in,
    release_of,
    releases_of,
)
from harness.systems.kafka.settings import check_processes, check_settings
from harness.systems.nodes.levels import METADATA_SETTING
from harness.systems.nodes.processes import DYNAMIC, QUORUM_SETTING
from harness.verdict import Anomaly
from tests.support.commands.command import krucible


def test_a_node_is_of_the_release_of_all_unless_it_has_its_own() -> None:
    assert release_of({}) == Release(DEFAULT)
    settings = {VERSION: "4.3.1", f"{VERSION}.n2": "4.1.2"}
    assert [release_of(settings, node).version for node in ("n1", "n2")] == ["4.3.1", "4.1.2"]
    assert releases_of(settings) == {None: Release("4.3.1"), "n2": Release("4.1.2")}


@pytest.mark.parametrize("setting", [VERSION, f"{VERSION}.n1"])
@pytest.mark.parametrize("version", ["3.2.3", "2.8.0", "4.1", "4.1.2.3", "latest", "4.1.2-rc0"])
def test_what_is_no_release_from_3_3_on_is_refused_with_those_that_were_tried(
    setting: str, version: str
) -> None:
    with pytest.raises(UsageError, match=rf"{version}: want a release from 3\.3 on") as told:
        check_settings({setting: version})
    assert str(told.value).endswith(", ".join(KNOWN))


@pytest.mark.parametrize("version", ["4.1.1", "4.4.7", "5.0.0"])
def test_a_release_that_nobody_tried_is_taken(version: str) -> None:
    assert release_of({VERSION: version}) == Release(version)
    assert version not in KNOWN


def test_nodes_join_by_themselves_only_where_the_release_and_the_quorum_let_them() -> None:
    check_settings({JOIN: "true", VERSION: "4.3.1", QUORUM_SETTING: DYNAMIC})
    check_settings({JOIN: "false"})
    with pytest.raises(UsageError, match=r"Apache Kafka 4\.1\.2 knows it not; want 4\.2 or newer"):
        check_settings({JOIN: "true", QUORUM_SETTING: DYNAMIC})
    with pytest.raises(UsageError, match=f"add --set {QUORUM_SETTING}={DYNAMIC}"):
        check_settings({JOIN: "true", VERSION: "4.3.1"})


def test_an_image_is_for_containers_alone() -> None:
    image = {"krucible.kafka.image": "apache/kafka:4.1.2"}
    assert systems.traits("kafka").with_settings(image).envs == frozenset({"docker"})
    with pytest.raises(UsageError, match="want the name of an image"):
        check_processes({"krucible.kafka.image": ""})
    with pytest.raises(UsageError, match="only processes run in images; leave it out"):
        systems.traits("kafka").of(RunSpec(1, env=SIM, system="kafka", settings=image))


def test_a_command_says_it() -> None:
    done = krucible("sim", "--system", "kafka", "--kafka-version", "2.8.0")
    assert done.code == 254
    assert "--kafka-version 2.8.0: want a release from 3.3 on, in three numbers" in done.complaint
    done = krucible("sim", "--kafka-version", DEFAULT)
    assert done.code == 254
    assert "unknown setting 'krucible.kafka.version'" in done.complaint
    done = krucible("sim", "--system", "kafka", "--kafka-version", DEFAULT, "--kafka-home", ".")
    assert done.code == 254
    assert "want one of them, not both" in done.complaint


def test_the_build_in_a_folder_says_its_version(tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    with pytest.raises(UsageError, match="want a folder with Kafka's jars in lib or libs"):
        release_of({HOME: str(tmp_path)})
    (tmp_path / "libs" / "kafka-raft-4.4.0-SNAPSHOT.jar").touch()
    built = release_of({HOME: str(tmp_path)})
    assert built == Release("4.4.0-SNAPSHOT", tmp_path / "libs")
    assert built.line == (4, 4)
    with pytest.raises(UsageError, match=r"it has Kafka 4\.4\.0-SNAPSHOT, not 4\.1\.2"):
        release_of({HOME: str(tmp_path), VERSION: "4.1.2"})


def known(settings: dict[str, str], message: str, invariant: str = "S3") -> bool:
    spec = RunSpec(seed=1, system="kafka", env=SIM, settings=settings)
    anomaly = Anomaly(invariant, message)
    return any(each.covers(anomaly) for each in systems.traits("kafka").of(spec).known)


def test_snapshots_of_3_and_4_may_differ_but_not_those_of_one_release() -> None:
    differs = "snapshot 16-1 has size 1562 at n2 seq 759 and 1550 at n3 seq 755"
    assert known({VERSION: "4.3.1", f"{VERSION}.n2": "3.9.2"}, differs, "S22")
    assert not known({VERSION: "4.3.1", f"{VERSION}.n2": "4.1.2"}, differs, "S22")
    assert not known({VERSION: "3.9.2"}, differs, "S22")


def test_only_followers_before_4_1_may_hear_late_of_the_high_watermark() -> None:
    late = "n1 did not hear in 0.3 s of peace that n5 had committed 162"
    assert known({VERSION: "4.0.2"}, late, "L8")
    assert known({f"{VERSION}.n1": "3.9.2"}, late, "L8")
    assert not known({VERSION: DEFAULT}, late, "L8")


def test_only_followers_of_older_releases_may_forget_their_votes() -> None:
    follows = "n1 forgot in epoch 1 that it had voted for n2, now that it follows n2"
    assert known({VERSION: "3.9.2"}, follows)
    assert known({f"{VERSION}.n1": "3.9.2"}, follows)
    assert not known({VERSION: DEFAULT}, follows)
    assert not known({VERSION: "3.9.2"}, "n1 forgot in epoch 1 that it had voted for n2")


def test_a_run_and_its_results_name_the_release() -> None:
    spec = draw(1, {"system": "kafka", "settings": {f"{VERSION}.n2": KNOWN[-1]}})
    traits = systems.traits("kafka").of(spec)
    assert traits.settings == {VERSION: DEFAULT}
    assert traits.versions == {"kafka": DEFAULT, "kafka of n2": KNOWN[-1]}


def test_how_many_bootstrap_servers_there_are_is_a_number_of_a_dynamic_quorum() -> None:
    servers, dynamic = "krucible.bootstrap.servers", {"krucible.quorum": "dynamic"}
    check_settings({**dynamic, servers: "1"})
    for bad in ("0", "-1", "n1"):
        with pytest.raises(UsageError, match="want how many voters, 1 or more"):
            check_settings({**dynamic, servers: bad})
    with pytest.raises(UsageError, match=r"only with krucible\.quorum=dynamic"):
        check_settings({servers: "1"})


@pytest.mark.parametrize(
    ("version", "fits", "not_"),
    [
        ("3.3.2", "isr", "register"),  # a controller answers no DescribeConfigs
        ("3.6.2", "topics", "reassign"),
        ("3.8.1", "register", "membership"),  # voters are settings
    ],
)
def test_processes_of_old_releases_serve_what_their_controllers_can(
    version: str, fits: str, not_: str
) -> None:
    check_processes({VERSION: version})
    check_processes({VERSION: "4.3.1", f"{VERSION}.n2": version, UPGRADE: "4.0.2,4.1.2"})
    for settings in ({VERSION: version}, {f"{VERSION}.n2": version}, {UPGRADE: version}):
        of = RunSpec(system="kafka", workload=fits, seed=1, settings=settings)
        offered = systems.traits("kafka").of(of).workloads
        assert offered is not None
        assert fits in offered
        assert not_ not in offered


def test_a_build_that_is_too_old_is_refused(tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka-raft-3.2.3.jar").touch()
    with pytest.raises(UsageError, match=r"it has Kafka 3\.2\.3; want 3\.3 or newer"):
        build_in(tmp_path)


def test_processes_of_a_build_of_ones_own_need_its_server(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "kafka-raft-4.4.0-SNAPSHOT.jar").touch()
    check_settings({HOME: str(tmp_path)})
    with pytest.raises(UsageError, match=r"has no kafka_2\.\*\.jar, which is the server"):
        check_processes({HOME: str(tmp_path)})
    (tmp_path / "lib" / "kafka_2.13-4.4.0-SNAPSHOT.jar").touch()
    check_processes({HOME: str(tmp_path)})


def test_levels_are_raised_where_a_later_release_knows_more() -> None:
    finalize = nemeses.get("finalize")()
    assert isinstance(finalize, Chooses)
    spec = RunSpec(seed=1, system="kafka", workload="producer-ids")

    def why(**settings: str) -> str | None:
        return finalize.misfit(replace(spec, settings=settings))

    assert why(**{VERSION: "3.9.2", UPGRADE: "4.1.2"}) is None
    assert why(**{UPGRADE: "4.3.1"}) is None
    same = {VERSION: "4.2.0", UPGRADE: "4.2.1"}
    assert why(**same) == "no release of the run knows more than 4.2-IV1"
    assert why() == "all levels are the latest: add --set krucible.metadata.version=3.9"
    assert why(**{METADATA_SETTING: "3.9"}) is None


@pytest.mark.parametrize(
    ("told", "why"), [("5.9", "is not known"), ("3.6", "want a level from 3.7-IV4 to 4.4-IV2")]
)
def test_a_first_level_is_one_that_nodes_know(told: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_settings({METADATA_SETTING: told})
