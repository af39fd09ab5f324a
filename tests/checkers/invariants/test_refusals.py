"""S38, of refusals for a reason; more without one are in ``support.traces.broken_answers``."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.invariants.refusals import DeservedRefusals
from checkers.monitor.monitor import Monitor
from harness.verdict import Anomaly
from tests.support.traces.traces import Trace, changing, healthy, one_leader

OTHER = "0" * 32  # a directory that nobody has


def judged(trace: Trace) -> tuple[int, list[Anomaly]]:
    invariant = DeservedRefusals()
    found = Monitor([invariant]).feed_all(trace.run().events)
    return invariant.checked, found


def started() -> Trace:
    """Node 1 leads epoch 1 with two snapshots, the newest of 100 bytes; the others follow it."""
    trace = one_leader()
    trace.freeze(1)
    return trace


def test_healthy_answers_raise_no_alarm() -> None:
    for trace in (healthy(), changing()):
        checked, found = judged(trace)
        assert (checked > 0, found) == (True, [])


@pytest.mark.parametrize("api", ["BeginQuorumEpoch", "EndQuorumEpoch"])
@pytest.mark.parametrize(
    ("peer", "asked", "code", "right"),
    [
        (3, 1, 42, True),  # another one leads epoch 1
        (2, 2, 42, True),  # nobody else tells it that it leads
        (None, 2, 42, True),
        (3, -1, 42, True),
        (3, 2**31 - 1, 42, True),
        (1, 1, 42, False),
        (3, 2, 42, False),
        (3, 0, 74, True),
        (3, 2, 75, False),
        (1, 1, 6, False),
    ],
)
def test_a_leaders_word_is_refused_for_a_reason(
    api: str, peer: int | None, asked: int, code: int, *, right: bool
) -> None:
    trace = started()
    trace.emit(2, "rpc_err", api=api, peer=peer, req_ep=asked, code=code)
    assert (not judged(trace)[1]) is right


@pytest.mark.parametrize(
    ("directory", "code", "right"),
    [(OTHER, 125, True), (OTHER, 0, False), (None, 0, True), (None, 125, False)],
)
def test_who_is_not_addressed_refuses(directory: str | None, code: int, *, right: bool) -> None:
    trace = started()
    trace.persist(2, 2)
    vote = trace.grant(2, 3, ok=False)
    vote.update(voter=(2, directory), err=code)
    assert (not judged(trace)[1]) is right


@pytest.mark.parametrize(
    ("changes", "code", "right"),
    [
        ({}, 0, True),
        ({"cl_ep": 1}, 42, True),
        ({"cl_ep": 1, "pre": True}, 42, False),
        ({"cl_ep": 2, "pre": True}, 0, True),
        ({"cl_ep": 3, "pre": True}, 0, False),
        ({"cl_leo": -1}, 42, True),
        ({"cand": -1}, 42, True),
        ({"cl_ep": -1}, 0, False),
    ],
)
def test_only_logs_that_can_be_are_compared(
    changes: dict[str, Any], code: int, *, right: bool
) -> None:
    trace = started()
    trace.persist(2, 2)
    vote = trace.grant(2, 3, ok=False)
    vote.update({"cl_ep": 1, "err": code} | changes)
    vote["req_ep"] = 2 if vote["pre"] or code == 0 else 2 - ("cl_ep" in changes)
    assert (not judged(trace)[1]) is right


@pytest.mark.parametrize(
    ("snapshot", "position", "code", "right"),
    [
        (None, 0, 0, True),
        (None, 99, 0, True),
        (None, 100, 99, True),
        (None, -1, 99, True),
        (None, 0, 98, False),
        (None, 0, 99, False),
        ([77, 1], 0, 98, True),
        ([77, 1], 0, 0, False),
        ([0, 0], 0, 98, True),
    ],
)
def test_what_is_in_a_snapshot_is_served(
    snapshot: list[int] | None, position: int, code: int, *, right: bool
) -> None:
    trace = started()
    newest = [max(trace.disks[1].snapshots), 1]
    asked: dict[str, Any] = {"snap": snapshot or newest, "pos": position, "req_ep": 1, "peer": 3}
    kind = {"code": code} if code else {"peer_dir": trace.disks[3].dir}
    trace.emit(1, "rpc_err" if code else "rpc_ok", api="FetchSnapshot", **asked, **kind)
    assert (not judged(trace)[1]) is right


def test_a_snapshot_that_was_deleted_is_not_there() -> None:
    trace = started()
    end = max(trace.disks[1].snapshots)
    trace.emit(1, "snap", op="delete", id=[end, 1], size=100)
    asked: dict[str, Any] = {"api": "FetchSnapshot", "snap": [end, 1], "pos": 0, "req_ep": 1}
    trace.emit(1, "rpc_err", code=98, peer=3, **asked)
    assert not judged(trace)[1]


@pytest.mark.parametrize(
    ("voters", "key", "code", "right"),
    [
        ((1, 2, 3), (2, OTHER), 127, True),
        ((1, 3), (2, None), 127, True),
        ((1,), (1, "own"), 42, True),
        ((1, 2, 3), (2, None), 42, True),  # without a directory id
        ((1, 2, 3), (2, OTHER), 7, True),
    ],
)
def test_voters_stay_for_a_reason(
    voters: tuple[int, ...], key: tuple[int, str | None], code: int, *, right: bool
) -> None:
    trace = started()
    trace.change_voters(1, *voters)
    directory = trace.disks[1].dir if key[1] == "own" else key[1]
    asked: dict[str, Any] = {"api": "RemoveVoter", "peer": key[0], "peer_dir": directory}
    trace.emit(1, "rpc_err", req_ep=1, code=code, **asked)
    assert (not judged(trace)[1]) is right


@pytest.mark.parametrize("then", [(1, 2, 3), (1, 3)])
def test_who_is_removed_was_a_voter_until_then(then: tuple[int, ...]) -> None:
    """Apache Kafka answers when the set without it is in force, our node before that."""
    trace = started()
    trace.change_voters(1, 1, 2, 3)
    trace.change_voters(1, *then)
    asked: dict[str, Any] = {"api": "RemoveVoter", "peer": 2, "peer_dir": trace.disks[2].dir}
    trace.emit(1, "rpc_ok", req_ep=None, **asked)
    assert not judged(trace)[1]
    trace.change_voters(1, 1, 3)
    trace.change_voters(1, 1, 3)
    trace.emit(1, "rpc_ok", req_ep=None, **asked)
    assert judged(trace)[1]


def test_static_voters_do_not_change() -> None:
    trace = started()  # no set of voters is in its log: their directories are not known
    trace.emit(1, "rpc_err", api="AddVoter", peer=9, req_ep=1, code=35)
    assert not judged(trace)[1]


@pytest.mark.parametrize(("peer", "right"), [(2, False), (9, True)])
def test_a_static_voter_that_tells_of_itself_is_known_by_its_id(peer: int, *, right: bool) -> None:
    """KIP-853: of a static quorum the leader learns directories, and what voters know, by this."""
    trace = started()
    asked: dict[str, Any] = {"api": "UpdateVoter", "peer": peer}
    trace.emit(1, "rpc_err", req_ep=1, code=127, **asked)
    assert (not judged(trace)[1]) is right


@pytest.mark.parametrize(("code", "right"), [(6, True), (7, True), (95, True), (35, False)])
def test_static_voters_are_no_reason_to_refuse_a_level(code: int, *, right: bool) -> None:
    """KIP-853: raising kraft.version is what brings static voters into the log."""
    trace = started()
    trace.emit(1, "rpc_err", api="UpdateFeatures", peer=1, req_ep=1, code=code)
    checked, found = judged(trace)
    assert checked
    assert (not found) is right


def test_what_no_event_tells_stays_undecided() -> None:
    """As the agent of Apache Kafka tells it: no addressee, no snapshot, no directory."""
    trace = started()
    for api in ("FetchSnapshot", "RemoveVoter", "BeginQuorumEpoch"):
        for code in (98, 99, 104, 125, 127):
            trace.emit(1, "rpc_err", api=api, peer=2, req_ep=1, code=code)
    assert not judged(trace)[1]
