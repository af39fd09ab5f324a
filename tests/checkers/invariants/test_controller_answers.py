"""C17: the answers of Kafka's controllers are held against those of ours, by the same records."""

from __future__ import annotations

import dataclasses
from base64 import b64encode
from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from checkers.committed.reference import Reference
from checkers.invariants.controller_answers import (
    BOTH_WAYS,
    LAG_NS,
    LEFT_OUT,
    UNCOMMITTED,
    AnswerChecks,
    flat,
    only_eligible_differ,
)
from checkers.monitor.content import Content
from harness.contracts.evidence import LogBatch
from harness.systems.kafka.known import known_of
from harness.systems.kafka.releases import Release
from harness.verdict import Anomaly
from node.controller.context import ControllerConfig
from node.driver.answering import Answering, AnsweringError, Outcome
from node.metadata.features import ELR_VERSION
from node.metadata.fold import apply_record
from node.metadata.image import MetadataImage
from node.metadata.records import decode_record
from node.metadata.schemas import (
    BrokerFeature,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    RegisterControllerRecord,
)
from node.wire.api import ApiKey
from node.wire.payloads import api_schema, encode
from node.wire.structs import build
from tests.support.traces.brokers import (
    BEGIN,
    ONE,
    OTHER_ID,
    TOPIC_ID,
    TWO,
    change,
    log_of,
    register,
)

WAIT = i32Timedelta.parse(timedelta(seconds=1))
LEVEL = FeatureLevelRecord(version=0, name="metadata.version", feature_level=25)
BATCHES: list[list[MetadataRecord]] = [*BEGIN[:-1], [LEVEL], BEGIN[-1]]
END = 7  # of these


def asked(key: int, version: int, **fields: Any) -> bytes:
    return encode(build(api_schema(key, version).request, **fields))


def part(key: int, version: int, struct: str, /, **fields: Any) -> Any:
    return build(api_schema(key, version).request, struct, **fields)


def deletion(name: str) -> tuple[int, int, bytes]:
    topic = part(20, 6, "DeleteTopicState", name=name, topic_id=None)
    return 20, 6, asked(20, 6, topics=(topic,), timeout=WAIT)


def new_isr(isr: Sequence[int], leader: int = 1, pep: int = 0) -> tuple[int, int, bytes]:
    members = tuple(part(56, 3, "BrokerState", broker_id=b, broker_epoch=-1) for b in isr)
    partition = part(
        *(56, 3, "PartitionData"),
        partition_index=0,
        leader_epoch=0,
        new_isr_with_epochs=members,
        leader_recovery_state=0,
        partition_epoch=pep,
    )
    topic = part(56, 3, "TopicData", topic_id=TOPIC_ID, partitions=(partition,))
    return 56, 3, asked(56, 3, broker_id=leader, broker_epoch=leader - 1, topics=(topic,))


def registration(broker: int, incarnation: UUID, cluster: str = "k") -> tuple[int, int, bytes]:
    feature = part(
        *(62, 4, "Feature"),
        name="metadata.version",
        min_supported_version=1,
        max_supported_version=29,
    )
    body = asked(
        *(62, 4),
        broker_id=broker,
        cluster_id=cluster,
        incarnation_id=incarnation,
        listeners=(),
        features=(feature,),
        rack=None,
        is_migrating_zk_broker=False,
        log_dirs=(UUID(int=broker + 1000),),
        previous_broker_epoch=-1,
    )
    return 62, 4, body


def registered(error: ErrorCode, epoch: int = -1) -> Any:
    schema = api_schema(62, 4).response
    return build(schema, throttle_time=WAIT, error_code=error, broker_epoch=epoch)


def image_of(batches: Sequence[Sequence[MetadataRecord]]) -> MetadataImage:
    image = MetadataImage()
    for offset, record in enumerate(record for batch in batches for record in batch):
        apply_record(image, record, offset)
    return image


def due(request: tuple[int, int, bytes], batches: Sequence[Sequence[MetadataRecord]]) -> Outcome:
    offset = sum(map(len, batches))
    return Answering(image_of(batches), ControllerConfig()).answer(*request, offset)


