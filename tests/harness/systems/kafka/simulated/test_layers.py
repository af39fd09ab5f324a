"""Layers of Java files: which are for a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.systems.kafka.simulated.compiled import RELEASE
from harness.systems.kafka.simulated.layers import sources_of, takes_in


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
    for layer in ("common", "to-4.1", "from-4.1"):
        folder = tmp_path / layer / "org"
        folder.mkdir(parents=True)
        if layer != "common":
            (folder / "Seam.java").write_text("")
    (tmp_path / "common" / "org" / "Core.java").write_text("")
    assert [path.relative_to(tmp_path).as_posix() for path in sources_of(tmp_path, "4.0.1")] == [
        "common/org/Core.java",
        "to-4.1/org/Seam.java",
    ]
    with pytest.raises(ValueError, match=r"are both for 4\.1\.2"):
        sources_of(tmp_path, "4.1.2")


def test_there_are_files_for_the_release_that_is_fetched() -> None:
    assert sources_of(RELEASE, "4.1.2")
