"""The consensus checker: healthy traces pass, and each broken promise is called by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from checkers.consensus import consensus
from checkers.invariants.commits import FOUND
from checkers.invariants.leading import ALONE
from checkers.monitor.catalogue import INVARIANTS, invariants_for, names_of
from checkers.monitor.monitor import KEPT_PER_INVARIANT_MAX, Monitor
from checkers.replay.world import stored
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch
from harness.history.ops import History
from harness.systems.kafka.known import known_of
from harness.systems.kafka.releases import Release
from harness.verdict import CheckResult, Valid
from tests.support.places import TESTDATA
from tests.support.traces.broken import MORE_BREAKS, lead_alone
from tests.support.traces.broken_answers import ANSWER_BREAKS
from tests.support.traces.broken_disks import DISK_BREAKS
from tests.support.traces.traces import (
    Event,
    Trace,
    changing,
    healthy,
    one_leader,
    register_record,
    topic_record,
)

NAMES = names_of("consensus")
OF_KAFKA = "L12"  # our node's events do not tell of its polls


def names(result: CheckResult) -> set[str]:
    return {anomaly.invariant for anomaly in result.anomalies}


def last(trace: Trace, node: int, type_: str) -> Event:
    return next(e for e in reversed(trace.events[f"n{node}"]) if e["t"] == type_)


# ---------------------------------------------------------------------- healthy


@pytest.mark.parametrize(("voters", "observers"), [(3, 0), (3, 2), (5, 1)])
def test_healthy_trace_is_valid_and_every_invariant_examined_something(
    voters: int, observers: int
) -> None:
    result = consensus(healthy(voters, observers).run())
    assert result.anomalies == ()
    assert (result.valid, result.reason) == (Valid.VALID, None)
    assert set(result.checked) == {*NAMES, "S18"}  # the history's own
    idle = {name for name, count in result.checked.items() if not count}
    wanting = {"S22", "S23", "S24", "S27"}
    assert idle == {*wanting, OF_KAFKA}, "these want snapshots and other voters"


@pytest.mark.parametrize("voters", [3, 5])
def test_snapshots_and_voter_changes_are_valid_and_every_invariant_examined_something(
    voters: int,
) -> None:
    result = consensus(changing(voters).run())
    assert result.anomalies == ()
    assert (result.valid, result.reason) == (Valid.VALID, None)
    assert [name for name, count in result.checked.items() if not count] == [OF_KAFKA]


def test_checked_counts_what_was_examined() -> None:
    result = consensus(healthy(3, 1).run())
    assert result.checked["S1"] == 2  # epochs led
    assert result.checked["S13"] == 6  # high watermarks of leaders
    assert result.checked["S14"] == 2  # first high watermark of each leader
    assert result.stats["commits"] == 6


def alone() -> Trace:
    """A quorum of one voter, which has committed a write."""
    trace = Trace(1)
    trace.start()
    trace.elect(1, 1)
    trace.commit(1)
    trace.write(1, "r0", 1)
    return trace


def test_single_voter_commits_alone() -> None:
    trace = alone()
    assert consensus(trace.run()).valid is Valid.VALID


def test_a_single_voter_that_lost_what_it_committed_is_called_the_only_one() -> None:
    trace = alone()
    trace.disks[1].log.pop()
    trace.start(1)
    trace.elect(1, 2)
    (lost,) = [a.message for a in consensus(trace.run()).anomalies if a.invariant == "S11"]
    assert ALONE in lost


def test_statement_of_each_invariant_is_in_its_docstring() -> None:
    for invariant in INVARIANTS:
        assert (invariant.__doc__ or "").startswith(f"{invariant.name}: ")


# ---------------------------------------------------------------------- one broken promise each


def two_leaders(trace: Trace) -> None:
    trace.disks[3].epoch = 1
    trace.role(3, "leader", leader=3)


def two_names_for_a_leader(trace: Trace) -> None:
    trace.role(3, "follower", leader=2)


def vote_for_two(trace: Trace) -> None:
    trace.persist(2, 2, voted=1)
    trace.grant(2, 1)
    trace.persist(2, 2, voted=3)
    trace.grant(2, 3)


def vote_for_another_after_own_candidacy(trace: Trace) -> None:
    trace.persist(2, 2, voted=2)
    trace.role(2, "candidate")
    trace.persist(2, 2, voted=3)
    trace.grant(2, 3)


def grant_before_persisting(trace: Trace) -> None:
    trace.disks[2].epoch = 2
    trace.grant(2, 3)


def ask_before_persisting(trace: Trace) -> None:
    trace.disks[2].epoch = 2
    trace.emit(2, "votereq", pre=False, to=1)


def forget_vote_at_restart(trace: Trace) -> None:
    trace.persist(2, 2, voted=3)
    trace.grant(2, 3)
    trace.disks[2].voted = None
    trace.start(2)


def forget_epoch_at_restart(trace: Trace) -> None:
    trace.persist(2, 2, voted=3)
    trace.disks[2].epoch = 1
    trace.start(2)


def fall_back_an_epoch(trace: Trace) -> None:
    trace.persist(2, 5)
    trace.disks[2].epoch = 4
    trace.role(2, "unattached")


def append_of_a_future_epoch(trace: Trace) -> None:
    batch = LogBatch(trace.disks[2].end, trace.disks[2].end, 9, 5, False, ())
    trace.store(2, batch)
    trace.disks[2].log.pop()


def append_of_a_past_epoch(trace: Trace) -> None:
    trace.persist(2, 4)
    end = trace.disks[2].end
    trace.store(2, LogBatch(end, end, 4, 5, False, ()))
    trace.store(2, LogBatch(end + 1, end + 1, 3, 6, False, ()))


def two_contents(trace: Trace) -> None:
    batch = trace.append(1)
    trace.store(2, LogBatch(batch.base, batch.last, batch.epoch, 999, False, ()))


def overlapping_contents(trace: Trace) -> None:
    record = register_record("r7", 1)
    batch = trace.append(1, record, record, record)
    trace.append(2)  # a batch of another shape in the same epoch
    assert trace.disks[2].log[-1].base == batch.base


def same_record_on_another_prefix(trace: Trace) -> None:
    base = trace.disks[2].end
    for node, epoch in ((2, 2), (3, 3)):
        trace.persist(node, 4)
        trace.store(node, LogBatch(base, base, epoch, epoch, False, ()))
        trace.store(node, LogBatch(base + 1, base + 1, 4, 44, False, ()))


def commit_something_else(trace: Trace) -> None:
    trace.truncate(3, trace.disks[3].end - 1)
    trace.start(3)  # a new process has no high watermark yet
    trace.persist(3, 1)
    trace.store(3, LogBatch(trace.disks[3].end, trace.disks[3].end, 1, 77, False, ()))
    trace.raise_hwm(3, trace.disks[3].end, as_="follower")


def cut_below_high_watermark(trace: Trace) -> None:
    trace.truncate(2, trace.disks[2].hwm - 1)


def cut_committed_after_restart(trace: Trace) -> None:
    trace.start(2)
    trace.truncate(2, trace.disks[2].end - 1)


def lose_flushed_at_restart(trace: Trace) -> None:
    trace.disks[2].log.pop()
    trace.start(2)


def commit_without_quorum(trace: Trace) -> None:
    trace.append(1)
    trace.flush(1)
    end = trace.disks[1].end
    trace.raise_hwm(1, end, as_="leader", acks={}, voters=[1, 2, 3])


def count_leader_before_its_flush(trace: Trace) -> None:
    trace.append(1)
    trace.replicate(1, 2)
    trace.raise_hwm(1, trace.disks[1].end, as_="leader", acks={}, voters=[1, 2, 3])


def count_other_records(trace: Trace) -> None:
    trace.append(1)
    trace.flush(1)
    end = trace.disks[2].end
    for node in (2, 3):
        trace.persist(node, 2)
        trace.store(node, LogBatch(end, end, 2, 8, False, ()))
        trace.flush(node)
    trace.raise_hwm(1, trace.disks[1].end, as_="leader", acks={}, voters=[1, 2, 3])


def commit_of_an_older_epoch(trace: Trace) -> None:
    trace.append(1, register_record("r0", 2))
    trace.replicate(1, 2)
    trace.elect(2, 2)
    trace.raise_hwm(2, last(trace, 2, "elected")["es"], as_="leader", acks={}, voters=[1, 2, 3])


def high_watermark_falls(trace: Trace) -> None:
    trace.raise_hwm(2, trace.disks[2].hwm - 1, as_="follower")


def later_leader_is_behind(trace: Trace) -> None:
    trace.elect(2, 2)
    trace.raise_hwm(2, 1, as_="leader", acks={}, voters=[1, 2, 3])


def follower_is_ahead_of_leaders(trace: Trace) -> None:
    trace.append(1)
    trace.replicate(1)
    trace.raise_hwm(2, trace.disks[2].end, as_="follower")


def follower_is_ahead_of_its_log(trace: Trace) -> None:
    trace.append(1)
    trace.replicate(1, 2)
    trace.flush(1)
    trace.commit(1, 2)
    trace.raise_hwm(3, trace.disks[1].end, as_="follower")


def fetch_before_flush(trace: Trace) -> None:
    batch = trace.append(1)
    trace.store(2, batch)
    trace.fetch(2, 1)


def flush_forgotten_by_truncation(trace: Trace) -> None:
    trace.append(1)
    trace.replicate(1, 2)
    trace.truncate(2, trace.disks[2].end - 1)
    trace.store(2, trace.disks[1].log[-1])
    trace.fetch(2, 1)


def acknowledge_uncommitted(trace: Trace) -> None:
    batch = trace.append(1)
    trace.emit(1, "ack", api="x", off=batch.last, hwm=batch.last)


def acknowledge_with_a_lie(trace: Trace) -> None:
    batch = trace.append(1)
    trace.emit(1, "ack", api="x", off=batch.last, hwm=batch.last + 1)


def acknowledge_voters_as_an_earlier_record(trace: Trace) -> None:
    batch = trace.change_voters(1, 1, 2)
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    trace.emit(1, "ack", api="RemoveVoter", off=batch.last - 1, hwm=batch.last + 1)


def win_without_a_majority(trace: Trace) -> None:
    trace.persist(2, 2, voted=2)
    trace.emit(2, "elected", grants=[2], voters=[1, 2, 3], es=trace.disks[2].end)


def count_a_vote_that_was_refused(trace: Trace) -> None:
    trace.persist(2, 2, voted=2)
    trace.disks[3].epoch = 2
    trace.grant(3, 2, ok=False)
    trace.emit(2, "elected", grants=[2, 3], voters=[1, 2, 3], es=trace.disks[2].end)


def count_the_vote_of_another_disk(trace: Trace) -> None:
    keys = [(1, trace.disks[1].dir), (2, trace.disks[2].dir), (3, "ab" * 16)]
    trace.persist(2, 2, voted=2)
    trace.persist(3, 2, voted=2)
    trace.grant(3, 2)
    trace.emit(2, "elected", grants=[2, 3], voters=keys, es=trace.disks[2].end)


def install_below_committed_records(trace: Trace) -> None:
    trace.freeze(1)
    trace.write(1, "r0", 2)
    trace.install(2, 1)


def freeze_above_the_high_watermark(trace: Trace) -> None:
    trace.append(1)
    trace.freeze(1, id=[trace.disks[1].end, 1])


def freeze_inside_of_a_batch(trace: Trace) -> None:
    trace.append(1, register_record("r0", 5), register_record("r0", 6))
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    trace.freeze(2, id=[trace.disks[2].end - 1, 1])


def freeze_with_a_wrong_epoch(trace: Trace) -> None:
    trace.freeze(2, id=[trace.disks[2].end, 2])


def freeze_other_bytes(trace: Trace) -> None:
    trace.freeze(1)
    trace.freeze(2, sha="other")


def freeze_other_voters(trace: Trace) -> None:
    trace.freeze(2, voters=[(1, trace.disks[1].dir)], kv=1)


def begin_a_log_without_a_snapshot(trace: Trace) -> None:
    trace.emit(2, "lstart", v=1)


def delete_the_snapshot_before_the_log(trace: Trace) -> None:
    trace.freeze(2)
    trace.clean(2)
    trace.disks[2].snapshots.clear()
    trace.start(2)


def install_below_the_high_watermark(trace: Trace) -> None:
    trace.freeze(1)
    trace.write(1, "r0", 2)
    trace.install(2, 1)


def install_what_the_log_holds(trace: Trace) -> None:
    trace.freeze(1)
    trace.start(3)
    trace.install(3, 1)


def go_on_elsewhere_after_an_install(trace: Trace) -> None:
    trace.write(1, "r0", 2, 2)
    trace.freeze(1)
    trace.install(3, 1)
    begin = last(trace, 3, "lstart")
    begin["v"] -= 1


def change_two_voters(trace: Trace) -> None:
    trace.change_voters(1, 1)


def change_voters_before_a_commit(trace: Trace) -> None:
    trace.elect(2, 2)
    trace.change_voters(2, 1, 2)


def change_voters_twice_at_once(trace: Trace) -> None:
    trace.change_voters(1, 1, 2)
    trace.change_voters(1, 1, 2, 3)


def remove_the_last_voter(trace: Trace) -> None:
    trace.change_voters(1, 1, 2)
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    trace.change_voters(1)


def go_by_an_older_set(trace: Trace) -> None:
    trace.change_voters(1, 1, 2)
    trace.replicate(1)
    trace.flush(1)
    value = trace.disks[1].end
    trace.raise_hwm(1, value, as_="leader", acks=[], voters=trace.voters)


def keep_a_truncated_set(trace: Trace) -> None:
    trace.change_voters(1, 1, 2)
    trace.replicate(1, 2)
    disk = trace.disks[2]
    keys = disk.voters.pop()
    trace.truncate(2, disk.end - 1)
    trace.emit(2, "voters", off=keys[0], set=keys[1], kv=1, revert=True)


def start_with_another_set(trace: Trace) -> None:
    trace.change_voters(1, 1, 2)
    trace.replicate(1)
    trace.disks[2].voters.clear()
    trace.start(2)


def count_another_disk(trace: Trace) -> None:
    trace.change_voters(1, *trace.voters)
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    for ack in last(trace, 1, "hwm")["acks"]:
        ack[1] = ack[1] if ack[0] == 1 else "ab" * 16


def lead_on_after_own_removal(trace: Trace) -> None:
    trace.change_voters(1, 2, 3)
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    trace.append(1)


BREAKS: list[tuple[str, Callable[[Trace], Any]]] = [
    ("S1", two_leaders),
    ("S1", two_names_for_a_leader),
    ("S2", vote_for_two),
    ("S2", vote_for_another_after_own_candidacy),
    ("S3", grant_before_persisting),
    ("S3", ask_before_persisting),
    ("S3", forget_vote_at_restart),
    ("S3", forget_epoch_at_restart),
    ("S4", fall_back_an_epoch),
    ("S4", append_of_a_future_epoch),
    ("S4", append_of_a_past_epoch),
    ("S7", two_contents),
    ("S7", overlapping_contents),
    ("S8", same_record_on_another_prefix),
    ("S9", commit_something_else),
    ("S10", cut_below_high_watermark),
    ("S10", cut_committed_after_restart),
    ("S10", lose_flushed_at_restart),
    ("S13", commit_without_quorum),
    ("S13", count_leader_before_its_flush),
    ("S13", count_other_records),
    ("S14", commit_of_an_older_epoch),
    ("S15", high_watermark_falls),
    ("S15", later_leader_is_behind),
    ("S15", follower_is_ahead_of_leaders),
    ("S15", follower_is_ahead_of_its_log),
    ("S16", fetch_before_flush),
    ("S16", flush_forgotten_by_truncation),
    ("S17", acknowledge_uncommitted),
    ("S17", acknowledge_with_a_lie),
    ("S17", acknowledge_voters_as_an_earlier_record),
    ("S6", win_without_a_majority),
    ("S6", count_a_vote_that_was_refused),
    ("S6", count_the_vote_of_another_disk),
    ("S10", install_below_committed_records),
    ("S22", freeze_above_the_high_watermark),
    ("S22", freeze_inside_of_a_batch),
    ("S22", freeze_with_a_wrong_epoch),
    ("S22", freeze_other_bytes),
    ("S22", freeze_other_voters),
    ("S23", begin_a_log_without_a_snapshot),
    ("S23", delete_the_snapshot_before_the_log),
    ("S24", install_below_the_high_watermark),
    ("S24", install_what_the_log_holds),
    ("S24", go_on_elsewhere_after_an_install),
    ("S27", change_two_voters),
    ("S27", change_voters_before_a_commit),
    ("S27", change_voters_twice_at_once),
    ("S27", remove_the_last_voter),
    ("S28", go_by_an_older_set),
    ("S28", keep_a_truncated_set),
    ("S28", start_with_another_set),
    ("S29", count_another_disk),
    ("S30", lead_on_after_own_removal),
    *MORE_BREAKS,
    *DISK_BREAKS,
    *ANSWER_BREAKS,
]


@pytest.mark.parametrize(("name", "change"), BREAKS, ids=[f"{n}-{c.__name__}" for n, c in BREAKS])
def test_a_broken_promise_is_called_by_its_name(name: str, change: Callable[[Trace], Any]) -> None:
    trace = one_leader()
    change(trace)
    result = consensus(trace.run())
    assert result.valid is Valid.INVALID
    assert name in names(result), [a.message for a in result.anomalies]
    found = next(a for a in result.anomalies if a.invariant == name)
    assert found.message
    assert found.events
    assert found.time_ns == found.events[-1]["rx_ns"]


def test_every_invariant_has_a_trace_that_breaks_it() -> None:
    assert {name for name, _ in BREAKS} == NAMES - {OF_KAFKA}, "see invariants/test_spinning.py"


@pytest.mark.parametrize(("appends", "told"), [(0, True), (1, False)])
def test_a_fetch_of_what_a_start_found_says_so(appends: int, *, told: bool) -> None:
    """A process of before has written it and died before its fsync; what came since is no find."""
    trace = one_leader()
    trace.store(2, trace.append(1))
    end = trace.disks[2].end
    trace.start(2, flushed=end - 1)
    for _ in range(appends):
        trace.store(2, trace.append(1))
    trace.fetch(2, 1)
    result = consensus(trace.run())
    broken = [each.message for each in result.anomalies if each.invariant == "S16"]
    assert [each.endswith(FOUND) for each in broken] == [told]


def test_two_leaders_are_told_with_epoch_nodes_and_events() -> None:
    trace = one_leader()
    two_leaders(trace)
    found = next(a for a in consensus(trace.run()).anomalies if a.invariant == "S1")
    assert found.message.startswith("epoch 1 has two leaders: n1 (n1 seq ")
    assert "and n3 (n3 seq " in found.message
    assert found.details == {"epoch": 1, "leaders": [1, 3]}


# ---------------------------------------------------------------------- clients and final logs


def write_run(outcome: str, *, logged: int) -> RunData:
    trace = one_leader()
    trace.op("invoke", "write", 7, key="r1")
    for _ in range(logged):
        trace.append(1, register_record("r1", 7))
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    trace.op(outcome, "write", 7, key="r1")
    return trace.run()


@pytest.mark.parametrize(
    ("outcome", "logged", "valid"),
    [
        ("ok", 1, True),
        ("ok", 0, False),
        ("ok", 2, False),
        ("fail", 0, True),
        ("fail", 1, False),
        ("info", 0, True),
        ("info", 1, True),
        ("info", 2, False),
    ],
)
def test_outcome_of_a_write_agrees_with_the_committed_log(
    outcome: str, logged: int, valid: bool
) -> None:
    result = consensus(write_run(outcome, logged=logged))
    assert names(result) == (set() if valid else {"S17"})


def test_a_lost_acknowledged_write_names_the_op() -> None:
    (lost,) = consensus(write_run("ok", logged=0)).anomalies
    assert lost.message == "acknowledged write r1=7 (op 3) is not in the committed log"
    assert lost.ops == (2, 3)


def test_an_open_write_may_be_committed_or_not() -> None:
    trace = one_leader()
    trace.op("invoke", "write", 7, key="r1")
    assert consensus(trace.run()).valid is Valid.VALID


@pytest.mark.parametrize(("logged_id", "valid"), [("AB-CD", True), ("ffff", False)])
def test_created_topic_is_committed_under_its_id(logged_id: str, valid: bool) -> None:
    trace = one_leader()
    trace.op("invoke", "create", {"partitions": 1}, key="t0")
    trace.append(1, topic_record("t0", logged_id))
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    trace.op("ok", "create", {"partitions": 1, "id": "abcd"}, key="t0")
    assert (names(consensus(trace.run())) == set()) is valid


def test_failed_create_leaves_no_topic() -> None:
    trace = one_leader()
    trace.op("invoke", "create", {}, key="t0")
    trace.append(1, topic_record("t0", "aa"))
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    trace.op("fail", "create", {}, key="t0")
    assert names(consensus(trace.run())) == {"S17"}


def nobody_wrote(*, later_ops: int) -> Trace:
    trace = one_leader()
    trace.append(1, register_record("r1", 7))
    trace.append(1, topic_record("t0", "aa"))
    trace.append(1, topic_record("register-r1", "bb"))
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    for _ in range(later_ops):
        trace.op("invoke", "read", key="r1")
        trace.op("ok", "read", 7, key="r1")
    return trace


def test_what_is_committed_was_asked_for_by_a_client() -> None:
    result = consensus(nobody_wrote(later_ops=9).run())
    assert {a.invariant for a in result.anomalies} == {"S18"}
    write, topic = (a.message for a in result.anomalies)
    assert write.startswith("write r1=7 is committed at offset 2 (n1 seq ")
    assert topic.startswith("topic t0 is committed at offset 3 (n1 seq ")
    assert topic.endswith(", and no client ever asked for it")


def test_a_history_that_ends_too_early_accuses_nobody_of_inventing() -> None:
    result = consensus(nobody_wrote(later_ops=0).run())
    assert (result.valid, result.checked["S18"]) == (Valid.VALID, 3)


def cut_logs() -> Trace:
    """All logs begin at 2, and then a write is acknowledged that no log holds."""
    trace = one_leader()
    for node in trace.disks:
        trace.freeze(node)
        trace.clean(node)
    trace.write(1, "r0", 2)
    trace.op("invoke", "write", 9, key="r9", process=5)
    trace.op("ok", "write", 9, key="r9", process=5)
    return trace


def test_a_lost_write_is_missed_though_logs_were_cleaned_before_it() -> None:
    (found,) = consensus(cut_logs().run()).anomalies
    assert found.message == "acknowledged write r9=9 (op 5) is not in the committed log"


def test_a_write_of_before_all_logs_begin_is_not_missed() -> None:
    trace = one_leader()
    for node in trace.disks:
        trace.freeze(node)
        trace.clean(node)
    trace.write(1, "r0", 2)
    result = consensus(trace.run())  # r0=1 is in the snapshots only
    assert (result.valid, result.anomalies) == (Valid.VALID, ())


def test_one_log_that_was_not_cleaned_is_enough_to_find_a_write() -> None:
    trace = one_leader()
    trace.freeze(1)
    trace.clean(1)
    trace.write(1, "r0", 2)
    assert consensus(trace.run()).valid is Valid.VALID
    trace.op("invoke", "write", 9, key="r9", process=5)
    trace.op("ok", "write", 9, key="r9", process=5)
    assert names(consensus(trace.run())) == {"S17"}


def test_committed_write_that_a_majority_lost_from_disk() -> None:
    run = one_leader().run()
    logs = {node: log[:-1] if node != "n1" else log for node, log in run.logs.items()}
    result = consensus(one_leader().run(logs=logs))
    assert names(result) == {"S17"}
    assert "in the final logs of only 1 of 3 voters" in result.anomalies[0].message


def test_a_voter_whose_disk_was_damaged_and_which_is_not_back_speaks_for_neither_side() -> None:
    """The damage is the host's; who is back has heard of a high watermark since."""
    run = one_leader().run()
    logs = {node: log[:-1] if node != "n1" else log for node, log in run.logs.items()}
    gone = one_leader()
    gone.damage(3, "wipe")
    assert consensus(gone.run(logs=logs)).valid is Valid.VALID
    back = one_leader()
    back.damage(3, "bits")
    heard: dict[str, Any] = {"v": 1, "as": "follower"}
    back.emit(3, "hwm", **heard)
    assert "S17" in names(consensus(back.run(logs=logs)))