def event(
    request: tuple[int, int, bytes], response: Any, records: int, off: int = END, **changes: Any
) -> dict[str, Any]:
    key, version, body = request
    said = {"req": b64encode(body).decode(), "res": b64encode(encode(response)).decode()}
    told = {"t": "answered", "node": 2, "dir": "aa", "inc": 1, "seq": 5, "ts": 7, "ep": 1}
    return {**told, "api": key, "ver": version, "off": off, "n": records, **said, **changes}


def judged(
    events: Sequence[dict[str, Any]], *batches: Sequence[MetadataRecord]
) -> tuple[AnswerChecks, list[Anomaly]]:
    checks = AnswerChecks(Reference(), {})
    for batch in log_of([*BATCHES, *batches]):
        checks.batch(batch)
    for each in events:
        checks.feed(each)
    return checks, list(checks.settle())


def answered(request: tuple[int, int, bytes]) -> tuple[dict[str, Any], list[MetadataRecord]]:
    """Ask our controller; give its answer as an event of Kafka's, and its records."""
    outcome = due(request, BATCHES)
    records = list(map(decode_record, outcome.records))
    return event(request, outcome.response, len(records)), records


@pytest.mark.parametrize("request_", [deletion("t"), deletion("x"), new_isr([1]), new_isr([2], 2)])
def test_the_answer_that_is_due_is_no_alarm(request_: tuple[int, int, bytes]) -> None:
    told, records = answered(request_)
    checks, anomalies = judged([told], records)
    assert (anomalies, checks.checked) == ([], 1)


def test_a_refusal_without_a_reason_is_told() -> None:
    request = deletion("t")
    refused = due(deletion("x"), BATCHES).response
    _, (anomaly,) = judged([event(request, refused, 0)])
    assert anomaly.invariant == "C17"
    assert anomaly.message == (
        "n2 answered DeleteTopicsRequest v6 (n2 seq 5, 0 record(s) after offset 7) to"
        " topics[0].name=t: responses[0].name is x, where t is due;"
        " responses[0].error_code is 3, where 0 is due; [0].is is None, where RemoveTopicRecord is"
        " due"
    )


def test_what_is_granted_and_must_be_refused_is_told() -> None:
    """The follower asks for an ISR, as if it led."""
    granted = due(new_isr([1]), BATCHES).response
    _, (anomaly,) = judged([event(new_isr([1], 2), granted, 1)], change(isr=(1,)))
    assert "error_code is 0, where 42 is due" in anomaly.message


@pytest.mark.parametrize(
    ("fenced", "lasts_s", "epochs", "heard", "told"),
    [
        (True, 22, (1, 1, 1), {1: 6}, True),
        (True, 22, (1, 1, 1), {3: 4}, True),
        (True, 20, (1, 1, 1), {1: 6}, False),
        (True, 22, (1, 1, 2), {1: 6}, False),
        (False, 22, (1, 1, 1), {1: 6}, False),
        (True, 22, (1, 1, 1), {3: 6}, False),  # the process before still sends heartbeats
        (True, 22, (1, 1, 1), {}, False),  # heartbeats are not told
    ],
)
def test_who_is_fenced_is_not_refused_for_ever(
    fenced: bool, lasts_s: int, epochs: tuple[int, ...], heard: dict[int, int], told: bool
) -> None:
    """A session of 9 s is over after two and a grace, whatever came late.

    A seed of Apache Kafka 4.4.0 with clients that send heartbeats all the time was an alarm.
    """
    epoch = 2  # the newest record's
    wanted = registration(3, TWO)
    refusal = registered(ErrorCode.duplicate_broker_registration)
    events = [
        event(wanted, refusal, 0, END + 1, ts=at_s * 10**9, ep=epoch + reign)
        for at_s, reign in zip((5, 7, 5 + lasts_s), epochs, strict=True)
    ]
    contacts = [
        {"t": "contact", "node": 2, "ts": at_s * 10**9, "broker": broker, "b_ep": 1}
        for broker, at_s in heard.items()
    ]
    _, anomalies = judged([*contacts, *events], [register(3, END, fenced=fenced)])
    assert [a.invariant for a in anomalies] == ["C17"] * told
    for anomaly in anomalies:
        assert "it is fenced, and refused because of a session for 22.000 s now" in anomaly.message


