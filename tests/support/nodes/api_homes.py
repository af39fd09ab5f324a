"""Listeners of nodes without a consensus core: handlers on real sockets over a real controller."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from node.broker.controller_channel import ControllerChannel
from node.broker.producer_ids import ProducerIds
from node.config import NodeConfig, parse
from node.controller.controller import QuorumController
from node.controller.operations import payload_values
from node.core.messages import Error, Records, VoterChangeResponse
from node.core.types import Endpoint
from node.driver.apis.dispatch import Apis
from node.driver.apis.forwarding import EnvelopeForwarder
from node.driver.held import HeldRead, HeldWrite
from node.driver.long_work import LongWork
from node.metadata.features import FEATURES
from node.metadata.image import MetadataImage
from node.metadata.records import decode_record
from node.wire.connection import Connection
from node.wire.payloads import api_schema
from node.wire.server import Server
from node.wire.structs import build
from tests.support.nodes.controllers import Cluster

HOST = "127.0.0.1"
CLUSTER_ID = "c"  # that of ``controllers.Cluster``


@dataclass
class Machine:
    """A state machine that never falls behind."""

    image: MetadataImage

    @property
    def applied(self) -> int:
        return self.image.end_offset


@dataclass
class Core:
    leader_id: int | None
    kraft_version: int = 0


@dataclass
class Disk:
    cluster_id: str = CLUSTER_ID


class FakeNode:
    """A node whose quorum commits at once, keeps silent (``mute``), or was lost (``deposed``)."""

    def __init__(self, config: NodeConfig, cluster: Cluster, *, leader_id: int | None = 1) -> None:
        self.config = config
        self.cluster = cluster
        self.storage = Disk()
        self.machine = Machine(cluster.controller.image)
        self.replica = Core(leader_id)
        self.voters = config.voters
        self.rng = Random(1)
        self.controller: QuorumController | None = None
        if config.is_controller:
            self.controller = cluster.controller
        self.producer_ids: ProducerIds | None = None
        self.long_work = LongWork(self.later)
        self.mute = False
        self.upgrade_error = Error.NONE
        self.deposed = False
        self.refuses_reads = False
        self.published = True
        self.pending: list[HeldWrite] = []
        self.reads: list[str] = []
        self.traced: list[tuple[str, dict[str, object]]] = []
        self.now_ms = 0

    def later(self, send: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(send)

    def propose(self, entries: Sequence[Records], write: HeldWrite) -> None:
        log = self.cluster.log
        if self.deposed:
            self.later(write.abandoned)
            return
        if self.mute:
            self.pending.append(write)
            return
        for entry in entries:
            first = len(log)
            log += [decode_record(v) for v in payload_values(entry.payload, first)]
            self.cluster.controller.appended(first, len(log) - 1)
        self.cluster.commit()
        self.later(write.done)

    def fault(self, operation: str, error: Exception) -> None:
        raise AssertionError(operation) from error

    def read(self, pending: HeldRead) -> None:
        self.reads.append(pending.api)
        self.later(pending.refused if self.refuses_reads else pending.done)

    def upgrade_quorum(
        self, level: int, *, validate_only: bool, told: Callable[[VoterChangeResponse], None]
    ) -> None:
        if self.upgrade_error is Error.NONE and not validate_only:
            self.replica.kraft_version = level
        response = VoterChangeResponse(self.upgrade_error, 1, 1, message="as the core says")
        self.later(lambda: told(response))

    def when_published(self, look: Callable[[], None]) -> bool:
        if self.published:
            look()
        return self.published

    def trace(self, type_: str, **fields: object) -> None:
        self.traced.append((type_, fields))


def settings(role: str, node_id: int = 1, **more: str) -> NodeConfig:
    """A node's configuration; only what handlers look at matters."""
    listener = "CONTROLLER" if role == "controller" else "PLAINTEXT"
    voter = 1 if role == "controller" else 3000  # no broker is a voter
    return parse(
        {
            "node.id": str(node_id),
            "process.roles": role,
            "controller.quorum.voters": f"{voter}@{HOST}:19093,{voter + 1}@{HOST}:19094",
            "listeners": f"{listener}://{HOST}:19095",
            "log.dirs": "unused",
        }
        | {key.replace("_", "."): value for key, value in more.items()}
    )


class Site:
    """One listener of a fake node, and clients of it."""

    def __init__(self, node: FakeNode, **options: Any) -> None:
        self.node = node
        self.rejected: list[str] = []
        self.apis = Apis(node, now_ms=lambda: node.now_ms, **options)
        self.server = Server(
            HOST,
            0,
            self.apis.handle,
            apis=self.apis.table,
            on_reject=lambda _, reason: self.rejected.append(reason),
        )

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(HOST, self.server.port)

    async def ask(self, key: int, version: int, **values: Any) -> Any:
        """One request on a connection of its own; fields that the version lacks are left out."""
        schema = api_schema(key, version)
        async with await Connection.open(self.endpoint) as connection:
            return await connection.request(build(schema.request, **values), timeout_s=5.0)

    async def __aenter__(self) -> Site:
        await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.apis.close()
        await self.server.close()


def controller_site(cluster: Cluster, *, active: bool = True, **more: str) -> Site:
    """The listener of an active controller, or of one that is none."""
    if not active:
        cluster.controller.renounce()
    config = settings("controller", 1, **more)
    return Site(FakeNode(config, cluster), listener_name="CONTROLLER")


@contextlib.asynccontextmanager
async def broker_site(
    cluster: Cluster, controllers: Iterable[Endpoint | None] = (), node_id: int = 1
) -> AsyncIterator[Site]:
    """The listener of a broker; it believes each of ``controllers`` in turn, the last for ever."""
    known = list(controllers) or [None]

    def active() -> Endpoint | None:
        return known.pop(0) if len(known) > 1 else known[0]

    forwarder = EnvelopeForwarder(
        lambda: ControllerChannel(active, Connection.open, retry_backoff_ms=1)
    )
    node = FakeNode(settings("broker", node_id=node_id), cluster)
    async with Site(node, listener_name="PLAINTEXT", forwarder=forwarder) as site:
        yield site


def part(key: int, version: int, struct: str, **values: Any) -> Any:
    """A struct inside a request."""
    return build(api_schema(key, version).request, struct, **values)


def versions(apis: Apis, key: int) -> range:
    """The versions that are served."""
    return range(apis.table[key].min_version, apis.table[key].max_version + 1)


def registration_fields(key: int, version: int, id_: int) -> dict[str, Any]:
    """Of a BrokerRegistration or a ControllerRegistration."""
    listener = part(
        key, version, "Listener", name="PLAINTEXT", host="h", port=9092, security_protocol=0
    )
    return {
        "broker_id": id_,
        "controller_id": id_,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": UUID(int=id_ << 64 | version),
        "listeners": (listener,),
        "features": tuple(
            part(
                key,
                version,
                "Feature",
                name=f.name,
                min_supported_version=f.lowest,
                max_supported_version=f.highest,
            )
            for f in FEATURES.values()
        ),
        "rack": None,
        "is_migrating_zk_broker": False,
        "zk_migration_ready": False,
        "log_dirs": (UUID(int=1000 + id_),),
        "previous_broker_epoch": -1,
    }
