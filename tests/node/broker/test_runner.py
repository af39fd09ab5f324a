"""A broker's lifecycle against a controller, over real sockets and in real time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from random import Random
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from node.broker.controller_channel import ControllerChannel
from node.broker.exchange import heartbeat_entity, registration_entity
from node.broker.lifecycle import BrokerLifecycle, LifecycleConfig
from node.broker.runner import BrokerFatalError, BrokerRunner
from node.broker.states import BrokerState
from node.clock import SystemClock
from node.controller.broker_operations import BrokerHeartbeatRequest, BrokerRegistrationRequest
from node.metadata.schemas import BrokerEndpoint, BrokerFeature
from node.wire.payloads import api_schema, decode, encode
from tests.support.nodes.fake_controller import HEARTBEAT, REGISTRATION, FakeController, connect
from tests.support.wire.server import until

LISTENERS = (BrokerEndpoint(name="PLAINTEXT", host="b1", port=9092, security_protocol=0),)
FEATURES = (
    BrokerFeature(name="kraft.version", min_supported_version=0, max_supported_version=1),
    BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=27),
)


class Trace:
    """Keeps events; ``flushed`` counts those that were flushed."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, Mapping[str, Any]]] = []
        self.flushed = 0

    @property
    def seq(self) -> int:
        return len(self.events)

    def emit(self, type_: str, epoch: int, fields: Mapping[str, Any]) -> None:
        self.events.append((type_, epoch, fields))

    def flush(self) -> None:
        self.flushed = len(self.events)

    def close(self) -> None:
        self.flush()


class Broker:
    """A runner, what it told, and the controllers it knows."""

    def __init__(self, *controllers: FakeController, **config: Any) -> None:
        self.controllers = controllers
        self.fatal: list[BaseException] = []
        self.trace = Trace()
        self.runner = BrokerRunner(
            BrokerLifecycle(
                LifecycleConfig(
                    **{
                        "broker_id": 1,
                        "cluster_id": "c",
                        "incarnation_id": UUID(int=7),
                        "listeners": LISTENERS,
                        "features": FEATURES,
                        "heartbeat_interval_ms": 20,
                        "session_timeout_ms": 400,
                        "registration_timeout_ms": 10_000,
                        **config,
                    }
                ),
                Random(0),
            ),
            ControllerChannel(self.active, connect, retry_backoff_ms=2),
            clock=SystemClock(),
            trace=self.trace,
            epoch=lambda: 3,
            on_fatal=self.fatal.append,
        )

    def active(self) -> Any:
        return next((c.endpoint for c in self.controllers if c.active), None)


@contextlib.asynccontextmanager
async def live(*controllers: FakeController, **config: Any) -> AsyncIterator[Broker]:
    """A started broker; it must not have failed in the end."""
    broker = Broker(*controllers, **config)
    broker.runner.start()
    yield broker
    await broker.runner.stop(5)
    assert not broker.fatal


def test_a_broker_registers_catches_up_is_unfenced_and_stops_with_consent() -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            controller.leads = 2
            async with live(controller) as broker:
                runner = broker.runner
                await until(lambda: len(controller.bodies(HEARTBEAT)) > 2)
                assert runner.state is BrokerState.STARTING
                runner.on_published(controller.broker_epoch)
                await runner.wait_unfenced()
                await until(lambda: runner.name == "Online")
                assert await runner.stop(5)
                assert runner.stopped_cleanly
            assert (runner.state, runner.broker_epoch) == (BrokerState.SHUTTING_DOWN, 7)
            asked = [body.want_shut_down for body in controller.bodies(HEARTBEAT)]
            assert sum(asked) == 3
            [body] = controller.bodies(REGISTRATION)
            assert (body.cluster_id, body.incarnation_id) == ("c", UUID(int=7))
            assert [f.name for f in body.features] == ["kraft.version", "metadata.version"]
            states = [e[2]["to"] for e in broker.trace.events if e[0] == "bstate"]
            assert states == [
                "STARTING",
                "RECOVERY",
                "RUNNING",
                "PENDING_CONTROLLED_SHUTDOWN",
                "SHUTTING_DOWN",
            ]
            assert {epoch for _, epoch, _ in broker.trace.events} == {3}
            assert broker.trace.flushed == len(broker.trace.events)

    asyncio.run(main())


def test_a_broker_finds_the_new_controller_and_goes_on() -> None:
    async def main() -> None:
        async with (
            FakeController.running() as old,
            FakeController.running() as new,
            live(old, new) as broker,
        ):
            broker.runner.on_published(100)
            await broker.runner.wait_unfenced()
            old.active = False
            await old.server.close()
            await until(lambda: len(new.bodies(HEARTBEAT)) > 1)
            assert not new.bodies(REGISTRATION)
            assert broker.runner.name == "Online"

    asyncio.run(main())


