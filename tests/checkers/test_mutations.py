"""The tests of the checkers notice what is broken in the checkers.

``--long`` breaks every rule of the list, some minutes; else those of a few files.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.mutations.run import CONTROL, MUTATIONS
from tests.support.places import ROOT

BRIEF = frozenset(
    (
        "linearizability/layers.py",
        "linearizability/sweep.py",
        "models/mutex.py",
        "partitions/orders.py",
        "transactions/consistency.py",
    )
)
FILES = sorted({mutation.file for mutation in MUTATIONS})


def run(*options: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.support.mutations.run", *options]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


def test_each_change_is_of_code_that_is_there_once() -> None:
    for mutation in (*MUTATIONS, CONTROL):
        text = (ROOT / "checkers" / mutation.file).read_text(encoding="utf-8")
        assert text.count(mutation.old) == 1, mutation
        assert mutation.old != mutation.new


def test_each_names_a_test_that_is_there() -> None:
    for mutation in MUTATIONS:
        file, _, test = mutation.test.partition("::")
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), mutation


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=() if file in BRIEF else pytest.mark.long) for file in FILES],
)
def test_changes_are_noticed(file: str) -> None:
    done = run("--only", f"{file}: ")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(", 0 missed\n")


def test_a_change_that_breaks_nothing_is_missed() -> None:
    """The control: what the tests notice is the rule that is broken, not that a file changed."""
    done = run("--control")

    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.endswith("1 changes, 1 missed\n")
