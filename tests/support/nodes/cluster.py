"""Clusters of real ``krucible-node`` processes with a dynamic quorum, and what they say."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import ssl
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from node.config import parse
from node.core.messages import (
    AddVoterRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Error,
    RemoveVoterRequest,
    Request,
    Response,
    VoterChangeResponse,
)
from node.core.types import Endpoint, Listener, ReplicaKey
from node.formatting import Quorum, format_node
from node.log.batch import decode_records, iter_batches
from node.log.disk import FileDisk
from node.log.layout import is_leftover, partition_dir, uuid_to_text
from node.log.meta_properties import random_id
from node.metadata.records import MetadataRecord, decode_record
from node.wire import codec
from node.wire.api import ApiKey
from node.wire.connection import Connection
from node.wire.errors import WireError
from node.wire.payloads import api_schema
from node.wire.structs import build
from tests.support.live.cluster import eventually
from tests.support.nodes.driver import NO_TIMEOUT, free_port, part
from tests.support.nodes.process import NodeProcess

HOST = "127.77.202.1"
CLUSTER = "node-cluster"
NO_DIRECTORY = UUID(int=0)
TIMESTAMP_MS = 1_700_000_000_000
WAIT_S = 25.0
_CREATE_TOPICS = (ApiKey.CREATE_TOPICS, 7)
_AGAIN = {5, 6, 7, 14, 38, 41}  # no leader yet, or too few brokers yet
_TOPIC_EXISTS = 36

STATIC_OF_TESTS = {
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.fetch.timeout.ms": "600",
    "controller.quorum.request.timeout.ms": "2000",
    "controller.quorum.append.linger.ms": "0",
    "metadata.max.idle.interval.ms": "100",
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1000",
}


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in a loop of its own, for at most a minute and a half."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **fixtures), timeout=90))

    return run


@dataclass
class ClusterNode(NodeProcess):
    """One node of a cluster; its disk can be lost and formatted anew."""

    id: int = 0
    directory_id: UUID = NO_DIRECTORY
    tls: ssl.SSLContext | None = None  # how to speak to it
    rng: Random = field(default_factory=lambda: Random(0))

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, self.directory_id)

    @property
    def endpoint(self) -> Endpoint:
        """The first listener."""
        first = self.settings["listeners"].partition(",")[0]
        host, _, port = first.partition("://")[2].rpartition(":")
        return Endpoint(host, int(port))

    @property
    def listener(self) -> Listener:
        return Listener(self.settings["listeners"].partition("://")[0], self.endpoint)

    @property
    def partition(self) -> Path:
        return partition_dir(Path(self.settings["log.dirs"]))

    @property
    def snapshots(self) -> list[str]:
        """Names of complete snapshots, oldest first; format's own is not one."""
        names = sorted(p.name for p in self.partition.glob("*.checkpoint"))
        return [name for name in names if not name.startswith("0" * 20)]

    @property
    def leftovers(self) -> list[str]:
        """Names of snapshots half written or half deleted."""
        return [p.name for p in self.partition.iterdir() if is_leftover(p.name)]

    @property
    def log_start(self) -> int:
        """Base offset of the first segment."""
        return min(int(p.stem) for p in self.partition.glob("*.log"))

    def write_config(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.config.write_text("".join(f"{k}={v}\n" for k, v in self.settings.items()))

    def format(self, quorum: Quorum | None = None) -> None:
        format_node(
            FileDisk(),
            parse(self.settings),
            cluster_id=CLUSTER,
            directory_id=self.directory_id,
            quorum=quorum,
            timestamp_ms=TIMESTAMP_MS,
        )

    def lose_disk(self) -> None:
        """Everything is gone; formatted anew as an observer with another directory id."""
        data = Path(self.settings["log.dirs"])
        data.rename(self.folder / f"lost-{uuid_to_text(self.directory_id)}")
        self.directory_id = random_id(self.rng)
        self.format(Quorum(no_initial_controllers=True))

    async def start(self) -> None:
        """Start, and wait until it listens."""
        self.spawn()
        await self.serves()

    def spawn(self) -> None:
        """Start the process, no more."""
        self.starts += 1
        self._logs.append(self.folder / f"output-{self.starts}.log")
        self.process = self._spawn()

    async def serves(self) -> None:
        """Wait until it listens."""
        process = self.process
        assert process is not None
        while True:
            assert process.poll() is None, self.log
            try:
                connection = await Connection.open(self.endpoint, ssl_context=self.tls)
            except WireError:
                await asyncio.sleep(0.02)
                continue
            connection.close()
            await connection.wait_closed()
            return

    def kinds(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of those types."""
        return [e for e in self.events if e["t"] in kinds]

    def records(self) -> list[MetadataRecord]:
        """The metadata records of the log, as far as it is written."""
        found = []
        for segment in sorted(self.partition.glob("*.log")):
            for batch in iter_batches(segment.read_bytes(), partial_tail=True):
                if not batch.is_control:
                    found += [decode_record(value or b"") for _, _, value in decode_records(batch)]
        return found

    # ------------------------------------------------------------------ requests

    async def quorum(self, request: Request, version: int, timeout_s: float = 5.0) -> Response:
        """Ask the quorum's part of the node; raises WireError."""
        encoded = codec.encode_request(request, version, listener_name=self.listener.name)
        async with await Connection.open(self.endpoint, ssl_context=self.tls) as connection:
            return codec.response_from_wire(await connection.request(encoded, timeout_s), request)

    async def ask(self, key: int, version: int, **values: Any) -> Any:
        """Ask with the request built from those values; raises WireError."""
        request = build(api_schema(key, version).request, **values)
        async with await Connection.open(self.endpoint, ssl_context=self.tls) as connection:
            return await connection.request(request, timeout_s=10.0)

    async def describe(self) -> DescribeQuorumResponse | None:
        """DescribeQuorum of a leader; None if it is none, or does not answer."""
        try:
            answer = await self.quorum(DescribeQuorumRequest(), 2)
        except WireError:
            return None
        assert isinstance(answer, DescribeQuorumResponse)
        return answer if answer.error is Error.NONE else None

    async def create(self, topic: str, *, replicas: int = 1, partitions: int = 1) -> Any:
        """CreateTopics of one topic; the result row of it."""
        wanted = part(
            *_CREATE_TOPICS,
            "CreatableTopic",
            name=topic,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=(),
            configs=(),
        )
        answer = await self.ask(
            *_CREATE_TOPICS, topics=(wanted,), timeout=NO_TIMEOUT, validate_only=False
        )
        return answer.topics[0]

    async def topics(self) -> dict[str, Any]:
        """All topics the node knows, by name."""
        answer = await self.ask(
            ApiKey.METADATA,
            12,
            topics=None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        return {topic.name: topic for topic in answer.topics}


@dataclass
class NodeCluster:
    """Nodes that know each other by bootstrap servers."""

    folder: Path
    controllers: dict[int, ClusterNode]
    settings: dict[str, str]
    nodes: dict[int, ClusterNode] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, controllers: int, **settings: str) -> NodeCluster:
        """That many controllers, ids from 1 on, configured but neither formatted nor started."""
        cluster = cls(folder, {}, {k.replace("_", "."): v for k, v in settings.items()})
        ports = [free_port(HOST) for _ in range(controllers)]
        cluster.settings["controller.quorum.bootstrap.servers"] = ",".join(
            f"{HOST}:{port}" for port in ports
        )
        for node_id, port in enumerate(ports, start=1):
            cluster.controllers[node_id] = cluster.add(
                node_id, "controller", f"CONTROLLER://{HOST}:{port}"
            )
        return cluster

    def add(self, node_id: int, role: str, listeners: str, **settings: str) -> ClusterNode:
        """Configure one more node."""
        folder = self.folder / f"n{node_id}"
        own = {
            "node.id": str(node_id),
            "process.roles": role,
            "listeners": listeners,
            "log.dirs": str(folder / "data"),
            "krucible.trace.file": str(folder / "events.jsonl"),
        }
        extra = {k.replace("_", "."): v for k, v in settings.items()}
        rng = Random(node_id)
        node = ClusterNode(
            folder,
            STATIC_OF_TESTS | self.settings | own | extra,
            id=node_id,
            directory_id=random_id(rng),
            rng=rng,
        )
        node.write_config()
        self.nodes[node_id] = node
        return node

    def add_broker(
        self, node_id: int, *, listener: str = "PLAINTEXT", **settings: str
    ) -> ClusterNode:
        """Configure and format a broker."""
        listeners = f"{listener}://{HOST}:{free_port(HOST)}"
        node = self.add(node_id, "broker", listeners, **settings)
        node.format()
        return node

    def format_initial(self) -> None:
        """All controllers are the first voters."""
        text = ",".join(
            f"{n.id}@{n.endpoint}:{uuid_to_text(n.directory_id)}" for n in self.controllers.values()
        )
        for node in self.controllers.values():
            node.format(Quorum(initial_controllers=text))

    async def start(self, *nodes: ClusterNode) -> None:
        """Start those, or all, at the same time."""
        chosen = nodes or tuple(self.nodes.values())
        for node in chosen:
            node.spawn()
        await asyncio.gather(*(node.serves() for node in chosen))

    # ------------------------------------------------------------------ what it says

    async def leader(self, among: Iterable[int] | None = None) -> ClusterNode:
        """The controller that leads, waited for; ``among`` those ids."""
        found, _ = await self.view(lambda _: True, "there is a leader", among)
        return found

    async def view(
        self,
        wanted: Callable[[DescribeQuorumResponse], bool],
        what: str,
        among: Iterable[int] | None = None,
    ) -> tuple[ClusterNode, DescribeQuorumResponse]:
        """Wait until the leader describes the quorum as wanted."""
        ids = list(self.controllers) if among is None else list(among)
        last: dict[int, DescribeQuorumResponse | None] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                while True:
                    for node in [self.controllers[i] for i in ids]:
                        if node.process is None or node.process.poll() is not None:
                            continue
                        view = last[node.id] = await node.describe()
                        if view is not None and view.high_watermark and wanted(view):
                            return node, view
                    await asyncio.sleep(0.02)
        raise AssertionError(f"never happened: {what}; last seen {last}; {self.dead()}")

    async def create(self, topic: str, through: ClusterNode | None = None, **shape: int) -> None:
        """Create a topic, however often it takes to find a leader."""
        row = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                while True:
                    node = through or await self.leader()
                    try:
                        row = await node.create(topic, **shape)
                    except WireError:
                        continue
                    if row.error_code in (0, _TOPIC_EXISTS):
                        return
                    assert row.error_code in _AGAIN, row
                    await asyncio.sleep(0.02)
        raise AssertionError(f"topic {topic} was not created: {row}")

    async def add_voter(
        self, node: ClusterNode, *, through: ClusterNode | None = None
    ) -> VoterChangeResponse:
        """AddRaftVoter of a node to the leader."""
        leader = through or await self.leader()
        request = AddVoterRequest(node.key, (node.listener,), timeout_ms=5000, cluster_id=CLUSTER)
        answer = await leader.quorum(request, 1)
        assert isinstance(answer, VoterChangeResponse)
        return answer

    async def remove_voter(
        self, key: ReplicaKey, *, through: ClusterNode | None = None
    ) -> VoterChangeResponse:
        """RemoveRaftVoter of a key to the leader."""
        leader = through or await self.leader()
        answer = await leader.quorum(RemoveVoterRequest(key, cluster_id=CLUSTER), 0)
        assert isinstance(answer, VoterChangeResponse)
        return answer

    async def applied(self, node: ClusterNode, offset: int) -> None:
        """Wait until a node's image holds all below ``offset``."""
        await eventually(
            lambda: any(e["off"] >= offset for e in node.kinds("apply")[-1:]),
            f"node {node.id} applied {offset}",
            WAIT_S,
        )

    def assert_same_images(self) -> int:
        """Equal digests at equal offsets, on all nodes; returns at how many offsets two met."""
        seen: dict[int, dict[int, str]] = defaultdict(dict)
        for node in self.nodes.values():
            for event in node.events:
                if event["t"] in ("apply", "image"):
                    digest = event["st"] if event["t"] == "apply" else event["digest"]
                    known = seen[event["off"]].setdefault(node.id, digest)
                    assert known == digest, (node.id, event)
        for offset, digests in seen.items():
            assert len(set(digests.values())) == 1, (offset, digests)
        return sum(1 for digests in seen.values() if len(digests) > 1)

    def dead(self) -> list[str]:
        """What processes have printed last that ended by themselves."""
        ended = [n for n in self.nodes.values() if n.process and (n.process.poll() or 0) > 0]
        return [f"node {n.id}: {n.log[-2000:]}" for n in ended]

    def stop(self) -> None:
        """Leave nothing running."""
        for node in self.nodes.values():
            node.stop()


@contextlib.asynccontextmanager
async def node_cluster(
    folder: Path, controllers: int, **settings: str
) -> AsyncIterator[NodeCluster]:
    """Controllers that are configured, neither formatted nor started."""
    cluster = NodeCluster.of(folder, controllers, **settings)
    try:
        yield cluster
    finally:
        cluster.stop()


def krucible_node(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "node", *arguments],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def events_of(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a trace file."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
