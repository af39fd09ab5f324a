"""Full collections of garbage stay short while a process gets very many objects."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from node.driver.garbage import FULL, LONG_NS, Collections

MAKE_MANY = """
import gc
from node.driver.garbage import Collections
if {limited}:
    gc.callbacks.append(Collections())
gc.freeze()
most = [0]
def look(phase, info):
    if phase == "start" and info["generation"] == 2:
        most[0] = max(most[0], len(gc.get_objects(2)))
gc.callbacks.append(look)
alive = [[n] for n in range(2_000_000)]
print(most[0])
"""


def looked_at(*, limited: bool) -> int:
    """The most old objects before a collection in a process that makes two million of them."""
    ran = subprocess.run(
        [sys.executable, "-c", MAKE_MANY.format(limited=limited)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(ran.stdout)


def test_what_lives_long_is_not_looked_at_again_and_again() -> None:
    assert looked_at(limited=False) > 1_000_000
    assert looked_at(limited=True) < 700_000


@pytest.mark.parametrize(
    ("generation", "took_ns", "frozen"),
    [(FULL, LONG_NS, 1), (FULL, LONG_NS - 1, 0), (FULL - 1, 10 * LONG_NS, 0)],
)
def test_only_what_a_long_full_collection_leaves_is_frozen(
    generation: int, took_ns: int, frozen: int
) -> None:
    at_ns, frozen_at = [5], list[int]()
    collections = Collections(lambda: at_ns[0], lambda: frozen_at.append(at_ns[0]))
    collections("start", {"generation": generation})
    at_ns[0] += took_ns
    collections("stop", {"generation": generation})
    assert len(frozen_at) == collections.frozen == frozen


def test_frozen_objects_go_when_nobody_refers_to_them() -> None:
    class Heard:
        def __init__(self, gone: list[str]) -> None:
            self.gone = gone

        def __del__(self) -> None:
            self.gone.append("gone")

    gone: list[str] = []
    heard = Heard(gone)
    collections = Collections(iter([0, LONG_NS]).__next__)
    collections("start", {"generation": FULL})
    collections("stop", {"generation": FULL})
    try:
        assert gc.get_freeze_count()
        del heard
        assert gone == ["gone"]
    finally:
        gc.unfreeze()