def test_a_majority_at_the_end_is_one_of_the_newest_voters() -> None:
    run = changing().run()  # n3 was a voter, n4 is one now
    behind = {node: run.logs[node][:-1] for node in ("n2", "n3", "n5")}
    assert consensus(changing().run(logs={**run.logs, **behind})).valid is Valid.VALID
    behind["n4"] = run.logs["n4"][:-1]
    found = consensus(changing().run(logs={**run.logs, **behind})).anomalies
    assert [a.invariant for a in found] == ["S9"]
    assert "in the final logs of only 1 of 3 voters" in found[0].message


def test_one_voter_may_be_behind_at_the_end() -> None:
    run = one_leader().run()
    logs = {node: log[:-1] if node == "n3" else log for node, log in run.logs.items()}
    assert consensus(one_leader().run(logs=logs)).valid is Valid.VALID


def test_final_log_that_contradicts_what_was_committed() -> None:
    run = one_leader().run()
    other = LogBatch(1, 1, 1, 4242, False, ())
    logs = {**run.logs, "n3": (run.logs["n3"][0], other)}
    assert {"S7", "S9"} <= names(consensus(one_leader().run(logs=logs)))


def test_without_final_logs_acknowledged_writes_are_undecided() -> None:
    result = consensus(one_leader().run(logs={}))
    assert result.valid is Valid.UNKNOWN
    assert result.reason == "acknowledged ops were not looked up: there are no final logs"


