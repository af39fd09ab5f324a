"""The quorum's messages on the wire: ``node.core.messages`` to and from kio's entities.

Kafka's -1 sentinels end here, as does everything that depends on a version. ``encode_*`` give
the body's bytes at once and are what a node should use; ``*_to_wire`` give the entity.
``listener_name`` is always the first of ``controller.listener.names``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, NoReturn, cast

from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload, ResponsePayload

from node.core.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ProbeVersionsRequest,
    ProbeVersionsResponse,
    QuorumEpochResponse,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from node.core.types import Voter
from node.wire.api import ALL_APIS, ApiKey
from node.wire.api_versions import Negotiated
from node.wire.errors import LocalProtocolError, RemoteProtocolError, UnsupportedVersionError
from node.wire.fetch_bytes import encode_fetch_request, encode_fetch_response
from node.wire.payloads import ApiSchema, EncodedRequest, api_schema, encode
from node.wire.quorum.describe import (
    describe_request_from_wire,
    describe_request_to_wire,
    describe_response_from_wire,
    describe_response_to_wire,
)
from node.wire.quorum.fetch import (
    ParseRecords,
    fetch_request_from_wire,
    fetch_request_to_wire,
    fetch_response_from_wire,
    fetch_response_to_wire,
)
from node.wire.quorum.parts import LISTENER_NAME
from node.wire.quorum.probe import (
    probe_request_to_wire,
    probe_response_from_wire,
    probe_response_to_wire,
)
from node.wire.quorum.snapshot import (
    snapshot_request_from_wire,
    snapshot_request_to_wire,
    snapshot_response_from_wire,
    snapshot_response_to_wire,
)
from node.wire.quorum.voters import (
    add_request_from_wire,
    add_request_to_wire,
    change_response_from_wire,
    change_response_to_wire,
    current_leader,
    remove_request_from_wire,
    remove_request_to_wire,
    update_request_from_wire,
    update_request_to_wire,
)
from node.wire.quorum.votes import (
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
from node.wire.snapshot_bytes import encode_snapshot_response
from node.wire.structs import NO_THROTTLE, build


class _Api(NamedTuple):
    """The API of one request of the core, and how to get it in and out."""

    key: ApiKey
    to_wire: Callable[[Any, type, str], Any]  # request, payload, listener name
    from_wire: Callable[[Any, EndpointOf, str], Request] | None  # None: the server answers it
    answer_from_wire: Callable[[Any, ParseRecords], Response]


_APIS: Final[dict[type, _Api]] = {
    VoteRequest: _Api(
        ApiKey.VOTE,
        lambda request, payload, _: vote_request_to_wire(request, payload),
        lambda entity, *_: vote_request_from_wire(entity),
        lambda entity, _: vote_response_from_wire(entity),
    ),
    BeginQuorumEpochRequest: _Api(
        ApiKey.BEGIN_QUORUM_EPOCH,
        begin_request_to_wire,
        begin_request_from_wire,
        lambda entity, _: epoch_response_from_wire(entity),
    ),
    EndQuorumEpochRequest: _Api(
        ApiKey.END_QUORUM_EPOCH,
        end_request_to_wire,
        end_request_from_wire,
        lambda entity, _: epoch_response_from_wire(entity),
    ),
    FetchRequest: _Api(
        ApiKey.FETCH,
        lambda request, payload, _: fetch_request_to_wire(request, payload),
        lambda entity, *_: fetch_request_from_wire(entity),
        fetch_response_from_wire,
    ),
    FetchSnapshotRequest: _Api(
        ApiKey.FETCH_SNAPSHOT,
        lambda request, payload, _: snapshot_request_to_wire(request, payload),
        lambda entity, *_: snapshot_request_from_wire(entity),
        lambda entity, _: snapshot_response_from_wire(entity),
    ),
    AddVoterRequest: _Api(
        ApiKey.ADD_RAFT_VOTER,
        lambda request, payload, _: add_request_to_wire(request, payload),
        lambda entity, _, name: add_request_from_wire(entity, name),
        lambda entity, _: change_response_from_wire(entity),
    ),
    RemoveVoterRequest: _Api(
        ApiKey.REMOVE_RAFT_VOTER,
        lambda request, payload, _: remove_request_to_wire(request, payload),
        lambda entity, *_: remove_request_from_wire(entity),
        lambda entity, _: change_response_from_wire(entity),
    ),
    UpdateVoterRequest: _Api(
        ApiKey.UPDATE_RAFT_VOTER,
        lambda request, payload, _: update_request_to_wire(request, payload),
        lambda entity, _, name: update_request_from_wire(entity, name),
        lambda entity, _: change_response_from_wire(entity),
    ),
    ProbeVersionsRequest: _Api(
        ApiKey.API_VERSIONS,
        lambda request, payload, _: probe_request_to_wire(request, payload),
        None,
        lambda entity, _: probe_response_from_wire(entity),
    ),
    DescribeQuorumRequest: _Api(
        ApiKey.DESCRIBE_QUORUM,
        lambda _, payload, __: describe_request_to_wire(payload),
        lambda entity, *_: describe_request_from_wire(entity),
        lambda entity, _: describe_response_from_wire(entity),
    ),
}
_FROM_WIRE: Final = {api.key: api.from_wire for api in _APIS.values() if api.from_wire is not None}
_ANSWERED: Final[dict[type, ApiKey]] = {  # responses that answer only one API
    VoteResponse: ApiKey.VOTE,
    FetchResponse: ApiKey.FETCH,
    FetchSnapshotResponse: ApiKey.FETCH_SNAPSHOT,
    ProbeVersionsResponse: ApiKey.API_VERSIONS,
    DescribeQuorumResponse: ApiKey.DESCRIBE_QUORUM,
}
QUORUM_APIS: Final = frozenset(_FROM_WIRE)  # those that ``request_from_wire`` knows


def version_for(request: Request, peer: Negotiated | None = None) -> int:
    """The version to send a request in: the highest that both sides speak, or that we speak.

    Raises:
        UnsupportedVersionError: The peer shares none.
    """
    key = _APIS[type(request)].key
    return ALL_APIS[key].max_version if peer is None else peer.version(key)


def encode_request(
    request: Request, version: int, *, listener_name: str = LISTENER_NAME
) -> EncodedRequest:
    """A request ready for ``Connection.request``.

    Raises:
        UnsupportedVersionError: There is no such version, or a pre-vote in one without.
        LocalProtocolError: A value does not fit its field.
    """
    schema = _schema(_APIS[type(request)].key, version)
    if isinstance(request, FetchRequest):
        return EncodedRequest(schema, encode_fetch_request(request, version))
    return EncodedRequest(
        schema, encode(request_to_wire(request, version, listener_name=listener_name))
    )


def answer(
    response: Response,
    version: int,
    records: bytes = b"",
    request: Request | None = None,
    *,
    voters: Iterable[Voter] = (),
    listener_name: str = LISTENER_NAME,
) -> ResponsePayload | bytes:
    """Make what ``InboundRequest.reply`` takes; arguments as ``response_to_wire``.

    Only what carries records or a snapshot is encoded here, without an entity in between.

    Raises:
        UnsupportedVersionError: There is no such version.
        LocalProtocolError: A value does not fit its field.
    """
    if isinstance(response, FetchResponse):
        _schema(ApiKey.FETCH, version)
        return encode_fetch_response(response, version, records)
    if isinstance(response, FetchSnapshotResponse):
        _schema(ApiKey.FETCH_SNAPSHOT, version)
        return encode_snapshot_response(response, version, records)
    return response_to_wire(
        response, version, records, request, voters=voters, listener_name=listener_name
    )


def request_to_wire(
    request: Request, version: int, *, listener_name: str = LISTENER_NAME
) -> RequestPayload:
    """The entity of a request.

    Raises:
        UnsupportedVersionError: There is no such version, or a pre-vote in one without.
    """
    api = _APIS[type(request)]
    payload = _schema(api.key, version).request
    return cast("RequestPayload", api.to_wire(request, payload, listener_name))


def request_from_wire(
    api_key: int,
    version: int,
    entity: Any,
    *,
    endpoint_of: EndpointOf = lambda _: None,
    listener_name: str = LISTENER_NAME,
) -> Request:
    """The core's request that an entity is.

    Args:
        api_key: Of a quorum API.
        version: In which the entity came.
        entity: The decoded body.
        endpoint_of: Where a voter is, for version 0 of Begin- and EndQuorumEpoch.
        listener_name: Which of several named endpoints is the one to speak to; it comes first.

    Raises:
        ValidationFailure: It is not about the metadata partition, or a new voter has no listener
            of that name; answer its ``error_code``.
        UnsupportedVersionError: The API is not one of the quorum's.
    """
    from_wire = _FROM_WIRE.get(cast("ApiKey", api_key))
    if from_wire is None:
        raise UnsupportedVersionError(f"API {api_key} v{version} is not one of the quorum's")
    return from_wire(entity, endpoint_of, listener_name)


def response_to_wire(
    response: Response,
    version: int,
    records: bytes = b"",
    request: Request | None = None,
    *,
    voters: Iterable[Voter] = (),
    listener_name: str = LISTENER_NAME,
) -> ResponsePayload:
    """The entity of an answer.

    Args:
        response: What the core answered.
        version: Of the request.
        records: Of a fetch or snapshot fetch: the bytes of ``response.records`` or ``.chunk``.
        request: What it answers; needed for responses that answer several APIs.
        voters: Where the voters are, for DescribeQuorum version 2.
        listener_name: That of a voter of which only the endpoint is known.

    Raises:
        UnsupportedVersionError: There is no such version.
        LocalProtocolError: A response to several APIs without its request.
    """
    payload = _schema(_answered_key(response, request), version).response
    entity: Any
    match response:
        case FetchResponse():
            entity = fetch_response_to_wire(response, payload, records)
        case FetchSnapshotResponse():
            entity = snapshot_response_to_wire(response, payload, records)
        case VoteResponse():
            entity = vote_response_to_wire(response, payload)
        case QuorumEpochResponse():
            entity = epoch_response_to_wire(response, payload)
        case VoterChangeResponse():
            entity = change_response_to_wire(response, payload)
        case ProbeVersionsResponse():
            entity = probe_response_to_wire(response, payload)
        case DescribeQuorumResponse():
            entity = describe_response_to_wire(response, payload, voters, listener_name)
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
    """
    api = _APIS[type(request)]
    if int(entity.__api_key__) != int(api.key):
        raise RemoteProtocolError(f"{type(entity).__name__} does not answer {api.key.name}")
    return api.answer_from_wire(entity, parse_records or _refuse_records)


