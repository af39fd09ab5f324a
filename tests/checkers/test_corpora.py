"""Public histories with known verdicts: every one must be judged right."""

import json

import pytest

from checkers.linearizable import check_file
from harness.history.formats import read_history
from harness.verdict import Valid
from tests.support.places import CORPORA

INDEX = CORPORA / "verdicts.json"
VERDICTS = json.loads(INDEX.read_text()) if INDEX.is_file() else {}

pytestmark = pytest.mark.skipif(
    not VERDICTS, reason=f"no corpora at {CORPORA}: set KRUCIBLE_CORPORA to where verdicts.json is"
)


@pytest.mark.parametrize("name", sorted(VERDICTS))
def test_verdict(name: str) -> None:
    expected = VERDICTS[name]

    result = check_file(CORPORA / name, model=expected["model"])

    assert result.valid is (Valid.VALID if expected["valid"] else Valid.INVALID), result.reason
    assert bool(result.anomalies) is not expected["valid"]


@pytest.mark.parametrize("name", sorted(VERDICTS))
def test_no_line_is_lost_and_the_model_is_known(name: str) -> None:
    loaded = read_history(CORPORA / name)

    assert len(loaded.history) == len((CORPORA / name).read_text().splitlines())
    assert loaded.conventions.model == VERDICTS[name]["model"]
