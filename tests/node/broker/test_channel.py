"""The broker's connection to the active controller, over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from node.broker.controller_channel import (
    ControllerChannel,
    ControllerNotFoundError,
    EnvelopeRefusedError,
)
from node.core.types import Endpoint
from node.wire.api import ApiKey
from node.wire.connection import Connection
from node.wire.errors import Disconnected, RequestTimedOut, UnsupportedVersionError
from node.wire.payloads import ApiSchema
from node.wire.structs import build
from tests.support.nodes.fake_controller import HEARTBEAT, FakeController, answer, connect

LONG_S = 10.0


def producer_ids(schema: ApiSchema) -> Any:
    return build(schema.request, broker_id=1, broker_epoch=7)


def channel_to(*endpoints: Endpoint | None, retry_backoff_ms: int = 1) -> ControllerChannel:
    """A channel that is told these endpoints, one a try; the last one for ever."""
    left = list(endpoints)
    return ControllerChannel(
        lambda: left.pop(0) if len(left) > 1 else left[0],
        connect,
        retry_backoff_ms=retry_backoff_ms,
    )


async def ask(channel: ControllerChannel, timeout_s: float = LONG_S) -> Any:
    return await channel.request(ApiKey.ALLOCATE_PRODUCER_IDS, producer_ids, timeout_s)


def test_requests_go_to_the_controller_on_one_connection() -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            channel = channel_to(controller.endpoint)
            for _ in range(3):
                assert (await ask(channel)).producer_id_start == 1000
            assert len(controller.connections) == 1
            channel.close()

    asyncio.run(main())


def test_a_try_that_did_nothing_is_repeated_at_the_controller_of_then() -> None:
    async def main() -> None:
        async with FakeController.running() as old, FakeController.running() as new:
            old.active = False
            nobody = Endpoint("127.0.0.1", 1)
            channel = channel_to(None, nobody, old.endpoint, new.endpoint)
            assert (await ask(channel)).producer_id_start == 1000
            assert (len(old.requests), len(new.requests)) == (1, 1)
            channel.close()

    asyncio.run(main())


def test_a_controller_that_moved_is_followed_by_the_next_request() -> None:
    async def main() -> None:
        async with FakeController.running() as old, FakeController.running() as new:
            channel = channel_to(old.endpoint, new.endpoint)
            await ask(channel)
            await ask(channel)
            assert (len(old.requests), len(new.requests)) == (1, 1)
            channel.close()

    asyncio.run(main())


def test_a_lost_answer_is_not_asked_for_again() -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            controller.script.append(lambda request: request.reject("gone"))
            channel = channel_to(controller.endpoint)
            with pytest.raises(Disconnected):
                await ask(channel)
            assert len(controller.requests) == 1
            await ask(channel)  # the channel connects anew
            assert len(controller.connections) == 2
            channel.close()

    asyncio.run(main())


def test_a_controller_that_does_not_answer_times_out() -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            controller.script.append(lambda _: None)
            channel = channel_to(controller.endpoint)
            with pytest.raises(RequestTimedOut):
                await ask(channel, 0.05)
            channel.close()

    asyncio.run(main())


@pytest.mark.parametrize("active", [None, False], ids=["no leader", "never active"])
def test_without_an_active_controller_the_time_runs_out(active: bool | None) -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            controller.active = False
            # few tries, the last of them with time left to connect: the server must not end amid it
            endpoint = None if active is None else controller.endpoint
            channel = channel_to(endpoint, retry_backoff_ms=150)
            with pytest.raises(ControllerNotFoundError):
                await ask(channel, 0.4)
            assert bool(controller.requests) == (active is not None)
            channel.close()

    asyncio.run(main())


def test_other_errors_are_for_the_caller() -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            controller.script.append(ErrorCode.stale_broker_epoch)
            channel = channel_to(controller.endpoint)
            assert int((await ask(channel)).error_code) == 77
            channel.close()

    asyncio.run(main())


def test_one_request_is_in_flight_and_the_next_waits_its_turn() -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            held: list[Any] = []
            came = asyncio.Event()

            def hold(request: Any) -> None:
                held.append(request)
                came.set()

            controller.script.append(hold)
            channel = channel_to(controller.endpoint)
            first = asyncio.create_task(ask(channel))
            await came.wait()
            with pytest.raises(ControllerNotFoundError, match="another request"):
                await ask(channel, 0.01)
            second = asyncio.create_task(ask(channel))
            held[0].reply(answer(held[0], producer_id_start=1))
            assert (await first).producer_id_start == 1
            assert (await second).producer_id_start == 1000
            channel.close()

    asyncio.run(main())


def test_an_api_that_nobody_serves_is_said_at_once() -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            channel = channel_to(controller.endpoint)
            with pytest.raises(UnsupportedVersionError):
                await channel.request(67 + 500, producer_ids, LONG_S)
            assert await ask(channel)
            channel.close()

    asyncio.run(main())


def test_an_envelope_comes_back_opened() -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            channel = channel_to(controller.endpoint)
            reply = await channel.send_envelope(b"abc", b"who", b"\x7f\0\0\1", LONG_S)
            assert reply == b"cba"
            [body] = controller.bodies(ApiKey.ENVELOPE)
            assert (body.request_principal, body.client_host_address) == (b"who", b"\x7f\0\0\1")
            controller.script.append(ErrorCode.cluster_authorization_failed)
            with pytest.raises(EnvelopeRefusedError) as refused:
                await channel.send_envelope(b"abc", b"who", b"\x7f\0\0\1", LONG_S)
            assert refused.value.error == 31
            channel.close()

    asyncio.run(main())


def test_a_closed_channel_ends_what_is_under_way_and_opens_nothing() -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            came = asyncio.Event()
            controller.script.append(lambda _: came.set())
            channel = channel_to(controller.endpoint)
            waiting = asyncio.create_task(ask(channel))
            await came.wait()
            channel.close()
            channel.close()
            with pytest.raises(Disconnected):
                await waiting
            with pytest.raises(ControllerNotFoundError):
                await ask(channel)
            assert len(controller.connections) == 1

    asyncio.run(main())


def test_a_channel_that_is_closed_while_it_connects_keeps_no_connection() -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            opened: list[Connection] = []

            async def slowly(endpoint: Endpoint) -> Connection:
                opened.append(await connect(endpoint))
                channel.close()
                return opened[0]

            channel = ControllerChannel(lambda: controller.endpoint, slowly)
            with pytest.raises(ControllerNotFoundError):
                await ask(channel)
            assert not opened[0].is_open
            assert not controller.bodies(HEARTBEAT)

    asyncio.run(main())
