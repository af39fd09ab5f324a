"""What brokers are told and publish, and what the committed metadata says of them: C1 to C12."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from checkers.committed.reference import Reference
from checkers.invariants.decisions import SESSION_MS, SESSION_SETTING
from checkers.invariants.metadata_log import BEHIND, BEHIND_AGAIN, MetadataLog
from checkers.monitor.catalogue import invariants_for
from checkers.monitor.monitor import Monitor
from harness.contracts.evidence import LogSnapshot
from harness.verdict import Anomaly
from node.metadata import schemas as s
from node.metadata.records import to_json
from node.metadata.schemas import MetadataRecord
from tests.support.traces.brokers import (
    BEGIN,
    ONE,
    OTHER_ID,
    TOPIC_ID,
    TWO,
    change,
    change_broker,
    config,
    create,
    heartbeat,
    in_service,
    log_of,
    partition,
    register,
    told,
    walked,
)
from tests.support.traces.traces import MS, Trace

# ---------------------------------------------------------------------- by events


def judged(trace: Trace) -> tuple[Monitor, list[Anomaly]]:
    monitor = Monitor(invariants_for({SESSION_SETTING: "1000"}, checker="observers"))
    return monitor, monitor.feed_all(trace.run().events)


def test_healthy_brokers_raise_no_alarm_and_every_invariant_examines_something() -> None:
    trace = in_service()
    trace.emit(1, "memory", off=1, wrong=[])
    trace.emit(1, "delta", off=1, wrong=[])
    states: dict[str, Any] = {"from": "NOT_RUNNING", "to": "STARTING", "name": "Fenced"}
    trace.emit(5, "bstate", **states)
    trace.emit(3, "denied", api=57, ms=1)
    monitor, anomalies = judged(trace)
    assert (anomalies, monitor.gaps) == ([], [])
    of_brokers = {"C1", "C3", "C4", "C6", "C7", "C9", "C10", "C12", "C16", "C19"}
    assert set(monitor.checked) == {*of_brokers, "L5"}
    idle = {name for name, count in monitor.checked.items() if not count}
    assert not idle


def another_epoch_in_a_heartbeat(trace: Trace) -> None:
    heartbeat(trace, b_ep=3)


def another_epoch_for_the_same_incarnation(trace: Trace) -> None:
    trace.emit(4, "reg", b_ep=5, inc_id=ONE.hex, prev=-1, err=0)


def the_old_epoch_for_a_new_incarnation(trace: Trace) -> None:
    trace.start(4)
    trace.now_ns += SESSION_MS * MS
    trace.emit(4, "reg", b_ep=2, inc_id=TWO.hex, prev=-1, err=0)


def leader_out_of_sync(trace: Trace) -> None:
    partition(trace, 4, pep=4, lep=2, isr=[5])


def a_stranger_in_sync(trace: Trace) -> None:
    partition(trace, 4, pep=4, lep=2, isr=[4, 6])


def a_stranger_eligible(trace: Trace) -> None:
    partition(trace, 4, pep=4, lep=2, isr=[4], elr=[6])


def eligible_and_in_sync(trace: Trace) -> None:
    partition(trace, 4, pep=4, lep=2, elr=[5])


def partition_epoch_stands(trace: Trace) -> None:
    partition(trace, 4, pep=3, isr=[5], leader=5, lep=1, elr=[4])


def leader_epoch_falls(trace: Trace) -> None:
    partition(trace, 4, pep=4, lep=0)


def leader_epoch_rises_too_much(trace: Trace) -> None:
    partition(trace, 4, pep=4, lep=3)


def a_new_leader_in_the_old_epoch(trace: Trace) -> None:
    partition(trace, 4, pep=4, lep=1)


def two_states_of_one_epoch(trace: Trace) -> None:
    partition(trace, 4, pep=4, lep=2)
    partition(trace, 5, pep=4, lep=2, isr=[4])


def unfenced_too_early(trace: Trace) -> None:
    heartbeat(trace, off=1, caught_up=False)


def caught_up_too_early(trace: Trace) -> None:
    heartbeat(trace, after_ms=2000, off=1, fenced=True, want_fence=True)


def published_before_it_caught_up(trace: Trace) -> None:
    trace.start(4)
    told: dict[str, Any] = {"as": "observer"}
    trace.emit(4, "hwm", v=6, **told)
    trace.emit(4, "image", off=3, digest="x", kind="full")


def published_before_any_commit(trace: Trace) -> None:
    trace.start(4)
    trace.emit(4, "image", off=3, digest="x", kind="delta")


def published_all_before_any_commit(trace: Trace) -> None:
    trace.start(4)
    trace.emit(4, "image", off=3, digest="x", kind="full")


def published_what_is_not_committed(trace: Trace) -> None:
    trace.emit(4, "image", off=trace.disks[4].hwm + 1, digest="x", kind="delta")


def fenced_while_it_was_heard(trace: Trace) -> None:
    heartbeat(trace, fenced=True)


BREAKS: list[tuple[str, Callable[[Trace], Any]]] = [
    ("C1", another_epoch_in_a_heartbeat),
    ("C1", another_epoch_for_the_same_incarnation),
    ("C1", the_old_epoch_for_a_new_incarnation),
    ("C3", leader_out_of_sync),
    ("C3", a_stranger_in_sync),
    ("C3", a_stranger_eligible),
    ("C3", eligible_and_in_sync),
    ("C4", partition_epoch_stands),
    ("C4", leader_epoch_falls),
    ("C4", leader_epoch_rises_too_much),
    ("C4", a_new_leader_in_the_old_epoch),
    ("C4", two_states_of_one_epoch),
    ("C6", unfenced_too_early),
    ("C6", caught_up_too_early),
    ("C10", published_before_it_caught_up),
    ("C10", published_before_any_commit),
    ("C10", published_all_before_any_commit),
    ("C10", published_what_is_not_committed),
    ("C12", fenced_while_it_was_heard),
]


@pytest.mark.parametrize(("name", "change"), BREAKS, ids=[f"{n}-{c.__name__}" for n, c in BREAKS])
def test_a_broken_promise_is_called_by_its_name(name: str, change: Callable[[Trace], Any]) -> None:
    trace = in_service()
    change(trace)
    _, anomalies = judged(trace)
    assert [anomaly.invariant for anomaly in anomalies] == [name]
    assert anomalies[0].events


def later(trace: Trace) -> None:
    heartbeat(trace, after_ms=900, fenced=True)


def after_an_unanswered_heartbeat(trace: Trace) -> None:
    trace.emit(4, "hb", b_ep=2, err=None, why="timed out")
    heartbeat(trace, fenced=True)


def by_another_leader(trace: Trace) -> None:
    heartbeat(trace, fenced=True, ep=9)


def on_its_own_wish(trace: Trace) -> None:
    heartbeat(trace, fenced=True, want_shut_down=True)


@pytest.mark.parametrize(
    "change", [later, after_an_unanswered_heartbeat, by_another_leader, on_its_own_wish]
)
def test_a_broker_that_may_have_been_silent_may_be_fenced(change: Callable[[Trace], Any]) -> None:
    trace = in_service()
    change(trace)
    assert judged(trace)[1] == []


def test_a_new_incarnation_has_a_higher_epoch() -> None:
    trace = in_service()
    trace.start(4)
    trace.now_ns += SESSION_MS * MS
    trace.emit(4, "reg", b_ep=5, inc_id=TWO.hex, prev=-1, err=0)
    heartbeat(trace, b_ep=5)
    assert judged(trace)[1] == []


def test_an_installed_snapshot_may_be_published_before_its_high_watermark() -> None:
    trace = in_service()
    trace.emit(4, "image", off=trace.disks[4].hwm + 9, digest="x", kind="full")
    assert judged(trace)[1] == []


# ---------------------------------------------------------------------- by the committed log


HEALTHY: list[list[MetadataRecord]] = [
    [change_broker(2, 1, fenced=1), *change(isr=(1,))],
    [change_broker(2, 1, fenced=-1)],
    change(isr=(1, 2)),
    [change_broker(1, 0, in_controlled_shutdown=1), *change(isr=(2,), leader=2)],
    [change_broker(1, 0, fenced=1)],
    [register(1, 13, TWO)],
    [config("min.insync.replicas", "2"), *change(eligible_leader_replicas=(1,))],
    [s.ProducerIdsRecord(version=0, broker_id=2, broker_epoch=1, next_producer_id=1000)],
    [s.ProducerIdsRecord(version=0, broker_id=2, broker_epoch=1, next_producer_id=2000)],
    [s.RemoveTopicRecord(version=0, topic_id=TOPIC_ID)],
    create(id_=OTHER_ID, replicas=(2,), isr=(2,), leader=2),
]


ALTERED: dict[str, Any] = {
    "broker": 1,
    "b_ep": 0,
    "tp": [TOPIC_ID.hex, 0],
    "off": 9,
    "req_lep": 0,
    "req_pep": 1,
    "req_isr": [[1, 0], [2, 1]],
    "lep": 0,
    "pep": 2,
}
LET_GO: dict[str, Any] = {
    "broker": 1,
    "b_ep": 0,
    "was": "controlled shutdown",
    "need": 11,
    "active": [[2, 11]],
    "off": 12,
}


def test_a_healthy_log_raises_no_alarm_and_every_invariant_examines_something() -> None:
    events = [
        told(1, "reg", b_ep=0, inc_id=ONE.hex),
        told(1, "hb", b_ep=0, shut_down=True),
        told(1, "reg", b_ep=13, inc_id=TWO.hex),
        told(3, "alter", **ALTERED),
        told(3, "let_go", **LET_GO),
    ]
    result = walked(*HEALTHY, events=events)
    assert result.anomalies == []
    names = ("C1", "C2", "C3", "C4", "C5", "C7", "C11", "C13", "C14", "C15", "C18")
    assert set(result.checked) == {"S19", "L12", *names}
    # nobody is eligible in this log, without the feature, nobody is cordoned, no controller comes
    idle = {name for name, count in result.checked.items() if not count}
    assert idle == {"C13", "C18", "L12"}


TOKEN = s.DelegationTokenRecord(
    version=0,
    owner="User:u",
    requester="User:u",
    renewers=(),
    issue_timestamp=1,
    max_timestamp=9,
    expiration_timestamp=5,
    token_id="t",
)
LOGS: list[tuple[str, list[list[MetadataRecord]], str]] = [
    ("S19", [create("u", OTHER_ID)[:1], create("u", OTHER_ID)[1:]], "topic u was created in"),
    (
        "S19",
        [[*create("u", OTHER_ID)[:1], *create("u", OTHER_ID, partition_id=1)[1:]]],
        "topic u was created in the batch 6..7 with the partitions [1]",
    ),
    ("C1", [[register(3, 99)]], "registered at offset 6 with epoch 99"),
    ("C1", [[register(3, 5)]], f"registered at offset 6 with epoch 5{BEHIND}"),
    (
        "C1",
        [[register(2, 6, ONE)]],
        "registered at offset 6 with epoch 6, before it had 1, and is the same incarnation",
    ),
    (
        "C1",
        [[register(2, 5, ONE)]],
        f"registered at offset 6 with epoch 5, before it had 1{BEHIND_AGAIN}",
    ),
    ("C2", [[change_broker(1, 0, fenced=1)]], "broker 1, fenced, leads 1 partitions at offset 6"),
    (
        "C2",
        [change(isr=(1,)), [register(1, 7, TWO, fenced=True)]],
        "broker 1, fenced as it registers anew, leads 1 partitions at offset 7",
    ),
    (
        "C2",
        [[register(1, 0, ONE, fenced=True)]],
        "broker 1, fenced as it registers again, leads 1 partitions at offset 6",
    ),
    (
        "C2",
        [[change_broker(2, 1, fenced=1), *change(isr=(1,))], change(isr=(1, 2))],
        "broker 2, fenced, leads or is new in sync: partition t-0 after offset 8",
    ),
    (
        "C2",
        [[register(2, 6, TWO)]],
        "broker 2 is registered anew at offset 6, and in sync in partition t-0 beside others",
    ),
    (
        "C2",
        [[change_broker(2, 1, in_controlled_shutdown=1)], change(leader=2, isr=(2,))],
        "broker 2, shutting down, leads",
    ),
    ("C3", [change(isr=(2,))], "leader 1 out of sync"),
    ("C3", [change(isr=(1, 3))], "members that are no replicas"),
    ("C3", [change(eligible_leader_replicas=(2,))], "in sync and eligible at once"),
    (
        "C3",
        [
            [config("min.insync.replicas", "1")],
            change(isr=(1,), eligible_leader_replicas=(2,)),
        ],
        "eligible leaders though 1 of 1 are in sync",
    ),
    (
        "C11",
        [[s.RemoveTopicRecord(version=0, topic_id=TOPIC_ID)], create("u")],
        "topic u at offset 7 has the id of another topic",
    ),
    (
        "C11",
        [[s.ProducerIdsRecord(version=0, broker_id=1, next_producer_id=n)] for n in (2000, 1000)],
        "producer ids up to 1000 are given away at offset 7, but those up to 2000",
    ),
    (
        "C11",
        [[TOKEN], [s.RemoveDelegationTokenRecord(version=0, token_id="t")], [TOKEN]],
        "token t, which was taken back, exists again at 8",
    ),
]


@pytest.mark.parametrize(("name", "batches", "message"), LOGS)
def test_a_log_that_breaks_a_promise(
    name: str, batches: list[list[MetadataRecord]], message: str
) -> None:
    (found,) = walked(*batches).anomalies
    assert found.invariant == name
    assert message in found.message


@pytest.mark.parametrize("late", [False, True])
def test_a_new_replica_may_be_fenced_by_another_operation_of_its_batch(late: bool) -> None:
    """The last one in sync stays so, without leading (3.3.2, seed 9012 of ``admin``)."""
    new = create("u", OTHER_ID, replicas=(2,), isr=(2,), leader=2)
    fenced: list[MetadataRecord] = [
        s.PartitionChangeRecord(version=2, partition_id=0, topic_id=OTHER_ID, leader=-1),
        change_broker(2, 1, fenced=1),
    ]
    out = change(isr=(1,), leader=1)
    log = walked([*out, *fenced[1:], *new, *fenced[:1]] if late else [*new, *out, *fenced])
    told = [each.message for each in log.anomalies if each.invariant == "C2"]
    wrong = "broker 2, fenced, leads or is new in sync: partition u-0 after offset 10"
    assert told == ([wrong] if late else [])


def test_a_new_replica_may_register_anew_in_its_batch() -> None:
    """Before 4.0 nothing is taken from it then (3.3.2, seed 9101 of ``brokers``)."""
    new = create("u", OTHER_ID, replicas=(1, 2), isr=(1, 2), leader=1)
    anew = [register(2, 8, TWO)]
    assert [
        e.message for e in walked([*new, *anew]).anomalies if "is new in sync" in e.message
    ] == []
    (found,) = [e for e in walked([*anew, *new]).anomalies if "is new in sync" in e.message]
    assert (
        found.message == "broker 2, fenced, leads or is new in sync: partition u-0 after offset 8"
    )


def test_a_broker_that_may_go_leads_nothing() -> None:
    (found,) = walked(events=[told(1, "hb", b_ep=0, shut_down=True)]).anomalies
    assert found.invariant == "C7"
    assert found.message.startswith("broker 1 was told to shut down (n1 seq 1) and leads 1")


def test_a_log_that_ends_below_what_a_broker_had_does_not_say_what_it_leads() -> None:
    """The records that moved its partitions may lie behind the end of what could be read."""
    assert walked(events=[told(1, "hb", b_ep=0, shut_down=True, off=99)]).anomalies == []
    assert walked(events=[told(1, "hb", b_ep=0, shut_down=True, off=0)]).anomalies


@pytest.mark.parametrize(
    ("epoch", "incarnation", "right"), [(1, ONE, True), (1, TWO, False), (2, ONE, False)]
)
def test_a_broker_is_told_the_epoch_that_the_log_gives_it(
    epoch: int, incarnation: UUID, right: bool
) -> None:
    event = told(2, "reg", b_ep=epoch, inc_id=incarnation.hex)
    expected = [] if right else ["C1"]
    assert [a.invariant for a in walked(events=[event]).anomalies] == expected


def test_what_is_not_committed_is_not_judged() -> None:
    known = Reference(log_of([*BEGIN, change(isr=(2,))]))
    assert MetadataLog(known, 6, ()).anomalies == []


def test_the_walk_begins_with_a_snapshot() -> None:
    records = tuple(to_json(record) for batch in BEGIN for record in batch)
    log = log_of([change(isr=(2,))], base=6)
    found = MetadataLog(Reference(log, LogSnapshot(6, 1, records)), 99, ()).anomalies
    assert [anomaly.invariant for anomaly in found] == ["C3"]


def test_a_cleaned_log_without_a_snapshot_is_not_judged() -> None:
    log = log_of([create(leader=9)], base=6)
    assert not any(MetadataLog(Reference(log), 99, ()).checked.values())


def test_the_walk_ends_where_the_log_makes_no_sense() -> None:
    result = walked([s.RemoveTopicRecord(version=0, topic_id=OTHER_ID)], change(isr=(2,)))
    assert result.anomalies == []
