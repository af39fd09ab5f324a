"""The docs as a site: every page is in it, and no link or anchor leads nowhere."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT

CONFIG = "zensical.toml"


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build a copy of the docs, as ``make docs`` does."""
    return subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """All docs and their settings, in a folder of their own."""
    (tmp_path / CONFIG).write_text((ROOT / CONFIG).read_text(encoding="utf-8"), encoding="utf-8")
    for path in (ROOT / "docs").rglob("*"):
        if path.is_file():
            to = tmp_path / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())
    return tmp_path


def pages(entries: list[dict[str, Any]]) -> Iterator[str]:
    """The pages that a menu leads to."""
    for entry in entries:
        for there in entry.values():
            if isinstance(there, str):
                yield there
            else:
                yield from pages(there)


def test_the_site_has_every_page_and_no_link_leads_nowhere(copy: Path) -> None:
    built = build(copy)
    assert built.returncode == 0, built.stdout + built.stderr
    site = copy / "build" / "site"
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / f"{page.stem}.html").is_file()


def test_a_link_that_leads_nowhere_fails(tmp_path: Path) -> None:
    """In a site of two pages, with the settings of the whole one."""
    (tmp_path / CONFIG).write_text((ROOT / CONFIG).read_text(encoding="utf-8"), encoding="utf-8")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "cli.md").write_text("# Verbs\n\n## A place\n", encoding="utf-8")
    for anchor, leads in (("a-place", True), ("no-such-place", False)):
        (docs / "ssh.md").write_text(f"# Hosts\n\n[there](cli.md#{anchor})\n", encoding="utf-8")
        assert (build(tmp_path).returncode == 0) == leads, anchor


def test_the_menu_leads_to_every_page_once() -> None:
    menu = tomllib.loads((ROOT / CONFIG).read_text(encoding="utf-8"))["project"]["nav"]
    assert sorted(pages(menu)) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))
