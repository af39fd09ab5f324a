"""The observers checker: images are folds of the log, local reads never go back, all converge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from checkers.committed.fold import MetadataFold, fold
from checkers.committed.reference import Reference
from checkers.monitor.convergence import GRACE_NS
from checkers.observers import judge, observers
from harness.contracts.evidence import LogBatch
from harness.history.ops import NEMESIS
from harness.verdict import CheckResult, Valid
from tests.support.traces.traces import MS, Event, RecordsFold, Trace, healthy, register_record


def judged(trace: Trace, **changes: Any) -> CheckResult:
    return judge(trace.run(**changes), trace.make_fold)


def names(result: CheckResult) -> set[str]:
    return {anomaly.invariant for anomaly in result.anomalies}


def images(trace: Trace, node: int) -> list[Event]:
    return [event for event in trace.events[f"n{node}"] if event["t"] == "image"]


def fault(trace: Trace, *, healed: bool) -> None:
    value = {"id": 1, "nemesis": "kill"}
    installed = {**value, "outcome": "installed", "evidence": [{}]}
    trace.op("info", "inject", value, process=NEMESIS)
    trace.op("info", "inject", installed, process=NEMESIS)
    if healed:
        trace.op("info", "heal", {**value, "evidence": {"up": True}}, process=NEMESIS)


# ---------------------------------------------------------------------- healthy


@pytest.mark.parametrize("make_fold", [RecordsFold, MetadataFold])
def test_healthy_trace_is_valid(make_fold: Callable[[], Any]) -> None:
    trace = healthy(3, 2, make_fold)
    result = judged(trace)
    assert (result.valid, result.anomalies, result.reason) == (Valid.VALID, (), None)
    assert result.checked["C8"] > 0
    assert result.checked["L8"] == 5


def test_the_registered_checker_folds_with_the_metadata_image() -> None:
    assert observers(healthy(3, 1, MetadataFold).run()).valid is Valid.VALID
    assert observers(healthy(3, 1, RecordsFold).run()).valid is Valid.INVALID


# ---------------------------------------------------------------------- C8


def test_an_image_that_is_not_the_fold_of_the_log() -> None:
    trace = healthy(3, 1)
    event = images(trace, 4)[2]
    event["digest"] = "0" * 16
    result = judged(trace)
    assert names(result) == {"C8"}
    (found,) = result.anomalies
    assert found.message.startswith(f"the image of n4 at offset {event['off']} is 0000000000000000")
    assert found.events == (event,)


def test_an_image_in_the_middle_of_a_batch() -> None:
    trace = Trace(1, 1)
    trace.start()
    trace.elect(1, 1)
    trace.replicate(1)
    trace.commit(1)
    trace.append(1, register_record("r0", 1), register_record("r0", 2))
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    images(trace, 2)[-1]["off"] -= 1
    result = judged(trace)
    assert names(result) == {"C8"}
    assert "no committed batch ends there" in result.anomalies[0].message


def test_images_that_differ_at_one_offset_without_a_log_to_fold() -> None:
    trace = healthy(3, 2)
    images(trace, 5)[-1]["digest"] = "f" * 16
    result = judged(trace, logs={})
    assert names(result) == {"C8"}
    assert (
        "but n1 has" in result.anomalies[0].message or "but n2 has" in result.anomalies[0].message
    )


def test_an_image_that_goes_back() -> None:
    trace = healthy(3, 1)
    trace.emit(4, "image", off=1, digest=trace.digest(4, 1))
    result = judged(trace)
    assert [a.message for a in result.anomalies] == [
        f"the image of n4 went back from offset 6 to 1 (n4 seq {trace.disks[4].seq})"
    ]


def test_a_new_process_builds_its_image_anew() -> None:
    trace = healthy(3, 1)
    trace.start(4)
    trace.raise_hwm(4, 1, as_="observer")
    trace.commit(2)
    assert judged(trace).valid is Valid.VALID


def test_a_committed_batch_that_does_not_fit() -> None:
    trace = healthy(3, 1, MetadataFold)
    record = {"type": "RemoveTopicRecord", "fields": {"topic_id": "0" * 32}}
    log = trace.disks[1].log
    log[1] = LogBatch(1, 1, 1, log[1].crc, False, ({"offset": 1, **record},))
    result = judged(trace)
    assert "C8" in names(result)
    assert "committed batch at 1 does not fit" in result.anomalies[0].message


def test_a_record_that_cannot_be_read_is_unknown() -> None:
    trace = healthy(3, 1, MetadataFold)
    log = trace.disks[1].log
    log[-1] = LogBatch(5, 5, 2, log[-1].crc, False, ({"offset": 5, "type": "?", "fields": {}},))
    result = judged(trace)
    assert result.valid is Valid.UNKNOWN
    assert "could not be folded: offset 5" in (result.reason or "")


def test_a_log_that_was_cut_at_its_front_is_not_folded() -> None:
    known = Reference(healthy().disks[2].log[1:])
    assert "begins at offset 1" in (fold(known, 99, RecordsFold).unreadable or "")


# ---------------------------------------------------------------------- L8


def behind(trace: Trace) -> None:
    """One more write, of which the observer hears nothing."""
    trace.append(2, register_record("r0", 8))
    trace.replicate(2)
    trace.flush(2)
    trace.commit(2, 1, 3)


def test_a_node_that_stays_behind_after_the_heal() -> None:
    trace = healthy(3, 1)
    fault(trace, healed=True)
    behind(trace)
    trace.now_ns += GRACE_NS + 100 * MS
    trace.emit(1, "stop", why="teardown")
    result = judged(trace)
    assert names(result) == {"L8"}
    assert result.anomalies[0].message.startswith(
        "n4 ended at high watermark 6, but 7 was committed by n2"
    )


def test_a_node_that_stays_behind_says_whether_its_fetches_arrive() -> None:
    trace = healthy(3, 1)
    fault(trace, healed=True)
    behind(trace)
    for _ in range(4):
        trace.now_ns += GRACE_NS // 4
        trace.emit(4, "fetch_tx", off=6, last_ep=1, to=1)
    trace.now_ns += GRACE_NS
    trace.emit(1, "stop", why="teardown")
    found = [each.message for each in judged(trace).anomalies if each.invariant == "L8"]
    assert found[0].endswith("s before the end; n1 took none of the 4 Fetches that n4 sent to it")


def test_a_node_that_is_behind_shortly_after_the_heal_is_undecided() -> None:
    trace = healthy(3, 1)
    behind(trace)
    fault(trace, healed=True)
    trace.now_ns += GRACE_NS // 2
    trace.emit(1, "stop", why="teardown")
    result = judged(trace)
    assert result.valid is Valid.UNKNOWN
    assert "s after the last heal" in (result.reason or "")


def test_what_is_committed_at_the_very_end_need_not_arrive() -> None:
    trace = healthy(3, 1)
    fault(trace, healed=True)
    trace.now_ns += GRACE_NS
    behind(trace)
    trace.emit(1, "stop", why="teardown")
    assert judged(trace).valid is Valid.VALID


def test_what_goes_on_after_the_first_node_stopped_does_not_count() -> None:
    trace = healthy(3, 1)
    trace.emit(4, "stop", why="teardown")
    trace.now_ns += 2 * GRACE_NS
    behind(trace)
    assert judged(trace).valid is Valid.VALID


def test_a_fault_that_was_never_healed_leaves_convergence_undecided() -> None:
    trace = healthy(3, 1)
    fault(trace, healed=False)
    result = judged(trace)
    assert (result.valid, result.reason) == (Valid.UNKNOWN, "L8: 1 faults were never healed")


# ---------------------------------------------------------------------- robustness


def test_no_events_is_unknown() -> None:
    result = judged(healthy(), events={})
    assert (result.valid, result.reason) == (
        Valid.UNKNOWN,
        "no node left any event to judge",
    )


def test_no_images_is_unknown() -> None:
    trace = healthy()
    events: Mapping[str, Any] = {"n1": trace.events["n1"][:3]}
    assert "no node told of any image" in (judged(trace, events=events).reason or "")


def test_a_missing_field_is_unknown() -> None:
    trace = healthy(3, 1)
    event = images(trace, 4)[0]
    del event["digest"]
    result = judged(trace)
    assert result.valid is Valid.UNKNOWN
    assert f"event n4 seq {event['seq']} lacks field digest" in (result.reason or "")
