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
    AddVoterRequest,
    Batch,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ProbeVersionsRequest,
    ProbeVersionsResponse,
    QuorumEpochResponse,
    RecordRange,
    RemoveVoterRequest,
    ReplicaStatus,
    Request,
    Response,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from node.core.types import Endpoint, Listener, OffsetAndEpoch, ReplicaKey, VersionRange, Voter
from node.log.batch import encode_batch, iter_batches
from node.wire import codec
from node.wire.api import CONTROLLER_APIS, ApiKey, ApiRange
from node.wire.api_versions import Negotiated
from node.wire.errors import (
    LocalProtocolError,
    RemoteProtocolError,
    UnsupportedVersionError,
    ValidationFailure,
)
from node.wire.payloads import api_schema, decode, encode
from node.wire.quorum.parts import METADATA_TOPIC_ID
from tests.support.wire.entities import body_of

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
snapshot_fetches = st.builds(FetchSnapshotRequest, keys, int32, positions, int64, int32, clusters)
others = st.builds(Listener, st.text("abc", min_size=1, max_size=3), endpoints)
listeners = st.tuples(
    st.builds(Listener, st.just("CONTROLLER"), endpoints),
    st.lists(others, max_size=3, unique_by=lambda x: x.name),
).map(lambda x: (x[0], *x[1]))
levels = st.builds(VersionRange, st.integers(0, 9), st.integers(10, 99))
additions = st.builds(AddVoterRequest, keys, listeners, int32, clusters, st.booleans())
removals = st.builds(RemoveVoterRequest, keys, clusters)
updates = st.builds(UpdateVoterRequest, keys, int32, listeners, levels, clusters)
requests = st.one_of(
    votes,
    begins,
    ends,
    fetches,
    snapshot_fetches,
    additions,
    removals,
    updates,
    st.just(DescribeQuorumRequest()),
)

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
    st.none() | positions,
)
snapshot_answers = st.builds(
    FetchSnapshotResponse,
    errors,
    int32,
    st.none() | int32,
    st.none() | endpoints,
    positions,
    int64,
    int64,
)
change_answers = st.builds(
    VoterChangeResponse,
    errors,
    int32,
    st.none() | int32,
    st.none() | endpoints,
    st.none() | st.text(max_size=20),
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

VOTE = VoteRequest(ReplicaKey(1), 1, OffsetAndEpoch(0, 0), False)
BEGIN = BeginQuorumEpochRequest(1, 1, Endpoint("a", 1))
END = EndQuorumEpochRequest(1, 1, ())
FETCH = FetchRequest(ReplicaKey(1), 1, 0, 0, 500, 1024)
DESCRIBE = DescribeQuorumRequest()
LISTENERS = (Listener("CONTROLLER", Endpoint("a", 1)),)
SNAPSHOT = FetchSnapshotRequest(ReplicaKey(1), 1, OffsetAndEpoch(9, 1), 0, 1024)
ADD = AddVoterRequest(ReplicaKey(4, UUID(int=4)), LISTENERS, 500)
REMOVE = RemoveVoterRequest(ReplicaKey(4, UUID(int=4)))
UPDATE = UpdateVoterRequest(ReplicaKey(4, UUID(int=4)), 3, LISTENERS, VersionRange(0, 1))
PROBE = ProbeVersionsRequest()


def key_of(request: Request) -> ApiKey:
    return codec._APIS[type(request)].key


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
        case FetchSnapshotRequest() if version < 1:
            return replace(request, replica=ReplicaKey(request.replica.id))
        case AddVoterRequest() if version < 1:
            return replace(request, ack_when_committed=True)
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


def test_the_name_of_the_controller_listener_can_be_another() -> None:
    begin = BeginQuorumEpochRequest(7, 3, Endpoint("b", 2))
    entity: Any = codec.request_to_wire(begin, 1, listener_name="QUORUM")
    (mine,) = entity.leader_endpoints
    assert mine.name == "QUORUM"
    entity = replace(entity, leader_endpoints=(replace(mine, name="CONTROLLER", host="a"), mine))
    assert codec.request_from_wire(53, 1, entity, listener_name="QUORUM") == begin


@pytest.mark.parametrize("request_", [ADD, UPDATE])
def test_a_voters_default_listener_comes_first(request_: Any) -> None:
    plain, ssl = Listener("PLAIN", Endpoint("a", 1)), Listener("SSL", Endpoint("a", 2))
    key = key_of(request_)
    entity = over_the_wire(codec.request_to_wire(replace(request_, listeners=(plain, ssl)), 0))
    back: Any = codec.request_from_wire(key, 0, entity, listener_name="SSL")
    assert back.listeners == (ssl, plain)
    with pytest.raises(ValidationFailure, match=r"voter 4 has no listener CONTROLLER.*PLAIN.*SSL"):
        codec.request_from_wire(key, 0, entity)


def test_of_two_listeners_of_one_name_the_last_counts() -> None:
    """Kafka keeps them in a map."""
    twice = (Listener("CONTROLLER", Endpoint("a", 1)), Listener("CONTROLLER", Endpoint("b", 2)))
    entity = codec.request_to_wire(replace(ADD, listeners=twice), 0)
    back = codec.request_from_wire(80, 0, entity)
    assert isinstance(back, AddVoterRequest)
    assert back.listeners == twice[1:]


def test_a_refused_addition_says_why() -> None:
    entity: Any = over_the_wire(codec.error_to_wire(80, 0, Error.INVALID_REQUEST, "no listener"))
    assert entity.error_message == "no listener"


def test_an_api_that_is_not_the_quorums_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="API 3"):
        codec.request_from_wire(3, 1, object())


