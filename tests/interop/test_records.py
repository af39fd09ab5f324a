"""What Kafka's controllers write, read by us: every record as Kafka's own tool decodes it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.systems.kafka.distribution import KafkaDist
from node.core.messages import Batch
from node.log.batch import decode_records
from node.log.disk import FileDisk
from node.log.file_log import FileLog
from node.log.layout import partition_dir, segment_name
from node.metadata.fold import apply_record
from node.metadata.image import MetadataImage
from node.metadata.records import RecordError, decode_record, encode_record
from node.metadata.state import TOPIC
from tests.support.kafka.cluster import running
from tests.support.kafka.life import SETTINGS, Told, constant, kafka_json, live, nulls
from tests.support.kafka.quorums import kafka_broker, static_quorum
from tests.support.kafka.tools import DumpedBatch, KafkaTools

pytestmark = [pytest.mark.interop, pytest.mark.slow]

WRITTEN = {
    "ACCESS_CONTROL_ENTRY_RECORD",
    "BEGIN_TRANSACTION_RECORD",
    "BROKER_REGISTRATION_CHANGE_RECORD",
    "CLIENT_QUOTA_RECORD",
    "CONFIG_RECORD",
    "END_TRANSACTION_RECORD",
    "FEATURE_LEVEL_RECORD",
    "NO_OP_RECORD",
    "PARTITION_CHANGE_RECORD",
    "PARTITION_RECORD",
    "PRODUCER_IDS_RECORD",
    "REGISTER_BROKER_RECORD",
    "REGISTER_CONTROLLER_RECORD",
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
    "REMOVE_TOPIC_RECORD",
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
    "TOPIC_RECORD",
    "UNREGISTER_BROKER_RECORD",
    "USER_SCRAM_CREDENTIAL_RECORD",
}


@dataclass(frozen=True)
class Written:
    """The log of a Kafka controller that is stopped: as we read it, and as Kafka does."""

    ours: list[Batch]
    theirs: list[DumpedBatch]
    told: Told
    told_at: int


@pytest.fixture(scope="module")
def written(kafka: KafkaDist, folder: Path, tools: KafkaTools) -> Written:
    """A Kafka cluster with two brokers has lived, and one broker has died."""
    with static_quorum(kafka, folder, {1: "kafka"}, **SETTINGS) as quorum:
        brokers = [kafka_broker(kafka, folder, i, quorum, **SETTINGS) for i in (11, 12)]
        with running(brokers):
            told, told_at = live(quorum, brokers, tools)
        quorum[1].stop()
    log = FileLog(FileDisk(), quorum[1].data)
    try:
        assert log.cut is None
        ours = list(log.batches(0))
    finally:
        log.close()
    dumped = tools.dump(partition_dir(quorum[1].data) / segment_name(0))
    return Written(ours, dumped, told, told_at)


def test_the_log_has_every_kind_of_record_that_it_was_made_for(written: Written) -> None:
    kinds = {r.type for b in written.theirs if not b.is_control for r in b.records}
    assert kinds == WRITTEN


def test_our_batches_are_those_that_kafka_reads(written: Written) -> None:
    theirs = [(b.base_offset, b.last_offset, b.epoch, b.crc, b.is_control) for b in written.theirs]
    ours = [(b.base_offset, b.last_offset, b.epoch, b.crc, b.is_control) for b in written.ours]
    assert ours == theirs
    assert all(b.is_valid for b in written.theirs)


def test_we_decode_every_record_field_by_field_as_kafka_does(written: Written) -> None:
    wrong: dict[str, list[str]] = defaultdict(list)
    for batch, dumped in zip(written.ours, written.theirs, strict=True):
        if batch.is_control:
            continue
        for (offset, _, value), their in zip(decode_records(batch), dumped.records, strict=True):
            assert offset == their.offset
            kind = f"{their.type} v{their.version}"
            try:
                record = decode_record(value or b"")
            except RecordError as error:
                wrong[kind].append(f"{offset}: cannot be decoded: {error}")
                continue
            assert constant(type(record).__name__) == their.type
            if (record.version, kafka_json(record)) != (their.version, nulls(their.fields)):
                wrong[kind].append(f"{offset}: {kafka_json(record)} is {their.fields} for Kafka")
            if encode_record(record) != value:
                wrong[kind].append(f"{offset}: written again it is {encode_record(record).hex()}")
    assert not wrong, "\n".join(f"{kind}: {what}" for kind, what in sorted(wrong.items()))


def test_our_image_of_the_log_is_what_kafkas_broker_tells(written: Written) -> None:
    image = MetadataImage()
    for batch in written.ours:
        if not batch.is_control and batch.base_offset < written.told_at:
            for offset, _, value in decode_records(batch):
                apply_record(image, decode_record(value or b""), offset)
    told = written.told
    assert {
        name: {i: (p.leader, p.replicas, p.isr) for i, p in topic.partitions.items()}
        for name, topic in image.topics.items()
    } == told.topics
    assert image.config((TOPIC, "kept"))["retention.ms"] == told.retention_ms
    assert [acl.resource_name for acl in image.acls.values()] == told.acl_topics
    assert sorted(user for user, _ in image.scram) == told.scram_users
    assert list(image.brokers) == [11], "12 is unregistered"
    assert image.client_quotas == {(("user", "alice"),): {"request_percentage": 12.5}}
    assert image.next_producer_id > 0
