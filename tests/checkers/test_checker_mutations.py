"""The tests of the checkers of cycles, logs and pruning notice what is broken in them.

All changes are tried by ``python tests/support/histories/mutations.py``; here only some.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.histories import mutations as checker_mutations
from tests.support.histories.mutations import MUTATIONS
from tests.support.places import ROOT

SCRIPT = Path(checker_mutations.__file__)


def test_each_change_is_of_code_that_is_there_once() -> None:
    for mutation in MUTATIONS:
        text = (ROOT / "checkers" / mutation.file).read_text(encoding="utf-8")
        assert text.count(mutation.old) == 1, mutation
        assert mutation.old != mutation.new


def test_each_names_a_test_that_is_there() -> None:
    for mutation in MUTATIONS:
        file, _, test = mutation.test.partition("::")
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), mutation


@pytest.mark.parametrize("only", ["transactions/consistency.py", "partitions/orders.py"])
def test_changes_are_noticed(only: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--only", f"{only}: "],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(", 0 missed\n")
