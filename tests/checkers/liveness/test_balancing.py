"""L14: leaders go back to preferred replicas, while one controller is active and all is calm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from checkers.invariants.local_reads import CommitTimes
from checkers.liveness.balancing import ENABLE_SETTING, INTERVAL_SETTING, led_by_others
from checkers.monitor.content import NO_SETTINGS
from checkers.replay.clocks import OneTime
from harness.verdict import Anomaly
from node.metadata.schemas import MetadataRecord, NoOpRecord
from tests.support.histories.peaceful import PeacefulRun, S
from tests.support.traces.brokers import BEGIN, change, change_broker, content_after, register

IDLE: list[MetadataRecord] = [NoOpRecord(version=0)]
ELSEWHERE = change(directories=(UUID(int=8), UUID(int=8)))
TO_TWO = change(leader=2)  # though broker 1 is the first replica, and in sync


def judged(
    *batches: Sequence[MetadataRecord],
    times_s: Sequence[float],
    epochs: Sequence[int] = (),
    fault: str | None = None,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> tuple[int, list[Anomaly]]:
    """Walk these batches after the first ones; each is committed at its time."""
    content, log = content_after(batches, epochs)
    commits = [
        {"t": "hwm", "node": 1, "as": "leader", "v": batch.last + 1, "ts": int(at * S)}
        for batch, at in zip(log[len(BEGIN) :], times_s, strict=True)
    ]
    run = PeacefulRun()
    if fault is not None:
        run.fault(fault, 5, 6)
    data = run.data()
    spec = replace(data.spec, settings={INTERVAL_SETTING: "1", **settings})
    commit_times = CommitTimes(commits, OneTime())
    return led_by_others(content.stretches, commit_times, replace(data, spec=spec))


@pytest.mark.parametrize(("until_s", "late"), [(12.9, False), (13.1, True)])
def test_a_partition_goes_back_within_two_intervals(until_s: float, late: bool) -> None:
    checked, anomalies = judged(TO_TWO, IDLE, IDLE, times_s=(10, 11, until_s))
    assert checked == 1
    assert [each.invariant for each in anomalies] == ["L14"] * late
    if late:
        assert anomalies[0].message == (
            "partition t-0 of the replicas [1, 2] was led by 2 from offset 6 to 8, which are 3.1 s"
            " of epoch 1: its first replica was in sync and in service, and is to be elected"
            " within 1 s"
        )


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(change(leader=1), id="it goes back"),
        pytest.param(change(isr=(2,)), id="the first is not in sync"),
        pytest.param([change_broker(1, 0, fenced=1)], id="the first is fenced"),
        pytest.param([change_broker(1, 0, in_controlled_shutdown=1)], id="the first stops"),
        pytest.param(change(adding_replicas=(2,)), id="it moves"),
        pytest.param(
            [register(1, 8, fenced=False, version=3, log_dirs=(UUID(int=9),)), *ELSEWHERE],
            id="the disk of the first is gone",
        ),
    ],
)
def test_nobody_goes_back_who_cannot(between: list[MetadataRecord]) -> None:
    _, anomalies = judged(TO_TWO, between, IDLE, times_s=(10, 11, 20))
    assert anomalies == []


def test_a_new_controller_begins_to_count() -> None:
    batches = (TO_TWO, IDLE, IDLE, IDLE)
    assert judged(*batches, times_s=(10, 12, 12.5, 15), epochs=(1, 1, 2, 2))[1] == []
    assert len(judged(*batches, times_s=(10, 12, 12.5, 16), epochs=(1, 1, 2, 2))[1]) == 1


@pytest.mark.parametrize(("fault", "found"), [("kill", 1), ("slow-links", 0), ("pause", 0)])
def test_only_crashes_are_no_excuse(fault: str, found: int) -> None:
    assert len(judged(TO_TWO, IDLE, times_s=(4, 9), fault=fault)[1]) == found


def test_balancing_may_be_off_or_seldom() -> None:
    never, seldom = {ENABLE_SETTING: "false"}, {INTERVAL_SETTING: "5"}
    assert judged(TO_TWO, IDLE, times_s=(10, 20), settings=never) == (0, [])
    assert judged(TO_TWO, IDLE, times_s=(10, 20), settings=seldom) == (1, [])