def test_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="version 3 of VOTE"):
        codec.request_to_wire(VoteRequest(ReplicaKey(1), 1, OffsetAndEpoch(0, 0), False), 3)
    with pytest.raises(UnsupportedVersionError, match="version 11 of FETCH"):
        codec.answer(FetchResponse(Error.NONE, 1, 1), 11)


@pytest.mark.parametrize("version", [12, 18])
def test_a_value_that_does_not_fit_is_our_fault(version: int) -> None:
    too_big = FetchRequest(ReplicaKey(1), 2**31, 0, 0, 500, 1024)
    with pytest.raises(LocalProtocolError, match="2147483648"):
        codec.encode_request(too_big, version)
    with pytest.raises(LocalProtocolError):
        codec.answer(FetchResponse(Error.NONE, 2**31, 1), version)
    with pytest.raises(LocalProtocolError, match="cannot encode"):
        encode(codec.request_to_wire(too_big, version))


# ------------------------------------------------------------------ responses


def answer_round_trip(
    response: Response, request: Request, version: int, records: bytes = b""
) -> Response:
    body = body_of(codec.answer(response, version, records, request))
    entity = decode(api_schema(key_of(request), version).response, body)
    return codec.response_from_wire(entity, request, iter_batches)


def endpoint_left(response: Any, *, has_endpoints: bool) -> Any:
    if not has_endpoints or response.leader_id is None:
        return replace(response, leader_endpoint=None)
    return response


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
    assert codec.answer(response, version, records) == encode(entity)


@given(snapshot_answers, st.sampled_from(versions(ApiKey.FETCH_SNAPSHOT)), st.binary(max_size=300))
def test_a_snapshot_fetchs_answer_comes_back(
    response: FetchSnapshotResponse, version: int, chunk: bytes
) -> None:
    body = body_of(codec.answer(response, version, chunk))
    assert body == encode(codec.response_to_wire(response, version, chunk))
    want = endpoint_left(replace(response, data=chunk), has_endpoints=version >= 1)
    if response.error is not Error.NONE:
        want = replace(want, snapshot=None, size=0, position=0, data=b"")
    assert answer_round_trip(response, SNAPSHOT, version, chunk) == want


@given(change_answers)
def test_the_answer_to_an_addition_or_removal_is_an_error_and_a_message(
    response: VoterChangeResponse,
) -> None:
    want = VoterChangeResponse(response.error, -1, None, None, response.message)
    for request_ in (ADD, REMOVE):
        assert answer_round_trip(response, request_, 0) == want


@given(change_answers)
def test_the_answer_to_an_update_says_who_leads(response: VoterChangeResponse) -> None:
    want = replace(endpoint_left(response, has_endpoints=True), message=None)
    assert answer_round_trip(response, UPDATE, 0) == want