def stopped(trace: Trace) -> Trace:
    for node in trace.disks:
        if trace.role_of(node) == "leader":
            trace.role(node, "resigned")
        trace.emit(node, "stop", why="signal")
    return trace


def test_final_logs_are_those_of_the_traces() -> None:
    for make in (healthy, changing):
        result = consensus(stopped(make()).run())
        assert (result.valid, result.anomalies) == (Valid.VALID, ())
        assert result.checked["S25"] > consensus(make().run()).checked["S25"]


def test_final_log_with_a_batch_that_the_trace_does_not_tell_of() -> None:
    run = stopped(one_leader()).run()
    extra = LogBatch(2, 2, 1, 4242, False, ())
    logs = {**run.logs, "n3": (*run.logs["n3"], extra)}
    (found,) = consensus(stopped(one_leader()).run(logs=logs)).anomalies
    assert found.message == (
        f"the final log of n3 holds {stored(extra)}, where its trace tells of nothing"
    )


def test_final_log_that_lost_its_flushed_end() -> None:
    run = stopped(one_leader()).run()
    logs = {**run.logs, "n3": run.logs["n3"][:-1]}
    (found,) = consensus(stopped(one_leader()).run(logs=logs)).anomalies
    assert found.message == "the final log of n3 ends at 1, but n3 had flushed up to 2"


