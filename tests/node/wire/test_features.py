"""ApiVersions tells the features of a node and of its cluster, in the versions that can."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from node.core.messages import Error, ProbeVersionsRequest, ProbeVersionsResponse
from node.core.types import Endpoint, VersionRange
from node.wire import codec
from node.wire.api import ALL_APIS, ApiKey, ApiRange, apis, table
from node.wire.api_versions import Features, answer_api_versions
from node.wire.connection import Connection
from node.wire.payloads import api_schema, decode, encode, request_frame
from node.wire.structs import build
from tests.support.wire.server import DEADLINE_S, serving

FEATURES = Features(
    supported={"metadata.version": (7, 27), "kraft.version": (0, 1), "group.version": (0, 1)},
    finalized={"metadata.version": 25, "kraft.version": 1, "group.version": 0},
    epoch=41,
)
FINALIZED = {"metadata.version": (25, 25), "kraft.version": (1, 1)}


def told(version: int, features: Features) -> Any:
    """The answer to an ApiVersions request of a version."""
    schema = api_schema(ApiKey.API_VERSIONS, version)
    request = build(schema.request, client_software_name="me", client_software_version="1")
    frame = request_frame(schema, 9, b"me", encode(request))[4:]
    answer = answer_api_versions(ALL_APIS, frame, version, 9, features)
    return decode(schema.response, answer, 8)


def supported(answer: Any) -> dict[str, tuple[int, int]]:
    return {f.name: (f.min_version, f.max_version) for f in answer.supported_features}


def finalized(answer: Any) -> dict[str, tuple[int, int]]:
    return {f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features}


def test_supported_and_finalized_levels_are_told() -> None:
    answer = told(4, FEATURES)
    assert supported(answer) == dict(FEATURES.supported)
    assert finalized(answer) == FINALIZED
    assert answer.finalized_features_epoch == 41


def test_before_version_4_what_is_supported_from_0_is_left_out() -> None:
    """KAFKA-17011: clients of that time fail on it."""
    answer = told(3, FEATURES)
    assert supported(answer) == {"metadata.version": (7, 27)}
    assert finalized(answer) == FINALIZED
    assert answer.finalized_features_epoch == 41


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_tell_of_apis_only(version: int) -> None:
    answer = told(version, FEATURES)
    assert answer.error_code is ErrorCode.none
    assert len(answer.api_keys) == len(ALL_APIS)


def test_without_metadata_nothing_is_finalized() -> None:
    answer = told(4, Features(FEATURES.supported, FEATURES.finalized))
    assert supported(answer) == dict(FEATURES.supported)
    assert finalized(answer) == {}
    assert answer.finalized_features_epoch == -1


def test_a_listener_asks_for_the_features_each_time() -> None:
    levels = iter((0, 1))

    async def main() -> None:
        def now() -> Features:
            return Features({"kraft.version": (0, 1 + next(levels))}, {}, 0)

        async with serving(features=now) as (server, _):
            endpoint = Endpoint("127.0.0.1", server.port)
            async with await Connection.open(endpoint) as connection:
                for highest in (1, 2):
                    probe = ProbeVersionsRequest()
                    entity = await connection.request(codec.encode_request(probe, 4), DEADLINE_S)
                    assert codec.response_from_wire(entity, probe) == ProbeVersionsResponse(
                        Error.NONE, VersionRange(0, highest)
                    )

    asyncio.run(main())


def test_a_probe_of_a_server_without_its_version_learns_so() -> None:
    probe = ProbeVersionsRequest()
    old = table(ApiRange(ApiKey.API_VERSIONS, 0, 3))

    async def main() -> None:
        async with serving(apis=old) as (server, _):
            endpoint = Endpoint("127.0.0.1", server.port)
            async with await Connection.open(endpoint) as connection:
                entity = await connection.request(codec.encode_request(probe, 4), DEADLINE_S)
                assert codec.response_from_wire(entity, probe) == ProbeVersionsResponse(
                    Error.UNSUPPORTED_VERSION, None
                )

    asyncio.run(main())


def test_tables_are_built_from_rows_and_other_tables() -> None:
    fetch = ApiRange(ApiKey.FETCH, 12, 13)
    base = apis((ApiKey.VOTE, ApiKey.FETCH))
    assert list(base) == [ApiKey.FETCH, ApiKey.VOTE]
    assert base[ApiKey.FETCH] == ALL_APIS[ApiKey.FETCH]
    assert table(base.values(), fetch) == {**base, ApiKey.FETCH: fetch}
    assert list(table(ApiRange(9, 0, 0), ApiRange(3, 0, 0))) == [3, 9]


@pytest.mark.parametrize("api", ALL_APIS.values(), ids=lambda api: ApiKey(api.key).name)
def test_every_api_has_a_schema_in_each_version_and_a_name(api: ApiRange) -> None:
    for version in range(api.min_version, api.max_version + 1):
        name = api_schema(api.key, version).request.__name__.removesuffix("Request")
        assert name.lower() == ApiKey(api.key).name.replace("_", "").lower()