def test_an_update_answered_without_a_leader_knows_none() -> None:
    """Kafka leaves the tagged field out where nothing is in it."""
    entity = decode(api_schema(82, 0).response, bytes.fromhex("00000000 0023 00"))
    back = codec.response_from_wire(entity, UPDATE)
    assert back == VoterChangeResponse(Error.UNSUPPORTED_VERSION, -1, None)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_leader_at_no_port_is_the_peers_fault(port: int) -> None:
    response = VoterChangeResponse(Error.NONE, 3, 1, Endpoint("a", port))
    entity = codec.response_to_wire(response, 0, request=UPDATE)
    with pytest.raises(RemoteProtocolError, match=f"port {port}"):
        codec.response_from_wire(entity, UPDATE)


@pytest.mark.parametrize("version", [3, 4])
def test_a_probe_learns_the_kraft_versions(version: int) -> None:
    for levels in (VersionRange(0, 1), None):
        response = ProbeVersionsResponse(Error.NONE, levels)
        assert answer_round_trip(response, PROBE, version) == response


def test_a_probe_of_a_node_that_has_no_features_learns_none() -> None:
    response = ProbeVersionsResponse(Error.NONE, VersionRange(0, 1))
    for version in range(3):
        assert answer_round_trip(response, PROBE, version) == replace(response, kraft_versions=None)


def test_probes_are_answered_by_the_server_and_never_reach_the_core() -> None:
    entity = codec.request_to_wire(PROBE, 4)
    with pytest.raises(UnsupportedVersionError, match="API 18"):
        codec.request_from_wire(18, 4, entity)
    with pytest.raises(UnsupportedVersionError, match="API 18"):
        codec.error_to_wire(18, 4, Error.INVALID_REQUEST)


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
        (FetchSnapshotResponse(Error.INCONSISTENT_CLUSTER_ID, 9, 1), SNAPSHOT),
        (DescribeQuorumResponse(Error.INCONSISTENT_CLUSTER_ID, 9, 1), DESCRIBE),
    ],
)
def test_another_cluster_is_told_nothing_but_that(response: Any, request_: Request) -> None:
    for version in versions(key_of(request_)):
        entity: Any = codec.response_to_wire(response, version, b"", request_)
        assert entity.error_code is ErrorCode.inconsistent_cluster_id
        body = body_of(codec.answer(response, version, b"", request_))
        assert body == encode(entity)
        back: Any = answer_round_trip(response, request_, version)
        assert (back.error, back.epoch, back.leader_id) == (Error.INCONSISTENT_CLUSTER_ID, -1, None)


@pytest.mark.parametrize(
    "request_", [VOTE, BEGIN, END, FETCH, SNAPSHOT, ADD, REMOVE, UPDATE, DESCRIBE]
)
def test_a_bare_error_is_understood_by_the_other_side(request_: Request) -> None:
    key = key_of(request_)
    for version in versions(key):
        entity = over_the_wire(codec.error_to_wire(key, version, Error.INVALID_REQUEST))
        back: Any = codec.response_from_wire(entity, request_)
        assert (back.error, back.epoch) == (Error.INVALID_REQUEST, -1)


def test_an_error_that_the_quorum_does_not_speak_is_unknown() -> None:
    entity: Any = codec.response_to_wire(VoteResponse(Error.NONE, 1, 1, False), 2)
    odd = replace(entity.topics[0].partitions[0], error_code=ErrorCode.topic_already_exists)
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
    with pytest.raises(LocalProtocolError, match="several APIs"):
        codec.response_to_wire(QuorumEpochResponse(Error.NONE, 1, 1), 1)


def test_a_description_names_all_listeners_of_a_voter() -> None:
    bare = Voter(ReplicaKey(3), Endpoint("c", 9093))
    both = replace(bare, listeners=(*LISTENERS, Listener("SSL", Endpoint("a", 2))))
    entity: Any = codec.response_to_wire(
        DescribeQuorumResponse(Error.NONE, 1, 3), 2, voters=(bare, both), listener_name="QUORUM"
    )
    names = [[x.name for x in node.listeners] for node in over_the_wire(entity).nodes]
    assert names == [["QUORUM"], ["CONTROLLER", "SSL"]]


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
