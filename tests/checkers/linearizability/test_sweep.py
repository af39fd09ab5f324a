"""Zones of many keys in one sweep: the same as zones of each key."""

from __future__ import annotations

from random import Random

import pytest

from checkers.linearizability.sweep import doubtful
from checkers.linearizability.zones import by_zones
from tests.support.linearizability.rows import Row, cas, columns, read, write


def test_a_sweep_names_the_keys_that_are_not_surely_right() -> None:
    table = columns(
        write(1, 0, 1),
        write(1, 0, 1),
        write(5, 0, 1),
        write(1, 0, 9),
        write(2, 2, 3),
        read(1, 2, 3),
        write(5, 2, 3),
        cas(5, 6, 2, 3),
        read(1, 4, 5),
        read(9, 4, 5),
        read(None, 4, 5),
        key=["stale", "good", "twice", "late", "stale", "good", "twice", "cas", "stale", "?", "!"],
    )

    assert doubtful(table, None) == {"stale", "twice", "cas", "?"}


@pytest.mark.parametrize("seed", range(20))
def test_a_sweep_agrees_with_zones_key_by_key(seed: int) -> None:
    """Few ops on each key, so that many keys are right and what is wrong is of every kind."""
    rng = Random(seed)
    rows: list[tuple[Row, int]] = []
    for key in range(100):
        for value in range(rng.randint(1, 4)):
            begin = rng.randrange(16)
            rows.append((write(value, begin, begin + rng.randrange(9)), key))
            for _ in range(rng.randint(0, 2)):
                begin += rng.randrange(-4, 7)
                rows.append((read(value, begin, begin + rng.randrange(6)), key))
    rows.sort(key=lambda row: row[0][3])
    table = columns(*(row for row, _ in rows), key=[key for _, key in rows])

    zones = {key: by_zones(of_key, None) for key, _, of_key in table.by_key()}
    wrong = {key for key, found in zones.items() if found is None or not found.linearizable}
    assert doubtful(table, None) == wrong
    assert 20 < len(wrong) < 80