@pytest.mark.parametrize(
    ("cluster", "known", "told"),
    [("other", False, False), ("other", True, False), ("k", True, True), ("k", False, False)],
)
def test_a_broker_of_another_cluster_is_refused(cluster: str, known: bool, told: bool) -> None:
    """The checker learns the cluster's id from the first registration that is granted."""
    granted, more = registration(7, ONE), list[MetadataRecord]()
    outcome = Answering(image_of(BATCHES), ControllerConfig(cluster_id="k")).answer(*granted, END)
    events = []
    if known:
        more = list(map(decode_record, outcome.records))
        events.append(event(granted, outcome.response, len(more)))
    refusal = registered(ErrorCode.inconsistent_cluster_id)
    events.append(event(registration(8, TWO, cluster), refusal, 0, END + len(more), seq=6))
    checks, anomalies = judged(events, *([more] if more else []))
    assert [each.invariant for each in anomalies] == ["C17"] * told
    assert checks.checked == 2 * known


def test_records_that_do_something_else_are_told() -> None:
    told, _ = answered(new_isr([1]))
    _, (anomaly,) = judged([told], change(isr=(2,)))
    assert "[0].isr[0] is 2, where 1 is due" in anomaly.message
    elsewhere = PartitionChangeRecord(version=2, partition_id=0, topic_id=OTHER_ID, isr=(1,))
    _, (anomaly,) = judged([told], [elsewhere])
    assert f"[0].topic_id is {OTHER_ID}, where {TOPIC_ID} is due" in anomaly.message


def granted_to(
    broker: int, incarnation: UUID, *more: MetadataRecord
) -> tuple[dict[str, Any], MetadataRecord]:
    """Register a broker after these records; give our controller's answer, and its record."""
    wanted, batches = registration(broker, incarnation), [*BATCHES, *([more] if more else [])]
    config = ControllerConfig(cluster_id="k")
    outcome = Answering(image_of(batches), config).answer(*wanted, END + len(more))
    (record,) = map(decode_record, outcome.records)
    return event(wanted, outcome.response, 1, END + len(more)), record


@pytest.mark.parametrize("ours", [True, False])
def test_records_of_registrations_are_compared_for_nodes_of_ours(ours: bool) -> None:
    """Kafka's releases do not write the same for them."""
    answer, record = granted_to(7, ONE)
    told = answer | {"ours": ours}
    assert judged([told], [record])[1] == []
    _, anomalies = judged([told], [msgspec.structs.replace(record, in_controlled_shutdown=True)])
    assert [each.invariant for each in anomalies] == ["C17"] * ours
    for anomaly in anomalies:
        assert "[0].in_controlled_shutdown is 1, where 0 is due" in anomaly.message


def test_what_is_granted_to_a_new_process_of_a_broker_is_judged() -> None:
    """A controller grants it only after the session of the process before has ended."""
    before = register(3, END, incarnation=ONE)
    answer, record = granted_to(3, TWO, before)
    checks, anomalies = judged([answer | {"ours": True}], [before], [record])
    assert (anomalies, checks.checked) == ([], 1)
    kept = msgspec.structs.replace(record, incarnation_id=ONE)
    _, (anomaly,) = judged([answer | {"ours": True}], [before], [kept])
    assert f"[0].incarnation_id is {ONE}, where {TWO} is due" in anomaly.message


def test_a_version_and_a_broker_epoch_of_a_record_are_not_its_content() -> None:
    assert flat([register(1, 0)]) != flat([register(2, 0)])
    assert flat([register(1, 0, version=1)]) == flat([register(1, 0, version=2)])


