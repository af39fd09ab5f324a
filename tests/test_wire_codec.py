"""The quorum's messages survive the wire in every version, but for what a version lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from node.core.messages import (
    Batch,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    QuorumEpochResponse,
    RecordRange,
    ReplicaStatus,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from node.core.types import Endpoint, OffsetAndEpoch, ReplicaKey, Voter
from node.log.batch import encode_batch, iter_batches
from node.wire import codec
from node.wire.api import CONTROLLER_APIS, ApiKey, ApiRange
from node.wire.api_versions import Negotiated
from node.wire.errors import (
    LocalProtocolError,
    RemoteProtocolError,
    UnsupportedVersionError,
    ValidationFailure,
    WireError,
)
from node.wire.payloads import api_schema, decode, encode
from node.wire.quorum_parts import METADATA_TOPIC_ID
from node.wire.structs import build

# ------------------------------------------------------------------ strategies

int32 = st.integers(0, 2**31 - 1)
int64 = st.integers(0, 2**63 - 2)
directories = st.none() | st.uuids().filter(lambda u: u.int != 0)
keys = st.builds(ReplicaKey, int32, directories)
endpoints = st.builds(Endpoint, st.text(min_size=1, max_size=40), st.integers(1, 65535))
clusters = st.none() | st.text(max_size=30)
positions = st.builds(OffsetAndEpoch, int64, int32)
errors = st.sampled_from([e for e in Error if e is not Error.INCONSISTENT_CLUSTER_ID])

votes = st.builds(VoteRequest, keys, int32, positions, st.booleans(), st.none() | keys, clusters)
begins = st.builds(BeginQuorumEpochRequest, int32, int32, endpoints, st.none() | keys, clusters)
ends = st.builds(
    EndQuorumEpochRequest,
    int32,
    int32,
    st.lists(keys, max_size=5).map(tuple),
    st.none() | endpoints,
    clusters,
)
fetches = st.builds(
    FetchRequest,
    st.builds(ReplicaKey, st.integers(-1, 2**31 - 1), directories),
    int32,
    int64,
    int32,
    int32,
    int32,
    st.none() | int64,
    clusters,
)
requests = st.one_of(votes, begins, ends, fetches, st.just(DescribeQuorumRequest()))

vote_answers = st.builds(
    VoteResponse, errors, int32, st.none() | int32, st.booleans(), st.none() | endpoints
)
epoch_answers = st.builds(
    QuorumEpochResponse, errors, int32, st.none() | int32, st.none() | endpoints
)
fetch_answers = st.builds(
    FetchResponse,
    errors,
    int32,
    st.none() | int32,
    st.none() | int64,
    int64,
    st.none() | endpoints,
    st.none() | positions,
)
statuses = st.builds(ReplicaStatus, keys, st.none() | int64, st.none() | int64, st.none() | int64)
describe_answers = st.builds(
    DescribeQuorumResponse,
    errors,
    int32,
    st.none() | int32,
    st.none() | int64,
    st.lists(statuses, max_size=4).map(tuple),
    st.lists(statuses, max_size=4).map(tuple),
)


def key_of(request: Request) -> ApiKey:
    return codec._KEYS[type(request)]


def versions(key: int) -> range:
    api = CONTROLLER_APIS[key]
    return range(api.min_version, api.max_version + 1)


def over_the_wire(entity: Any) -> Any:
    return decode(type(entity), encode(entity))


def at_version(request: Request, version: int) -> Request:
    """What is left of a request in a version."""
    match request:
        case VoteRequest():
            if version < 1:
                bare = ReplicaKey(request.candidate.id)
                request = replace(request, candidate=bare, voter=None)
            return request
        case BeginQuorumEpochRequest():
            return replace(request, voter=None) if version < 1 else request
        case EndQuorumEpochRequest() if version < 1:
            bare_keys = tuple(ReplicaKey(k.id) for k in request.preferred)
            return replace(request, preferred=bare_keys, leader_endpoint=None)
        case FetchRequest():
            if version < 18:
                request = replace(request, high_watermark=None)
            if version < 17:
                request = replace(request, replica=ReplicaKey(request.replica.id))
            return request
        case _:
            return request


# ------------------------------------------------------------------ requests


@given(requests, st.data())
def test_a_request_comes_out_as_it_went_in(request_: Request, data: st.DataObject) -> None:
    key = key_of(request_)
    version = data.draw(st.sampled_from(versions(key)))
    if isinstance(request_, VoteRequest) and request_.pre_vote and version < 2:
        with pytest.raises(UnsupportedVersionError, match="pre-vote"):
            codec.request_to_wire(request_, version)
        return
    entity = over_the_wire(codec.request_to_wire(request_, version))
    where = getattr(request_, "leader_endpoint", None)
    known = where if isinstance(request_, BeginQuorumEpochRequest) else None
    back = codec.request_from_wire(key, version, entity, endpoint_of=lambda _: known)
    assert back == at_version(request_, version)


@given(requests, st.data())
def test_encoding_at_once_gives_the_bytes_that_kio_writes(
    request_: Request, data: st.DataObject
) -> None:
    version = data.draw(st.sampled_from(versions(key_of(request_))))
    if isinstance(request_, VoteRequest):
        request_ = replace(request_, pre_vote=False)
    encoded = codec.encode_request(request_, version)
    assert encoded.body == encode(codec.request_to_wire(request_, version))
    assert (encoded.schema.key, encoded.schema.version) == (key_of(request_), version)


def test_a_fetch_that_knows_no_high_watermark_is_to_be_woken_for_anything() -> None:
    fetch = FetchRequest(ReplicaKey(1), 3, 0, 0, 500, 1024, high_watermark=-1)
    entity = over_the_wire(codec.request_to_wire(fetch, 18))
    assert codec.request_from_wire(1, 18, entity) == replace(fetch, high_watermark=0)


def test_a_nonsensical_high_watermark_is_refused() -> None:
    fetch = FetchRequest(ReplicaKey(1), 3, 0, 0, 500, 1024, high_watermark=-2)
    with pytest.raises(ValidationFailure, match="-2") as refusal:
        codec.request_from_wire(1, 18, codec.request_to_wire(fetch, 18))
    assert refusal.value.error_code == Error.INVALID_REQUEST


@pytest.mark.parametrize("version", [12, 13, 18])
@pytest.mark.parametrize(
    "what",
    [
        "no topic",
        "two topics",
        "other topic",
        "zero topic",
        "no partition",
        "two partitions",
        "other partition",
    ],
)
def test_a_fetch_of_anything_else_is_refused_with_error_42(version: int, what: str) -> None:
    good: Any = codec.request_to_wire(FetchRequest(ReplicaKey(1), 3, 0, 0, 500, 1024), version)
    topic = good.topics[0]
    partition = topic.partitions[0]
    named = "topic" if version == 12 else "topic_id"
    other = "orders" if version == 12 else UUID(int=2)
    topics = {
        "no topic": (),
        "two topics": (topic, topic),
        "other topic": (replace(topic, **{named: other}),),
        "zero topic": (replace(topic, **{named: "" if version == 12 else None}),),
        "no partition": (replace(topic, partitions=()),),
        "two partitions": (replace(topic, partitions=(partition, partition)),),
        "other partition": (replace(topic, partitions=(replace(partition, partition=1),)),),
    }[what]
    with pytest.raises(ValidationFailure, match="__cluster_metadata-0") as refusal:
        codec.request_from_wire(1, version, replace(good, topics=topics))
    assert refusal.value.error_code == 42


def test_an_announcement_without_an_endpoint_is_refused_when_nobody_knows_it() -> None:
    begin = BeginQuorumEpochRequest(7, 3, Endpoint("a", 1))
    entity = codec.request_to_wire(begin, 0)
    with pytest.raises(ValidationFailure, match="leader 7"):
        codec.request_from_wire(53, 0, entity)


def test_of_several_endpoints_the_controller_listener_counts() -> None:
    entity: Any = codec.request_to_wire(BeginQuorumEpochRequest(7, 3, Endpoint("b", 2)), 1)
    mine = entity.leader_endpoints[0]
    entity = replace(entity, leader_endpoints=(replace(mine, name="PLAINTEXT", host="a"), mine))
    begin = codec.request_from_wire(53, 1, entity)
    assert isinstance(begin, BeginQuorumEpochRequest)
    assert begin.leader_endpoint == Endpoint("b", 2)


def test_an_api_that_is_not_the_quorums_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="API 3"):
        codec.request_from_wire(3, 1, object())


def test_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="version 3 of VOTE"):
        codec.request_to_wire(VoteRequest(ReplicaKey(1), 1, OffsetAndEpoch(0, 0), False), 3)
    with pytest.raises(UnsupportedVersionError, match="version 11 of FETCH"):
        codec.encode_response(FetchResponse(Error.NONE, 1, 1), 11)


@pytest.mark.parametrize("version", [12, 18])
def test_a_value_that_does_not_fit_is_our_fault(version: int) -> None:
    too_big = FetchRequest(ReplicaKey(1), 2**31, 0, 0, 500, 1024)
    with pytest.raises(LocalProtocolError, match="2147483648"):
        codec.encode_request(too_big, version)
    with pytest.raises(LocalProtocolError):
        codec.encode_response(FetchResponse(Error.NONE, 2**31, 1), version)
    with pytest.raises(LocalProtocolError, match="cannot encode"):
        encode(codec.request_to_wire(too_big, version))


# ------------------------------------------------------------------ responses


def answer_round_trip(
    response: Response, request: Request, version: int, records: bytes = b""
) -> Response:
    body = codec.encode_response(response, version, records, request)
    entity = decode(api_schema(key_of(request), version).response, body)
    return codec.response_from_wire(entity, request, iter_batches)


def endpoint_left(response: Any, *, has_endpoints: bool) -> Any:
    if not has_endpoints or response.leader_id is None:
        return replace(response, leader_endpoint=None)
    return response


VOTE = VoteRequest(ReplicaKey(1), 1, OffsetAndEpoch(0, 0), False)
BEGIN = BeginQuorumEpochRequest(1, 1, Endpoint("a", 1))
END = EndQuorumEpochRequest(1, 1, ())
FETCH = FetchRequest(ReplicaKey(1), 1, 0, 0, 500, 1024)
DESCRIBE = DescribeQuorumRequest()


@given(vote_answers, st.sampled_from(versions(ApiKey.VOTE)))
def test_a_votes_answer_comes_back(response: VoteResponse, version: int) -> None:
    want = endpoint_left(response, has_endpoints=version >= 1)
    assert answer_round_trip(response, VOTE, version) == want


@given(epoch_answers, st.sampled_from([BEGIN, END]), st.integers(0, 1))
def test_an_epochs_answer_comes_back(
    response: QuorumEpochResponse, request_: Request, version: int
) -> None:
    want = endpoint_left(response, has_endpoints=version >= 1)
    assert answer_round_trip(response, request_, version) == want


@given(fetch_answers, st.sampled_from(versions(ApiKey.FETCH)))
def test_a_fetchs_answer_comes_back(response: FetchResponse, version: int) -> None:
    want = endpoint_left(response, has_endpoints=version >= 16)
    assert answer_round_trip(response, FETCH, version) == want


@given(fetch_answers, st.sampled_from(versions(ApiKey.FETCH)), st.binary(max_size=300))
def test_a_fetchs_answer_has_the_bytes_that_kio_writes(
    response: FetchResponse, version: int, records: bytes
) -> None:
    entity = codec.response_to_wire(response, version, records)
    assert codec.encode_response(response, version, records) == encode(entity)


@given(describe_answers, st.sampled_from(versions(ApiKey.DESCRIBE_QUORUM)))
def test_a_quorums_description_comes_back(response: DescribeQuorumResponse, version: int) -> None:
    def left(status: ReplicaStatus) -> ReplicaStatus:
        if version < 2:
            status = replace(status, key=ReplicaKey(status.key.id))
        return (
            status if version >= 1 else ReplicaStatus(status.key, status.log_end_offset, None, None)
        )

    want = replace(
        response,
        voters=tuple(map(left, response.voters)),
        observers=tuple(map(left, response.observers)),
    )
    assert answer_round_trip(response, DESCRIBE, version) == want


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
def test_records_arrive_as_checked_batches(version: int) -> None:
    first = encode_batch(5, 2, [(None, b"a"), (None, b"b")], control=False, timestamp_ms=1)
    second = encode_batch(7, 3, [(b"\0\0\0\x63", b"c")], control=True, timestamp_ms=2)
    response = FetchResponse(Error.NONE, 3, 1, 6, records=RecordRange(5, 4096))
    back = answer_round_trip(response, FETCH, version, first + second)
    assert isinstance(back, FetchResponse)
    assert [(b.base_offset, b.last_offset, b.epoch, b.is_control) for b in back.batches] == [
        (5, 6, 2, False),
        (7, 7, 3, True),
    ]
    assert b"".join(b.data for b in back.batches) == first + second
    assert back.high_watermark == 6


@pytest.mark.parametrize(
    ("response", "request_"),
    [
        (VoteResponse(Error.INCONSISTENT_CLUSTER_ID, 9, 1, False), VOTE),
        (QuorumEpochResponse(Error.INCONSISTENT_CLUSTER_ID, 9, 1), BEGIN),
        (QuorumEpochResponse(Error.INCONSISTENT_CLUSTER_ID, 9, 1), END),
        (FetchResponse(Error.INCONSISTENT_CLUSTER_ID, 9, 1), FETCH),
        (DescribeQuorumResponse(Error.INCONSISTENT_CLUSTER_ID, 9, 1), DESCRIBE),
    ],
)
def test_another_cluster_is_told_nothing_but_that(response: Any, request_: Request) -> None:
    for version in versions(key_of(request_)):
        entity: Any = codec.response_to_wire(response, version, b"", request_)
        assert entity.error_code is ErrorCode.inconsistent_cluster_id
        body = codec.encode_response(response, version, b"", request_)
        assert body == encode(entity)
        back: Any = answer_round_trip(response, request_, version)
        assert (back.error, back.epoch, back.leader_id) == (Error.INCONSISTENT_CLUSTER_ID, -1, None)


@pytest.mark.parametrize("request_", [VOTE, BEGIN, END, FETCH, DESCRIBE])
def test_a_bare_error_is_understood_by_the_other_side(request_: Request) -> None:
    key = key_of(request_)
    for version in versions(key):
        entity = over_the_wire(codec.error_to_wire(key, version, Error.INVALID_REQUEST))
        back: Any = codec.response_from_wire(entity, request_)
        assert (back.error, back.epoch) == (Error.INVALID_REQUEST, -1)


def test_an_error_that_the_quorum_does_not_speak_is_unknown() -> None:
    entity: Any = codec.response_to_wire(VoteResponse(Error.NONE, 1, 1, False), 2)
    odd = replace(entity.topics[0].partitions[0], error_code=ErrorCode.snapshot_not_found)
    entity = replace(entity, topics=(replace(entity.topics[0], partitions=(odd,)),))
    back = codec.response_from_wire(entity, VOTE)
    assert back.error is Error.UNKNOWN_SERVER_ERROR


def test_an_answer_about_nothing_is_the_peers_fault() -> None:
    entity: Any = codec.response_to_wire(VoteResponse(Error.NONE, 1, 1, True), 2)
    with pytest.raises(RemoteProtocolError, match="no topic"):
        codec.response_from_wire(replace(entity, topics=()), VOTE)
    other = replace(entity.topics[0], topic_name="orders")
    with pytest.raises(RemoteProtocolError, match="orders"):
        codec.response_from_wire(replace(entity, topics=(other,)), VOTE)


def test_an_answer_to_another_api_is_the_peers_fault() -> None:
    entity = codec.response_to_wire(VoteResponse(Error.NONE, 1, 1, True), 2)
    with pytest.raises(RemoteProtocolError, match="does not answer FETCH"):
        codec.response_from_wire(entity, FETCH)


def test_a_snapshot_offer_is_an_error_and_no_empty_answer() -> None:
    entity: Any = codec.response_to_wire(FetchResponse(Error.NONE, 3, 1), 18)
    topic = entity.responses[0]
    snapshot = build(type(entity), "SnapshotId", end_offset=40, epoch=2)
    data = replace(topic.partitions[0], snapshot_id=snapshot)
    entity = replace(entity, responses=(replace(topic, partitions=(data,)),))
    with pytest.raises(WireError, match="snapshot 40-2"):
        codec.response_from_wire(entity, FETCH)


def test_records_without_a_parser_are_our_fault() -> None:
    entity = codec.response_to_wire(FetchResponse(Error.NONE, 3, 1), 18, b"abc")
    with pytest.raises(LocalProtocolError, match="3 bytes"):
        codec.response_from_wire(entity, FETCH)


def test_what_the_parser_raises_comes_through() -> None:
    def parse(_data: bytes) -> list[Batch]:
        raise ZeroDivisionError

    entity = codec.response_to_wire(FetchResponse(Error.NONE, 3, 1), 18, b"abc")
    with pytest.raises(ZeroDivisionError):
        codec.response_from_wire(entity, FETCH, parse)


def test_an_epochs_answer_needs_its_request() -> None:
    with pytest.raises(LocalProtocolError, match="two APIs"):
        codec.response_to_wire(QuorumEpochResponse(Error.NONE, 1, 1), 1)


def test_a_description_says_where_the_voters_are() -> None:
    voter = Voter(ReplicaKey(3), Endpoint("c", 9093))
    response = DescribeQuorumResponse(Error.NONE, 1, 3)
    entity: Any = codec.response_to_wire(response, 2, voters=(voter,))
    (node,) = over_the_wire(entity).nodes
    assert (node.node_id, node.listeners[0].host, node.listeners[0].port) == (3, "c", 9093)


# ------------------------------------------------------------------ versions, known bytes


def test_the_version_is_the_highest_that_both_speak() -> None:
    kafka_3_9 = Negotiated([ApiRange(1, 0, 17), ApiRange(52, 0, 1), ApiRange(55, 3, 4)])
    assert codec.version_for(FETCH) == 18
    assert codec.version_for(FETCH, kafka_3_9) == 17
    assert codec.version_for(VOTE, kafka_3_9) == 1
    with pytest.raises(UnsupportedVersionError, match="3 to 4"):
        codec.version_for(DESCRIBE, kafka_3_9)
    with pytest.raises(UnsupportedVersionError, match="does not serve API 53"):
        codec.version_for(BEGIN, kafka_3_9)


def test_a_fetch_has_kafkas_bytes() -> None:
    """Written by hand from FetchRequest.json."""
    directory = UUID(int=0xABCD)
    fetch = FetchRequest(ReplicaKey(3, directory), 4, 9, 3, 500, 8192, 5, "abc")
    want = (
        "000001f4 00000000 00002000 00 00000000 ffffffff"  # waits, sizes, session
        f"02 {METADATA_TOPIC_ID.hex} 02"
        "00000000 00000004 0000000000000009 00000003 ffffffffffffffff 00000000"
        f"02 00 10 {directory.hex} 01 08 0000000000000005"  # two tagged fields
        "00 01 01"  # topic tags, nothing forgotten, no rack
        "02 00 04 04616263 01 0d 00000003 ffffffffffffffff 00"  # cluster, replica state
    )
    assert codec.encode_request(fetch, 18).body == bytes.fromhex(want)
