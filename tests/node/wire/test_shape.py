"""The walk before decoding: agrees with kio on valid messages, stops hostile ones before kio."""

from __future__ import annotations

import struct
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import DescribeTopicPartitionsResponse

from node.core.messages import FetchRequest
from node.core.types import ReplicaKey
from node.wire import codec, payloads
from node.wire.errors import RemoteProtocolError
from node.wire.payloads import (
    ApiSchema,
    api_schema,
    decode,
    encode,
    read_request_head,
    read_response_head,
)
from node.wire.shape import Scan, read_varint, varint, walker
from tests.support.wire.entities import every_schema, random_entity

SCHEMAS = list(every_schema())
BEGIN_0 = api_schema(53, 0).request
CREATE_7 = api_schema(19, 7).request
DELETE_6 = api_schema(20, 6).request
FETCH_18 = api_schema(1, 18).request
FETCH_HEAD = struct.pack(">iiibii", 500, 0, 100, 0, 0, -1)
FETCH_REST = b"\x01\x01\x01"  # no topics, nothing forgotten, no rack

HUGE = (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\xff" * 20)


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_the_walk_ends_where_kio_ends(schema: ApiSchema) -> None:
    rng = Random(schema.key * 100 + schema.version)
    for type_ in (schema.request, schema.response):
        for _ in range(15):
            entity = random_entity(type_, rng)
            data = encode(entity)
            assert walker(type_)(b"\0\0" + data, 2, Scan(100_000)) == len(data) + 2
            assert encode(decode(type_, b"\0\0" + data, 2)) == data


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_no_cut_of_a_message_passes_for_one(schema: ApiSchema) -> None:
    rng = Random(schema.key * 100 + schema.version)
    for type_ in (schema.request, schema.response):
        data = encode(random_entity(type_, rng))
        step = max(1, len(data) // 60)
        for size in range(0, len(data), step):
            with pytest.raises(RemoteProtocolError):
                decode(type_, data[:size])
        with pytest.raises(RemoteProtocolError, match="1 trailing byte"):
            decode(type_, data + b"\0")


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_random_bytes_are_an_entity_or_a_protocol_error(schema: ApiSchema) -> None:
    rng = Random(schema.key * 100 + schema.version)
    valid = encode(random_entity(schema.request, rng))
    for _ in range(60):
        data = bytearray(valid or b"\0")
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 5))
            data = data or bytearray(b"\0")
        try:
            entity = decode(schema.request, bytes(data))
        except RemoteProtocolError:
            continue
        assert type(entity) is schema.request


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize(
    ("prefix", "suffix"),
    [
        pytest.param(b"", b"\x01\x01\x00", id="topics"),
        pytest.param(b"\x01", b"\x01\x00", id="forgotten topics"),
        pytest.param(b"\x01\x01", b"\x00", id="rack"),
        pytest.param(FETCH_REST, b"", id="number of tags"),
        pytest.param(FETCH_REST + b"\x01\x00", b"\x02a", id="size of a known tag"),
        pytest.param(FETCH_REST + b"\x01\x63", b"", id="size of an unknown tag"),
        pytest.param(FETCH_REST + b"\x01\x00\x05", b"aaaa", id="text in a tag"),
        pytest.param(b"\x02" + bytes(16), b"\x00", id="topic's partitions"),
    ],
)
def test_a_huge_length_is_refused_before_anything_is_reserved(
    prefix: bytes, suffix: bytes, huge: bytes
) -> None:
    """kio alone aborts the process on some of these."""
    with pytest.raises(RemoteProtocolError):
        decode(FETCH_18, FETCH_HEAD + prefix + huge + suffix)


@pytest.mark.parametrize("count", [2**31 - 1, 10**9, 1000, -2, -(2**31)])
def test_a_legacy_array_must_fit_the_frame(count: int) -> None:
    data = struct.pack(">hi", -1, count) + bytes(100)
    with pytest.raises(RemoteProtocolError, match=r"BeginQuorumEpochRequest\.topics"):
        decode(BEGIN_0, data)


@pytest.mark.parametrize(
    ("type_", "data", "field"),
    [
        (FETCH_18, FETCH_HEAD + b"\x00\x01\x01\x00", "FetchRequest.topics"),
        (FETCH_18, FETCH_HEAD + b"\x01\x01\x00\x00", "FetchRequest.rack_id"),
        (BEGIN_0, struct.pack(">hi", -1, -1), "BeginQuorumEpochRequest.topics"),
        (BEGIN_0, struct.pack(">hih", -1, 1, -1) + bytes(4), "TopicData.topic_name"),
        (BEGIN_0, struct.pack(">hi", -2, 0), "BeginQuorumEpochRequest.cluster_id"),
    ],
)
def test_null_is_refused_where_the_schema_has_none(type_: type, data: bytes, field: str) -> None:
    with pytest.raises(RemoteProtocolError, match=field):
        decode(type_, data)


def test_null_is_taken_where_the_schema_has_it() -> None:
    request: Any = decode(DELETE_6, b"\x02" + b"\x00" + UUID(int=5).bytes + b"\x00" + bytes(5))
    assert request.topics[0].name is None
    begin: Any = decode(BEGIN_0, struct.pack(">hi", -1, 0))
    assert begin.cluster_id is None


def test_bad_utf_8_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"FetchRequest is malformed.*UTF-8"):
        decode(FETCH_18, FETCH_HEAD + b"\x01\x01\x02\xff\x00")


def test_an_unknown_enum_value_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="9999"):
        decode(api_schema(1, 18).response, struct.pack(">ihi", 0, 9999, 0) + b"\x01\x00")


