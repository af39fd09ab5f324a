"""The quorum's messages on the wire: ``node.core.messages`` to and from kio's entities.

Kafka's -1 sentinels end here, as does everything that depends on a version. ``encode_*`` give
the body's bytes at once and are what a node should use; ``*_to_wire`` give the entity.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, cast

from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload, ResponsePayload

from node.core.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    QuorumEpochResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from node.core.types import Voter
from node.wire.api import ALL_APIS, ApiKey
from node.wire.api_versions import Negotiated
from node.wire.errors import LocalProtocolError, RemoteProtocolError, UnsupportedVersionError
from node.wire.fetch_bytes import encode_fetch_request, encode_fetch_response
from node.wire.payloads import ApiSchema, EncodedRequest, api_schema, encode
from node.wire.quorum_describe import (
    describe_request_from_wire,
    describe_request_to_wire,
    describe_response_from_wire,
    describe_response_to_wire,
)
from node.wire.quorum_fetch import (
    ParseRecords,
    fetch_request_from_wire,
    fetch_request_to_wire,
    fetch_response_from_wire,
    fetch_response_to_wire,
)
from node.wire.quorum_votes import (
    EndpointOf,
    begin_request_from_wire,
    begin_request_to_wire,
    end_request_from_wire,
    end_request_to_wire,
    epoch_response_from_wire,
    epoch_response_to_wire,
    vote_request_from_wire,
    vote_request_to_wire,
    vote_response_from_wire,
    vote_response_to_wire,
)
from node.wire.structs import NO_THROTTLE, build

_KEYS: dict[type, ApiKey] = {
    VoteRequest: ApiKey.VOTE,
    BeginQuorumEpochRequest: ApiKey.BEGIN_QUORUM_EPOCH,
    EndQuorumEpochRequest: ApiKey.END_QUORUM_EPOCH,
    FetchRequest: ApiKey.FETCH,
    DescribeQuorumRequest: ApiKey.DESCRIBE_QUORUM,
}


def version_for(request: Request, peer: Negotiated | None = None) -> int:
    """The version to send a request in: the highest that both sides speak, or that we speak.

    Raises:
        UnsupportedVersionError: The peer shares none.
    """
    key = _KEYS[type(request)]
    return ALL_APIS[key].max_version if peer is None else peer.version(key)


def encode_request(request: Request, version: int) -> EncodedRequest:
    """A request ready for ``Connection.request``.

    Raises:
        UnsupportedVersionError: There is no such version, or a pre-vote in one without.
        LocalProtocolError: A value does not fit its field.
    """
    schema = _schema(_KEYS[type(request)], version)
    if isinstance(request, FetchRequest):
        return EncodedRequest(schema, encode_fetch_request(request, version))
    return EncodedRequest(schema, encode(request_to_wire(request, version)))


def encode_response(
    response: Response,
    version: int,
    records: bytes = b"",
    request: Request | None = None,
    *,
    voters: Iterable[Voter] = (),
) -> bytes:
    """The body of an answer, for ``InboundRequest.reply``; arguments as ``response_to_wire``.

    Raises:
        UnsupportedVersionError: There is no such version.
        LocalProtocolError: A value does not fit its field.
    """
    if isinstance(response, FetchResponse):
        _schema(ApiKey.FETCH, version)
        return encode_fetch_response(response, version, records)
    return encode(response_to_wire(response, version, records, request, voters=voters))


def request_to_wire(request: Request, version: int) -> RequestPayload:
    """The entity of a request.

    Raises:
        UnsupportedVersionError: There is no such version, or a pre-vote in one without.
    """
    payload = _schema(_KEYS[type(request)], version).request
    entity: Any
    match request:
        case FetchRequest():
            entity = fetch_request_to_wire(request, payload)
        case VoteRequest():
            entity = vote_request_to_wire(request, payload)
        case BeginQuorumEpochRequest():
            entity = begin_request_to_wire(request, payload)
        case EndQuorumEpochRequest():
            entity = end_request_to_wire(request, payload)
        case DescribeQuorumRequest():
            entity = describe_request_to_wire(payload)
    return cast("RequestPayload", entity)


def request_from_wire(
    api_key: int, version: int, entity: Any, *, endpoint_of: EndpointOf = lambda _: None
) -> Request:
    """The core's request that an entity is.

    Args:
        api_key: Of a quorum API.
        version: In which the entity came.
        entity: The decoded body.
        endpoint_of: Where a voter is, for version 0 of Begin- and EndQuorumEpoch.

    Raises:
        ValidationFailure: It is not about the metadata partition; answer its ``error_code``.
        UnsupportedVersionError: The API is not one of the quorum's.
    """
    match api_key:
        case ApiKey.FETCH:
            return fetch_request_from_wire(entity)
        case ApiKey.VOTE:
            return vote_request_from_wire(entity)
        case ApiKey.BEGIN_QUORUM_EPOCH:
            return begin_request_from_wire(entity, endpoint_of)
        case ApiKey.END_QUORUM_EPOCH:
            return end_request_from_wire(entity, endpoint_of)
        case ApiKey.DESCRIBE_QUORUM:
            return describe_request_from_wire(entity)
        case _:
            raise UnsupportedVersionError(f"API {api_key} v{version} is not one of the quorum's")


def response_to_wire(
    response: Response,
    version: int,
    records: bytes = b"",
    request: Request | None = None,
    *,
    voters: Iterable[Voter] = (),
) -> ResponsePayload:
    """The entity of an answer.

    Args:
        response: What the core answered.
        version: Of the request.
        records: Of a fetch: the bytes of ``response.records``.
        request: What it answers; needed for QuorumEpochResponse, which answers two APIs.
        voters: Where the voters are, for DescribeQuorum version 2.

    Raises:
        UnsupportedVersionError: There is no such version.
        LocalProtocolError: A QuorumEpochResponse without its request.
    """
    payload = _schema(_answered_key(response, request), version).response
    entity: Any
    match response:
        case FetchResponse():
            entity = fetch_response_to_wire(response, payload, records)
        case VoteResponse():
            entity = vote_response_to_wire(response, payload)
        case QuorumEpochResponse():
            entity = epoch_response_to_wire(response, payload)
        case DescribeQuorumResponse():
            entity = describe_response_to_wire(response, payload, voters)
    return cast("ResponsePayload", entity)


def response_from_wire(
    entity: ResponsePayload, request: Request, parse_records: ParseRecords | None = None
) -> Response:
    """The core's response that an entity is.

    Args:
        entity: The decoded body.
        request: What was asked.
        parse_records: Cuts the records of a fetch into batches; what it raises passes through.

    Raises:
        RemoteProtocolError: It answers another API or is about another partition.
        WireError: A fetch's answer that this replica cannot use (a snapshot).
    """
    key = _KEYS[type(request)]
    if int(entity.__api_key__) != int(key):
        raise RemoteProtocolError(f"{type(entity).__name__} does not answer {key.name}")
    match request:
        case FetchRequest():
            return fetch_response_from_wire(entity, parse_records or _refuse_records)
        case VoteRequest():
            return vote_response_from_wire(entity)
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            return epoch_response_from_wire(entity)
        case DescribeQuorumRequest():
            return describe_response_from_wire(entity)


def error_to_wire(api_key: int, version: int, error_code: int) -> ResponsePayload:
    """The answer to a quorum request that carries nothing but a top-level error.

    Raises:
        UnsupportedVersionError: There is no such version of a quorum API.
    """
    if api_key not in _KEYS.values():
        raise UnsupportedVersionError(f"API {api_key} is not one of the quorum's")
    payload = _schema(api_key, version).response
    entity = build(
        payload,
        error_code=ErrorCode(error_code),
        throttle_time=NO_THROTTLE,
        error_message=None,
        topics=(),
        responses=(),
        nodes=(),
    )
    return cast("ResponsePayload", entity)


def _schema(key: int, version: int) -> ApiSchema:
    if version not in ALL_APIS[key]:
        raise UnsupportedVersionError(f"version {version} of {ApiKey(key).name}")
    return api_schema(key, version)


def _answered_key(response: Response, request: Request | None) -> ApiKey:
    match response:
        case FetchResponse():
            return ApiKey.FETCH
        case VoteResponse():
            return ApiKey.VOTE
        case DescribeQuorumResponse():
            return ApiKey.DESCRIBE_QUORUM
        case QuorumEpochResponse():
            if isinstance(request, BeginQuorumEpochRequest | EndQuorumEpochRequest):
                return _KEYS[type(request)]
            raise LocalProtocolError(f"{response} answers two APIs: the request is needed")


def _refuse_records(data: bytes) -> NoReturn:
    raise LocalProtocolError(f"{len(data)} bytes of records came and nobody to parse them")
