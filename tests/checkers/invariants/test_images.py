"""Images that differ by settings of deleted topics alone are told apart from all others (C8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

from checkers.committed.fold import Folding, MetadataFold, digest_of
from checkers.committed.orphans import Deletions, without_orphans
from checkers.committed.reference import Reference
from checkers.invariants.images import (
    BY_ELIGIBLE,
    BY_HEIRS,
    BY_LEFT_OUT,
    BY_ORPHANS,
    BY_PASSWORDS,
    ImageChecks,
    Snapshot,
    snapshot_on_disk,
)
from checkers.monitor.content import Content
from harness.contracts.evidence import LogBatch, LogSnapshot
from harness.systems.kafka.known import KEEPS_SETTINGS as KEPT_SETTINGS
from harness.verdict import Anomaly
from node.metadata.features import ELR_VERSION
from node.metadata.records import to_json
from node.metadata.schemas import PartitionRecord, UserScramCredentialRecord
from tests.support.traces.traces import Event, register_record, topic_record

Record = Mapping[str, Any]

GONE, KEPT, NEVER = "register-gone", "register-kept", "register-never"
IDS = {GONE: str(UUID(int=1)), KEPT: str(UUID(int=2))}
REMOVED: Record = {"type": "RemoveTopicRecord", "fields": {"topic_id": IDS[GONE]}}
LOG: Sequence[Record] = (
    topic_record(KEPT, IDS[KEPT]),
    register_record("kept", 1),
    topic_record(GONE, IDS[GONE]),
    register_record("gone", 7),
    REMOVED,
    register_record("kept", 2),
)
ORPHAN, UNBORN = register_record("gone", 7), register_record("never", 7)
ALL: Sequence[Record] = (topic_record(KEPT, IDS[KEPT]), register_record("kept", 2))
LESS: Sequence[Record] = ALL[:1]  # a setting is missing


def committed(first: int = 0) -> list[LogBatch]:
    """Each record is a batch of its own."""
    return [
        LogBatch(at, at, 1, at, False, ({"offset": at, **record},))
        for at, record in enumerate(LOG)
        if at >= first
    ]


def image(records: Sequence[Record], off: int = len(LOG), inc: int = 5) -> Event:
    """Make the ``image`` event that a node emits when it has these records; see ``node.trace``."""
    rest, orphans = without_orphans(records)
    event = {"t": "image", "node": 4, "inc": inc, "seq": 9, "ts": 3, "off": off, "kind": "full"}
    event["digest"] = digest_of(snapshot(records))
    event |= settings_of(rest)
    return {**event, "orphans": orphans, "bare": digest_of(snapshot(rest))} if orphans else event


def settings_of(records: Sequence[Record]) -> dict[str, Any]:
    """Give what the event says of settings of topics."""
    fold = MetadataFold()
    fold.load(records, len(LOG) + 1)
    settings = fold.topic_settings()
    return {"settings": settings} if settings else {}


def snapshot(records: Sequence[Record], end: int = len(LOG)) -> LogSnapshot:
    return LogSnapshot(end, 1, tuple(records))


def judged(*events: Event, known: Reference | None = None) -> list[Anomaly]:
    content = Content() if known is None else Content(known, MetadataFold)
    for batch in committed(content.end):
        content.batch(batch)
    for event in events:
        content.event(event)
    content.finish()
    return [anomaly for anomaly in content.anomalies if anomaly.invariant == "C8"]


def is_kept(anomaly: Anomaly) -> bool:
    """Tell whether an anomaly is the finding of deleted topics' settings."""
    return any(each.covers(anomaly) for each in KEPT_SETTINGS)


HEIR = topic_record(GONE, str(UUID(int=3)))  # a new topic of a deleted one's name


@pytest.mark.parametrize(
    ("records", "known"),
    [
        ([*ALL, HEIR, ORPHAN], True),
        ([*LESS, HEIR, ORPHAN], False),  # the other topic's setting is gone: it was never deleted
        ([*ALL, ORPHAN], False),  # nor is the new topic there
    ],
)
def test_settings_that_a_new_topic_has_of_a_deleted_one_are_known(
    records: Sequence[Record], known: bool
) -> None:
    content = Content()
    for batch in [
        *committed(),
        LogBatch(len(LOG), len(LOG), 1, 0, False, ({"offset": 6, **HEIR},)),
    ]:
        content.batch(batch)
    content.event(image(records, off=len(LOG) + 1))
    content.finish()
    (found,) = [each for each in content.anomalies if each.invariant == "C8"]
    assert found.message.endswith(f"{BY_HEIRS}{GONE}") is known
    assert is_kept(found) is known


def test_an_image_with_all_that_was_committed_is_right() -> None:
    assert judged(image(ALL)) == []