def test_a_topic_whose_id_went_while_it_was_looked_up_is_not_judged() -> None:
    response = due(deletion("t"), BATCHES).response
    result = build(
        *(type(response), "DeletableTopicResult"),
        name="t",
        topic_id=None,
        error_code=ErrorCode.unknown_topic_id,
        error_message=None,
    )
    gone = build(type(response), responses=(result,), throttle_time=response.throttle_time)
    checks, anomalies = judged([event(deletion("t"), gone, 0)])
    assert (anomalies, checks.checked) == ([], 0)


def test_an_answer_is_judged_by_what_was_written_when_it_was_worked_out() -> None:
    """One was refused at once, by records that were committed later, and told before them."""
    granted, records = answered(deletion("t"))
    after = [*BATCHES, records]
    refused = event(deletion("t"), due(deletion("t"), after).response, 0, END + len(records))
    for told in ([refused, granted], [granted, refused]):
        checks, anomalies = judged(told, records, [NoOpRecord(version=0)])
        assert (anomalies, checks.checked) == ([], 2)


def test_an_answer_waits_for_all_that_it_went_by() -> None:
    granted, records = answered(deletion("t"))
    checks = AnswerChecks(Reference(), {})
    for batch in log_of(BATCHES):
        checks.batch(batch)
    checks.feed(granted)
    assert not list(checks.settle())
    assert checks.checked == 0
    (*_, last) = log_of([*BATCHES, records])
    checks.batch(last)
    assert not list(checks.settle(granted["ts"] + LAG_NS - 1))
    assert checks.checked == 0  # others may come that are to be judged first
    assert not list(checks.settle(granted["ts"] + LAG_NS))
    assert checks.checked == 1


def test_who_went_by_a_log_that_another_has_replaced_is_not_judged() -> None:
    refused = event(deletion("t"), due(deletion("x"), BATCHES).response, 0)
    checks = AnswerChecks(Reference(), {})
    for batch in log_of(BATCHES):
        checks.batch(LogBatch(batch.base, batch.last, 9, batch.crc, False, batch.records))
    checks.feed(refused)
    assert not list(checks.settle())
    assert checks.checked == 0


def reassigned() -> list[list[MetadataRecord]]:
    """A broker more, and a reassignment that adds it; the other replica is behind."""
    third = register(3, END, TWO, fenced=False)
    moved = change(replicas=(1, 2, 3), adding_replicas=(3,))
    return [*BATCHES, [third], change(isr=(1,)), moved]


@pytest.mark.parametrize("full", [False, True])
def test_what_any_release_may_answer_is_an_answer(full: bool) -> None:
    """Since Kafka 4.3 a reassignment does not wait for who was a replica before (KAFKA-19975)."""
    before = reassigned()
    end, request = sum(map(len, before)), new_isr([1, 3], pep=2)
    answering = Answering(image_of(before), ControllerConfig(full_targets=full))
    outcome = answering.answer(*request, end)
    (record,) = map(decode_record, outcome.records)
    assert (record.adding_replicas == ()) is not full  # type: ignore[attr-defined]
    checks = AnswerChecks(Reference(), {})
    for batch in log_of([*before, [record]]):
        checks.batch(batch)
    checks.feed(event(request, outcome.response, 1, end))
    assert (list(checks.settle()), checks.checked) == ([], 1)


def move(*replicas: int) -> tuple[int, int, bytes]:
    partition = part(45, 0, "ReassignablePartition", partition_index=0, replicas=replicas)
    topic = part(45, 0, "ReassignableTopic", name="t", partitions=(partition,))
    return 45, 0, asked(45, 0, topics=(topic,), timeout=WAIT)


@pytest.mark.parametrize("wrong", [None, {"replicas": (1, 2, 3), "removing_replicas": (3,)}])
def test_a_reassignment_that_leaves_what_the_one_before_wanted_is_told(
    wrong: dict[str, Any] | None,
) -> None:
    """Broker 3 was to come, and now is not: it is added and removed (docs/findings.md)."""
    third = register(3, END, TWO, fenced=False)
    moved = change(replicas=(1, 3, 2), adding_replicas=(3,), removing_replicas=(2,))
    before = [*BATCHES, [third], moved]
    outcome, end = due(move(1, 2), before), sum(map(len, before))
    records = list(map(decode_record, outcome.records)) if wrong is None else change(**wrong)
    told = event(move(1, 2), outcome.response, len(records), end)
    checks, anomalies = judged([told], *before[len(BATCHES) :], records)
    assert checks.checked == 1
    if wrong is None:
        assert not anomalies
    else:
        (anomaly,) = anomalies
        assert anomaly.message.endswith(f"; {BOTH_WAYS}")


