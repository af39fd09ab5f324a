"""One node: builds its parts, hands them to each other, and passes on what is asked of it.

``pump`` has queue, outbox and timers, ``controller_work`` the controller and the clients that
wait, ``effects`` runs what the core wants done, ``snapshots`` makes, installs and cleans.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from node.broker.producer_ids import ProducerIds
from node.config import NodeConfig
from node.controller.context import ControllerConfig
from node.controller.feature_operations import BootstrapMetadata
from node.core import inputs
from node.core.messages import (
    Records,
    Response,
    UpgradeVersionRequest,
    VoterChangeResponse,
)
from node.core.replica import LogState, Replica, ReplicaConfig
from node.core.types import ElectionState, VoterSet
from node.driver.held import HeldRead, HeldWrite, Outside, Storage
from node.driver.long_work import LongWork
from node.driver.parts import NodeParts
from node.driver.peers import Peers
from node.driver.pump import Pump
from node.loading.snapshot_policy import SnapshotPolicy
from node.log.file_log import FileLog

log = logging.getLogger("krucible.node")

_NO_CONNECTION = -1  # of a request that came inside of another one


class Node:
    """One KRaft node over real or simulated effects; see ``pump`` for the order of things.

    Args:
        config: Its settings.
        storage: What it has on disk.
        parts: The classes that it is made of.
        peers: Makes what sends the core's requests; it gives answers to the pump.
        bootstrap: The first records of a new cluster.
        outside: Its ways to the world beside its disk.
    """

    def __init__(
        self,
        config: NodeConfig,
        storage: Storage,
        *,
        parts: NodeParts,
        peers: Callable[[Pump], Peers],
        bootstrap: BootstrapMetadata,
        outside: Outside,
    ) -> None:
        self.config = config
        self.storage = storage
        self.clock = outside.clock
        self.network = outside.network
        self.tracer = outside.trace
        self.rng = outside.rng
        self.producer_ids: ProducerIds | None = None  # of a broker that is registered
        self.replica = Replica(
            _replica_config(config, storage),
            storage.elections.load() or ElectionState(),
            _log_state(storage.log),
            outside.rng,
            parts.core,
        )
        self.pump = parts.pump(self.replica, storage.log, self._step, outside)
        policy = SnapshotPolicy(
            max_bytes=config.retention.snapshot_bytes,
            max_interval_ms=config.retention.snapshot_interval_ms,
        )
        self.machine = parts.machine(
            storage.log,
            policy,
            trace=self.pump.trace_fields,
            publish=self.pump.trace_fields if config.is_broker else _untold,
            loader=parts.loader,
        )
        self.controller = None
        if config.is_controller:
            self.controller = parts.controller(
                rng=outside.rng,
                image=self.machine.image,
                config=_controller_config(config, storage),
            )
        self.work = parts.work(config, self.pump, self.machine, self.controller, bootstrap)
        self.snapshots = parts.snapshots(config, self.pump, self.machine, policy, storage.log)
        self.work.on_applied.append(self.snapshots.applied)
        self._peers = peers(self.pump)
        self.effects = parts.effects(self.pump, storage, self.work, self.snapshots, self._peers)
        self.pump.on_halt += [self.work.close, self._peers.close]
        self._closed = False

    # ------------------------------------------------------------------ lifecycle

    def start(self) -> None:
        """Start the core; inputs that were queued before are stepped after that."""
        self.pump.start(self._begin)
        self.work.schedule()
        self.snapshots.schedule()

    def _begin(self) -> None:
        log_ = self.storage.log
        self.pump.trace(
            "start",
            leo=log_.end_offset,
            last_ep=log_.last_epoch,
            log_start=log_.start_offset,
            flushed=log_.flushed_offset,
            qs=_election_fields(self.replica.election_state),
            snaps=[list(info.id) for info in log_.snapshots.infos],
            voters=list(self.replica.voters.ids),
            roles=sorted(self.config.roles),
        )
        self.snapshots.restore()
        if self.machine.is_behind:
            self.work.catch_up()
        self.effects.run(self.replica.start(self.clock.now_ms()))

    def _step(self, input_: inputs.Input, now_ms: int) -> None:
        self.effects.run(self.replica.step(input_, now_ms))

    async def shutdown(self, timeout_s: float) -> None:
        """Leave the quorum: a leader resigns, and its successors get a moment to hear of it."""
        left = asyncio.Event()
        self.pump.enqueue(inputs.Shutdown())
        self.pump.later(left.set)
        try:
            async with asyncio.timeout(timeout_s):
                await left.wait()
                await self._peers.drain()
        except TimeoutError:
            log.warning("not everybody heard within %g s that we leave", timeout_s)

    def halt(self) -> None:
        """Do nothing any more. Idempotent."""
        self.pump.halt()

    def close(self, why: str | None = None) -> None:
        """Halt, and close the log and the trace, which tells ``why`` if the end is orderly."""
        self.halt()
        if self._closed:
            return
        self._closed = True
        if why is not None and self.pump.started:
            self.pump.trace("stop", why=why)
        try:
            self.snapshots.close()
            self.machine.close()
            self.storage.log.close()
        finally:
            self.tracer.close()

    # ------------------------------------------------------------------ what handlers ask

    @property
    def voters(self) -> VoterSet:
        """The voter set in force at this node."""
        return self.replica.voters

    def request(
        self,
        make: Callable[[int], inputs.RequestReceived],
        reply: Callable[[Response, bytes], None],
    ) -> None:
        """Hand a quorum request to the core; ``reply`` gets the answer and its record bytes."""
        self.effects.request(make, reply)

    def upgrade_quorum(
        self, level: int, *, validate_only: bool, told: Callable[[VoterChangeResponse], None]
    ) -> None:
        """Have the core change the kraft.version, or say whether it would."""

        def reply(response: Response, _: bytes) -> None:
            assert isinstance(response, VoterChangeResponse)  # noqa: S101 - what it answers with
            told(response)

        request = UpgradeVersionRequest(level, validate_only)
        self.request(lambda token: inputs.RequestReceived(token, _NO_CONNECTION, request), reply)

    @property
    def long_work(self) -> LongWork:
        """The operation of the controller that is worked out in slices, and who waits for it."""
        return self.work.long_work

    def propose(self, entries: Sequence[Records], write: HeldWrite) -> None:
        """Append entries, and settle ``write`` when they are committed."""
        self.work.propose(entries, write)

    def read(self, pending: HeldRead) -> None:
        """Confirm leadership, then answer."""
        self.work.read(pending)

    def when_published(self, look: Callable[[], None]) -> bool:
        """Look at the image once it may be shown, which may be now; False: too many wait."""
        return self.work.when_published(look)

    def fault(self, operation: str, error: Exception) -> None:
        """Give up being the active controller after an operation that failed unexpectedly."""
        self.work.fault(operation, error)

    def later(self, send: Callable[[], None]) -> None:
        """Do ``send`` once the trace of everything before it is written."""
        self.pump.later(send)

    def trace(self, type_: str, **fields: object) -> None:
        """Trace an event of the present epoch."""
        self.pump.trace(type_, **fields)


def _replica_config(config: NodeConfig, storage: Storage) -> ReplicaConfig:
    timers = config.timers
    return ReplicaConfig(
        key=storage.key,
        cluster_id=storage.cluster_id,
        voters=config.voters,
        endpoint=config.advertised,
        listeners=config.voter_listeners,
        bootstrap=config.bootstrap,
        election_timeout_ms=timers.election_timeout_ms,
        fetch_timeout_ms=timers.fetch_timeout_ms,
        request_timeout_ms=timers.request_timeout_ms,
        retry_backoff_ms=timers.retry_backoff_ms,
        election_backoff_max_ms=timers.election_backoff_max_ms,
        fetch_max_wait_ms=timers.fetch_max_wait_ms,
        fetch_max_bytes=config.fetch_max_bytes,
        fetch_snapshot_max_bytes=config.fetch_snapshot_max_bytes,
        flush_before_fetch=config.is_controller,
    )


def _log_state(file_log: FileLog) -> LogState:
    return LogState(
        file_log.start_offset,
        file_log.end_offset,
        file_log.flushed_offset,
        tuple(file_log.epoch_entries),
        snapshots=file_log.snapshots.infos,
        voters=file_log.voter_history(),
        kraft_versions=file_log.kraft_version_history(),
    )


def _controller_config(config: NodeConfig, storage: Storage) -> ControllerConfig:
    return ControllerConfig(
        node_id=config.node_id,
        cluster_id=storage.cluster_id,
        voter_ids=config.voters.ids,
        num_partitions=config.num_partitions,
        default_replication_factor=config.replication_factor,
        session_timeout_ms=config.timers.broker_session_timeout_ms,
        static_broker_ids=config.brokers,
        partitions_per_slice=config.partitions_per_slice,
    )


def _untold(type_: str, fields: Mapping[str, Any]) -> None:
    """A controller publishes to nobody."""


def _election_fields(state: ElectionState) -> dict[str, object]:
    voted = state.voted
    directory = None if voted is None or voted.directory_id is None else voted.directory_id.hex
    return {
        "ep": state.epoch,
        "leader": state.leader_id,
        "voted": None if voted is None else voted.id,
        "voted_dir": directory,
    }
