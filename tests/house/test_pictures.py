"""The pictures of the docs are those that ``make pictures`` takes, each where it says."""

from __future__ import annotations

import re

import pytest

from tests.support.places import ROOT

pytest.importorskip("playwright", reason="playwright is not installed")

from tools.pictures import BYTES_MAX, PAGES, SCHEMES, SHOTS, Shot

PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+\.png)\)")
PNG = b"\x89PNG\r\n\x1a\n"
MOST = 5


def shown() -> dict[str, set[str]]:
    """The pictures that each page shows, by where they lie."""
    found: dict[str, set[str]] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for told, path in PICTURE.findall(page.read_text(encoding="utf-8")):
            assert told, f"{page}: {path} has no words for who cannot see it"
            place = (page.parent / path).resolve().relative_to(ROOT)
            found.setdefault(str(place), set()).add(str(page.relative_to(ROOT)))
    return found


def test_docs_show_what_the_command_takes() -> None:
    assert shown() == {f"docs/{shot.name}.png": {shot.shown} for shot in SHOTS}
    assert len(SHOTS) <= MOST
    assert {shot.page for shot in SHOTS} == set(PAGES)
    assert {shot.scheme for shot in SHOTS} == set(SCHEMES)


def test_no_other_picture_lies_there() -> None:
    assert {path.stem for path in (ROOT / "docs").rglob("*.png")} == {shot.name for shot in SHOTS}


@pytest.mark.parametrize("shot", SHOTS, ids=lambda shot: shot.name)
def test_a_picture_is_there_in_its_size(shot: Shot) -> None:
    data = (ROOT / "docs" / f"{shot.name}.png").read_bytes()
    assert data.startswith(PNG)
    size = tuple(int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    assert size == shot.size
    assert len(data) <= BYTES_MAX