def test_changes_that_differ_by_who_is_eligible_are_told_from_others() -> None:
    """Partition 0 excuses nothing else: docs/findings.md."""
    (small,), (kept,) = change(isr=(1,)), change(isr=(1,), eligible_leader_replicas=(2,))
    (other,) = change(isr=(2,), eligible_leader_replicas=(2,))
    assert isinstance(small, PartitionChangeRecord)
    assert isinstance(kept, PartitionChangeRecord)
    assert isinstance(other, PartitionChangeRecord)
    assert only_eligible_differ(small, kept)
    assert not only_eligible_differ(small, other)
    assert not only_eligible_differ(None, kept)


@pytest.mark.parametrize("ahead", [None, False, True])
def test_a_listing_tells_of_what_is_committed_only(ahead: bool | None) -> None:
    """Broker 3 is to come, and then is in sync; the next record is in memory (docs/findings.md)."""
    moved = change(replicas=(1, 3, 2), adding_replicas=(3,), removing_replicas=(2,))
    done = change(replicas=(1, 3), isr=(1, 3), adding_replicas=(), removing_replicas=())
    log: list[list[MetadataRecord]] = [
        [register(3, END, TWO, fenced=False)],
        list(moved),
        list(done),
    ]
    listing = 46, 0, asked(46, 0, timeout=WAIT, topics=None)
    known = [*BATCHES, *log[:2]]
    end = sum(map(len, known))
    response = due(listing, [*known, log[2]] if ahead is not None else known).response
    held = {} if ahead is None else {"held": int(ahead)}
    checks, anomalies = judged([event(listing, response, 0, end, **held)], *log)
    assert checks.checked == 1
    told = [each.message.endswith(f"1 {UNCOMMITTED}") for each in anomalies]
    assert told == ([] if ahead is None else [ahead])
    excused = [each.covers(a) for a in anomalies for each in known_of([Release("4.4.0")])]
    assert any(excused) is bool(ahead)


@pytest.mark.parametrize("left_out", [True, False])
def test_a_controller_that_began_without_the_eligible_counts_epochs_for_itself(
    *, left_out: bool
) -> None:
    """It says that the leader's epoch is higher than its own; others take the new ISR."""
    shrunk = change(isr=(1,), eligible_leader_replicas=(2,))
    switched_off = FeatureLevelRecord(version=0, name=ELR_VERSION, feature_level=0)
    before: list[list[MetadataRecord]] = [shrunk, [switched_off]]
    cleared = ClearElrRecord(version=0, topic_name="")
    whole = image_of([*BATCHES, *before])
    image = whole.without_eligible() if left_out else whole
    end = END + 3
    apply_record(image, cleared, end - 1)
    outcome = Answering(image, ControllerConfig()).answer(*new_isr([1, 2], pep=2), end)
    wrong = event(new_isr([1, 2], pep=2), outcome.response, len(outcome.records), end)
    records = [list(map(decode_record, outcome.records))] * (not left_out)
    _, anomalies = judged([wrong], *before, [cleared], *records)
    assert [each.message.endswith(f"; {LEFT_OUT}") for each in anomalies] == [True] * left_out
    known = known_of([Release("4.4.0")])
    assert all(any(each.covers(anomaly) for each in known) for anomaly in anomalies)


def levels(**wanted: int) -> tuple[int, int, bytes]:
    updates = tuple(
        part(
            *(57, 1, "FeatureUpdateKey"),
            feature=f"{name}.version",
            max_version_level=level,
            upgrade_type=1,
        )
        for name, level in wanted.items()
    )
    return 57, 1, asked(57, 1, timeout=WAIT, feature_updates=updates, validate_only=False)


