"""Layers of Java files: which are for a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.systems.kafka.compiled import AGENT, CONTROLLER, IMAGES, RELEASE, TOLD
from harness.systems.kafka.layers import sources_of, takes_in
from harness.systems.kafka.releases import (
    DEFAULT,
    DYNAMIC_SINCE,
    IMAGES_SINCE,
    KNOWN,
    line_of,
)

HANDS_OVER_CONTROLS_SINCE = (3, 6)
# Classes that Kafka has itself since its voters have directories.
KEYS = {Path("org/apache/kafka/raft", name) for name in ("ReplicaKey.java", "VoterSet.java")}
# A class of the agent's where raft clients hand control batches over to nobody.
CONTROLS = {Path("org/apache/kafka/raft/LiveControls.java")}
# What the forms of a class have in common that not all releases have.
SHARED = {
    Path("org/apache/kafka/raft", name) for name in ("SimElectionStates.java", "SimSettings.java")
}
# Classes of the agent's where images and answers are told of.
OF_METADATA = {
    Path("org/apache/kafka/raft/LiveImages.java"),
    Path("org/apache/kafka/raft/LiveMemory.java"),
    Path("org/apache/kafka/controller/LiveDecisions.java"),
}
# Classes around Kafka's own log, which not all releases have here.
REAL = {
    *(
        Path("org/apache/kafka/raft", f"{name}.java")
        for name in (
            *("SimRealElections", "SimRealKill", "SimRealLog", "SimRealLogClass"),
            "SimScheduler",
        )
    ),
    Path("org/apache/kafka/server/logger/LoggingController.java"),
}


@pytest.mark.parametrize(
    ("layer", "lines"),
    [
        ("common", [(3, 3), (3, 9), (4, 1), (4, 10)]),
        ("to-3.9", [(3, 3), (3, 9)]),
        ("from-3.9-to-4.1", [(3, 9), (4, 1)]),
        ("from-4.1", [(4, 1), (4, 10)]),
    ],
)
def test_a_layer_is_of_the_releases_that_its_name_says(
    layer: str, lines: list[tuple[int, int]]
) -> None:
    every = [(3, 3), (3, 9), (4, 1), (4, 10)]
    assert [line for line in every if takes_in(layer, line)] == lines


@pytest.mark.parametrize("layer", ["", "old", "from-", "from-4", "4.1", "to-4.1-from-3.9"])
def test_what_names_no_layer_is_refused(layer: str) -> None:
    with pytest.raises(ValueError, match="want common"):
        takes_in(layer, (4, 1))


def test_a_class_is_in_one_layer_of_a_release(tmp_path: Path) -> None:
    for place in ("common/org/Core.java", "to-4.1/org/Seam.java", "from-4.1/org/Seam.java"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(place)
    assert sources_of("4.0.1", tmp_path) == {
        Path("org/Core.java"): "common/org/Core.java",
        Path("org/Seam.java"): "to-4.1/org/Seam.java",
    }
    with pytest.raises(ValueError, match=r"are both for 4\.1\.2"):
        sources_of("4.1.2", tmp_path)


def test_imports_are_of_where_a_class_lies_in_a_release(tmp_path: Path) -> None:
    for layer in ("common", "from-4.3"):
        (tmp_path / layer).mkdir()
    text = "import org.old.Record;\nimport org.old.Records;\nclass Log { org.old.Record record; }\n"
    (tmp_path / "common" / "Log.java").write_text(text)
    (tmp_path / "from-4.3" / "moved.properties").write_text(
        "# moved\norg.old.Record=org.new.Record\n"
    )
    assert sources_of("4.2.1", tmp_path) == {Path("Log.java"): text}
    assert sources_of("4.3.1", tmp_path) == {
        Path("Log.java"): text.replace("import org.old.Record;", "import org.new.Record;")
    }


@pytest.mark.parametrize("version", KNOWN)
@pytest.mark.parametrize("root", [RELEASE, AGENT])
def test_a_known_release_has_a_file_for_each_class(root: Path, version: str) -> None:
    stand_ins = KEYS if line_of(version) < DYNAMIC_SINCE else set()
    if root is AGENT and line_of(version) < HANDS_OVER_CONTROLS_SINCE:
        stand_ins = stand_ins | CONTROLS
    left_out = REAL | SHARED | OF_METADATA
    assert sources_of(version, TOLD, root).keys() - left_out == (
        sources_of(DEFAULT, TOLD, root).keys() - left_out | stand_ins
    )


@pytest.mark.parametrize("version", KNOWN)
def test_a_release_of_whole_controllers_has_a_file_for_each_of_their_classes(version: str) -> None:
    found = sources_of(version, TOLD, RELEASE, CONTROLLER, IMAGES).keys()
    assert found >= sources_of(DEFAULT, CONTROLLER, IMAGES).keys()
    assert not sources_of(version, CONTROLLER).keys() & sources_of(version, RELEASE).keys()


@pytest.mark.parametrize("version", [each for each in KNOWN if line_of(each) >= IMAGES_SINCE])
def test_an_agent_that_tells_of_images_has_a_file_for_each_of_their_classes(version: str) -> None:
    found = sources_of(version, TOLD, AGENT, IMAGES).keys()
    assert found >= sources_of(DEFAULT, IMAGES).keys() | OF_METADATA