def test_settings_of_a_deleted_topic_are_the_known_difference() -> None:
    (found,) = judged(image([*ALL, ORPHAN]))
    assert found.message.endswith(f"{BY_ORPHANS}{GONE}")
    assert is_kept(found)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(LESS, id="a setting is missing"),
        pytest.param([*LESS, ORPHAN], id="a setting is missing, and one is left"),
        pytest.param([*ALL, UNBORN], id="of a topic that never was"),
        pytest.param([*ALL, ORPHAN, UNBORN], id="of one that was and one that was not"),
        pytest.param([*ALL, LOG[2], ORPHAN], id="the topic itself is left"),
    ],
)
def test_any_other_difference_is_not_known(records: Sequence[Record]) -> None:
    (found,) = judged(image(records))
    assert found.invariant == "C8"
    assert not is_kept(found)


def test_before_its_deletion_no_setting_of_a_topic_is_an_orphan() -> None:
    early = [*ALL[:1], register_record("kept", 1)]
    assert judged(image([*early, LOG[2], ORPHAN], off=4)) == []
    (found,) = judged(image([*early, ORPHAN], off=4))
    assert not is_kept(found)


def test_the_known_difference_hides_no_other_of_the_same_process() -> None:
    known, other = judged(image([*ALL, ORPHAN]), image([*ALL, ORPHAN]), image(LESS))
    assert is_kept(known)
    assert not is_kept(other)


def test_what_no_log_tells_any_more_is_not_known() -> None:
    begins = Reference(committed(5), snapshot([*ALL[:1], register_record("kept", 1)], 5))
    (found,) = judged(image([*ALL, ORPHAN]), known=begins)
    assert not is_kept(found)


def test_a_topic_of_the_first_snapshot_may_be_deleted_later() -> None:
    before = [*ALL[:1], register_record("kept", 1), LOG[2], ORPHAN]
    begins = Reference(committed(4), snapshot(before, 4))
    (found,) = judged(image([*ALL, ORPHAN]), known=begins)
    assert is_kept(found)


@pytest.mark.parametrize(
    ("records", "known"),
    [([*ALL, ORPHAN], True), ([*LESS, ORPHAN], False), ([*ALL, UNBORN], False)],
)
def test_a_snapshot_is_told_apart_likewise(records: Sequence[Record], known: bool) -> None:
    content = Content()
    for batch in committed():
        content.batch(batch)
    (found,) = content.images.judge_snapshot("n4", snapshot_on_disk(snapshot(records)))
    assert found.message.startswith("the snapshot of n4 at offset 6 holds state ")
    assert is_kept(found) is known


@pytest.mark.parametrize(("orphan", "known"), [(ORPHAN, True), (UNBORN, False)])
def test_a_snapshot_with_settings_of_a_deleted_topic_and_of_its_heir(
    orphan: Record, known: bool
) -> None:
    other = register_record("other", 1)
    log: Sequence[Record] = (
        topic_record("register-other", str(UUID(int=4))),
        other,
        {"type": "RemoveTopicRecord", "fields": {"topic_id": str(UUID(int=4))}},
        heir := topic_record("register-other", str(UUID(int=5))),
    )
    content = Content()
    for batch in committed():
        content.batch(batch)
    for at, record in enumerate(log, len(LOG)):
        content.batch(LogBatch(at, at, 1, at, False, ({"offset": at, **record},)))
    file = LogSnapshot(len(LOG) + len(log), 1, (*ALL, heir, other, orphan))
    (found,) = content.images.judge_snapshot("n4", snapshot_on_disk(file))
    assert found.message.endswith(f"{BY_HEIRS}register-other") is known
    assert is_kept(found) is known


ELIGIBLE: Sequence[Record] = (
    {"type": "FeatureLevelRecord", "fields": {"name": ELR_VERSION, "feature_level": 1}},
    topic_record(KEPT, IDS[KEPT]),
    to_json(
        PartitionRecord(
            version=2,
            partition_id=0,
            topic_id=UUID(IDS[KEPT]),
            replicas=(1, 2),
            isr=(),
            leader=-1,
            leader_epoch=0,
            partition_epoch=0,
            eligible_leader_replicas=(1,),
            last_known_elr=(1,),
        )
    ),
)
OFF: Record = {"type": "FeatureLevelRecord", "fields": {"name": ELR_VERSION, "feature_level": 0}}