@pytest.mark.parametrize("after", [0, 1])
def test_what_a_refusal_changes_all_the_same_is_told(after: int) -> None:
    """UpdateFeatures is all or nothing (KIP-1022), also of what is not in the metadata."""
    request = levels(kraft=1, metadata=1000)
    refused = due(levels(metadata=1000), BATCHES).response
    told = event(request, refused, 0, kraft=0, kraft_after=after)
    _, anomalies = judged([told])
    expected = ["it was refused, and kraft.version, which was 0, is 1"] if after else []
    assert [each.message.split(": ")[-1] for each in anomalies] == expected


CONTROLLER = RegisterControllerRecord(
    version=0,
    controller_id=2,
    incarnation_id=OTHER_ID,
    zk_migration_ready=False,
    end_points=(),
    features=(
        BrokerFeature(name="kraft.version", min_supported_version=0, max_supported_version=1),
    ),
)


@pytest.mark.parametrize(("present", "is_granted"), [(0, True), (1, False)])
def test_a_level_of_the_quorum_is_compared_with_the_one_in_force(
    present: int, is_granted: bool
) -> None:
    """Whoever asks for the level in force gets it, whatever the type of the change."""
    update = part(
        *(57, 1, "FeatureUpdateKey"), feature="kraft.version", max_version_level=0, upgrade_type=3
    )
    request = 57, 1, asked(57, 1, timeout=WAIT, feature_updates=(update,), validate_only=False)
    granted = due(request, BATCHES).response
    refused = due(levels(metadata=1000), BATCHES).response
    for answer, is_due in ((granted, is_granted), (refused, not is_granted)):
        told = event(request, answer, 0, END + 1, kraft=present)
        checks, anomalies = judged([told], [CONTROLLER])
        assert (not anomalies, checks.checked) == (is_due, 1), anomalies


@pytest.mark.parametrize(
    ("feature", "level", "last", "since"),
    [("kraft.version", 1, "4.0.2", "4.1.2"), ("no.such.version", 0, "3.9.2", "4.0.2")],
)
def test_a_level_that_old_releases_take_is_known_of_them(
    feature: str, level: int, last: str, since: str
) -> None:
    """Old releases accept these levels, which newer ones refuse."""
    update = part(
        *(57, 1, "FeatureUpdateKey"), feature=feature, max_version_level=level, upgrade_type=3
    )
    request = 57, 1, asked(57, 1, timeout=WAIT, feature_updates=(update,), validate_only=True)
    refused = due(request, BATCHES).response
    accepted = dataclasses.replace(refused, error_code=ErrorCode.none, error_message=None)
    _, (anomaly,) = judged([event(request, accepted, 0, END + 1)], [CONTROLLER])
    assert any(each.excuses(anomaly) for each in known_of([Release(last)]))
    assert not any(each.covers(anomaly) for each in known_of([Release(since)]))


