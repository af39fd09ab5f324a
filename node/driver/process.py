"""One node process: storage, server, peers, core and controller put together and kept running."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import time
from collections.abc import Callable
from random import Random
from typing import Any

from node import mutants
from node.config import ConfigError, NodeConfig
from node.core import inputs
from node.core.messages import Response
from node.core.types import ReplicaKey
from node.driver.admin import Admin
from node.driver.clock import SystemClock
from node.driver.held import Storage
from node.driver.node import Node
from node.driver.parts import NodeParts
from node.log.disk import DirectoryLockedError, FileDisk
from node.log.file_log import FileLog
from node.log.meta_properties import MetaPropertiesError, load_meta_properties
from node.log.quorum_state import QuorumStateError
from node.log.recovery import RecoveryError
from node.trace import NoTrace, Tracer, TraceWriter
from node.wire import codec
from node.wire.api import BROKER_APIS, ApiKey, ApiTable, apis_of
from node.wire.errors import LocalProtocolError, ValidationFailure
from node.wire.server import InboundRequest, Server

log = logging.getLogger("krucible.node")

SHUTDOWN_GRACE_S = 1.0  # for EndQuorumEpoch to reach the others
EXIT_FATAL = 70  # EX_SOFTWARE: the node stopped because its own state was wrong

UNSTARTABLE = (
    ConfigError,
    DirectoryLockedError,
    MetaPropertiesError,
    QuorumStateError,
    RecoveryError,
    OSError,
)
# What accept() says when the process or the host is short of something for the moment; asyncio
# then pauses the listener for a second by itself.
SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class StartError(Exception):
    """Raised when a node cannot start as it is configured; nothing was served."""


class Lifetime:
    """Decides when the process ends and with which code."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.code = 0
        self._over = asyncio.Event()
        self._node: Node | None = None
        loop.set_exception_handler(self.on_loop_error)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._over.set)

    def watch(self, node: Node) -> None:
        """The node that must not outlive a fatal error."""
        self._node = node

    def fatal(self, error: BaseException) -> None:
        """End the process: a node that lost a part of itself must not linger (KAFKA-14644)."""
        if self._node is not None:
            self._node.halt()
        log.critical("node stops with exit code %d because of %s", EXIT_FATAL, type(error).__name__)
        self.code = EXIT_FATAL
        self._over.set()

    def on_loop_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that no code of ours has caught."""
        error = context.get("exception") or RuntimeError(str(context.get("message")))
        message = context.get("message", "error in the event loop")
        if isinstance(error, OSError) and error.errno in SHORTAGES:
            log.error("%s: %s", message, error)
            return
        log.critical("fatal: %s: %s", message, error, exc_info=error)
        self.fatal(error)

    async def wait(self) -> None:
        """Return when the process is to end."""
        await self._over.wait()


async def serve(config: NodeConfig) -> int:
    """Run the node until SIGTERM or a fatal error; returns the exit code.

    Raises:
        StartError: The node cannot start.
    """
    lifetime = Lifetime(asyncio.get_running_loop())
    try:
        node = build(config, lifetime.fatal)
    except UNSTARTABLE as error:
        raise StartError(str(error)) from error
    lifetime.watch(node)
    try:
        server = await listen(config, node)
    except (OSError, ValueError, OverflowError) as error:  # ValueError: a host that is no name
        node.close()
        raise StartError(f"cannot listen on {config.listener}: {error}") from error
    log.info(
        "node %d serves on %s as %s, log end %d, epoch %d",
        config.node_id,
        config.listener,
        ",".join(sorted(config.roles)),
        node.storage.log.end_offset,
        node.replica.epoch,
    )
    node.start()
    await lifetime.wait()
    try:
        if lifetime.code == 0:
            await node.shutdown(SHUTDOWN_GRACE_S)
        await server.close()
        node.close("signal" if lifetime.code == 0 else None)
    except Exception as error:
        log.critical("fatal: while stopping: %s", error, exc_info=error)
        return EXIT_FATAL
    if lifetime.code == 0:
        log.info("node %d stopped in good order", config.node_id)
    return lifetime.code


def build(config: NodeConfig, on_fatal: Callable[[BaseException], None]) -> Node:
    """Put a node together from its directory; raises one of ``UNSTARTABLE``."""
    parts = NodeParts()
    if config.mutant is not None:
        parts = mutants.get(config.mutant).apply(parts)
        log.warning("seeded bug %s is in", config.mutant)
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
    incarnation = time.time_ns()
    file_log = FileLog(disk, config.log_dir, segment_bytes=config.segment_bytes)
    if file_log.cut is not None:
        log.warning("recovery cut the log: %s", file_log.cut)
    try:
        return parts.node(
            config,
            Storage(
                file_log,
                parts.election_store(disk, config.log_dir),
                ReplicaKey(config.node_id, meta.directory_id),
                meta.cluster_id,
            ),
            parts=parts,
            trace=_tracer(config, meta.directory_id.hex, incarnation, clock),
            clock=clock,
            # A seed alone would make every incarnation draw the same timeouts and topic ids.
            rng=Random(None if config.seed is None else config.seed * 1_000_003 + incarnation),
            on_fatal=on_fatal,
        )
    except BaseException:
        file_log.close()
        raise


def _tracer(config: NodeConfig, directory_id: str, incarnation: int, clock: SystemClock) -> Tracer:
    if config.trace_file is None:
        return NoTrace()
    return TraceWriter(
        config.trace_file,
        node=config.node_id,
        directory_id=directory_id,
        incarnation=incarnation,
        clock_ns=clock.trace_ns,
    )


async def listen(config: NodeConfig, node: Node) -> Server:
    """Serve a node's requests on its listener; raises OSError, ValueError, OverflowError."""
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
        try:
            request.reply(
                codec.encode_response(response, request.version, records, message, voters=voters)
            )
        except LocalProtocolError as error:
            request.reject(f"its answer cannot be encoded: {error}")

    node.request(lambda token: inputs.RequestReceived(token, request.connection, message), reply)
