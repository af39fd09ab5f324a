"""One node process: storage, server, peers, core and controller put together and kept running."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from node import mutants
from node.config import ConfigError, NodeConfig
from node.core import inputs
from node.core.messages import Response
from node.core.types import ReplicaKey
from node.driver.admin import Admin
from node.driver.clock import SystemClock
from node.driver.node import Node, Storage
from node.driver.parts import NodeParts
from node.log.disk import FileDisk
from node.log.file_log import FileLog
from node.log.meta_properties import MetaPropertiesError, load_meta_properties
from node.trace import TraceWriter
from node.wire import codec
from node.wire.api import BROKER_APIS, ApiKey, ApiTable, apis_of
from node.wire.errors import ValidationFailure
from node.wire.server import InboundRequest, Server

log = logging.getLogger("krucible.node")

SHUTDOWN_GRACE_S = 1.0  # for EndQuorumEpoch to reach the others
EXIT_FATAL = 70


async def serve(config: NodeConfig) -> int:
    """Run the node until SIGTERM or a fatal error; returns the exit code."""
    parts = NodeParts()
    if config.mutant is not None:
        parts = mutants.get(config.mutant).apply(parts)
        log.warning("seeded bug %s is in", config.mutant)
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def fatal(error: BaseException) -> None:
        if not stopped.done():
            log.critical("fatal: %s", error)
            stopped.set_result(EXIT_FATAL)

    loop.set_exception_handler(
        lambda _, context: fatal(
            context.get("exception") or RuntimeError(str(context.get("message")))
        )
    )

    def stop() -> None:
        if not stopped.done():
            stopped.set_result(0)

    node = _build(config, parts, fatal)
    server = await _listen(config, node)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    log.info(
        "node %d serves on %s as %s, log end %d, epoch %d",
        config.node_id,
        config.listener,
        ",".join(sorted(config.roles)),
        node.storage.log.end_offset,
        node.replica.epoch,
    )
    node.start()
    ticker = asyncio.create_task(_idle_records(node))
    code = await stopped
    ticker.cancel()
    if code == 0:
        node.shutdown()
        await asyncio.sleep(SHUTDOWN_GRACE_S if node.replica.is_leader else 0)
        await server.close()
        node.close("signal")
        log.info("node %d stopped in good order", config.node_id)
    return code


def _build(config: NodeConfig, parts: NodeParts, fatal: Callable[[BaseException], None]) -> Node:
    clock = SystemClock()
    disk = FileDisk(fsync=config.fsync)
    meta = load_meta_properties(disk, config.log_dir)
    if meta is None:
        raise MetaPropertiesError(
            f"{config.log_dir} is not formatted: run krucible-node format --config FILE first"
        )
    if meta.node_id != config.node_id:
        raise ConfigError(
            f"node.id={config.node_id} but {config.log_dir} belongs to node {meta.node_id}"
        )
    file_log = FileLog(disk, config.log_dir, segment_bytes=config.segment_bytes)
    if file_log.cut is not None:
        log.warning("recovery cut the log: %s", file_log.cut)
    incarnation = time.time_ns()
    trace = TraceWriter(
        config.trace_file or Path("/dev/null"),
        node=config.node_id,
        directory_id=meta.directory_id.hex,
        incarnation=incarnation,
        clock_ns=clock.trace_ns,
    )
    # A seed alone would make every incarnation draw the same timeouts and topic ids.
    rng = Random(None if config.seed is None else config.seed * 1_000_003 + incarnation)
    storage = Storage(
        file_log,
        parts.election_store(disk, config.log_dir),
        ReplicaKey(config.node_id, meta.directory_id),
        meta.cluster_id,
    )
    return parts.node(
        config, storage, parts=parts, trace=trace, clock=clock, rng=rng, on_fatal=fatal
    )


async def _listen(config: NodeConfig, node: Node) -> Server:
    admin = Admin(node)

    def handle(request: InboundRequest) -> None:
        if admin.handles(request.api_key):
            admin.handle(request)
        else:
            _quorum(node, request)

    def rejected(peer: tuple[str, int], reason: str) -> None:
        node.counters.rejected_connections += 1
        log.warning("closed the connection of %s:%s: %s", *peer[:2], reason)

    server = Server(
        config.listener.host,
        config.listener.port,
        handle,
        apis=_apis(config),
        on_reject=rejected,
    )
    await server.start()
    return server


def _apis(config: NodeConfig) -> ApiTable:
    """What the listener serves: Kafka's split by role, and Metadata behind the read barrier.

    The latter is an extension of ours: a linearizable look at a topic's id and partitions.
    """
    apis = apis_of(config.roles)
    if not config.read_barrier:
        return apis
    return dict(sorted({**apis, int(ApiKey.METADATA): BROKER_APIS[ApiKey.METADATA]}.items()))


def _quorum(node: Node, request: InboundRequest) -> None:
    """Hand a quorum request to the core; one that is about another partition is refused here."""
    try:
        message = codec.request_from_wire(
            request.api_key, request.version, request.body, endpoint_of=node.config.voters.endpoint
        )
    except ValidationFailure as refusal:
        request.reply(codec.error_to_wire(request.api_key, request.version, refusal.error_code))
        return
    voters = node.config.voters

    def reply(response: Response, records: bytes) -> None:
        request.reply(
            codec.encode_response(response, request.version, records, message, voters=voters)
        )

    node.request(lambda token: inputs.RequestReceived(token, request.connection, message), reply)


async def _idle_records(node: Node) -> None:
    """NoOp records while this is the active controller: the liveness probe of the quorum."""
    interval_s = node.config.timers.idle_interval_ms / 1000
    if interval_s <= 0:
        return
    while True:
        await asyncio.sleep(interval_s)
        node.write_no_op()