@pytest.mark.parametrize("follows", [True, False])
def test_a_killed_process_may_have_cut_what_its_leader_lacks(follows: bool) -> None:
    trace = Trace(5)
    trace.start()
    trace.elect(1, 1)
    trace.replicate(1)
    trace.commit(1)
    trace.store(3, trace.append(1))
    trace.flush(3)
    if follows:
        trace.elect(2, 2, voters=[4, 5])
        trace.follow(3, 2)
    trace.disks[3].log.pop()  # and it was killed before it told
    trace.start(3)
    assert names(consensus(trace.run())) == (set() if follows else {"S25"})


def test_a_cut_that_is_a_process_s_last_word_may_have_failed() -> None:
    """The disk may have refused it, and ended the process; what lies there comes to light again."""
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    trace.replicate(1)
    trace.commit(1)
    batch = trace.append(1)
    trace.store(2, batch)
    trace.truncate(2, batch.base)
    trace.disks[2].log.append(batch)
    trace.start(2)
    assert names(consensus(trace.run())) == {"S10"}, "nobody told it to cut what both have"


@pytest.mark.parametrize(("what", "excused"), [("vote", True), ("wipe", True), ("log", False)])
def test_a_disk_that_was_made_to_forget_its_vote_may_give_it_again(
    what: str, excused: bool
) -> None:
    trace = one_leader()
    trace.persist(2, 2, voted=1)
    trace.grant(2, 1)
    trace.damage(2, what)
    trace.disks[2].epoch, trace.disks[2].voted = 1, None
    trace.start(2)
    trace.persist(2, 1)
    trace.persist(2, 2, voted=3)
    trace.grant(2, 3)
    found = names(consensus(trace.run()))
    assert found & {"S2", "S3", "S4"} == (set() if excused else {"S2", "S3", "S4"})


