"""When a snapshot is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.loading.snapshot_policy import SnapshotPolicy


def policy(max_bytes: int = 100, max_interval_ms: int = 1000) -> SnapshotPolicy:
    return SnapshotPolicy(max_bytes=max_bytes, max_interval_ms=max_interval_ms)


def test_a_snapshot_is_due_after_that_many_bytes() -> None:
    p = policy()
    p.committed(99, 0)
    assert p.due(0) is None
    p.committed(1, 0)
    assert p.due(0) == "100 bytes since the last snapshot"


def test_a_snapshot_is_due_after_that_time_if_anything_was_committed() -> None:
    p = policy()
    assert p.due(10**9) is None
    assert p.next_deadline_ms() is None
    p.committed(1, 500)
    assert p.next_deadline_ms() == 1500
    assert p.due(1499) is None
    assert p.due(1500) == "1000 ms since the first record after the last snapshot"


def test_an_interval_of_0_turns_time_off() -> None:
    p = policy(max_interval_ms=0)
    p.committed(99, 0)
    assert p.due(10**12) is None
    assert p.next_deadline_ms() is None


def test_none_is_due_while_one_is_in_progress() -> None:
    p = policy()
    p.committed(100, 0)
    p.started()
    p.committed(100, 0)
    assert p.in_progress
    assert p.due(5000) is None
    assert p.next_deadline_ms() is None
    with pytest.raises(ValueError, match="in progress"):
        p.started()
    p.finished()
    assert p.due(0) is not None  # what came meanwhile was not in it


def test_what_came_before_a_snapshot_does_not_count_for_the_next() -> None:
    p = policy()
    p.committed(100, 0)
    p.started()
    p.committed(40, 10)
    p.finished()
    assert p.bytes_since_snapshot == 40
    assert p.next_deadline_ms() == 1010


def test_a_failed_snapshot_is_due_again() -> None:
    p = policy()
    p.committed(100, 0)
    p.started()
    p.committed(5, 10)
    p.failed()
    assert p.bytes_since_snapshot == 105
    assert p.due(10) is not None


def test_none_is_due_in_the_middle_of_a_transaction() -> None:
    p = policy()
    p.committed(100, 0, in_transaction=True)
    assert p.due(5000) is None
    assert p.next_deadline_ms() is None
    p.committed(1, 0, in_transaction=False)
    assert p.due(0) is not None


def test_none_is_due_after_a_metadata_fault_and_the_first_reason_stays() -> None:
    p = policy()
    p.committed(100, 0)
    p.fault("record 7 does not fit")
    p.fault("later")
    assert p.due(5000) is None
    assert p.next_deadline_ms() is None
    assert p.disabled == "record 7 does not fit"


def test_nothing_but_a_snapshot_resets_the_counters() -> None:  # KAFKA-14300
    resetting = set()
    for name in ("committed", "due", "next_deadline_ms", "started", "finished", "failed", "loaded"):
        p = policy()
        p.committed(99, 0)
        if name in ("finished", "failed"):
            p.started()
            p.committed(99, 0)
        arguments: dict[str, tuple[int, ...]] = {"committed": (1, 0), "due": (0,)}
        getattr(p, name)(*arguments.get(name, ()))
        if p.bytes_since_snapshot < 99:
            resetting.add(name)
    assert resetting == {"started", "loaded"}


def test_a_loaded_snapshot_resets_the_counters() -> None:
    p = policy()
    p.committed(99, 0, in_transaction=True)
    p.loaded()
    p.committed(1, 2000)
    assert p.due(2000) is None
    assert (p.bytes_since_snapshot, p.next_deadline_ms()) == (1, 3000)


def test_a_snapshot_loaded_while_one_is_made_takes_over_what_that_would_give_back() -> None:
    p = policy()
    p.committed(100, 0)
    p.started()
    p.loaded()
    p.failed()
    assert (p.bytes_since_snapshot, p.due(9000)) == (0, None)


@pytest.mark.parametrize(("size", "interval"), [(0, 1), (-1, 1), (1, -1)])
def test_impossible_settings_are_refused(size: int, interval: int) -> None:
    with pytest.raises(ValueError, match="want > 0, >= 0"):
        policy(size, interval)


@given(st.lists(st.integers(1, 60), max_size=60))
def test_under_load_no_more_than_the_limit_and_one_batch_lies_between_snapshots(
    sizes: list[int],
) -> None:
    p = policy()
    between = 0
    for size in sizes:
        between += size
        p.committed(size, 0)
        if p.due(0):
            assert 100 <= between < 160
            p.started()
            p.finished()
            between = 0
        assert between < 100
        assert p.bytes_since_snapshot == between
