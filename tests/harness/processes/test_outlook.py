"""What a process expects, and who says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.batch import trial
from harness.processes import outlook
from harness.store.folder import Store


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = outlook.expected()
    yield
    outlook.expect(before)


def test_a_process_expects_one_simulation() -> None:
    assert outlook.expected() == 1


def test_a_batch_says_how_many_there_are(tmp_path: Path) -> None:
    seen: list[int] = []

    class Some(trial.Trial):
        def do(self) -> trial.Result:
            seen.append(outlook.expected())
            return {"features": []}

    store = Store(tmp_path)
    trials = [Some(seed, {}, twice=False, keep=False, store=store) for seed in range(3)]
    assert len(list(trial.each(trials))) == 3
    assert seen == [3, 3, 3]
