"""The reads checker: reads show what was committed, and a node's own image only grows."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.reads import reads
from harness.contracts.evidence import LogBatch
from harness.history.ops import NEMESIS
from harness.spec import RunSpec
from harness.verdict import Anomaly, CheckResult, Valid
from tests.support.traces.traces import MS, Trace, healthy, register_record, topic_record

BY_NODE = RunSpec(seed=1, system="kafka")  # whose reads are of one node's image


def judged(trace: Trace, **changes: Any) -> CheckResult:
    return reads(trace.run(**changes))


def messages(trace: Trace, **changes: Any) -> list[str]:
    return [anomaly.message for anomaly in judged(trace, **changes).anomalies]


def local(
    trace: Trace,
    value: object,
    *,
    f: str = "read",
    key: str = "r0",
    node: str = "n4",
    process: int = 7,
) -> None:
    trace.op("invoke", f"local-{f}", key=key, process=process, node=node)
    trace.op("ok", f"local-{f}", value, key=key, process=process, node=node)


def cleaned() -> Trace:
    """A healthy trace in which all logs begin after a snapshot, and a write after it."""
    trace = healthy(3, 1)
    for node in trace.disks:
        trace.freeze(node)
        trace.clean(node)
    trace.write(2, "r0", 5)
    return trace


def test_reads_of_a_prefix_that_grows_are_valid() -> None:
    trace = healthy(3, 2)
    for value in (None, 1, 1, 3, 4):
        local(trace, value)
    result = judged(trace)
    assert (result.valid, result.anomalies) == (Valid.VALID, ())
    assert result.checked == {"S34": 4, "C8": 5, "L8": 0}


def test_without_events_nothing_is_judged() -> None:
    assert judged(healthy(), events={}).valid is Valid.UNKNOWN


# ---------------------------------------------------------------------- by node


def test_a_read_that_goes_back() -> None:
    trace = healthy(3, 1)
    local(trace, 3)
    local(trace, 2, process=8)
    (found,) = judged(trace).anomalies
    assert found.invariant == "C8"
    assert found.message == (
        "local read of r0 at n4 (op 11) went back to 2 (offset 2) after op 9 had returned 3"
        " (offset 3)"
    )
    assert found.ops == (9, 10, 11)


def test_a_read_of_another_key_goes_back_too() -> None:
    """A node has one image: who has shown a write shows all that lies below it."""
    trace = Trace(3, 1)
    trace.start()
    trace.elect(1, 1)
    trace.write(1, "a", 1)
    trace.write(1, "b", 2)
    local(trace, 2, key="b")
    local(trace, None, key="a")
    (found,) = messages(trace)
    assert found == (
        "local read of a at n4 (op 7) went back to nothing (offset -1) after op 5 had returned 2"
        " (offset 2)"
    )


def test_a_value_that_came_back_is_no_step_back() -> None:
    trace = Trace(3, 1)
    trace.start()
    trace.elect(1, 1)
    for value in (1, 2, 1):
        trace.write(1, "r0", value)
    for value in (1, 2, 1):
        local(trace, value)
    assert judged(trace).valid is Valid.VALID
    local(trace, 2)
    assert len(messages(trace)) == 1


def test_an_earlier_offset_is_behind_whatever_the_numbers_are() -> None:
    trace = Trace(3, 1)
    trace.start()
    trace.elect(1, 1)
    for value in (9, 5):
        trace.write(1, "r0", value)
    local(trace, 9)
    local(trace, 5)
    assert judged(trace).valid is Valid.VALID


def test_overlapping_reads_may_come_in_any_order() -> None:
    trace = healthy(3, 1)
    trace.op("invoke", "local-read", key="r0", process=7, node="n4")
    local(trace, 3, process=8)
    trace.op("ok", "local-read", 2, key="r0", process=7, node="n4")
    assert judged(trace).valid is Valid.VALID


@pytest.mark.parametrize("restarts", [True, False])
def test_a_new_process_may_be_behind_the_old_one(restarts: bool) -> None:
    trace = healthy(3, 1)
    local(trace, 3)
    trace.now_ns += 100 * MS
    if restarts:
        trace.start(4)
        trace.commit(2)
    local(trace, 1)
    assert (judged(trace).valid is Valid.VALID) is restarts


def test_other_nodes_have_views_of_their_own() -> None:
    trace = healthy(3, 2)
    local(trace, 3, node="n4")
    local(trace, 1, node="n5")
    assert judged(trace).valid is Valid.VALID


def test_a_read_of_what_nobody_wrote() -> None:
    trace = healthy(3, 1)
    local(trace, 77)
    (found,) = messages(trace)
    assert found == "local read of r0 at n4 (op 9) returned 77, which nobody ever wrote"


def test_a_read_of_what_was_never_committed() -> None:
    trace = healthy(3, 1)
    trace.op("invoke", "write", 50, key="r0", process=3)
    local(trace, 50)
    (found,) = messages(trace)
    assert "returned 50, which was never committed" in found


# ---------------------------------------------------------------------- after the recovery


def recovery(trace: Trace) -> None:
    trace.op("info", "recovery", {"timeout_s": 5}, process=NEMESIS)
    trace.op("info", "recovery", {"recovered": True}, process=NEMESIS)


@pytest.mark.parametrize("spec", [RunSpec(seed=1), BY_NODE])
def test_a_node_that_lacks_a_write_after_the_recovery(spec: RunSpec) -> None:
    trace = healthy(3, 1)
    recovery(trace)
    local(trace, 3)
    found = [(anomaly.invariant, anomaly.message) for anomaly in judged(trace, spec=spec).anomalies]
    if spec is BY_NODE:
        ((name, late),) = found
        assert name == "L8"
        assert late == (
            "local read of r0 at n4 (op 11) returned 3 (offset 3), though all below offset 6 was"
            " committed when the system recovered"
        )
    else:
        assert not found  # there, only that nodes heard of it is promised


def test_a_node_that_has_all_after_the_recovery() -> None:
    trace = healthy(3, 1)
    local(trace, 3)  # before
    recovery(trace)
    local(trace, 4)
    result = judged(trace, spec=BY_NODE)
    assert (result.valid, result.checked["L8"]) == (Valid.VALID, 1)


# ---------------------------------------------------------------------- other things than registers


def topics() -> Trace:
    """A topic that is created, deleted, and created again."""
    trace = Trace(3, 1)
    trace.start()
    trace.elect(1, 1)
    for id_ in ("a" * 32, "b" * 32):
        fields = {"partition_id": 0, "topic_id": id_, "leader": 1, "leader_epoch": 0, "isr": [1, 2]}
        trace.append(
            1,
            topic_record("t0", id_),
            {"type": "PartitionRecord", "fields": fields},
        )
        change = {"partition_id": 0, "topic_id": id_, "leader": 2, "isr": [2]}
        trace.append(1, {"type": "PartitionChangeRecord", "fields": change})
        if id_ == "a" * 32:
            trace.append(1, {"type": "RemoveTopicRecord", "fields": {"topic_id": id_}})
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    return trace


def shown(id_: str, partitions: int = 1) -> dict[str, Any]:
    return {"id": id_ * 32, "partitions": partitions, "configs": {}}


def test_topics_as_one_node_shows_them() -> None:
    trace = topics()
    for value in (None, shown("a"), shown("a"), None, shown("b")):
        local(trace, value, f="describe", key="t0")
    assert judged(trace).valid is Valid.VALID
    local(trace, shown("a"), f="describe", key="t0")
    local(trace, shown("b", 2), f="describe", key="t0")
    back, never = messages(trace)
    assert "local describe of t0 at n4" in back
    assert "went back to" in back
    assert "never committed" in never


@pytest.mark.parametrize(("index", "said"), [(0, {}), (0, {"partition": 0}), (2, {"partition": 2})])
def test_partitions_as_one_node_shows_them(index: int, said: dict[str, int]) -> None:
    """Histories of before topics had several do not say which one of them was shown."""
    trace = Trace(3, 1)
    trace.start()
    trace.elect(1, 1)
    fields = {"partition_id": index, "topic_id": "a" * 32}
    first = {**fields, "leader": 1, "leader_epoch": 0, "isr": [1, 2]}
    trace.append(1, topic_record("register-isr-p0", "a" * 32))
    trace.append(1, {"type": "PartitionRecord", "fields": first})
    trace.append(1, {"type": "PartitionChangeRecord", "fields": {**fields, "isr": [1]}})
    trace.append(
        1, {"type": "PartitionChangeRecord", "fields": {**fields, "leader": 2, "isr": [2]}}
    )
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    for leader, epoch, isr in ((1, 0, [2, 1]), (1, 0, [1]), (2, 1, [2])):
        shown = {"leader": leader, "lep": epoch, "isr": isr, **said}
        local(trace, shown, f="describe", key="p0")
    assert judged(trace).valid is Valid.VALID
    local(trace, {"leader": 1, "lep": 0, "isr": [1], **said}, f="describe", key="p0")
    (found,) = messages(trace)
    assert "went back to" in found


def test_a_state_that_comes_again_may_be_seen_before_the_log_begins() -> None:
    """ISRs come and go: what was shown may be from before what the cleaned log has."""
    trace = Trace(3, 1)
    trace.start()
    trace.elect(1, 1)
    fields = {"partition_id": 0, "topic_id": "a" * 32}
    first = {**fields, "leader": 1, "leader_epoch": 0, "isr": [1, 2]}
    trace.append(1, topic_record("register-isr-p0", "a" * 32))
    trace.append(1, {"type": "PartitionRecord", "fields": first})

    def becomes(isr: list[int]) -> None:
        trace.append(1, {"type": "PartitionChangeRecord", "fields": {**fields, "isr": isr}})
        trace.replicate(1)
        trace.flush(1)
        trace.commit(1)

    def look(isr: list[int]) -> None:
        local(trace, {"leader": 1, "lep": 0, "isr": isr}, f="describe", key="p0")

    becomes([1])
    look([1])
    becomes([1, 2])
    look([1, 2])
    for node in trace.disks:
        trace.freeze(node)
        trace.clean(node)
    becomes([1])
    assert messages(trace) == []
    recovery(trace)
    becomes([2, 1, 3])
    look([2, 1, 3])
    look([1])
    (found,) = messages(trace, spec=BY_NODE)  # from the recovery on a node has what the log has
    assert "went back to" in found


def test_lists_as_one_node_shows_them() -> None:
    trace = Trace(3, 1)
    trace.start()
    trace.elect(1, 1)
    record = register_record("list-l0", "")
    for text in ("1:1", "1:1,3:3"):
        setting = {"name": "follower.replication.throttled.replicas", "value": text}
        trace.append(1, {**record, "fields": {**record["fields"], **setting}})
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    for value in ([], [1], [1, 3]):
        local(trace, value, key="l0")
    assert judged(trace).valid is Valid.VALID
    local(trace, [1], key="l0")
    local(trace, [3], key="l0")
    back, never = messages(trace)
    assert "went back to [1]" in back
    assert "returned [3], which was never committed" in never


def committed_late(trace: Trace) -> Anomaly:
    """Judge the ops so far, with all of the leader's log committed 0.2 s after the last event."""
    trace.replicate(2)
    trace.flush(2)
    trace.now_ns += 200 * MS
    trace.commit(2, 1, 3)
    (found,) = judged(trace).anomalies
    assert found.invariant == "S34"
    return found


