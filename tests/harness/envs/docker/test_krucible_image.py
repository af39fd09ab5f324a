"""The image of krucible simulates, and leaves runs with reports in the folder it is given."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.store.folder import Store
from harness.store.reading import load_run
from harness.verdict import EXIT_INVALID
from tests.support.places import ROOT

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """The image, made of this checkout."""
    name = f"krucible:test-{os.getpid()}"
    made = subprocess.run(
        [ROOT / "docker" / "make-krucible", name], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    yield name
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=True)


def run(image: str, store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = ("--user", f"{os.getuid()}:{os.getgid()}")
    command = ("docker", "run", "--rm", *own, "-v", f"{store}:/store", image, *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_failing_seed_is_stored_with_its_report(image: str, tmp_path: Path) -> None:
    ended = run(
        image,
        tmp_path,
        *("sim", "--seed", "1", "--mutant", "ack-before-commit", "--time-limit", "1", "--json"),
    )

    assert ended.returncode == EXIT_INVALID, ended.stderr
    (found,) = Store(tmp_path).runs()
    told = json.loads(ended.stdout)
    assert told["store"] == f"store/{found.path.relative_to(tmp_path)}"
    assert load_run(found.path).results is not None
    assert found.report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_it_says_how_it_is_used(image: str, tmp_path: Path) -> None:
    ended = run(image, tmp_path)
    assert ended.returncode == 0
    assert "nightly" in ended.stdout