@pytest.mark.parametrize("damaged", [True, False])
def test_an_old_copy_of_a_log_may_end_with_voters_that_are_taken_back(damaged: bool) -> None:
    """What the start tells of them has no offset: which are in force below, only the node knows."""
    trace = Trace(5)
    trace.start()
    trace.elect(1, 1)
    trace.change_voters(1, 1, 2, 3, 4, 5)
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    trace.change_voters(1, 1, 2, 3, 4)
    trace.store(2, trace.disks[1].log[-1])
    if damaged:
        trace.damage(2, "copy")
    trace.start(2)
    trace.elect(3, 2, voters=[4, 5])
    trace.follow(2, 3)
    trace.replicate(3, 2)  # which cuts off what that one lacks
    assert last(trace, 2, "voters")["revert"]
    trace.start(2)
    assert names(consensus(trace.run())) == set()


def test_voters_below_an_old_copy_are_known_once_they_are_told() -> None:
    trace = one_leader()
    trace.damage(2, "copy")
    trace.start(2)
    trace.change_voters(1, 1, 2, 3)
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    trace.change_voters(1, 1, 2)
    trace.replicate(1, 2)
    keys = trace.disks[2].voters.pop()
    trace.truncate(2, trace.disks[2].end - 1)
    trace.emit(2, "voters", off=keys[0], set=keys[1], kv=1, revert=True)
    assert names(consensus(trace.run())) == {"S10", "S28"}, "its leader has what it cut, too"


