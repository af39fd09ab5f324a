"""Headers and bodies: the safe way into and out of kio's entities.

Only this module reads with kio, always after ``node.wire.shape`` has walked the bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, TypeVar, cast

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.constants import EntityType
from kio.static.protocol import RequestPayload, ResponsePayload

from node.wire.api import ALL_APIS, ApiRange
from node.wire.errors import LocalProtocolError, RemoteProtocolError, UnsupportedVersionError
from node.wire.shape import RESPONSE_ELEMENTS_MAX, Scan, checked, skip_tags

P = TypeVar("P")

_REQUEST_HEAD: Final = Struct(">hhih")  # api key, version, correlation, client id length
_REQUEST_FRAME: Final = Struct(">ihhih")
_PLAIN_FRAME: Final = Struct(">ii")  # length, correlation
_FLEXIBLE_FRAME: Final = Struct(">iib")  # ... and no tagged fields
_CORRELATION: Final = Struct(">i")
_CORRELATION_AT: Final = 4
_PANIC: Final = "PanicException"
_HEADER_TAGS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class ApiSchema:
    """kio's classes for one version of one API."""

    key: int
    version: int
    request: type[RequestPayload]
    response: type[ResponsePayload]
    flexible_request_header: bool
    flexible_response_header: bool

    def __str__(self) -> str:
        return f"{self.request.__name__} v{self.version}"


@dataclass(frozen=True, slots=True)
class EncodedRequest:
    """A request's body in bytes, and what it is."""

    schema: ApiSchema
    body: bytes


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request's header; ``body_offset`` is where the body begins in the frame."""

    api_key: int
    version: int
    correlation: int
    client_id: str | None
    body_offset: int


@cache
def api_schema(api_key: int, version: int) -> ApiSchema:
    """The schema of an API version.

    Raises:
        UnsupportedVersionError: There is none.
    """
    try:
        request = load_request_schema(api_key, version)
        response = load_response_schema(api_key, version)
    except KioIndexError:
        raise UnsupportedVersionError(f"no schema for version {version} of API {api_key}") from None
    return ApiSchema(
        api_key,
        version,
        request,
        response,
        request.__header_schema__.__flexible__,
        response.__header_schema__.__flexible__,
    )


@cache
def spoken_versions(api_key: int) -> ApiRange:
    """The versions of an API that we can send: our own table's, else whatever has a schema.

    Raises:
        UnsupportedVersionError: The API is unknown.
    """
    if api_key in ALL_APIS:
        return ALL_APIS[api_key]
    if api_key not in api_key_map:
        raise UnsupportedVersionError(f"no schema for API {api_key}")
    schemas = schema_name_map[api_key_map[api_key]]
    versions = [version for version, types in schemas.items() if EntityType.request in types]
    return ApiRange(api_key, min(versions), max(versions))


def peek_api(frame: bytes) -> tuple[int, int, int]:
    """API key, version and correlation id of a request frame.

    Raises:
        RemoteProtocolError: It is too short to say.
    """
    try:
        api_key, version, correlation, _ = _REQUEST_HEAD.unpack_from(frame)
    except struct_error:
        raise RemoteProtocolError(f"a request of {len(frame)} bytes has no header") from None
    return api_key, version, correlation


def read_request_head(frame: bytes, *, flexible: bool) -> RequestHead:
    """The header of a request frame (version 2 when ``flexible``, else 1).

    Raises:
        RemoteProtocolError: It is cut short or the client id is not UTF-8.
    """
    try:
        api_key, version, correlation, size = _REQUEST_HEAD.unpack_from(frame)
        offset = _REQUEST_HEAD.size
        client_id = None
        if size >= 0:
            raw = frame[offset : offset + size]
            offset += size
            if len(raw) != size:
                raise RemoteProtocolError(f"a client id of {size} bytes runs over the frame")
            client_id = raw.decode()
        elif size != -1:
            raise RemoteProtocolError(f"a client id has the length {size}")
        if flexible:
            offset = (
                offset + 1
                if frame[offset] == 0
                else skip_tags(frame, offset, Scan(_HEADER_TAGS_MAX))
            )
    except UnicodeDecodeError:
        raise RemoteProtocolError("a client id is not UTF-8") from None
    except (struct_error, IndexError):
        raise RemoteProtocolError(f"a request of {len(frame)} bytes has no header") from None
    return RequestHead(api_key, version, correlation, client_id, offset)


def read_response_head(frame: bytes, *, flexible: bool) -> tuple[int, int]:
    """Correlation id and body offset of a response frame; raises RemoteProtocolError."""
    try:
        (correlation,) = _CORRELATION.unpack_from(frame)
        offset = _CORRELATION.size
        if flexible:
            offset = (
                offset + 1
                if frame[offset] == 0
                else skip_tags(frame, offset, Scan(_HEADER_TAGS_MAX))
            )
    except (struct_error, IndexError):
        raise RemoteProtocolError(f"a response of {len(frame)} bytes has no header") from None
    return correlation, offset


def decode(
    entity: type[P],
    data: bytes,
    offset: int = 0,
    *,
    elements_max: int = RESPONSE_ELEMENTS_MAX,
    surplus: bool = False,
) -> P:
    """The one entity that the bytes from ``offset`` to the end are.

    Args:
        entity: What they are.
        data: The bytes, and others in front of them.
        offset: Where they begin.
        elements_max: How many elements of arrays they may have.
        surplus: Ignore bytes behind the entity, as Kafka does in requests.

    Raises:
        RemoteProtocolError: They are not exactly that.
    """
    safe, offset = checked(entity, data, offset, elements_max, surplus=surplus)
    try:
        value, size = _reader(cast("Any", entity))(safe, offset)
    except Exception as error:
        # The bytes are foreign: whatever kio dislikes in them is the peer's fault.
        raise RemoteProtocolError(
            f"{entity.__name__} is malformed: {type(error).__name__}: {error}"
        ) from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:  # a Rust panic is no Exception to pyo3
            raise
        raise RemoteProtocolError(f"{entity.__name__} is malformed: {error}") from error
    if offset + size != len(safe):
        raise RemoteProtocolError(f"{entity.__name__} has {len(safe) - offset - size} bytes left")
    return cast("P", value)


def encode(entity: Any) -> bytes:
    """The body of a kio entity.

    Raises:
        LocalProtocolError: A field's value does not fit its type.
    """
    with io.BytesIO() as buffer:
        try:
            entity_writer(type(entity))(buffer, entity)
        except (SerialError, struct_error, TypeError, ValueError, AttributeError) as error:
            raise LocalProtocolError(f"cannot encode {entity!r:.500}: {error}") from error
        return buffer.getvalue()


def request_frame(schema: ApiSchema, correlation: int, client_id: bytes, body: bytes) -> bytes:
    """A whole request, length first."""
    tags = b"\x00" if schema.flexible_request_header else b""
    size = _REQUEST_HEAD.size + len(client_id) + len(tags) + len(body)
    head = _REQUEST_FRAME.pack(size, schema.key, schema.version, correlation, len(client_id))
    return b"".join((head, client_id, tags, body))


def response_frame(correlation: int, body: bytes, *, flexible: bool) -> bytes:
    """A whole response, length first."""
    if flexible:
        return _FLEXIBLE_FRAME.pack(len(body) + 5, correlation, 0) + body
    return _PLAIN_FRAME.pack(len(body) + 4, correlation) + body


@cache
def _reader(entity: type[Any]) -> Callable[[bytes, int], tuple[Any, int]]:
    return entity_reader(entity)