@pytest.mark.parametrize("is_off", [True, False])
def test_an_image_without_eligible_leaders_is_told_apart_while_they_are_off(
    *, is_off: bool
) -> None:
    log = [*ELIGIBLE, OFF] if is_off else [*ELIGIBLE]
    batches = [
        LogBatch(at, at, 1, at, False, ({"offset": at, **record},)) for at, record in enumerate(log)
    ]
    folding = Folding()
    for batch in batches:
        folding.batch(batch)
    bare = {**ELIGIBLE[2], "fields": {**ELIGIBLE[2]["fields"], "eligible_leader_replicas": []}}
    bare["fields"]["last_known_elr"] = []
    held = [*ELIGIBLE[:2], bare, *log[3:]]
    digest = digest_of(LogSnapshot(len(log), 1, tuple(held)))
    checks = ImageChecks(folding.folded)
    whole = digest_of(LogSnapshot(len(log), 1, tuple(log)))
    assert list(checks.judge_snapshot("n1", Snapshot(len(log), whole, {}))) == []
    (anomaly,) = checks.judge_snapshot("n1", Snapshot(len(log), digest, {}))
    assert anomaly.message.endswith(BY_ELIGIBLE) is is_off
    both = digest_of(LogSnapshot(len(log), 1, (*held, ORPHAN)))
    with_settings = Snapshot(len(log), both, {}, (GONE,), digest)
    checks.deletions = Deletions([LOG[2], REMOVED])
    (anomaly,) = checks.judge_snapshot("n1", with_settings)
    assert anomaly.message.endswith(BY_ELIGIBLE) is is_off


MINIMUM: Record = {"type": "ClearElrRecord", "fields": {"topic_name": ""}}
ON = ELIGIBLE[0]


@pytest.mark.parametrize(
    ("log", "known"),
    [
        ((OFF, ON), True),  # it has a state of its own, until they are cleared, too
        ((OFF, ON, MINIMUM), True),
        ((OFF, MINIMUM, ON), True),
        ((OFF, ON, MINIMUM, OFF, ON), True),
        ((ON, MINIMUM), False),  # its snapshots had them
    ],
)
def test_a_state_that_went_on_without_eligible_leaders_is_told_apart(
    log: Sequence[Record], *, known: bool
) -> None:
    """A node loads a snapshot of the first record, whose partition has none, and reads on."""
    content, node = Content(), MetadataFold()
    before = [*ELIGIBLE, log[0]]
    bare = {**ELIGIBLE[2], "fields": {**ELIGIBLE[2]["fields"], "eligible_leader_replicas": []}}
    bare["fields"]["last_known_elr"] = []
    node.load([*ELIGIBLE[:2], bare, log[0]], len(before))
    for at, record in enumerate([*ELIGIBLE, *log]):
        content.batch(LogBatch(at, at, 1, at, False, ({"offset": at, **record},)))
        if at >= len(before):
            node.apply(record, at)
    end = len(ELIGIBLE) + len(log)
    event = {"t": "image", "node": 4, "inc": 1, "seq": 1, "off": end, "digest": node.digest}
    (anomaly,) = content.images.feed(event)
    assert anomaly.message.endswith(BY_LEFT_OUT) is known


def credential(user: str) -> Record:
    return to_json(
        UserScramCredentialRecord(
            version=0,
            name=user,
            mechanism=1,
            salt=b"s",
            stored_key=b"k",
            server_key=user.encode(),
            iterations=4096,
        )
    )


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ((0, 1, 2), None),
        ((0, 1), BY_PASSWORDS),
        ((0,), BY_PASSWORDS),
        ((1, 2), "the committed log folds to "),
    ],
)
def test_a_state_without_some_passwords_is_told_apart(
    held: Sequence[int], message: str | None
) -> None:
    log = [topic_record(KEPT, IDS[KEPT]), credential("a"), credential("b")]
    folding = Folding()
    for at, record in enumerate(log):
        folding.batch(LogBatch(at, at, 1, at, False, ({"offset": at, **record},)))
    image = MetadataFold()
    image.load([log[each] for each in held], len(log))
    checks = ImageChecks(folding.folded)
    seen = Snapshot(len(log), image.digest, {}, open=image.open_digest())
    found = [each.message for each in checks.judge_snapshot("n1", seen)]
    assert len(found) == (message is not None)
    assert message is None or message in found[0]
    assert message == BY_PASSWORDS or not any(BY_PASSWORDS in each for each in found)


@pytest.mark.parametrize(("records", "known"), [([*ALL, ORPHAN], True), ([*LESS, ORPHAN], False)])
def test_passwords_and_settings_of_a_deleted_topic_may_both_differ(
    records: Sequence[Record], *, known: bool
) -> None:
    """Seed 324 of ``combined`` with Apache Kafka 3.9.2 met two findings in one image."""
    at = len(LOG)
    given = LogBatch(at, at, 1, 0, False, ({"offset": at, **credential("a")},))
    content = Content()
    for batch in [*committed(), given]:
        content.batch(batch)
    content.event(image(records, off=at + 1))
    content.finish()
    (found,) = [each for each in content.anomalies if each.invariant == "C8"]
    assert found.message.endswith(f"{BY_PASSWORDS}, and{BY_ORPHANS}{GONE}") is known
    assert is_kept(found) is known
