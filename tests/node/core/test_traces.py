"""Golden traces of the core: each file of ``testdata/raft`` is one scenario, told step by step.

``pytest tests/node/core/test_traces.py --rewrite`` writes the outputs anew. Only commit a change of
them when you understand what caused it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.places import TESTDATA
from tests.support.raft.script import Script, scenarios

FOLDER = TESTDATA / "raft"


@pytest.mark.parametrize("path", scenarios(FOLDER), ids=lambda path: path.stem)
def test_scenario(path: Path, rewrite: bool) -> None:
    text = path.read_text()
    actual = Script().run(text)
    if rewrite:
        path.write_text(actual)
    assert actual == path.read_text()


def test_there_are_scenarios() -> None:
    assert len(scenarios(FOLDER)) >= 10


def test_a_script_without_separator_is_refused() -> None:
    with pytest.raises(AssertionError, match="no ----"):
        Script().run("cluster voters=1\n")