def test_a_tagged_field_must_fill_its_size() -> None:
    for size, text in ((b"\x03", b"\x02a"), (b"\x01", b"\x03ab")):
        with pytest.raises(RemoteProtocolError, match="tagged field 0"):
            decode(FETCH_18, FETCH_HEAD + FETCH_REST + b"\x01\x00" + size + text)


def test_elements_are_counted_over_the_whole_message() -> None:
    fetch_18: Any = FETCH_18
    part = FETCH_HEAD + b"\x01" + varint(101) + (bytes(16) + b"\x01\x00") * 100 + b"\x01\x00"
    assert len(decode(fetch_18, part, elements_max=100).forgotten_topics_data) == 100
    with pytest.raises(RemoteProtocolError, match="more than 99 elements"):
        decode(fetch_18, part, elements_max=99)


# ------------------------------------------------------------------ unknown tagged fields


def tagged(tag: int, content: bytes) -> bytes:
    return varint(tag) + varint(len(content)) + content


@pytest.mark.parametrize("where", ["before", "between", "after", "only", "nested"])
def test_unknown_tagged_fields_are_skipped(where: str) -> None:
    fetch = FetchRequest(ReplicaKey(3, UUID(int=9)), 4, 9, 3, 500, 100, 5, "abc")
    entity: Any = codec.request_to_wire(fetch, 18)
    cluster = tagged(0, b"\x04abc")
    state = tagged(1, struct.pack(">iq", 3, -1) + b"\x00")
    odd = tagged(99, b"anything")
    if where == "nested":
        state = tagged(1, struct.pack(">iq", 3, -1) + b"\x02" + odd + tagged(500, b""))
    fields = {
        "before": [odd, cluster, odd, state],
        "between": [cluster, tagged(2**20, b""), state],
        "after": [cluster, state, tagged(7, b"x" * 300)],
        "only": [odd],
        "nested": [cluster, state, odd],
    }[where]
    data = encode(entity)
    plain = encode(replace(entity, cluster_id=None, replica_state=type(entity.replica_state)()))
    assert plain.endswith(b"\x00")
    data = plain[:-1] + varint(len(fields)) + b"".join(fields)
    want = entity if where != "only" else decode(FETCH_18, plain)
    assert decode(FETCH_18, b"\0\0\0" + data, 3) == want


def test_unknown_tagged_fields_in_headers_are_skipped() -> None:
    head = struct.pack(">hhih", 1, 18, 7, 2) + b"me" + b"\x01" + tagged(40, b"xyz")
    read = read_request_head(head + b"body", flexible=True)
    assert (read.client_id, read.correlation, head[read.body_offset :]) == ("me", 7, b"")
    answer = struct.pack(">i", 7) + b"\x01" + tagged(40, b"xyz")
    assert read_response_head(answer, flexible=True) == (7, len(answer))


# ------------------------------------------------------------------ headers, primitives


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"", "no header"),
        (struct.pack(">hhi", 1, 18, 7), "no header"),
        (struct.pack(">hhih", 1, 18, 7, -2), "length -2"),
        (struct.pack(">hhih", 1, 18, 7, 5) + b"me", "runs over"),
        (struct.pack(">hhih", 1, 18, 7, 2) + b"\xff\xfe\x00", "UTF-8"),
        (struct.pack(">hhih", 1, 18, 7, 2) + b"me", "no header"),
        (struct.pack(">hhih", 1, 18, 7, 0) + b"\xff\xff\xff\xff\x0f", "31 bits"),
        (struct.pack(">hhih", 1, 18, 7, 0) + b"\xff\xff\xff\xff\x07", "100 elements"),
    ],
)
def test_a_broken_header_is_refused(head: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        read_request_head(head, flexible=True)


@given(st.integers(0, 2**31 - 1))
def test_varints_come_back(value: int) -> None:
    data = varint(value)
    assert read_varint(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))


@pytest.mark.parametrize("marker", [b"\x00", b"\x02", b"\x7f", b"\xfe"])
def test_a_nullable_struct_is_there_or_not(marker: bytes) -> None:
    response = random_entity(DescribeTopicPartitionsResponse, Random(4))
    for cursor in (None, random_entity(type(_cursor(response)), Random(4))):
        whole = replace(response, next_cursor=cursor)
        assert decode(DescribeTopicPartitionsResponse, encode(whole)) == whole
    request: Any = random_entity(DescribeTopicPartitionsRequest, Random(4))
    data = encode(replace(request, cursor=None))
    assert data[-2:] == b"\xff\x00"
    with pytest.raises(RemoteProtocolError, match="null marker"):
        decode(DescribeTopicPartitionsRequest, data[:-2] + marker + b"\x00")


def _cursor(response: Any) -> Any:
    for seed in range(50):
        drawn = random_entity(type(response), Random(seed)).next_cursor
        if drawn is not None:
            return drawn
    raise AssertionError("no cursor drawn")


# ------------------------------------------------------------------ panics


def test_a_panic_of_the_native_reader_is_the_peers_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):  # pyo3's name; no Exception there either
        pass

    def panicking(_type: type) -> Any:
        def read(_data: bytes, _offset: int) -> Any:
            raise PanicException("index out of bounds")

        return read

    monkeypatch.setattr(payloads, "_reader", panicking)
    with pytest.raises(RemoteProtocolError, match="index out of bounds"):
        decode(DELETE_6, b"\x01" + bytes(5))


def test_an_interrupt_is_nobodys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_type: type) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(payloads, "_reader", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decode(DELETE_6, b"\x01" + bytes(5))
