"""S22, S23 and S24, of snapshots that are made, deleted and found."""

from __future__ import annotations

import pytest

from checkers.invariants.kept_snapshots import NewerSnapshots, NewestKept, ReachedSnapshot
from checkers.invariants.snapshots import SnapshotValidity
from checkers.monitor.monitor import Monitor
from harness.systems.kafka.known import known_of
from harness.systems.kafka.releases import Release
from tests.support.traces.traces import Trace, one_leader


def judged(trace: Trace) -> set[str]:
    invariants = [NewerSnapshots(), NewestKept(), ReachedSnapshot()]
    found = Monitor(invariants).feed_all(trace.run().events)
    return {anomaly.invariant for anomaly in found}


def with_snapshots() -> Trace:
    """Node 2 has made two snapshots."""
    trace = one_leader()
    trace.freeze(2)
    trace.write(1, "r0", 2)
    trace.freeze(2)
    return trace


def test_newer_snapshots_are_made_and_older_ones_go() -> None:
    trace = with_snapshots()
    trace.clean(2)
    trace.write(1, "r0", 3)
    trace.freeze(2)
    assert judged(trace) == set()


@pytest.mark.parametrize("voters", [(1, 2), (1, 2, 3)])
def test_what_differs_by_the_voters_says_so(voters: tuple[int, ...]) -> None:
    """As where a node's log has a voter set that the node has missed, be it of other addresses."""
    trace = one_leader()
    keys = [(node, trace.disks[node].dir) for node in (1, 2, 3)]
    trace.emit(1, "voters", off=0, set=keys, kv=1, revert=False)
    keys = [(node, trace.disks[node].dir) for node in voters]
    trace.freeze(1, voters=None)
    trace.emit(2, "voters", off=1, set=keys, kv=1, revert=False)
    trace.freeze(2, sha="other", voters=None)
    (anomaly,) = Monitor([SnapshotValidity()]).feed_all(trace.run().events)
    assert ", whose voters there are [" in anomaly.message
    (known,) = [each for each in known_of([Release("4.4.0")]) if each.covers(anomaly)]
    assert known.finding == "docs/findings.md, a truncated voter misses changes"


@pytest.mark.parametrize("ends", [False, True], ids=("tells of its image", "ends before that"))
@pytest.mark.parametrize("differ", [True, False])
def test_what_differs_by_the_images_says_so(*, ends: bool, differ: bool) -> None:
    """C8 judges these; a node that ends just after its snapshot has told of images before it."""
    trace = one_leader()
    digests = {1: "a", 2: "b" if differ else "a"}
    for node, digest in digests.items():
        trace.emit(node, "image", off=0, digest=digest, kind="full")
    trace.freeze(1)
    for offset in () if ends else (1, trace.disks[1].hwm):
        trace.emit(1, "image", off=offset, digest=digests[1], kind="delta")
        trace.emit(2, "image", off=offset, digest=digests[2], kind="delta")
    trace.freeze(2, sha="other")
    monitor = Monitor([SnapshotValidity()])
    monitor.feed_all(trace.run().events)
    monitor.finish({})  # a snapshot whose image is not told of by then has none
    (anomaly,) = monitor.anomalies
    assert (", as the images do that they are of" in anomaly.message) is differ
    known = [each.finding for each in known_of([Release("4.4.0")]) if each.covers(anomaly)]
    assert known == (["docs/findings.md, a deleted topic's settings"] if differ else [])


def test_of_snapshots_that_are_made_at_once_images_are_told_after_the_last() -> None:
    trace = one_leader()
    for node in (1, 2):
        trace.emit(node, "image", off=0, digest="a", kind="full")
    first = trace.freeze(1)
    trace.emit(1, "image", off=first["id"][0], digest="b", kind="delta")
    made = trace.freeze(2, sha="other")
    trace.write(1, "r0", 3)
    at_once = trace.freeze(2)
    assert made["id"] == first["id"] != at_once["id"]
    at_once["ts"] = made["ts"]
    trace.emit(2, "image", off=made["id"][0], digest="c", kind="delta")
    trace.emit(2, "image", off=at_once["id"][0], digest="d", kind="delta")
    (anomaly,) = Monitor([SnapshotValidity()]).feed_all(trace.run().events)
    assert anomaly.message.endswith(", as the images do that they are of")


def test_what_differs_otherwise_says_nothing_of_voters() -> None:
    trace = one_leader()
    trace.freeze(1)
    trace.freeze(2, sha="other")
    (anomaly,) = Monitor([SnapshotValidity()]).feed_all(trace.run().events)
    assert "voters" not in anomaly.message


def test_a_snapshot_of_the_same_place_is_not_made_again() -> None:
    trace = with_snapshots()
    trace.freeze(2)
    assert judged(trace) == {"S22"}


def test_a_snapshot_that_was_there_at_the_start_is_not_made_again() -> None:
    trace = with_snapshots()
    trace.start(2)
    trace.commit(1)
    trace.freeze(2)
    assert judged(trace) == {"S22"}


def test_an_installed_one_does_not_count_against_one_that_was_being_made() -> None:
    trace = with_snapshots()
    trace.freeze(1)
    trace.write(1, "r0", 3, 2)
    trace.install(3, 1)
    trace.emit(3, "snap", op="freeze", id=[2, 1], size=1)
    assert judged(trace) == set()


def test_the_newest_is_not_deleted() -> None:
    trace = with_snapshots()
    end, epoch = max(trace.disks[2].snapshots.items())
    trace.emit(2, "snap", op="delete", id=[end, epoch], size=1)
    assert judged(trace) == {"S23"}


def test_a_log_reaches_to_the_newest_snapshot() -> None:
    trace = with_snapshots()
    trace.start(2)
    assert judged(trace) == set()
    trace.disks[2].log.pop()
    trace.start(2)
    assert judged(trace) == {"S24"}


@pytest.mark.parametrize(
    ("digest", "behind", "excused"), [("bb", 0, True), ("aa", 0, False), ("bb", 1, False)]
)
def test_what_differs_as_images_do_says_so(digest: str, behind: int, excused: bool) -> None:
    """C8 tells why the images differ (seed 1 of ``admin``); those of other offsets do not count."""
    trace = one_leader()
    disk = trace.disks[1]
    end = next(b.last + 1 for b in reversed(disk.log) if b.last < disk.hwm)
    for node, has, lag in ((1, "aa", 0), (2, digest, behind)):
        trace.emit(node, "image", off=0, digest="", kind="full", n=1)
        trace.freeze(node, sha=f"of n{node}")
        trace.emit(node, "image", off=end - lag, digest=has, kind="full", n=1)
    monitor = Monitor([SnapshotValidity()])
    monitor.feed_all(trace.run().events)
    monitor.finish({})
    (anomaly,) = monitor.anomalies
    known = known_of([Release("4.4.0")])
    assert any(each.covers(anomaly) for each in known) is excused