@pytest.mark.parametrize(("follows", "lost"), [(1, False), (2, True)])
def test_who_follows_an_older_leader_may_cut_what_a_newer_one_commits(
    follows: int, lost: bool
) -> None:
    """It counts in no majority of the newer epoch (seed 129 of ours, with damaged disks)."""
    trace = one_leader()
    batch = trace.append(1)
    trace.replicate(1)
    trace.elect(2, 2, voters=[3])
    trace.append(2)
    trace.replicate(2, 3)
    trace.commit(2)
    trace.start(1)  # so that it has heard of no high watermark
    trace.truncate(1, batch.base)["ep"] = follows
    found = [a.message for a in consensus(trace.run()).anomalies if a.invariant == "S10"]
    assert any("lost the committed" in each for each in found) is lost


def test_a_vote_that_is_told_again_is_judged_by_what_the_candidate_has_then() -> None:
    """It may have lost the end of its log since it was voted for."""
    trace = one_leader()
    trace.elect(2, 2, voters=[3])
    trace.replicate(2, 3)
    trace.persist(3, 3, voted=2)
    trace.role(3, "unattached", voted=2)
    trace.grant(3, 2)
    trace.grant(3, 2)
    assert consensus(trace.run()).valid is Valid.VALID
    trace.grant(3, 2)["cl_leo"] -= 1
    (anomaly,) = consensus(trace.run()).anomalies
    (known,) = [each for each in known_of([Release("4.4.0")]) if each.covers(anomaly)]
    assert (anomaly.invariant, known.red) == ("S5", True)


