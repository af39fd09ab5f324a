"""Requests about security that this node does not do are answered as Kafka answers them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from node.wire.api import ApiKey
from node.wire.errors import UnsupportedVersionError
from node.wire.payloads import api_schema, decode, encode, request_frame
from node.wire.refusals import ACL_APIS, REFUSED_APIS, SASL_APIS, refusal
from node.wire.server import InboundRequest, Limits
from node.wire.structs import build
from tests.support.wire.server import RawClient, quorum_answer, serving, until


def every_version(apis: Any) -> list[tuple[int, int]]:
    return [
        (api.key, version)
        for api in apis.values()
        for version in range(api.min_version, api.max_version + 1)
    ]


def request_of(key: int, version: int) -> Any:
    payload = api_schema(key, version).request
    acl: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 2,
        "permission_type": 3,
    }
    of_filter: dict[str, Any] = {
        "resource_type_filter": 2,
        "resource_name_filter": "t",
        "pattern_type_filter": 3,
        "principal_filter": "User:a",
        "host_filter": "*",
        "operation": 2,
        "permission_type": 3,
    }
    match key:
        case ApiKey.CREATE_ACLS:
            return build(payload, creations=(build(payload, "AclCreation", **acl),) * 2)
        case ApiKey.DELETE_ACLS:
            return build(payload, filters=(build(payload, "DeleteAclsFilter", **of_filter),) * 3)
        case ApiKey.DESCRIBE_ACLS:
            return build(payload, **of_filter)
        case _:
            return build(payload, mechanism="PLAIN", auth_bytes=b"\0me\0secret")


@pytest.mark.parametrize(("key", "version"), every_version(SASL_APIS))
def test_sasl_is_an_illegal_state_and_the_connection_ends(key: int, version: int) -> None:
    async def main() -> None:
        def answer(request: InboundRequest) -> None:
            entity, reason = refusal(request.api_key, request.version, request.body)
            request.reply(entity, then_close=reason)

        async with serving(answer) as (server, told), RawClient.to(server.port) as client:
            schema = api_schema(key, version)
            await client.send(request_frame(schema, 5, b"me", encode(request_of(key, version))))
            frame = await client.frame()
            said: Any = decode(schema.response, frame, 5 if schema.flexible_response_header else 4)
            assert said.error_code is ErrorCode.illegal_sasl_state
            assert getattr(said, "mechanisms", ()) == ()
            assert await client.closed()
            (reason,) = told.reasons
            assert "use security.protocol PLAINTEXT or SSL" in reason

    asyncio.run(main())


@pytest.mark.parametrize(("key", "version"), every_version(ACL_APIS))
def test_acls_are_disabled_for_each_that_was_asked(key: int, version: int) -> None:
    entity, reason = refusal(key, version, request_of(key, version))
    assert reason is None
    said: Any = decode(api_schema(key, version).response, encode(entity))
    results = getattr(said, "results", None) or getattr(said, "filter_results", None) or (said,)
    assert len(results) == {30: 2, 31: 3, 29: 1}[key]
    for result in results:
        assert result.error_code is ErrorCode.security_disabled
        assert "no authorizer" in result.error_message


def test_other_apis_are_not_refused() -> None:
    for key, version in ((ApiKey.FETCH, 12), (ApiKey.SASL_HANDSHAKE, 2)):
        with pytest.raises(UnsupportedVersionError, match="not one to refuse"):
            refusal(key, version, None)
    assert REFUSED_APIS.keys() == SASL_APIS.keys() | ACL_APIS.keys()


def test_a_peer_that_does_not_take_its_last_answer_is_not_waited_for() -> None:
    async def main() -> None:
        def answer(request: InboundRequest) -> None:
            request.reply(bytes(20_000_000), then_close="enough")
            request.reply(quorum_answer())  # answered before: does nothing

        limits = Limits(frame_timeout_s=0.1)
        async with serving(answer, limits) as (server, told), RawClient.to(server.port) as client:
            schema = api_schema(ApiKey.SASL_HANDSHAKE, 1)
            await client.send(request_frame(schema, 1, b"me", encode(request_of(17, 1))))
            await until(lambda: server.connections == 0)
            assert told.reasons == ["enough"]

    asyncio.run(main())


def test_a_listener_may_take_larger_requests() -> None:
    async def main() -> None:
        schema = api_schema(ApiKey.DELETE_ACLS, 3)
        many = build(schema.request, filters=request_of(31, 3).filters * 10)
        frame = request_frame(schema, 1, b"me", encode(many))
        for elements_max in (29, 30):
            limits = Limits(elements_max=elements_max)
            async with serving(None, limits) as (server, told), RawClient.to(server.port) as client:
                await client.send(frame)
                if elements_max == 30:
                    await until(told.requests.__len__)
                else:
                    assert await client.closed()
                    assert told.reasons == ["more than 29 elements in one message"]

    asyncio.run(main())
