"""Metadata records: Kafka's bytes, and JSON that reads back."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.metadata.codec import read_record
from node.metadata.hot import read_usual
from node.metadata.records import (
    NO_OP,
    MetadataRecord,
    RecordError,
    decode_record,
    encode_record,
    encode_records,
    from_json,
    to_json,
)
from node.metadata.schemas import (
    ALL_RECORDS,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Since,
    TopicRecord,
    Wire,
)

TOPIC_ID = UUID("00000000-0000-4000-8000-000000000091")
PARTITION_BYTES = (
    f"01 03 01 00000001 {TOPIC_ID.hex} 02 00000001 02 00000001 01 01 00000001 00000000 00000000"
    "02 10000000000040008000000000000001 00"
)
INTEGERS = {
    Wire.INT8: st.integers(-(2**7), 2**7 - 1),
    Wire.INT16: st.integers(-(2**15), 2**15 - 1),
    Wire.UINT16: st.integers(0, 2**16 - 1),
    Wire.INT32: st.integers(-(2**31), 2**31 - 1),
    Wire.INT64: st.integers(-(2**63), 2**63 - 1),
}
TEXT = st.text(max_size=300)


IDS = st.none() | st.uuids(allow_nil=False)
TUPLES = {Wire.INT32S: INTEGERS[Wire.INT32], Wire.UUIDS: IDS, Wire.STRINGS: TEXT}
SCALARS = INTEGERS | {
    Wire.BOOL: st.booleans(),
    Wire.FLOAT64: st.floats(allow_nan=False),
    Wire.UUID: IDS,
    Wire.STRING: TEXT,
    Wire.NULLABLE_STRING: st.none() | TEXT,
    Wire.BYTES: st.binary(max_size=200),
}
VALUES: dict[Wire, st.SearchStrategy[Any]] = (
    SCALARS
    | {wire: st.lists(item, max_size=4).map(tuple) for wire, item in TUPLES.items()}
    | {
        Wire.NULLABLE_INT32S: st.none() | st.lists(INTEGERS[Wire.INT32], max_size=4).map(tuple),
        Wire.NULLABLE_UUIDS: st.none() | st.lists(IDS, max_size=4).map(tuple),
    }
)


def structs(cls: type[msgspec.Struct], version: int) -> st.SearchStrategy[Any]:
    """Any value of a declared class, with the fields that a version has."""
    arguments: dict[str, st.SearchStrategy[Any]] = {}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        marks = {type(mark): mark for mark in getattr(hint, "__metadata__", ())}
        if Wire not in marks or (Since in marks and marks[Since].version > version):
            continue
        if marks[Wire] is Wire.STRUCTS:
            nested = get_args(get_args(hint)[0])[0]
            arguments[name] = st.lists(structs(nested, version), max_size=3).map(tuple)
        else:
            arguments[name] = VALUES[marks[Wire]]
    return st.builds(cls, **arguments)


def records(cls: type[MetadataRecord], version: int = 0) -> st.SearchStrategy[MetadataRecord]:
    """Any record of a kind and version, from its own declaration."""
    return structs(cls, version).map(lambda r: msgspec.structs.replace(r, version=version))


KINDS = [(cls, version) for cls in ALL_RECORDS for version in range(cls.HIGHEST + 1)]
ANY_RECORD = st.sampled_from(KINDS).flatmap(lambda kind: records(*kind))


@given(ANY_RECORD)
def test_records_round_trip_as_bytes_and_as_json(record: MetadataRecord) -> None:
    assert decode_record(encode_record(record)) == record
    data = to_json(record)
    assert set(data) == {"type", "version", "fields"}
    assert from_json(data) == record


HOT = st.sampled_from(
    [kind for kind in KINDS if kind[0] in (PartitionRecord, PartitionChangeRecord, ConfigRecord)]
).flatmap(lambda kind: records(*kind))


@given(HOT)
def test_what_is_read_by_hand_is_what_the_plans_read(record: MetadataRecord) -> None:
    data = encode_record(record)
    by_hand = read_usual(data)
    assert by_hand is None or by_hand == record
    assert read_record(type(record), record.version, data, 3) == (record, len(data))


@given(HOT, st.data())
def test_bytes_are_refused_by_hand_that_the_plans_refuse(
    record: MetadataRecord, data: st.DataObject
) -> None:
    value = bytearray(encode_record(record))
    for _ in range(data.draw(st.integers(1, 3))):
        value[data.draw(st.integers(3, len(value) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(value[: data.draw(st.integers(3, len(value)))])
    by_hand = read_usual(cut)
    if by_hand is not None:
        assert read_record(type(record), record.version, cut, 3) == (by_hand, len(cut))


def test_the_usual_records_are_read_by_hand() -> None:
    ids = (TOPIC_ID, None, TOPIC_ID)
    usual = [
        PartitionRecord(
            version=2, topic_id=TOPIC_ID, replicas=(1, 2, 3), isr=(1,), leader=1, directories=ids
        ),
        PartitionChangeRecord(version=2, topic_id=TOPIC_ID, isr=(2,), leader=2, last_known_elr=()),
        ConfigRecord(resource_type=-1, resource_name="", name="é", value="1"),
        ConfigRecord(resource_type=2, resource_name="t", name="k", value=None),
    ]
    assert [read_usual(encode_record(record)) for record in usual] == usual


@pytest.mark.parametrize(
    "record",
    [
        NoOpRecord(version=1),
        FeatureLevelRecord(name="f", feature_level=1 << 15),
        FeatureLevelRecord(name="\ud800", feature_level=1),
        PartitionRecord(topic_id=None, replicas=(1 << 31,), isr=()),
    ],
    ids=["no such version", "number too large", "no text", "id too large"],
)
def test_what_cannot_be_written_is_refused(record: MetadataRecord) -> None:
    with pytest.raises(RecordError, match="cannot be written"):
        encode_record(record)


def test_tagged_fields_of_a_newer_node_are_passed_over() -> None:
    assert decode_record(bytes.fromhex("011400 01 07 02 ffff")) == NoOpRecord()


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            FeatureLevelRecord(name="metadata.version", feature_level=20),
            "01 0c 00 11 6d657461646174612e76657273696f6e 0014 00",
        ),
        (
            TopicRecord(name="saz", topic_id=TOPIC_ID),
            "01 02 00 04 73617a 00000000000040008000000000000091 00",
        ),
        (
            PartitionRecord(
                version=1,
                partition_id=1,
                topic_id=TOPIC_ID,
                replicas=(1,),
                isr=(1,),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=(UUID("10000000-0000-4000-8000-000000000001"),),
            ),
            PARTITION_BYTES,
        ),
        (
            ConfigRecord(resource_type=2, resource_name="t", name="k", value=None),
            "01 04 00 02 02 74 02 6b 00 00",
        ),
        (NoOpRecord(), "01 14 00 00"),
    ],
)
def test_bytes_are_those_of_kafkas_schemas(record: MetadataRecord, expected: str) -> None:
    assert encode_record(record) == bytes.fromhex(expected)


def test_several_records_are_encoded_in_order() -> None:
    level = FeatureLevelRecord(name="f", feature_level=1)
    assert encode_records([level, NoOpRecord()]) == (encode_record(level), NO_OP)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "cut short"),
        ("01", "cut short"),
        ("02 04 00 00", "frame version 2"),
        ("01 63 00 00", "key 99 version 0 is not known"),
        ("01 04 09 00", "key 4 version 9 is not known"),
        ("01 04 00 02 02", "malformed metadata record of key 4"),
        ("01 14 00 00 ff", "1 bytes after"),
        (PARTITION_BYTES + "00", "1 bytes after"),
        (f"01 05 00 00000001 {TOPIC_ID.hex} 00 00", "1 bytes after"),
        ("01 04 00 02 02 74 02 6b 00 00 00", "1 bytes after"),
        ("01 14 01 00", "key 20 version 1 is not known"),
        ("01 14 00 01 07 03 ffff", "3 bytes wanted"),
        ("01 19 00 01 00 03 02 61 61", "tagged field reason has 1 bytes too many"),
        ("01 0c 00 00 0001 00", "null where a value is required"),
        ("01 0a 00 01 01 00", "null where"),
        ("ff ff ff ff ff ff", "varint too long"),
        ("01 02 00 ff ff ff ff 7f 00", "malformed"),
    ],
)
def test_what_is_no_record_is_refused(data: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        decode_record(bytes.fromhex(data))


@given(st.binary(max_size=60))
def test_garbage_is_refused_or_reads_back(data: bytes) -> None:
    try:
        record = decode_record(b"\x01" + data)
    except RecordError:
        return
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"type": "NoSuchRecord", "version": 0, "fields": {}},
        {"type": "TopicRecord", "version": 0, "fields": {}},
        {"type": "TopicRecord", "version": 0, "fields": {"name": "t", "topic_id": "zz"}},
        {"type": "TopicRecord", "version": 7, "fields": {"name": "t", "topic_id": TOPIC_ID.hex}},
        {"type": "TopicRecord", "version": 0, "fields": None},
    ],
)
def test_json_that_is_no_record_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(RecordError, match="is not the JSON of a metadata record"):
        from_json(data)


def test_json_is_readable() -> None:
    record = PartitionRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=(3, 1), isr=(3,), leader=3, leader_epoch=2,
        partition_epoch=5,
    )  # fmt: skip
    assert to_json(record) == {
        "type": "PartitionRecord",
        "version": 0,
        "fields": {
            "partition_id": 0,
            "topic_id": "00000000000040008000000000000091",
            "replicas": [3, 1],
            "isr": [3],
            "removing_replicas": [],
            "adding_replicas": [],
            "leader": 3,
            "leader_recovery_state": 0,
            "leader_epoch": 2,
            "partition_epoch": 5,
        },
    }
