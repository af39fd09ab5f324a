"""Nodes of the driver in the test's own process, fake voters beside them, and clients."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from kio.static.primitive import i32Timedelta

from node.config import NodeConfig, parse
from node.controller.operations import NewTopic
from node.core.inputs import RequestReceived
from node.core.messages import (
    BeginQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    QuorumEpochResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from node.core.types import Endpoint, ReplicaKey
from node.driver.held import HeldWrite
from node.driver.listening import Listeners
from node.driver.node import Node
from node.driver.process import build
from node.driver.world import World
from node.log.disk import FileDisk
from node.log.meta_properties import format_directory, random_id
from node.mutants import planted
from node.wire import codec
from node.wire.api import CONTROLLER_APIS
from node.wire.connection import Connection
from node.wire.payloads import api_schema
from node.wire.server import InboundRequest, Server
from node.wire.structs import build as entity

HOST = "127.77.201.1"
CLUSTER = "driver-tests"
FETCHER = 1_000_000  # the connection of a fake voter's fetches; the server counts from 1


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in a loop of its own, for at most half a minute."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **fixtures), timeout=30))

    return run


def free_port(host: str = HOST) -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def settings_of(folder: Path, *, voters: dict[int, int], node_id: int = 1) -> dict[str, str]:
    """Properties of a controller; ``voters`` are ids and ports on ``HOST``."""
    return {
        "node.id": str(node_id),
        "process.roles": "controller",
        "controller.quorum.voters": ",".join(f"{i}@{HOST}:{p}" for i, p in voters.items()),
        "listeners": f"CONTROLLER://{HOST}:{voters.get(node_id) or free_port()}",
        "log.dirs": str(folder / f"data-{node_id}"),
        "controller.quorum.election.timeout.ms": "100",
        "controller.quorum.append.linger.ms": "0",
        "metadata.max.idle.interval.ms": "0",
        "krucible.trace.file": str(folder / f"events-{node_id}.jsonl"),
        "krucible.brokers": "7,8",
    }


def formatted(settings: dict[str, str]) -> NodeConfig:
    """Parse the properties and format the directory, unless it is."""
    config = parse(settings)
    if not (config.log_dir / "meta.properties").exists():
        format_directory(
            FileDisk(),
            config.log_dir,
            cluster_id=CLUSTER,
            node_id=config.node_id,
            directory_id=random_id(Random(config.node_id)),
        )
    return config


async def until(condition: Callable[[], Any], what: str, timeout_s: float = 5.0) -> None:
    """Let the loop run until a condition holds; fails the test when it never does."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"never happened: {what}"
        await asyncio.sleep(0.001)


@dataclass
class FakeVoter:
    """Voter 2, as a test wants it: grants votes, and fetches when told to."""

    server: Server = field(init=False)
    seen: list[Request] = field(default_factory=list)

    @classmethod
    async def start(cls) -> FakeVoter:
        voter = cls()
        voter.server = Server(HOST, 0, voter._answer, apis=CONTROLLER_APIS, on_reject=_no_rejects)
        await voter.server.start()
        return voter

    def _answer(self, request: InboundRequest) -> None:
        message = codec.request_from_wire(
            request.api_key, request.version, request.body, endpoint_of=lambda _: Endpoint(HOST, 1)
        )
        self.seen.append(message)
        response: Response
        match message:
            case VoteRequest():
                response = VoteResponse(Error.NONE, message.epoch, None, granted=True)
            case FetchRequest():
                response = FetchResponse(Error.NOT_LEADER_OR_FOLLOWER, message.epoch, None)
            case _:
                epoch = getattr(message, "epoch", 0)
                response = QuorumEpochResponse(Error.NONE, epoch, getattr(message, "leader_id", 1))
        request.reply(codec.answer(response, request.version, b"", message))


