"""L12: a controller that is registered registers no more."""

from __future__ import annotations

from uuid import UUID

import msgspec
import pytest

from checkers.invariants.repeats import REPEATS_MAX, Repeats
from node.metadata.schemas import RegisterControllerRecord


def registration(controller: int, process: int) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        version=0,
        controller_id=controller,
        incarnation_id=UUID(int=process),
        zk_migration_ready=False,
        end_points=(),
        features=(),
    )


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ([(1, 7)] * REPEATS_MAX, 0),
        ([(1, 7)] * (REPEATS_MAX + 1), 1),
        ([(1, 7)] * (2 * REPEATS_MAX + 2), 1),  # it is told once
        ([(1, n) for n in range(2 * REPEATS_MAX)], 0),  # of as many processes
        ([(1, 7), (2, 8)] * REPEATS_MAX, 0),
        ([(1, 7), (2, 8)] * (REPEATS_MAX + 1), 2),
    ],
)
def test_the_same_process_registers_a_few_times_at_most(
    told: list[tuple[int, int]], found: int
) -> None:
    repeats = Repeats()
    anomalies = [
        anomaly
        for offset, each in enumerate(told)
        for anomaly in repeats.record(registration(*each), offset)
    ]
    assert [each.invariant for each in anomalies] == ["L12"] * found
    assert repeats.checked == len(told)


def test_what_changes_is_no_repetition() -> None:
    repeats, one = Repeats(), registration(1, 7)
    for offset in range(4 * REPEATS_MAX):
        each = msgspec.structs.replace(one, zk_migration_ready=offset % 2 == 0)
        assert not list(repeats.record(each, offset))