def test_a_broker_that_lost_its_session_is_unfenced_again() -> None:  # L10
    async def main() -> None:
        async with FakeController.running() as controller, live(controller) as broker:
            broker.runner.on_published(100)
            await broker.runner.wait_unfenced()
            controller.fences = True
            await until(lambda: broker.runner.is_fenced)
            controller.fences = False
            await broker.runner.wait_unfenced()
            assert broker.runner.name == "Online"
            fences = [e[2]["fenced"] for e in broker.trace.events if e[0] == "fence"]
            assert fences == [False, True, False]

    asyncio.run(main())


def test_a_broker_that_reaches_nobody_takes_itself_for_fenced() -> None:
    async def main() -> None:
        async with (
            FakeController.running() as controller,
            live(controller, session_timeout_ms=120) as broker,
        ):
            broker.runner.on_published(100)
            await broker.runner.wait_unfenced()
            controller.active = False
            await until(lambda: broker.runner.is_fenced)
            assert broker.runner.state is BrokerState.RUNNING
            controller.active = True
            await broker.runner.wait_unfenced()

    asyncio.run(main())


def test_a_restarted_broker_waits_for_its_old_session_to_end_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            controller.script.extend([ErrorCode.duplicate_broker_registration] * 3)
            async with live(controller) as broker:
                await until(lambda: broker.runner.broker_epoch == 7)
            assert len(controller.bodies(REGISTRATION)) == 4

    asyncio.run(main())
    said = [r.getMessage() for r in caplog.records if "not in touch" in r.getMessage()]
    assert len(said) == 1
    assert "DUPLICATE_BROKER_REGISTRATION (101)" in said[0]


@pytest.mark.parametrize(
    ("error", "timeout_ms"),
    [(ErrorCode.inconsistent_cluster_id, 10_000), (ErrorCode.not_controller, 50)],
)
def test_what_can_never_be_ends_the_process(error: ErrorCode, timeout_ms: int) -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            controller.script.extend([error] * 1000)
            broker = Broker(controller, registration_timeout_ms=timeout_ms)
            broker.runner.start()
            await until(lambda: broker.fatal)
            assert [type(e) for e in broker.fatal] == [BrokerFatalError]
            assert broker.trace.flushed == len(broker.trace.events)
            assert not await broker.runner.stop(5)  # nothing is left to stop

    asyncio.run(main())


def test_a_stop_without_consent_ends_after_its_time() -> None:
    async def main() -> None:
        async with FakeController.running() as controller, live(controller) as broker:
            controller.leads = 10**6
            broker.runner.on_published(100)
            await broker.runner.wait_unfenced()
            await until(lambda: broker.runner.name == "Online")
            assert not await broker.runner.stop(0.1)
            assert any(body.want_shut_down for body in controller.bodies(HEARTBEAT))
            assert not await broker.runner.stop(0.1)

    asyncio.run(main())


def test_a_broker_that_is_halted_says_nothing_more() -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            broker = Broker(controller)
            broker.runner.start()
            await until(lambda: controller.bodies(HEARTBEAT))
            broker.runner.halt()
            broker.runner.on_published(5)
            heard = len(controller.requests)
            await until(lambda: not controller.server.connections)
            assert len(controller.requests) == heard
            assert not broker.fatal

    asyncio.run(main())


def test_a_broken_contract_is_fatal() -> None:
    async def main() -> None:
        async with FakeController.running() as controller:
            broker = Broker(controller)
            broker.runner.start()
            broker.runner.on_published(9)
            broker.runner.on_published(8)
            assert "fell from 9 to 8" in str(broker.fatal[0])
            broker.runner.on_published(7)
            assert len(broker.fatal) == 1

    asyncio.run(main())


# --------------------------------------------------------------------------- on the wire


@pytest.mark.parametrize("version", range(5))
def test_a_registration_survives_the_wire_in_every_version(version: int) -> None:
    schema = api_schema(REGISTRATION, version)
    request = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id="c",
        incarnation_id=UUID(int=7),
        listeners=LISTENERS,
        features=FEATURES,
        rack=None,
        log_dirs=(UUID(int=8),),
        previous_broker_epoch=5,
    )
    body: Any = decode(schema.request, encode(registration_entity(schema, request)))
    assert (body.broker_id, body.cluster_id, body.rack) == (1, "c", None)
    [listener] = body.listeners
    assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", "b1", 9092)
    # a lowest level of 0 could not be told before version 4 (KIP-1022)
    names = [feature.name for feature in body.features]
    assert names == (["kraft.version"] if version >= 4 else []) + ["metadata.version"]
    assert getattr(body, "previous_broker_epoch", None) == (5 if version >= 3 else None)
    assert getattr(body, "log_dirs", None) == ((UUID(int=8),) if version >= 2 else None)


@pytest.mark.parametrize("version", range(2))
def test_a_heartbeat_survives_the_wire_in_every_version(version: int) -> None:
    schema = api_schema(HEARTBEAT, version)
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=7, current_metadata_offset=9, want_fence=True
    )
    body: Any = decode(schema.request, encode(heartbeat_entity(schema, request)))
    assert (body.broker_id, body.broker_epoch, body.current_metadata_offset) == (1, 7, 9)
    assert (body.want_fence, body.want_shut_down) == (True, False)
