"""The history of voter sets and the progress of those in them, as plain data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.config import LogState, ReplicaConfig
from node.core.messages import KRaftVersion, LeaderChange, Voters
from node.core.progress import LeaderProgress
from node.core.types import ReplicaKey, VoterSet
from node.core.voter_history import VoterHistory
from tests.support.raft.one import key, keyed_voters

NONE = VoterSet({})
SETS = [keyed_voters(*range(1, n + 1)) for n in range(1, 6)]
HISTORIES = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(SETS)), max_size=6, unique_by=lambda e: e[0]
).map(sorted)


def model(entries: list[tuple[int, VoterSet]], end: int) -> VoterSet | None:
    """The last set below ``end``."""
    found = [voters for offset, voters in entries if offset < end]
    return found[-1] if found else None


@given(HISTORIES)
def test_the_newest_record_is_in_force(entries: list[tuple[int, VoterSet]]) -> None:
    history = VoterHistory(NONE, [(-1, SETS[0])], [(-1, 1)])
    for offset, voters in entries:
        history.add(offset, Voters(voters))
    known = [(-1, SETS[0]), *entries]
    assert history.voters == known[-1][1]
    assert history.offset == known[-1][0]


@given(HISTORIES, st.integers(0, 22))
def test_truncation_reverts(entries: list[tuple[int, VoterSet]], to: int) -> None:
    history = VoterHistory(SETS[4], entries)
    history.truncate_from_end(to)
    left = [e for e in entries if e[0] < to]
    assert history.voters == (left[-1][1] if left else SETS[4])
    assert history.offset == (left[-1][0] if left else None)


@given(HISTORIES, st.integers(0, 22), st.integers(0, 22))
def test_cleaning_forgets_nothing_that_is_still_needed(
    entries: list[tuple[int, VoterSet]], start: int, end: int
) -> None:
    history = VoterHistory(NONE, entries)
    history.truncate_from_start(start)
    end = max(start, end)
    history.truncate_from_end(end)
    assert history.voters == (model(entries, end) or NONE)


def test_a_level_is_in_force_until_it_is_truncated() -> None:
    history = VoterHistory(NONE)
    assert history.kraft_version == 0
    history.add(3, KRaftVersion(1))
    history.add(4, LeaderChange(1, (1,), (1,)))
    assert history.kraft_version == 1
    history.truncate_from_end(3)
    assert history.kraft_version == 0


@pytest.mark.parametrize("voters", [None, SETS[1]])
def test_a_snapshot_replaces_everything(voters: VoterSet | None) -> None:
    history = VoterHistory(SETS[4], [(2, SETS[0]), (9, SETS[2])], [(2, 1)])
    history.reset(7, voters, 0 if voters is None else 1)
    assert history.voters == (SETS[4] if voters is None else voters)
    assert history.offset == (None if voters is None else 6)


def test_records_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="does not follow the one at 3"):
        VoterHistory(NONE, [(3, SETS[0]), (3, SETS[1])])


# ---------------------------------------------------------------- progress


def test_progress_moves_with_the_exact_key() -> None:
    progress = LeaderProgress(keyed_voters(1, 2), key(1))
    for who, offset in ((key(3), 5), (key(3, disk=1), 9)):
        observer = progress.observer(who, 0)
        assert observer is not None
        observer.fetched(offset, 10, 1)
    progress.follow(keyed_voters(1, 2, 3))
    assert progress.voters[3].end_offset == 5
    assert set(progress.observers) == {key(3, disk=1)}
    progress.follow(keyed_voters(1, 2))
    assert progress.observers[key(3)].end_offset == 5


def test_the_leaders_own_entry_counts_only_in_the_set() -> None:
    progress = LeaderProgress(keyed_voters(1, 2), key(1))
    progress.local().end_offset = 7
    assert progress.end_offsets_descending() == [7, -1]
    progress.follow(keyed_voters(2))
    assert progress.end_offsets_descending() == [-1]
    assert progress.local().end_offset == 7
    assert progress.observers == {}
    progress.follow(keyed_voters(1, 2))
    assert progress.end_offsets_descending() == [7, -1]


def test_a_leader_on_another_disk_than_the_set_says_is_no_voter() -> None:
    progress = LeaderProgress(keyed_voters(1, 2), key(1, disk=1))
    progress.local().end_offset = 7
    assert progress.end_offsets_descending() == [-1, -1]


def test_a_config_without_listeners_has_no_entry_to_offer() -> None:
    config = ReplicaConfig(ReplicaKey(1), "cluster", NONE)
    assert config.as_voter is None
    assert LogState().voters == ()