def error_to_wire(
    api_key: int, version: int, error_code: int, message: str | None = None
) -> ResponsePayload:
    """The answer to a quorum request that carries nothing but a top-level error.

    ``message`` is said where the API has room for one.

    Raises:
        UnsupportedVersionError: There is no such version of a quorum API.
    """
    if api_key not in QUORUM_APIS:
        raise UnsupportedVersionError(f"API {api_key} is not one of the quorum's")
    payload = _schema(api_key, version).response
    entity = build(
        payload,
        error_code=ErrorCode(error_code),
        throttle_time=NO_THROTTLE,
        error_message=message,
        topics=(),
        responses=(),
        nodes=(),
        **current_leader(payload),
    )
    return cast("ResponsePayload", entity)


def _schema(key: int, version: int) -> ApiSchema:
    if version not in ALL_APIS[key]:
        raise UnsupportedVersionError(f"version {version} of {ApiKey(key).name}")
    return api_schema(key, version)


def _answered_key(response: Response, request: Request | None) -> ApiKey:
    key = _ANSWERED.get(type(response))
    if key is not None:
        return key
    if request is None:
        raise LocalProtocolError(f"{response} answers several APIs: the request is needed")
    return _APIS[type(request)].key


def _refuse_records(data: bytes) -> NoReturn:
    raise LocalProtocolError(f"{len(data)} bytes of records came and nobody to parse them")
