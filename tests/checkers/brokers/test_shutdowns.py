"""C7 and L10 from outside: brokers that are let go too early, or kept waiting for nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from checkers.brokers.sessions import Incarnation, Reign, Service
from checkers.brokers.shutdowns import kept_waiting, let_go_early, let_go_unasked
from checkers.brokers.words import Word
from harness.contracts.evidence import LogBatch

S = 1_000_000_000
B, X = (1, 10), (2, 11)
REIGN = Reign(0, 100 * S, epoch=3)


def beat(
    at_s: int, who: Incarnation, offset: int, f: str = "heartbeat", shut_down: bool = False
) -> Word:
    broker, epoch = who
    times = at_s * S, at_s * S + 1
    ops = 2 * at_s, 2 * at_s + 1
    return Word(f, broker, epoch, *times, ops, offset=offset, fenced=shut_down, shut_down=shut_down)


def record(type_: str, **fields: Any) -> dict[str, Any]:
    return {"type": type_, "fields": fields}


def leads(who: Incarnation, type_: str = "PartitionRecord") -> dict[str, Any]:
    return record(type_, topic_id="t", partition_id=0, leader=who[0])


STOPS = record(
    "BrokerRegistrationChangeRecord", broker_id=1, broker_epoch=10, in_controlled_shutdown=1
)


def log_of(*batches: Sequence[Mapping[str, Any]], base: int = 0) -> list[LogBatch]:
    made = []
    for records in batches:
        made.append(LogBatch(base, base + len(records) - 1, 3, 0, False, tuple(records)))
        base += len(records)
    return made


LOG = log_of([leads(B)], [STOPS, leads(X, "PartitionChangeRecord")])  # it needs offset 2
SERVE = [Service(B, 0, None), Service(X, 0, None)]
WAITS = [beat(1, B, 1, "shut-down"), beat(2, X, 2), beat(3, B, 5)]


def judged(said: Sequence[Word], **changes: Any) -> tuple[int, int]:
    given = {"services": SERVE, "claims": [REIGN], "unsure": frozenset(), "log": LOG, **changes}
    checked, found = kept_waiting(said, **given)
    return checked, len(found)


def test_who_waits_for_what_all_know_is_told() -> None:
    """As Apache Kafka 3.3.1 has it, where the offset moves at each heartbeat (KAFKA-14292)."""
    checked, found = kept_waiting(WAITS, SERVE, [REIGN], frozenset(), LOG)
    assert checked == 1
    (told,) = found
    assert told.message.startswith("broker 1 (op 7) wants to stop since op 2, and was told to wait")
    assert told.message.endswith(" know offset 2, at which it has lost what it led")
    again = [*WAITS, beat(4, X, 6), beat(5, B, 7)]
    assert judged(again) == (2, 1), "once for each stop"


@pytest.mark.parametrize(
    "said",
    [
        [WAITS[0], beat(2, X, 1), WAITS[2]],  # it does not know it yet
        [WAITS[0], WAITS[1], beat(3, B, 5, shut_down=True)],
        [WAITS[0], beat(4, X, 2), WAITS[2]],  # it said so later
        [WAITS[0], WAITS[1], beat(3, X, 1), beat(3, B, 5)],  # it may have been the last one
        [WAITS[1], WAITS[2]],  # nobody wants to stop
    ],
)
def test_who_may_have_to_wait_is_not_judged(said: list[Word]) -> None:
    assert judged(said) == (0, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"unsure": frozenset({B})},
        {"unsure": frozenset({X})},
        {"claims": []},
        {"claims": [REIGN, Reign(2 * S, 9 * S, epoch=4)]},
        {"claims": [Reign(0, 9 * S, epoch=4)]},
        {"services": [Service(B, 0, 2 * S), SERVE[1]]},
        {"services": [*SERVE, Service((3, 12), 0, None)]},  # of which nothing was heard
        {"log": log_of([leads(B)], [STOPS])},  # it leads still
        {"log": [*LOG, *log_of([leads(B, "PartitionChangeRecord")], base=3)]},
        {"log": log_of(*(each.records for each in LOG), base=7)},  # nobody knows who led before
        {"log": log_of([leads(X)])},
    ],
)
def test_what_nobody_knows_for_sure_is_not_judged(changes: dict[str, Any]) -> None:
    assert judged(WAITS, **changes) == (0, 0)


def test_who_registers_again_while_it_stops_begins_anew() -> None:
    """Apache Kafka forgets that it stops (seed 9102 of ``brokers`` with 3.9.2)."""
    again = record("RegisterBrokerRecord", broker_id=1, broker_epoch=10)
    assert judged(WAITS, log=[*LOG, *log_of([again], base=3)]) == (0, 0)
    another = record("RegisterBrokerRecord", broker_id=2, broker_epoch=11)
    assert judged(WAITS, log=[*LOG, *log_of([another], base=3)]) == (1, 1)


def test_who_is_out_of_service_has_nothing_to_know() -> None:
    gone = Service((3, 12), 0, 2 * S)
    assert judged(WAITS, services=[*SERVE, gone]) == (1, 1)
    over = record("BrokerRegistrationChangeRecord", broker_id=1, broker_epoch=10, fenced=1)
    later = log_of([over], [leads(B, "PartitionChangeRecord")], base=3)
    assert judged(WAITS, log=[*LOG, *later]) == (1, 1), "what it leads when it is back"
    topic = record("RemoveTopicRecord", topic_id="t")
    assert judged(WAITS, log=log_of([leads(B)], [topic], [STOPS])) == (1, 1)


# --------------------------------------------------------------------------- let go too early

GOES = [beat(1, X, 1), beat(2, B, 1, "shut-down"), beat(5, B, 5, shut_down=True)]
ENDS = [Service(B, 0, 5 * S), Service(X, 0, None)]  # the log takes B out of service at 5 s


def early(said: Sequence[Word] = GOES, **changes: Any) -> tuple[int, int]:
    given = {"services": ENDS, "claims": [REIGN], "unsure": frozenset(), "log": LOG, **changes}
    checked, found = let_go_early(said, **given)
    return checked, len(found)


def test_who_is_let_go_before_all_others_know_is_told() -> None:
    checked, (told,) = let_go_early(GOES, ENDS, [REIGN], frozenset(), LOG)
    assert (checked, told.invariant) == (1, "C7")
    assert told.message == (
        "broker 1 (op 11) was let go though broker 2, which was in service, had told that it knows"
        " offset 1 at the most (op 2), and the shutdown is on record at 2"
    )


@pytest.mark.parametrize(
    "said",
    [
        [*GOES, beat(3, X, 2)],
        [*GOES, beat(3, X, 2, "fence")],
        GOES[1:],  # it is no played broker, or has said nothing yet
        [beat(1, X, 1, "shut-down"), *GOES[1:]],  # which is no active broker then
    ],
)
def test_who_knows_or_need_not_know_keeps_nobody(said: list[Word]) -> None:
    assert early(said) == (1, 0)


@pytest.mark.parametrize(
    "services",
    [
        [ENDS[0], Service(X, 3 * S, None)],  # it came later
        [ENDS[0], Service(X, 0, 4 * S)],  # it was fenced meanwhile
        [ENDS[0]],
    ],
)
def test_who_is_not_in_service_all_the_time_keeps_nobody(services: list[Service]) -> None:
    assert early(services=services) == (1, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"said": GOES[:2]},  # it was not let go
        {"said": [GOES[0], GOES[2]]},  # nobody knows what it wanted
        {"said": [beat(1, B, 1, "shut-down", shut_down=True), GOES[1]]},  # it led nothing, once
        {"said": [*GOES[:2], replace(beat(3, B, 4), fenced=True), GOES[2]]},  # its session ended
        {"services": [Service(B, 0, 4 * S), ENDS[1]]},  # it had been fenced before it asked
        {"services": [Service(B, 0, None), ENDS[1]]},
        {"unsure": frozenset({B})},
        {"claims": []},
        {"claims": [Reign(0, 3 * S, epoch=3), Reign(3 * S, 9 * S, epoch=4)]},
    ],
)
def test_a_way_out_that_is_not_certain_is_not_judged(changes: dict[str, Any]) -> None:
    assert early(**changes) == (0, 0)


def test_who_may_be_heard_of_later_keeps_nobody() -> None:
    assert early(unsure=frozenset({X})) == (1, 0)


# --------------------------------------------------------------------------- told to stop unasked

UNASKED = [beat(1, B, 1), beat(3, B, 1, "fence", shut_down=True)]


def test_who_is_told_to_stop_and_has_not_asked_for_it_is_told_of() -> None:
    checked, (told,) = let_go_unasked(UNASKED, {})
    assert (checked, told.invariant) == (2, "C7")
    assert told.message == (
        "broker 1 (op 7) was told to stop by the answer to 'fence', and had not asked for it"
    )


@pytest.mark.parametrize("who", [B, None])
def test_who_may_have_asked_to_stop_may_be_told_to(who: Incarnation | None) -> None:
    assert let_go_unasked(UNASKED, {who: 2 * S}) == (1, [])


@pytest.mark.parametrize("asked", [{X: 2 * S}, {B: 4 * S}, {None: 4 * S}])
def test_what_another_asked_or_what_was_asked_later_is_no_reason(
    asked: Mapping[Incarnation | None, int],
) -> None:
    assert len(let_go_unasked(UNASKED, asked)[1]) == 1