def test_what_both_controllers_say_must_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker compares the answer with the metadata where both controllers are wrong."""
    request = deletion("nobody")
    refused = due(request, BATCHES)
    (row,) = refused.response.responses
    row = dataclasses.replace(row, error_code=ErrorCode.none, error_message=None)
    granted = dataclasses.replace(refused.response, responses=(row,))
    _, (anomaly,) = judged([event(request, granted, 0)])
    assert anomaly.message.endswith("error_code is 0, where 3 is due")
    mistaken = dataclasses.replace(refused, response=granted)
    monkeypatch.setattr(Answering, "answer", lambda *_: mistaken)
    _, (anomaly,) = judged([event(request, granted, 0)])
    assert anomaly.message.endswith(": there was no topic nobody")


@pytest.mark.parametrize("name", ["x", "y"])
def test_what_a_refused_topic_leaves_is_told(name: str) -> None:
    """Apache Kafka before 3.4 left its settings (KAFKA-14612)."""
    topic = part(
        *(19, 5, "CreatableTopic"),
        name="x",
        num_partitions=-1,
        replication_factor=100,
        assignments=(),
        configs=(),
    )
    request = 19, 5, asked(19, 5, topics=(topic,), timeout=WAIT, validate_only=False)
    setting = ConfigRecord(
        version=0, resource_type=2, resource_name=name, name="retention.ms", value="7"
    )
    _, anomalies = judged([event(request, due(request, BATCHES).response, 1)], [setting])
    expected = ["topic 'x' was refused, and left ConfigRecord"] if name == "x" else []
    assert [each.message.split(": ")[-1] for each in anomalies] == expected
    known = known_of([Release("3.3.2")])
    assert all(any(each.covers(anomaly) and each.red for each in known) for anomaly in anomalies)
    assert not any(each.covers(a) for each in known_of([Release("3.4.0")]) for a in anomalies)


def test_what_a_controller_wrote_that_leads_no_more_is_not_judged() -> None:
    """It refuses what it has decided when the quorum does not take its records."""
    topic = part(
        *(19, 5, "CreatableTopic"),
        name="x",
        num_partitions=1,
        replication_factor=1,
        assignments=(),
        configs=(),
    )
    request = 19, 5, asked(19, 5, topics=(topic,), timeout=WAIT, validate_only=False)
    made = due(request, BATCHES)
    lost = dataclasses.replace(made.response.topics[0], error_code=ErrorCode.not_controller)
    refused = dataclasses.replace(made.response, topics=(lost,))
    checks, anomalies = judged(
        [event(request, refused, len(made.records))], list(map(decode_record, made.records))
    )
    assert (anomalies, checks.checked) == ([], 0)


def test_a_long_run_agrees_with_itself_and_each_lie_in_it_is_told() -> None:
    """Our controller works through some requests, and is asked again from the log alone."""
    rng, batches = Random(7), list(BATCHES)
    events: list[dict[str, Any]] = []
    for seq in range(200):
        end, state = sum(map(len, batches)), image_of(batches).partition(TOPIC_ID, 0)
        pep = 0 if state is None else state.partition_epoch + rng.choice((-1, 0, 0, 1))
        isr = rng.choice(([1], [1, 2], [2], []))
        request = rng.choice(
            (deletion("x"), deletion("t" if seq > 150 else "y"), new_isr(isr, pep=pep))
        )
        outcome = due(request, batches)
        records = list(map(decode_record, outcome.records))
        events.append(event(request, outcome.response, len(records), end, seq=seq))
        batches.append(records or [NoOpRecord(version=0)])
    more = batches[len(BATCHES) :]
    checks, anomalies = judged(events, *more)
    assert (anomalies, checks.checked) == ([], len(events))
    granted = [each for each in events if each["n"]]
    assert len(granted) > 3
    for each in granted:
        of_others = [e["res"] for e in events if e["api"] == each["api"] and not e["n"]]
        _, found = judged([{**each, "res": rng.choice(of_others)}], *more)
        assert [anomaly.invariant for anomaly in found] == ["C17"]


def test_content_judges_answers_with_the_log() -> None:
    content = Content()
    refused = event(deletion("t"), due(deletion("x"), BATCHES).response, 0)
    for batch in log_of(BATCHES):
        content.batch(batch)
    assert not content.event(refused)
    content.finish()
    assert [anomaly.invariant for anomaly in content.anomalies] == ["C17"]
    assert content.checked["C17"] == 1


def test_what_is_not_served_is_no_answer() -> None:
    answering = Answering(MetadataImage(), ControllerConfig())
    with pytest.raises(AnsweringError, match="API 38 is not served"):
        answering.answer(ApiKey.CREATE_DELEGATION_TOKEN, 3, b"", 0)
    with pytest.raises(AnsweringError, match="no schema for version 99"):
        answering.answer(ApiKey.DELETE_TOPICS, 99, b"", 0)
    with pytest.raises(AnsweringError, match="DeleteTopicsRequest"):
        answering.answer(ApiKey.DELETE_TOPICS, 6, b"\xff", 0)


def test_what_would_be_written_is_forgotten() -> None:
    image = image_of(BATCHES)
    answering, digest = Answering(image, ControllerConfig()), image.digest
    first = answering.answer(*deletion("t"), END)
    assert first.records
    assert answering.answer(*deletion("t"), END) == first
    assert image.digest == digest