@pytest.mark.parametrize("lost", [0, 1])
def test_the_request_of_a_vote_that_comes_once_more_changes_nothing(lost: int) -> None:
    """The voter has records of the winner by then (seed 29928132000254 of Kafka 4.3.1)."""
    trace = one_leader()
    trace.elect(2, 2, voters=[3])
    trace.replicate(2, 3)
    trace.persist(3, 3, voted=2)
    trace.role(3, "unattached", voted=2)
    asked = dict(trace.grant(3, 2))
    trace.append(2)
    trace.replicate(2, 3)
    again = trace.grant(3, 2)
    again |= {"cl_ep": asked["cl_ep"], "cl_leo": asked["cl_leo"] - lost}
    assert ("S5" in names(consensus(trace.run()))) is bool(lost)


def test_a_process_may_end_between_a_voter_set_and_the_word_that_it_is_one() -> None:
    """Seed 21601 of Kafka 4.4.0: the power fails just after the append, here of the leader, too."""
    trace = one_leader()
    trace.change_voters(1, 1, 2)
    trace.replicate(1)
    batch = trace.change_voters(1, 1, 2, 3)
    trace.store(2, batch)
    for node in (1, 2):
        assert trace.events[f"n{node}"].pop()["t"] == "voters"
        trace.disks[node].seq -= 1
    trace.start(2)
    assert "S28" not in names(consensus(trace.run()))


def test_a_restart_reads_the_set_that_its_process_had_missed() -> None:
    """Seed 21735 of Kafka 4.4.0: it was missed after a truncation, which another check tells."""
    trace = one_leader()
    trace.change_voters(1, 1, 2)
    trace.replicate(1)
    trace.store(2, trace.change_voters(1, 1, 2, 3))
    assert trace.events["n2"].pop()["t"] == "voters"
    trace.disks[2].seq -= 1
    trace.flush(2)
    trace.start(2)
    assert "S28" not in names(consensus(trace.run()))


def frozen() -> Trace:
    trace = one_leader()
    for node in trace.disks:
        trace.freeze(node)
        trace.clean(node)
    trace.write(1, "r0", 2)
    return trace


def test_a_snapshot_on_a_disk_is_whole() -> None:
    run = frozen().run()
    torn = replace(run.snapshots["n2"][0], error="no footer", records=())
    result = consensus(frozen().run(snapshots={**run.snapshots, "n2": (torn,)}))
    assert [a.message for a in result.anomalies] == [
        "snapshot 2-1 on n2's disk is not whole: no footer",
        "the final log of n2 begins at 2, and no snapshot on its disk has what was before",
    ]
    assert names(result) == {"S23"}


def test_a_log_may_begin_below_its_snapshot_after_a_restart() -> None:
    trace = frozen()
    disk = trace.disks[2]
    (end,) = disk.snapshots
    disk.start = end - 1
    trace.start(2)
    assert consensus(trace.run()).anomalies == ()
    disk.start = end + 1
    trace.start(2)
    assert "S23" in names(consensus(trace.run()))


def test_a_final_log_has_the_snapshot_of_its_beginning() -> None:
    run = frozen().run()
    (found,) = consensus(frozen().run(snapshots={**run.snapshots, "n2": ()})).anomalies
    assert (found.invariant, found.details) == ("S23", {"node": "n2", "log_start": 2})


def test_a_leader_whose_clock_ran_slow_may_step_down_late() -> None:
    trace = one_leader()
    lead_alone(trace)
    assert names(consensus(trace.run())) == {"L4"}
    trace.op("info", "inject", {"id": 0, "nemesis": "clock-rate"}, process="nemesis")
    assert consensus(trace.run()).valid is Valid.VALID


