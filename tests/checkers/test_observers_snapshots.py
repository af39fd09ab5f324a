"""The observers checker where logs were cleaned: snapshots stand for what the logs lack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from checkers.committed.fold import MetadataFold, fold
from checkers.committed.reference import Reference, known_from, reference
from checkers.observers import judge
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch, LogSnapshot
from harness.verdict import CheckResult, Valid
from tests.support.traces.traces import RecordsFold, Trace, changing, healthy, register_record


def cleaned(*nodes: int, make_fold: Callable[[], Any] = RecordsFold) -> Trace:
    """A healthy trace in which these nodes' logs begin after a snapshot, and a write after it."""
    trace = healthy(3, 1, make_fold)
    for node in nodes or trace.disks:
        trace.freeze(node)
        trace.clean(node)
    trace.write(2, "r0", 5)
    return trace


def judged(trace: Trace, **changes: Any) -> CheckResult:
    return judge(trace.run(**changes), trace.make_fold)


def messages(result: CheckResult) -> list[str]:
    return [anomaly.message for anomaly in result.anomalies]


def doctored(run: RunData, node: str, **fields: Any) -> Mapping[str, tuple[LogSnapshot, ...]]:
    """The run's snapshots, the newest of one node changed."""
    (*older, newest) = run.snapshots[node]
    return {**run.snapshots, node: (*older, replace(newest, **fields))}


# ---------------------------------------------------------------------- the fold


@pytest.mark.parametrize("make_fold", [RecordsFold, MetadataFold])
def test_the_fold_begins_with_a_snapshot_where_all_logs_were_cleaned(
    make_fold: Callable[[], Any],
) -> None:
    result = judged(cleaned(make_fold=make_fold))
    assert (result.valid, result.anomalies, result.reason) == (Valid.VALID, (), None)
    assert result.stats == {"folded_from": 6, "folded_to": 7}


def test_snapshots_installs_and_voter_changes_are_valid() -> None:
    result = judged(changing())
    assert (result.valid, result.anomalies, result.reason) == (Valid.VALID, (), None)


def test_an_image_after_the_snapshot_that_is_not_the_fold() -> None:
    trace = cleaned()
    image = next(e for e in reversed(trace.events["n4"]) if e["t"] == "image")
    image["digest"] = "0" * 16
    (found,) = messages(judged(trace))
    assert found.startswith("the image of n4 at offset 7 is 0000000000000000")
    assert "the committed log folds to" in found


def test_images_before_the_snapshot_are_compared_with_each_other() -> None:
    trace = cleaned()
    image = next(e for e in trace.events["n4"] if e["t"] == "image" and e["off"] == 3)
    image["digest"] = "0" * 16
    (found,) = messages(judged(trace))
    assert found.startswith("the image of n")
    assert "at offset 3" in found


def test_the_log_is_completed_from_logs_that_were_not_cleaned() -> None:
    result = judged(cleaned(1, 2))
    assert (result.valid, result.reason) == (Valid.VALID, None)
    assert result.stats == {"folded_from": 0, "folded_to": 7}


def test_a_log_is_not_completed_from_one_that_holds_another_batch() -> None:
    trace = cleaned(1, 2)
    run = trace.run()
    mine = run.logs["n2"]
    changed = tuple(replace(b, crc=b.crc + 1) if b.base == mine[0].base else b for b in mine)
    logs = {"n1": mine, "n2": mine, "n3": (*run.logs["n3"][:6], *changed)}
    known = reference(trace.run(logs=logs))
    assert known.start == 6
    assert known.snapshot is not None


def test_without_a_snapshot_a_cleaned_log_is_undecided() -> None:
    result = judged(cleaned(), snapshots={})
    assert result.valid is Valid.UNKNOWN
    assert "the log begins at offset 6, and no snapshot has what was before" in (
        result.reason or ""
    )


def test_a_snapshot_after_which_the_log_has_a_gap_is_of_no_use() -> None:
    trace = cleaned()
    snapshots = {"n1": (replace(trace.contents[6], end=4),)}
    assert reference(trace.run(snapshots=snapshots)).snapshot is None


def test_the_oldest_snapshot_that_fits_is_taken() -> None:
    trace = healthy(3, 1)
    trace.freeze(1)
    trace.write(2, "r0", 5)
    trace.freeze(1)
    logs = {n: log[6:] for n, log in trace.run().logs.items()}
    known = reference(trace.run(logs=logs))
    assert known.snapshot is not None
    assert (known.start, known.snapshot.end) == (6, 6)


def test_an_observer_may_have_the_newest_log() -> None:
    run = healthy(3, 1).run()
    logs = {n: log if n == "n4" else log[:-1] for n, log in run.logs.items()}
    assert reference(healthy(3, 1).run(logs=logs)).log == list(run.logs["n4"])


def test_a_snapshot_that_cannot_be_read_is_left_to_others() -> None:
    trace = cleaned()
    run = trace.run()
    snapshots = doctored(run, "n1", error="no footer", records=())
    assert judged(trace, snapshots=snapshots).valid is Valid.VALID


# ---------------------------------------------------------------------- content of snapshots


def test_a_snapshot_file_with_another_content() -> None:
    trace = cleaned()
    run = trace.run()
    records = run.snapshots["n3"][-1].records
    wrong = doctored(run, "n3", records=records[:-1])
    (found,) = messages(judged(trace, snapshots=wrong))
    assert found.startswith("the snapshot of n3 at offset 6 holds state ")
    assert "but the committed log folds to" in found