def test_a_look_at_what_is_not_committed_yet() -> None:
    trace = healthy(3, 1)
    trace.append(2, topic_record("t0", "a" * 32))
    local(trace, shown("a", 0), f="describe", key="t0", node="n2")
    found = committed_late(trace)
    assert "before that was committed" in found.message


# ---------------------------------------------------------------------- at the leader


def test_a_read_of_what_is_not_committed_yet() -> None:
    trace = healthy(3, 1)
    trace.op("invoke", "write", 50, key="r0", process=3)
    trace.append(2, register_record("r0", 50))
    trace.op("invoke", "read", key="r0", process=7, node="n2")
    trace.op("ok", "read", 50, key="r0", process=7, node="n2")
    found = committed_late(trace)
    assert "returned 50 (offset" in found.message
    assert "before that was committed" in found.message
    assert found.details == {"committed": "4 (offset 5)"}


def test_a_write_that_lies_before_one_that_was_acknowledged_before_it() -> None:
    trace = healthy(3, 1)
    disks = trace.run().logs
    swapped = {
        node: tuple(LogBatch(b.base, b.last, b.epoch, b.crc, b.control, _swapped(b)) for b in log)
        for node, log in disks.items()
    }
    (found,) = [a for a in judged(trace, logs=swapped).anomalies if a.invariant == "S34"]
    assert found.message == (
        "write of r0 (op 3) is at offset 1, before op 1 at 2, which was acknowledged before"
        " that was asked for"
    )