class Running:
    """A node of this process and its server."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.errors: list[BaseException] = []
        self.node: Node = build(
            config, self.errors.append, World.real(config), planted(config.mutant)
        )
        self.listeners = Listeners(config, self.node)

    async def start(self) -> None:
        await self.listeners.start()
        self.node.start()

    async def stop(self) -> None:
        await self.listeners.close()
        self.node.close("test over")

    @property
    def active(self) -> bool:
        return self.node.controller is not None and self.node.controller.active

    @property
    def events(self) -> list[dict[str, Any]]:
        """What the trace file holds now."""
        assert self.config.trace_file is not None
        return [json.loads(line) for line in self.config.trace_file.read_text().splitlines()]

    def kinds(self) -> list[str]:
        return [event["t"] for event in self.events]

    async def lead(self) -> None:
        """Wait until this (lone voter) is the active controller."""
        await until(lambda: self.active, "the controller became active")

    # ------------------------------------------------------------------ as voter 2

    def ask(self, request: Request, then: Callable[[Response], None] = lambda _: None) -> None:
        """Hand a quorum request to the node."""
        self.node.request(
            lambda token: RequestReceived(token, FETCHER, request), lambda r, _: then(r)
        )

    def fetch(
        self, offset: int, then: Callable[[Response], None] = lambda _: None, *, wait_ms: int = 0
    ) -> None:
        """Fetch as voter 2, which has everything below ``offset``."""
        replica = self.node.replica
        self.ask(
            FetchRequest(
                ReplicaKey(2),
                replica.epoch,
                offset,
                replica.epoch if offset else 0,
                wait_ms,
                1 << 20,
            ),
            then,
        )

    def depose(self) -> None:
        """Voter 2 leads the next epoch."""
        epoch = self.node.replica.epoch + 1
        self.ask(BeginQuorumEpochRequest(2, epoch, self.config.voters.voters[2].endpoint))

    async def lead_over(self) -> None:
        """Lead voter 2, which follows up to the claim."""
        await until(lambda: self.node.replica.is_leader, "won the election")
        self.fetch(self.node.replica.log_end_offset)
        await self.lead()
        # What the controller begins a cluster with is to be committed before a test's own writes.
        await until(
            lambda: not self.node.work._lingering and not self.node.pump._inputs, "it was stepped"
        )
        self.fetch(self.node.replica.log_end_offset)
        await until(lambda: not self.node.work._writes, "the first records were committed")

    # ------------------------------------------------------------------ as the controller's client

    def write(self, name: str) -> Outcome:
        """Propose the creation of a topic; what becomes of it appears in the outcome."""
        assert self.node.controller is not None
        outcome = Outcome()
        result = self.node.controller.create_topics([NewTopic(name)])
        outcome.errors = [int(row.error) for row in result.reply]
        self.node.propose(result.entries, outcome.held())
        return outcome


@dataclass
class Outcome:
    """What a held write was told."""

    said: list[str] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)

    def held(self) -> HeldWrite:
        return HeldWrite(
            "Test",
            done=lambda: self.said.append("done"),
            refused=lambda: self.said.append("refused"),
            abandoned=lambda: self.said.append("abandoned"),
        )


@contextlib.asynccontextmanager
async def lone_voter(folder: Path, **settings: str) -> AsyncIterator[Running]:
    """The only voter of its quorum, being the active controller."""
    config = formatted(settings_of(folder, voters={1: free_port()}) | dotted(settings))
    running = Running(config)
    await running.start()
    try:
        await running.lead()
        yield running
    finally:
        await running.stop()


@contextlib.asynccontextmanager
async def voter_of_two(folder: Path, **settings: str) -> AsyncIterator[tuple[Running, FakeVoter]]:
    """Voter 1 of two, the other being a fake that grants votes and fetches when told to."""
    fake = await FakeVoter.start()
    voters = {1: free_port(), 2: fake.server.port}
    base = settings_of(folder, voters=voters) | {"controller.quorum.fetch.timeout.ms": "60000"}
    running = Running(formatted(base | dotted(settings)))
    await running.start()
    try:
        yield running, fake
    finally:
        await running.stop()
        await fake.server.close()


def dotted(settings: dict[str, str]) -> dict[str, str]:
    """Keyword names to property names."""
    return {key.replace("_", "."): value for key, value in settings.items()}


class Client:
    """Sends admin requests in any version."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, running: Running) -> AsyncIterator[Client]:
        connection = await Connection.open(running.config.listener)
        try:
            yield cls(connection)
        finally:
            connection.close()
            await connection.wait_closed()

    async def ask(self, key: int, version: int, **values: Any) -> Any:
        """Send the request built from those values; fields that the version lacks are left out."""
        schema = api_schema(key, version)
        return await self.connection.request(entity(schema.request, **values), timeout_s=5.0)


def part(key: int, version: int, struct: str, **values: Any) -> Any:
    """A struct inside a request."""
    return entity(api_schema(key, version).request, struct, **values)


NO_TIMEOUT = i32Timedelta.parse(timedelta(seconds=1))


def _no_rejects(peer: tuple[str, int], reason: str) -> None:
    raise AssertionError(f"{peer}: {reason}")
