"""Random entities of any kio schema, frames of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from types import NoneType, UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from node.wire.api import ALL_APIS, ApiTable
from node.wire.payloads import ApiSchema, api_schema, encode, request_frame

_INTS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
}


def body_of(answer: ResponsePayload | bytes) -> bytes:
    """The bytes of what ``codec.answer`` gives, as a connection writes them."""
    return answer if isinstance(answer, bytes) else encode(answer)


def every_schema(apis: ApiTable = ALL_APIS) -> Iterator[ApiSchema]:
    """All versions of all APIs of a table."""
    for api in apis.values():
        for version in range(api.min_version, api.max_version + 1):
            yield api_schema(api.key, version)


def random_entity(type_: type, rng: Random, *, items_max: int = 3) -> Any:
    """An entity with every field drawn, tagged and optional ones left out now and then."""
    values: dict[str, Any] = {}
    for field in fields(type_):
        optional = "tag" in field.metadata and field.default is not MISSING
        if optional and rng.random() < 0.4:
            continue
        values[field.name] = _value(field.type, field.metadata, rng, items_max)
    return type_(**values)


def random_request(schema: ApiSchema, rng: Random, *, items_max: int = 3) -> bytes:
    """A whole valid frame of that request."""
    body = encode(random_entity(schema.request, rng, items_max=items_max))
    if schema.key == 18 and schema.version >= 3:
        body = b"\x05fuzz\x021\x00"  # a software name must look like one
    client = rng.choice([b"", b"fuzz", "gr\u00fcn".encode()])
    return request_frame(schema, rng.randrange(2**31), client, body)


def _value(type_: Any, metadata: Any, rng: Random, items_max: int) -> Any:
    if isinstance(type_, UnionType):
        if rng.random() < 0.3:
            return None
        (type_,) = (arg for arg in get_args(type_) if arg is not NoneType)
    if get_origin(type_) is tuple:
        item = get_args(type_)[0]
        return tuple(
            _value(item, metadata, rng, items_max) for _ in range(rng.randint(0, items_max))
        )
    if is_dataclass(type_):
        assert isinstance(type_, type)
        return random_entity(type_, rng, items_max=items_max)
    return _primitive(metadata["kafka_type"], rng)


def _primitive(kafka_type: str, rng: Random) -> Any:
    if kafka_type in _INTS:
        low, high = _INTS[kafka_type]
        return rng.choice([low, high, 0, 1, rng.randint(low, high)])
    match kafka_type:
        case "bool":
            return rng.random() < 0.5
        case "string":
            return "".join(rng.choices("ab\u00e9\u65e5", k=rng.choice([0, 1, 5, 200])))
        case "bytes" | "records":
            return rng.randbytes(rng.choice([0, 1, 300]))
        case "uuid":
            return UUID(int=rng.randint(1, 2**128 - 1))
        case "float64":
            return rng.random()
        case "error_code":
            return rng.choice(list(ErrorCode))
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=rng.randint(0, 2**31 - 1))
        case "datetime_i64":
            return datetime.fromtimestamp(rng.randint(0, 2**31), UTC)
        case _:
            raise NotImplementedError(kafka_type)