def _swapped(batch: LogBatch) -> Any:
    """The first two writes, each where the other one lies."""
    other = {"1": "2", "2": "1"}
    return tuple(
        {**record, "fields": {**record["fields"], "value": other[record["fields"]["value"]]}}
        if record.get("fields", {}).get("value") in other
        else record
        for record in batch.records
    )


# ---------------------------------------------------------------------- where logs were cleaned


def test_reads_of_what_only_the_snapshot_holds() -> None:
    trace = healthy(3, 1)
    local(trace, 4)
    for node in trace.disks:
        trace.freeze(node)
        trace.clean(node)
    local(trace, 4)
    trace.write(2, "r0", 5)
    local(trace, 5)
    assert judged(trace).valid is Valid.VALID


def test_a_read_that_goes_back_behind_the_snapshot() -> None:
    trace = cleaned()
    local(trace, 5)
    local(trace, 4, process=8)
    (found,) = messages(trace)
    assert "went back to 4 (offset" in found


def test_a_read_of_what_neither_log_nor_snapshot_holds_is_undecided() -> None:
    trace = cleaned()
    trace.op("invoke", "write", 50, key="r0", process=3)
    local(trace, 50)
    assert judged(trace).valid is Valid.UNKNOWN
    local(trace, 5)
    assert judged(trace).valid is Valid.VALID


def test_what_a_topic_that_was_made_since_never_was() -> None:
    """Looks at older topics are undecided, until the node has shown what the known log holds."""
    trace = cleaned()
    trace.append(2, topic_record("t0", "a" * 32))
    trace.replicate(2)
    trace.flush(2)
    trace.commit(2)
    local(trace, shown("b"), f="describe", key="t0")
    local(trace, shown("a", 0), f="describe", key="t0")
    assert judged(trace).valid is Valid.VALID
    local(trace, shown("a", 3), f="describe", key="t0", node="n3", process=8)
    (found,) = messages(trace)
    assert "never committed" in found
    local(trace, shown("b"), f="describe", key="t0")
    assert len(messages(trace)) == 2, "the node has shown what came after the log's beginning"
