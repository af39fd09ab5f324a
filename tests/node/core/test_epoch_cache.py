"""The epoch cache against the plainest model there is: the list of every record's epoch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.epoch_cache import EpochCache
from node.core.types import OffsetAndEpoch

LOGS = st.lists(st.integers(1, 6), max_size=12).map(sorted)  # epoch of each record


def cache_of(log: list[int]) -> EpochCache:
    cache = EpochCache()
    for offset, epoch in enumerate(log):
        cache.assign(epoch, offset)
    return cache


@given(LOGS)
def test_entries_are_the_first_offsets_of_the_epochs(log: list[int]) -> None:
    assert cache_of(log).entries == tuple((e, log.index(e)) for e in sorted(set(log)))
    assert cache_of(log).latest_epoch == (log[-1] if log else 0)


@given(LOGS, st.integers(0, 14))
def test_truncation_is_that_of_the_log(log: list[int], to: int) -> None:
    cache = cache_of(log)
    cache.truncate_from_end(to)
    assert cache.entries == cache_of(log[:to]).entries


@given(LOGS, st.integers(0, 12))
def test_a_log_without_its_beginning_keeps_one_entry_there(log: list[int], start: int) -> None:
    start = min(start, len(log))
    cache = cache_of(log)
    cache.truncate_from_start(start)
    later = [(e, log.index(e)) for e in sorted(set(log)) if log.index(e) > start]
    first = [(epoch, start) for epoch in log[: start + 1][-1:]]
    assert cache.entries == (*first, *later)
    assert cache.latest_epoch == (log[-1] if log else 0)


@given(LOGS, st.integers(0, 12))
def test_the_epoch_of_the_record_before_an_offset(log: list[int], offset: int) -> None:
    offset = min(offset, len(log))
    cache = cache_of(log)
    cache.before = 7
    assert cache.epoch_before(offset) == (log[offset - 1] if offset else 7)


def test_an_empty_log_has_the_epoch_of_the_snapshot_before_it() -> None:
    cache = EpochCache(before=4)
    assert cache.latest_epoch == 4
    assert cache.end_offset_for(4, 9) == (9, 4)
    cache.assign(5, 9)
    cache.truncate_from_end(9)
    assert cache.latest_epoch == 4


@given(LOGS, st.integers(0, 8))
def test_where_an_epoch_ends(log: list[int], epoch: int) -> None:
    found = cache_of(log).end_offset_for(epoch, len(log))
    if not log or epoch > log[-1]:
        assert found == (len(log), log[-1] if log else 0)
        return
    assert found.offset == sum(e <= epoch for e in log)
    lower = [e for e in log if e <= epoch]
    assert found.epoch == (lower[-1] if lower else epoch)


@st.composite
def raft_logs(draw: st.DrawFn) -> list[list[int]]:
    """Logs that one quorum can hold: each epoch goes on from a prefix of an earlier one's log."""
    logs: list[list[int]] = [[]]
    for epoch in range(1, draw(st.integers(1, 7))):
        base = draw(st.sampled_from(logs))
        kept = draw(st.integers(0, len(base)))
        logs.append(base[:kept] + [epoch] * draw(st.integers(1, 4)))
    return logs


@given(raft_logs(), st.data())
def test_two_logs_meet_where_they_really_part(logs: list[list[int]], data: st.DataObject) -> None:
    """The rounds of KIP-595's truncation end at the common prefix: nothing more is cut."""
    leader, follower = data.draw(st.sampled_from(logs)), data.draw(st.sampled_from(logs))
    follower = follower[: data.draw(st.integers(0, len(follower)))]
    common = 0
    while common < min(len(leader), len(follower)) and leader[common] == follower[common]:
        common += 1
    ours, theirs, end = cache_of(leader), cache_of(follower), len(follower)
    for _ in range(20):
        last = theirs.latest_epoch
        found = ours.end_offset_for(last, len(leader))
        if end == 0 or (found.epoch == last and found.offset >= end):
            break
        local = theirs.end_offset_for(found.epoch, end)
        end = min(local.offset, found.offset) if local.epoch == found.epoch else local.offset
        theirs.truncate_from_end(end)
    assert leader[:end] == follower[:end]
    assert end == common


def test_a_leader_that_wrote_nothing_leaves_no_trace_after_truncation() -> None:
    cache = EpochCache([(1, 0), (4, 7)])
    cache.truncate_from_end(7)
    assert cache.entries == ((1, 0),)


def test_an_assignment_drops_what_contradicts_it() -> None:
    cache = EpochCache([(1, 0), (3, 5), (4, 7)])
    seen = []
    for epoch, start in [(4, 9), (6, 7), (2, 9)]:
        cache.assign(epoch, start)
        seen.append(cache.entries)
    assert seen == [((1, 0), (3, 5), (4, 7)), ((1, 0), (3, 5), (6, 7)), ((1, 0), (2, 9))]


def test_an_epoch_below_the_whole_log() -> None:
    assert EpochCache([(5, 3)]).end_offset_for(2, 9) == OffsetAndEpoch(3, 2)


@pytest.mark.parametrize("entries", [[(2, 0), (2, 4)], [(2, 5), (3, 4)], [(-1, 0)], [(1, -2)]])
def test_entries_out_of_order_are_refused(entries: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="rebuild it from the log"):
        EpochCache(entries)
