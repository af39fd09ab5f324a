"""C12: a broker that the active controller does not hear of is fenced after its session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from checkers.invariants.decisions import SESSION_SETTING
from checkers.invariants.services import InService, Services
from checkers.liveness.silence import forgotten
from checkers.monitor.content import Content
from harness.verdict import Anomaly
from node.metadata.schemas import MetadataRecord, NoOpRecord
from tests.support.histories.peaceful import PeacefulRun
from tests.support.traces.brokers import BEGIN, change_broker, log_of, register

MS = 1_000_000
SESSION_MS, EPOCH, NODE = 2000, 3, 9
IDLE: list[MetadataRecord] = [NoOpRecord(version=0)]
Event = dict[str, Any]


class Told:
    """What a controller told of itself."""

    def __init__(self, service: InService) -> None:
        self.service = service
        self.contacts: list[Event] = []
        self.appends: list[Event] = []
        self.tell("claim", 0)

    def tell(self, kind: str, at_ms: int, node: int = NODE, **fields: Any) -> None:
        event = {"t": kind, "ts": at_ms * MS, "node": node, "ep": EPOCH, "seq": at_ms, **fields}
        (self.appends if kind == "append" else self.contacts).append(event)

    def hears(self, *at_ms: int, broker: int = 1, b_ep: int = 5) -> None:
        for each in at_ms:
            self.tell("contact", each, broker=broker, b_ep=b_ep)

    def appends_each(self, step_ms: int, until_ms: int, since_ms: int = 0) -> None:
        """Append a record each so many ms; offsets are tenths of a second."""
        for at_ms in range(since_ms, until_ms + 1, step_ms):
            self.tell("append", at_ms, last=at_ms // 100, src="leader")

    def judged(self) -> tuple[int, list[Anomaly]]:
        data = PeacefulRun().data()
        spec = replace(data.spec, settings={SESSION_SETTING: str(SESSION_MS)})
        return forgotten([self.service], self.contacts, self.appends, replace(data, spec=spec))


def serving(begin_ms: int = 0, end_ms: int = 60_000, epoch: int = EPOCH) -> Told:
    """Broker 1 was in service that long, by the log: an offset each tenth of a second."""
    return Told(InService(1, 5, epoch, begin_ms // 100, end_ms // 100))


@pytest.mark.parametrize(("until_ms", "late"), [(4200, False), (4300, True)])
def test_a_silent_broker_stays_in_service_for_a_session_an_eighth_and_a_second(
    until_ms: int, late: bool
) -> None:
    told = serving()
    told.hears(500, 1000)
    told.appends_each(100, until_ms)
    checked, anomalies = told.judged()
    assert checked == 1
    assert [each.invariant for each in anomalies] == ["C12"] * late
    if late:
        assert anomalies[0].message == (
            "the controller n9 had heard nothing of broker n1 (epoch 5) for 3.300 s (n9 seq 1000,"
            " n9 seq 4300), and had not fenced it"
        )
        assert [each["ts"] for each in anomalies[0].events] == [1000 * MS, 4300 * MS]


def its_heartbeats_come(told: Told) -> None:
    told.hears(*range(0, 20_000, 1900))
    told.appends_each(100, 20_000)


def it_is_fenced_in_time(told: Told) -> None:
    told.service.end = 29
    told.hears(100)
    told.appends_each(100, 20_000)


def its_reign_is_new(told: Told) -> None:
    told.hears(100, broker=2)
    told.appends_each(100, 3200)


def nothing_is_appended(told: Told) -> None:
    told.hears(100)
    told.appends_each(100, 1000)


def the_controller_stands_still(told: Told) -> None:
    told.hears(100)
    told.appends_each(100, 1000)
    told.appends_each(100, 8000, since_ms=5000)


def another_node_appends(told: Told) -> None:
    told.hears(100)
    for at_ms in range(0, 20_000, 100):
        told.tell("append", at_ms, node=8, last=at_ms // 100, src="follower")


def nobody_tells_of_heartbeats(told: Told) -> None:
    told.appends_each(100, 20_000)


@pytest.mark.parametrize(
    "happens",
    [
        *(its_heartbeats_come, it_is_fenced_in_time, its_reign_is_new, nothing_is_appended),
        *(the_controller_stands_still, another_node_appends, nobody_tells_of_heartbeats),
    ],
)
def test_what_may_well_be_right_raises_no_alarm(happens: Any) -> None:
    told = serving()
    happens(told)
    assert told.judged()[1] == []


def a_broker_is_never_heard_of(told: Told) -> None:
    told.hears(100, broker=2)
    told.appends_each(100, 3300)


def a_heartbeat_of_its_older_epoch_comes(told: Told) -> None:
    told.hears(1000, 2000, 3000, b_ep=4)
    told.appends_each(100, 3300)


def heartbeats_come_again_after_too_long(told: Told) -> None:
    told.hears(100, 9000)
    told.appends_each(100, 9500)


@pytest.mark.parametrize(
    "happens",
    [
        a_broker_is_never_heard_of,
        a_heartbeat_of_its_older_epoch_comes,
        heartbeats_come_again_after_too_long,
    ],
)
def test_a_forgotten_broker_is_found(happens: Any) -> None:
    told = serving()
    happens(told)
    assert [each.invariant for each in told.judged()[1]] == ["C12"]


# ------------------------------------------------------------------ by the log

FENCE, UNFENCE = [change_broker(1, 0, fenced=1)], [change_broker(1, 0, fenced=-1)]


def walked(*batches: Sequence[MetadataRecord], epochs: Sequence[int] = ()) -> list[InService]:
    """Give the times in service of broker 1 after the first batches, by the log."""
    log = list(log_of([*BEGIN, *batches]))
    for place, epoch in enumerate(epochs, len(BEGIN)):
        log[place] = replace(log[place], epoch=epoch)
    content = Content()
    for batch in log:
        content.batch(batch)
    content.finish()
    return sorted([e for e in content.services if e.broker == 1], key=lambda each: each.begin)


def test_a_broker_is_in_service_from_its_unfencing_to_its_fencing() -> None:
    before = walked()[-1].end
    assert [each.end for each in walked(IDLE, IDLE)] == [before + 2]
    (only,) = walked(IDLE, FENCE, IDLE)
    assert only.end == before + 1
    first, second = walked(FENCE, IDLE, UNFENCE, IDLE)
    assert (first.end, second.begin, second.end) == (before, before + 3, before + 4)


def test_an_incarnation_ends_the_service_of_the_one_before() -> None:
    before = walked()[-1].end
    (only,) = walked([register(1, 7, incarnation=UUID(int=77))], IDLE)
    assert only.end == before


def test_a_new_reign_begins_with_who_is_in_service() -> None:
    first, second = walked(IDLE, IDLE, IDLE, epochs=(1, 9, 9))
    assert (second.epoch, second.begin - first.end, second.end - second.begin) == (9, 1, 1)


def test_nobody_is_in_service_in_the_beginning() -> None:
    assert Services().found == []