def test_the_snapshot_that_is_folded_from_is_itself_checked_by_the_images() -> None:
    trace = cleaned()
    run = trace.run()
    records = run.snapshots["n1"][-1].records
    wrong = {n: doctored(run, n, records=records[:-1])[n] for n in run.snapshots}
    result = judged(trace, snapshots=wrong)
    assert {a.invariant for a in result.anomalies} == {"C8"}
    assert len(result.anomalies) == len(trace.disks)  # the images of each node


def test_a_snapshot_below_all_logs_is_compared_with_what_images_said() -> None:
    trace = healthy(3, 1)
    trace.freeze(1)
    early = trace.contents[6]
    trace.write(2, "r0", 5)
    for node in trace.disks:
        trace.freeze(node)
        trace.clean(node)
    trace.write(2, "r0", 6)
    run = trace.run()
    snapshots = {**run.snapshots, "n1": (replace(early, records=early.records[:-1]),)}
    (found,) = messages(judged(trace, snapshots=snapshots))
    assert found.startswith("the snapshot of n1 at offset 6 holds state ")
    assert "but n2 had" in found


def test_a_snapshot_that_is_no_state_at_all() -> None:
    trace = cleaned(1, 2)
    run = trace.run()
    records = run.snapshots["n1"][-1].records
    wrong = doctored(run, "n1", records=({**records[0], "offset": 99},))
    (found,) = messages(judged(trace, snapshots=wrong))
    assert found == "the snapshot of n1 at offset 6 is no state: 99 in a snapshot of all below 6"


def test_a_folded_snapshot_that_holds_no_state_is_an_anomaly() -> None:
    bad: Sequence[Mapping[str, Any]] = ({"offset": 9, "fields": {}},)
    folded = fold(Reference((), LogSnapshot(6, 1, tuple(bad))), 9, RecordsFold)
    assert folded.misfit == "snapshot 6 holds no state: 9 in a snapshot of all below 6"


# ---------------------------------------------------------------------- transactions


def batch(base: int, *records: Mapping[str, Any]) -> LogBatch:
    numbered = tuple({"offset": base + i, **record} for i, record in enumerate(records))
    return LogBatch(base, base + len(records) - 1, 1, base + 1, False, numbered)


def test_a_state_stands_where_a_transaction_begins_until_it_ends() -> None:
    begin = {"type": "BeginTransactionRecord", "fields": {"name": "many"}}
    end: dict[str, Any] = {"type": "EndTransactionRecord", "fields": {}}
    write = register_record("r0", 1)
    log = (
        batch(0, register_record("r0", 0)),
        batch(1, register_record("r1", 1), begin, write),
        batch(4, write, end, register_record("r2", 2)),
    )
    digests = fold(Reference(log), 99, MetadataFold).digests
    before = fold(Reference((log[0], batch(1, register_record("r1", 1)))), 99).digests[2]
    assert sorted(digests) == [0, 1, 2, 4, 7]
    assert digests[2] == digests[4] == before
    assert digests[7] != before


# ---------------------------------------------------------------------- known_from


def one(base: int, last: int) -> tuple[LogBatch, ...]:
    return (LogBatch(base, last, 1, base, False, ()),)


@pytest.mark.parametrize(
    ("logs", "start"),
    [
        ({}, 0),
        ({"n1": ()}, 0),
        ({"n1": one(0, 9), "n2": one(5, 9)}, 0),
        ({"n1": one(7, 9), "n2": one(5, 8)}, 5),
        ({"n1": one(7, 9), "n2": one(3, 6)}, 3),
        ({"n1": one(7, 9), "n2": one(3, 5)}, 7),
        ({"n1": one(7, 9), "n2": one(3, 6), "n3": one(0, 2)}, 0),
    ],
)
def test_logs_together_are_known_from_where_they_leave_no_gap(
    logs: Mapping[str, tuple[LogBatch, ...]], start: int
) -> None:
    assert known_from(logs) == start


# ---------------------------------------------------------------------- a disk that was damaged


def damaged_at_the_end(*nodes: str) -> RunData:
    """A healthy run after which these nodes' disks say something else of the third batch."""
    run = healthy(3, 1).run()

    def log_of(node: str) -> tuple[LogBatch, ...]:
        log = run.logs[node]
        other = replace(log[2], crc=log[2].crc + 1, records=(register_record("r0", 99),))
        return (*log[:2], other, *log[3:]) if node in nodes else tuple(log)

    return replace(run, logs={node: log_of(node) for node in run.logs})


def test_what_was_committed_counts_where_a_disk_has_another_content_since() -> None:
    trace = healthy(3, 1)
    result = judge(damaged_at_the_end("n1"), trace.make_fold)
    assert [a for a in result.anomalies if a.invariant == "C8"] == []
    assert result.checked["C8"] == judge(trace.run(), trace.make_fold).checked["C8"]


def test_what_no_disk_has_any_more_is_judged_as_it_is_found() -> None:
    run = damaged_at_the_end("n1", "n2", "n3", "n4")
    result = judge(run, healthy(3, 1).make_fold)
    assert "C8" in {a.invariant for a in result.anomalies}