# ---------------------------------------------------------------------- robustness


def test_no_events_is_unknown() -> None:
    for events in ({}, {"n1": ()}):
        result = consensus(one_leader().run(events=events))
        assert result.valid is Valid.UNKNOWN
        assert "no node left any event" in (result.reason or "")


@pytest.mark.parametrize("type_", ["append", "flush", "start", "qs", "hwm", "role", "vote"])
def test_a_missing_field_is_unknown_and_never_a_false_alarm(type_: str) -> None:
    trace = healthy()
    event = last(trace, 3, type_)
    field = next(f for f in reversed(event) if f in ("h", "upto", "leo", "v", "to", "ok", "ep"))
    del event[field]
    result = consensus(trace.run())
    assert result.anomalies == ()
    assert result.valid is Valid.UNKNOWN
    assert result.reason == f"event n3 seq {event['seq']} lacks field {field}"


def test_a_leader_that_gives_way_begins_to_wait_although_it_refuses_the_vote() -> None:
    trace = healthy()
    trace.grant(1, 3, ok=False).update(due=(None, 5_800), cl_ep=1)
    assert consensus(trace.run()).valid is Valid.VALID


@pytest.mark.parametrize("make", [healthy, changing])
@pytest.mark.parametrize("node", ["n1", "n2", "n3"])
def test_a_missing_line_is_unknown_and_never_a_false_alarm(
    node: str, make: Callable[[], Trace]
) -> None:
    for position in range(len(make().events[node]) - 1):
        trace = make()
        gone = trace.events[node].pop(position)
        result = consensus(trace.run())
        assert result.anomalies == (), (gone, result.anomalies[0].message)
        # a line lost at the very end of a process looks like an earlier kill: nothing is missing
        restarts = trace.events[node][position]["t"] == "start"
        assert (result.reason is None) is restarts, gone


@pytest.mark.parametrize("junk", [{}, {"t": "append"}, {"ts": "x", "seq": None, "node": []}])
def test_garbage_does_not_crash(junk: dict[str, Any]) -> None:
    trace = healthy()
    trace.events["n2"].append(junk)
    result = consensus(trace.run())
    assert result.valid is Valid.UNKNOWN
    assert "lacks field" in (result.reason or "")


def test_events_seen_twice_count_once() -> None:
    trace = healthy()
    once = consensus(trace.run())
    for events in trace.events.values():
        events.extend([dict(event) for event in events])
    twice = consensus(trace.run())
    assert (twice.valid, twice.checked) == (once.valid, once.checked)


def test_order_of_nodes_and_lines_does_not_matter() -> None:
    trace = healthy()
    for events in trace.events.values():
        events.reverse()
    shuffled = dict(reversed(trace.events.items()))
    result = consensus(trace.run(events=shuffled))
    assert (result.valid, result.checked) == (Valid.VALID, consensus(healthy().run()).checked)


def test_a_crash_between_log_and_trace_leaves_a_hole_and_no_alarm() -> None:
    trace = one_leader()
    batch = trace.append(1)
    trace.flush(1)
    trace.disks[2].log.append(batch)  # on its disk, but its trace did not get that far
    trace.start(2)
    trace.follow(2, 1)
    trace.fetch(2, 1)
    trace.commit(1, 2)
    trace.write(1, "r0", 2)
    result = consensus(trace.run())
    assert (result.valid, result.anomalies) == (Valid.VALID, ())


def test_appended_but_unflushed_data_may_be_lost_at_a_restart() -> None:
    trace = one_leader()
    batch = trace.append(1)
    trace.store(2, batch)
    trace.disks[2].log.pop()
    trace.start(2)
    assert consensus(trace.run()).valid is Valid.VALID


def test_anomalies_of_one_kind_are_capped_and_counted() -> None:
    trace = one_leader()
    trace.store(2, trace.append(1))
    for _ in range(KEPT_PER_INVARIANT_MAX + 15):
        trace.fetch(2, 1)
    result = consensus(trace.run())
    assert len(result.anomalies) == KEPT_PER_INVARIANT_MAX
    assert result.stats["found"] == {"S16": KEPT_PER_INVARIANT_MAX + 15}


def test_a_monitor_tells_at_the_event_that_breaks_the_promise() -> None:
    trace = one_leader()
    two_leaders(trace)
    events = sorted((e for of in trace.events.values() for e in of), key=lambda e: e["ts"])
    monitor = Monitor(invariants_for({}))
    assert not any(monitor.feed(event) for event in events[:-1])
    assert [a.invariant for a in monitor.feed(events[-1])] == ["S1", "S31"]


# ---------------------------------------------------------------------- golden


def test_golden_trace_is_judged_as_it_always_was() -> None:
    """The trace format is a contract with stored runs: an old trace keeps its verdict."""
    folder = TESTDATA / "consensus"
    events: dict[str, list[Event]] = {}
    for line in (folder / "healthy.jsonl").read_text().splitlines():
        event = json.loads(line)
        events.setdefault(f"n{event['node']}", []).append(event)
    result = consensus(one_leader().run(events=events, logs={}, history=History(())))
    assert result.to_json() == json.loads((folder / "healthy.verdict.json").read_text())
    assert result.valid is Valid.VALID
