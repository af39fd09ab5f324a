"""C12: a silent broker is fenced after its session. C15: a failed disk is taken from its broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from checkers.invariants.decisions import SESSION_SETTING
from checkers.invariants.lasting import Disk, Incarnation, Lasting, OfBrokers, disks, in_service
from checkers.liveness.heartbeats import Controllers, forgotten, kept_disks
from checkers.replay.clocks import OneTime
from harness.history.ops import History, Op
from harness.verdict import Anomaly
from node.metadata.schemas import MetadataRecord, NoOpRecord
from tests.support.traces.brokers import change_broker, content_after, register

MS = 1_000_000
SESSION_MS, EPOCH, NODE = 2000, 3, 9
IDLE: list[MetadataRecord] = [NoOpRecord(version=0)]
Event = dict[str, Any]


class Told:
    """Collects the events that a controller tells."""

    def __init__(self) -> None:
        self.claims: list[Event] = []
        self.contacts: list[Event] = []
        self.appends: list[Event] = []
        self._tell(self.claims, "claim", 0)

    def _tell(self, told: list[Event], kind: str, at_ms: int, **fields: Any) -> None:
        told.append({"t": kind, "ts": at_ms * MS, "node": NODE, "ep": EPOCH, "seq": at_ms} | fields)

    def hears(self, *at_ms: int, broker: int = 1, b_ep: int = 5) -> None:
        for each in at_ms:
            self._tell(self.contacts, "contact", each, broker=broker, b_ep=b_ep)

    def appends_each(
        self, step_ms: int, until_ms: int, since_ms: int = 0, node: int = NODE, src: str = "leader"
    ) -> None:
        """Append a record each so many ms; offsets are tenths of a second."""
        for at_ms in range(since_ms, until_ms + 1, step_ms):
            self._tell(self.appends, "append", at_ms, last=at_ms // 100, src=src, node=node)

    @property
    def controllers(self) -> Controllers:
        return Controllers(self.claims, self.contacts, self.appends)


class Serving(Told):
    """Broker 1 is in service by the log, which has an offset each tenth of a second."""

    def __init__(self) -> None:
        super().__init__()
        self.service: Lasting[Incarnation] = Lasting((1, 5), EPOCH, 0, 600)

    def judged(self) -> tuple[int, list[Anomaly]]:
        return forgotten([self.service], self.controllers, {SESSION_SETTING: str(SESSION_MS)})


@pytest.mark.parametrize(("until_ms", "late"), [(4200, False), (4300, True)])
def test_a_silent_broker_stays_in_service_for_a_session_an_eighth_and_a_second(
    until_ms: int, late: bool
) -> None:
    told = Serving()
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


def its_heartbeats_are_told_late(told: Serving) -> None:
    """As Kafka's controllers tell of them, with the answers that wait for a commit."""
    told.hears(1000)
    told.hears(6000)
    told.contacts[-1]["ms"] = 2500
    told.hears(5900)
    told.contacts[-1]["ms"] = 4000
    told.appends_each(100, 6500)


def its_heartbeats_come(told: Serving) -> None:
    told.hears(*range(0, 20_000, 1900))
    told.appends_each(100, 20_000)


def it_is_fenced_in_time(told: Serving) -> None:
    told.service.end = 29
    told.hears(100)
    told.appends_each(100, 20_000)


def its_reign_is_new(told: Serving) -> None:
    told.hears(100, broker=2)
    told.appends_each(100, 3200)


def nothing_is_appended(told: Serving) -> None:
    told.hears(100)
    told.appends_each(100, 1000)


def the_controller_stands_still(told: Serving) -> None:
    told.hears(100)
    told.appends_each(100, 1000)
    told.appends_each(100, 8000, since_ms=5000)


def another_node_appends(told: Serving) -> None:
    told.hears(100)
    told.appends_each(100, 20_000, node=8, src="follower")


def nobody_tells_of_heartbeats(told: Serving) -> None:
    told.appends_each(100, 20_000)


@pytest.mark.parametrize(
    "happens",
    [
        *(
            its_heartbeats_come,
            its_heartbeats_are_told_late,
            it_is_fenced_in_time,
            its_reign_is_new,
            nothing_is_appended,
        ),
        *(the_controller_stands_still, another_node_appends, nobody_tells_of_heartbeats),
    ],
)
def test_what_may_well_be_right_raises_no_alarm(happens: Any) -> None:
    told = Serving()
    happens(told)
    assert told.judged()[1] == []


def a_broker_is_never_heard_of(told: Serving) -> None:
    told.hears(100, broker=2)
    told.appends_each(100, 3300)


def a_heartbeat_of_its_older_epoch_comes(told: Serving) -> None:
    told.hears(1000, 2000, 3000, b_ep=4)
    told.appends_each(100, 3300)


