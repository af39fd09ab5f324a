"""One node process: storage, listeners, peers, core, controller and broker, kept running."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
from collections.abc import Callable
from random import Random
from typing import Any

from node.broker.controller_channel import ControllerChannel
from node.config import ConfigError, NodeConfig
from node.core.types import Endpoint, ReplicaKey
from node.driver.bootstrap import load_bootstrap
from node.driver.held import Outside, Storage
from node.driver.listening import Listeners, client_tls
from node.driver.membership import Broker, ControllerRegistration
from node.driver.node import Node
from node.driver.parts import NodeParts
from node.driver.peers import Peers, parse_records
from node.driver.pump import Pump
from node.driver.turns import Turns
from node.driver.world import World
from node.log.disk import DirectoryLockedError
from node.log.meta_properties import MetaPropertiesError, load_meta_properties
from node.log.quorum_state import QuorumStateError
from node.log.recovery import RecoveryError
from node.log.snapshots import SnapshotError
from node.wire.network import Caller, Network, QuorumCaller
from node.wire.tls import TlsConfigError

log = logging.getLogger("krucible.node")

SHUTDOWN_GRACE_S = 1.0  # for EndQuorumEpoch to reach the others
HAND_OVER_S = 30.0  # for a broker's controlled shutdown
EXIT_FATAL = 70  # EX_SOFTWARE: the node stopped because its own state was wrong

UNSTARTABLE = (
    ConfigError,
    DirectoryLockedError,
    MetaPropertiesError,
    QuorumStateError,
    RecoveryError,
    SnapshotError,
    TlsConfigError,
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


async def serve(config: NodeConfig, parts: NodeParts, turns: Turns | None = None) -> int:
    """Run the node until SIGTERM or a fatal error; returns the exit code.

    Args:
        config: The node's.
        parts: What it is made of.
        turns: Those of the loop; long ones are traced.

    Raises:
        StartError: The node cannot start.
    """
    lifetime = Lifetime(asyncio.get_running_loop())
    try:
        running = Running(config, parts, lifetime.fatal)
    except UNSTARTABLE as error:
        raise StartError(str(error)) from error
    node = running.node
    lifetime.watch(node)
    try:
        await running.start()
    except (OSError, ValueError, OverflowError) as error:  # ValueError: a host that is no name
        node.close()
        raise StartError(f"cannot listen on {config.listener}: {error}") from error
    if turns is not None:
        turns.tell = node.pump.turn_took
    node.work.on_applied.append(_freeze_what_is_loaded(node))
    log.info(
        "node %d serves on %s as %s, log end %d, epoch %d",
        config.node_id,
        ", ".join(f"{x.name}://{x.bind}" for x in config.listeners),
        ",".join(sorted(config.roles)),
        node.storage.log.end_offset,
        node.replica.epoch,
    )
    await lifetime.wait()
    try:
        await running.stop(orderly=lifetime.code == 0)
    except Exception as error:
        log.critical("fatal: while stopping: %s", error, exc_info=error)
        return EXIT_FATAL
    if lifetime.code == 0:
        log.info("node %d stopped in good order", config.node_id)
    return lifetime.code


def _freeze_what_is_loaded(node: Node) -> Callable[[], None]:
    """Once the node has come up: no collection of garbage need look at its image any more.

    With a million partitions one that does takes up to a tenth of a second.
    """

    def applied() -> None:
        if not node.machine.is_behind:
            gc.freeze()
            node.work.on_applied.remove(applied)

    return applied


class Running:
    """A node with its listeners and its place in the cluster."""

    def __init__(
        self,
        config: NodeConfig,
        parts: NodeParts,
        on_fatal: Callable[[BaseException], None],
        world: World | None = None,
    ) -> None:
        """Put everything together, in the real world if no other; raises one of ``UNSTARTABLE``."""
        world = world or World.real(config)
        self.node = node = build(config, on_fatal, world, parts)
        try:
            self.listeners = Listeners(config, node)
            self._tls = client_tls(
                config, config.controller_listener_names[0], tls=config.controller_tls
            )
        except BaseException:
            node.close()
            raise
        self._config = config
        self._rng = rng = Random(node.rng.getrandbits(64))
        self.registration: ControllerRegistration | None = None
        if config.is_controller:
            self.registration = ControllerRegistration(
                config, node, channel=self._channel(), rng=rng
            )
        self.broker: Broker | None = None
        if config.is_broker:
            self.broker = Broker(
                config,
                node,
                disk=world.disk,
                channel=self._channel,
                trace=node.tracer,
                rng=rng,
                on_fatal=on_fatal,
                lifecycle=parts.lifecycle,
            )

    def _channel(self) -> ControllerChannel:
        async def connect(endpoint: Endpoint) -> Caller:
            return await self.node.network.connect(endpoint, tls=self._tls)

        return ControllerChannel(lambda: self.node.replica.leader_endpoint, connect)

    async def start(self) -> None:
        """Listen, join the quorum, join the cluster; raises OSError, ValueError, OverflowError."""
        await self.listeners.start()
        self.node.start()
        await asyncio.sleep(0)  # the node's own beginning is the first of its events
        if self.registration is not None:
            self.registration.start()
        if self.broker is not None:
            self.broker.start()

    def redraw(self, salt: str) -> None:
        """Draw timeouts, ids and the order of peers otherwise from now on."""
        self.node.rng.seed(f"node:{salt}")
        self._rng.seed(f"lifecycle:{salt}")

    async def stop(self, *, orderly: bool) -> None:
        """Leave the cluster, then the quorum, then stop serving."""
        if self.broker is not None:
            if orderly:
                await self.broker.stop(HAND_OVER_S)
            self.broker.halt()
        if self.registration is not None:
            self.registration.close()
        if orderly:
            await self.node.shutdown(SHUTDOWN_GRACE_S)
        await self.listeners.close()
        self.node.close("signal" if orderly else None)


def build(
    config: NodeConfig,
    on_fatal: Callable[[BaseException], None],
    world: World,
    parts: NodeParts,
) -> Node:
    """Put a node together from its directory; raises one of ``UNSTARTABLE``."""
    disk, incarnation = world.disk, world.incarnation
    meta = load_meta_properties(disk, config.log_dir)
    if meta is None:
        raise MetaPropertiesError(
            f"{config.log_dir} is not formatted: run krucible-node format --config FILE first"
        )
    if meta.node_id != config.node_id:
        raise ConfigError(
            f"node.id={config.node_id} but {config.log_dir} belongs to node {meta.node_id}"
        )
    bootstrap = load_bootstrap(disk, config.log_dir)
    file_log = parts.log(disk, config.log_dir, segment_bytes=config.segment_bytes)
    if file_log.cut is not None:
        log.warning("recovery cut the log: %s", file_log.cut)
    try:
        return Node(
            config,
            Storage(
                file_log,
                parts.election_store(disk, config.log_dir),
                ReplicaKey(config.node_id, meta.directory_id),
                meta.cluster_id,
            ),
            parts=parts,
            peers=_peers(config, world.network),
            bootstrap=bootstrap,
            outside=Outside(
                world.trace(meta.directory_id.hex),
                world.clock,
                world.network,
                # A seed alone would make every incarnation draw the same timeouts and topic ids.
                Random(None if config.seed is None else config.seed * 1_000_003 + incarnation),
                on_fatal,
            ),
        )
    except BaseException:
        file_log.close()
        raise


def _peers(config: NodeConfig, network: Network) -> Callable[[Pump], Peers]:
    name = config.controller_listener_names[0]
    tls = client_tls(config, name, tls=config.controller_tls)

    def make(pump: Pump) -> Peers:
        async def connect(endpoint: Endpoint, timeout_s: float) -> QuorumCaller:
            return await network.connect_to_replica(
                endpoint, parse_records, timeout_s=timeout_s, tls=tls, listener_name=name
            )

        return Peers(pump.enqueue, connect, on_error=pump.fail)

    return make
