"""S12: the LeaderChange record of an epoch against the election that it tells of."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.invariants.epoch_records import EpochRecord
from checkers.replay.world import World
from harness.contracts.evidence import LogBatch

ELECTED = {"t": "elected", "node": 2, "seq": 7, "ep": 3, "es": 10, "grants": [2, 3]} | {
    "voters": [[1, None], [2, None], [3, None]]
}
CHANGE = {"leader_id": 2, "voter_ids": [1, 2, 3], "granting_ids": [2, 3]}


def found(type_: str, fields: dict[str, Any], *, base: int = 10) -> list[str]:
    invariant = EpochRecord()
    assert not list(invariant.feed(ELECTED, World()))
    record = {"offset": base, "type": type_, "fields": fields}
    control = type_ in ("LeaderChange", "KRaftVoters")
    log = (
        LogBatch(base=9, last=9, epoch=2, crc=1, control=False, records=()),
        LogBatch(base=base, last=base, epoch=3, crc=2, control=control, records=(record,)),
    )
    logs = {"n1": log, "n2": log}
    anomalies = list(invariant.finish(logs, World()))
    assert {a.invariant for a in anomalies} <= {"S12"}
    return [a.message for a in anomalies]


def test_a_record_that_tells_what_happened() -> None:
    assert found("LeaderChange", CHANGE) == []


@pytest.mark.parametrize(
    ("field", "value"), [("leader_id", 1), ("voter_ids", [2, 3]), ("granting_ids", [])]
)
def test_a_record_that_tells_something_else(field: str, value: object) -> None:
    (message,) = found("LeaderChange", {**CHANGE, field: value})
    assert f"has {field} {value}, not {CHANGE[field]}" in message
    assert "n2 was elected for epoch 3" in message


def test_an_epoch_that_begins_with_something_else() -> None:
    (message,) = found("Config", {})
    assert "is Config and no LeaderChange" in message


def test_a_record_that_stands_elsewhere() -> None:
    (message,) = found("LeaderChange", CHANGE, base=12)
    assert "does not begin the epoch, which is at offset 10" in message


def test_other_control_records_may_stand_anywhere() -> None:
    assert found("KRaftVoters", {}, base=12) == []