def another_node_hears_of_it(told: Serving) -> None:
    """As one that was the controller before, and still answers."""
    told.hears(1000, 2000, 3000)
    for event in told.contacts:
        event["node"] = 8
    told.hears(100, broker=2)
    told.appends_each(100, 3300)


def heartbeats_come_again_after_too_long(told: Serving) -> None:
    told.hears(100, 9000)
    told.appends_each(100, 9500)


@pytest.mark.parametrize(
    "happens",
    [
        a_broker_is_never_heard_of,
        a_heartbeat_of_its_older_epoch_comes,
        another_node_hears_of_it,
        heartbeats_come_again_after_too_long,
    ],
)
def test_a_forgotten_broker_is_found(happens: Any) -> None:
    told = Serving()
    happens(told)
    assert [each.invariant for each in told.judged()[1]] == ["C12"]


# ------------------------------------------------------------------ disks

DISK = UUID(int=17)


class Failing(Told):
    """A disk of broker 1 fails at 1 s, and stays in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.known: Lasting[Disk] = Lasting((1, 5, DISK), EPOCH, 0, 600)
        self.value = {"member": 0, "disk": 1, "broker": 1, "epoch": 5, "directory": DISK.hex}

    def judged(self) -> tuple[int, list[Anomaly]]:
        op = Op(index=0, time_ns=1000 * MS, type="invoke", f="fail-disk", process=0, value=None)
        ops = [op, op.with_(index=1, type="ok", value=self.value)]
        return kept_disks([self.known], self.controllers, History(ops), OneTime())


@pytest.mark.parametrize(("until_ms", "late"), [(2900, False), (3000, True)])
def test_a_failed_disk_is_taken_from_its_broker(until_ms: int, late: bool) -> None:
    """KIP-858: brokers tell of it with each heartbeat; the third one after it surely does."""
    told = Failing()
    told.hears(900, 1100, 1500, 1900, 2300)
    told.appends_each(100, until_ms)
    checked, anomalies = told.judged()
    assert checked == 1
    assert [each.invariant for each in anomalies] == ["C15"] * late
    if late:
        assert anomalies[0].message == (
            f"the controller n9 still takes disk {DISK} of broker 1 for one that works (n9 seq"
            " 3000), 1.100 s after it got a heartbeat that tells of its failure (n9 seq 1900)"
        )


def it_is_taken_away(told: Failing) -> None:
    told.known.end = 25
    told.hears(1100, 1500, 1900)


def its_broker_sends_no_more_heartbeats(told: Failing) -> None:
    told.hears(900, 1100, 1500)


def another_disk_fails(told: Failing) -> None:
    told.value["directory"] = UUID(int=18).hex
    told.hears(1100, 1500, 1900)


def an_older_process_had_it(told: Failing) -> None:
    told.value["epoch"] = 4
    told.hears(1100, 1500, 1900)


def its_broker_is_not_registered(told: Failing) -> None:
    told.value["epoch"] = None
    told.hears(1100, 1500, 1900)


@pytest.mark.parametrize(
    "happens",
    [
        *(it_is_taken_away, its_broker_sends_no_more_heartbeats, another_disk_fails),
        *(an_older_process_had_it, its_broker_is_not_registered),
    ],
)
def test_a_disk_that_a_broker_may_have_raises_no_alarm(happens: Any) -> None:
    told = Failing()
    happens(told)
    told.appends_each(100, 9000)
    assert told.judged()[1] == []


# ------------------------------------------------------------------ by the log

FENCE, UNFENCE = [change_broker(1, 0, fenced=1)], [change_broker(1, 0, fenced=-1)]


def walked(
    *batches: Sequence[MetadataRecord], epochs: Sequence[int] = ()
) -> list[Lasting[Incarnation]]:
    """Give the times in service of broker 1 after the first batches, by the log."""
    found = content_after(batches, epochs)[0].services
    return sorted([each for each in found if each.what[0] == 1], key=lambda each: each.begin)


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


def test_disks_last_from_a_registration_until_they_are_taken_away() -> None:
    kept, lost = UUID(int=21), UUID(int=22)
    again = [register(1, 6, incarnation=UUID(int=77), log_dirs=(kept, lost), version=3)]
    fewer = [change_broker(1, 6, log_dirs=(kept,), version=2)]
    found = {each.what: each for each in content_after([again, IDLE, fewer, IDLE])[0].disks}
    begin = found[1, 6, kept].begin
    assert (found[1, 6, kept].end, found[1, 6, lost].end) == (begin + 3, begin + 1)


def test_nothing_lasts_in_the_beginning() -> None:
    assert OfBrokers(in_service).found == []
    assert OfBrokers(disks).found == []
