"""The driver of one node: runs the core's effects, in order, on a log, a trace and sockets.

Layers, each a class built on the one before: ``pump`` (queue, outbox, timers), ``writing``
(controller, state machine, clients that wait), and here the effects and the life of the node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from node.broker.loader import MetadataLoader
from node.broker.snapshot_policy import SnapshotPolicy
from node.config import NodeConfig
from node.controller.context import ControllerConfig
from node.controller.controller import QuorumController
from node.controller.feature_operations import BootstrapMetadata
from node.controller.operations import payload_values
from node.core import effects as fx
from node.core import inputs
from node.core.messages import (
    ControlRecords,
    FetchResponse,
    FetchSnapshotResponse,
    Response,
    UpgradeVersionRequest,
    VoterChangeResponse,
)
from node.core.parts import CoreParts
from node.core.replica import LogState, Replica, ReplicaConfig
from node.core.types import ElectionState, VoterSet
from node.driver.held import Outside, Storage
from node.driver.peers import Peers
from node.driver.pump import NodeFatalError
from node.driver.snapshots import Snapshots
from node.driver.state_machine import StateMachine
from node.driver.writing import Writing
from node.log.batch import Record, encode_batch
from node.log.control import encode_control

__all__ = ["Node", "NodeFatalError", "Parts"]

log = logging.getLogger("krucible.node")

_NO_CONNECTION = -1  # of a request that came inside of another one


class Parts(Protocol):
    """The classes a node is made of; see ``node.driver.parts``."""

    @property
    def core(self) -> CoreParts:
        """The classes of the consensus core."""
        ...

    @property
    def controller(self) -> type[QuorumController]:
        """The quorum controller."""
        ...

    @property
    def machine(self) -> type[StateMachine]:
        """The state machine."""
        ...

    @property
    def loader(self) -> type[MetadataLoader]:
        """What turns committed records into images."""
        ...

    @property
    def snapshots(self) -> type[Snapshots]:
        """What makes, installs and cleans."""
        ...


class Node(Writing):
    """One KRaft node over real or simulated effects; see ``pump`` for the order of things."""

    def __init__(
        self,
        config: NodeConfig,
        storage: Storage,
        *,
        parts: Parts,
        peers: Callable[[Node], Peers],
        bootstrap: BootstrapMetadata,
        outside: Outside,
    ) -> None:
        policy = SnapshotPolicy(
            max_bytes=config.retention.snapshot_bytes,
            max_interval_ms=config.retention.snapshot_interval_ms,
        )
        machine = parts.machine(
            storage.log,
            policy,
            trace=self.trace_fields,
            publish=self.trace_fields if config.is_broker else _untold,
            loader=parts.loader,
        )
        controller = None
        if config.is_controller:
            controller = parts.controller(
                rng=outside.rng, image=machine.image, config=_controller_config(config, storage)
            )
        super().__init__(
            config,
            storage,
            outside,
            machine=machine,
            controller=controller,
            bootstrap=bootstrap,
        )
        self.snapshots = parts.snapshots(self, machine, policy)
        self.on_applied.append(self.snapshots.applied)
        self._peers = peers(self)
        self._replies: dict[int, Callable[[Response, bytes], None]] = {}
        self._closed = False
        self.replica = Replica(
            self._replica_config(),
            storage.elections.load() or ElectionState(),
            self._log_state(),
            outside.rng,
            parts.core,
        )

    # ------------------------------------------------------------------ lifecycle

    @property
    def voters(self) -> VoterSet:
        """The voter set in force at this node."""
        return self.replica.voters

    def start(self) -> None:
        """Let the core begin; whatever was submitted before is stepped after that."""
        self._started = True
        self._inputs.appendleft(self._begin)
        self._schedule_pump()
        self._schedule_controller()
        self.snapshots.schedule()

    def _begin(self) -> None:
        log_ = self.storage.log
        self.tracer.emit(
            "start",
            self.replica.epoch,
            {
                "leo": log_.end_offset,
                "last_ep": log_.last_epoch,
                "log_start": log_.start_offset,
                "flushed": log_.flushed_offset,
                "qs": _election_fields(self.replica.election_state),
                "snaps": [list(info.id) for info in self.storage.log.snapshots.infos],
                "voters": list(self.replica.voters.ids),
                "roles": sorted(self.config.roles),
            },
        )
        self.snapshots.restore()
        if self.machine.is_behind:
            self._catch_up()
        self._run(self.replica.start(self.clock.now_ms()))

    async def shutdown(self, timeout_s: float) -> None:
        """Leave the quorum: a leader resigns, and its successors get a moment to hear of it."""
        left = asyncio.Event()
        self.enqueue(inputs.Shutdown())
        self.later(left.set)
        try:
            async with asyncio.timeout(timeout_s):
                await left.wait()
                await self._peers.drain()
        except TimeoutError:
            log.warning("not everybody heard within %g s that we leave", timeout_s)

    def halt(self) -> None:
        """Do nothing any more. Idempotent."""
        super().halt()
        self._peers.close()

    def close(self, why: str | None = None) -> None:
        """Halt, and close the log and the trace, which tells ``why`` if the end is orderly."""
        self.halt()
        if self._closed:
            return
        self._closed = True
        if why is not None and self._started:
            self.tracer.emit("stop", self.replica.epoch, {"why": why})
        try:
            self.snapshots.close()
            self.machine.close()
            self.storage.log.close()
        finally:
            self.tracer.close()

    # ------------------------------------------------------------------ requests of others

    def request(
        self,
        make: Callable[[int], inputs.RequestReceived],
        reply: Callable[[Response, bytes], None],
    ) -> None:
        """Hand a quorum request to the core; ``reply`` gets the answer and its record bytes."""
        token = self._token()
        self._replies[token] = reply
        self.submit(make(token))

    def upgrade_quorum(
        self, level: int, *, validate_only: bool, told: Callable[[VoterChangeResponse], None]
    ) -> None:
        """Have the core change the kraft.version, or say whether it would."""

        def reply(response: Response, _: bytes) -> None:
            assert isinstance(response, VoterChangeResponse)  # noqa: S101 - what it answers with
            told(response)

        request = UpgradeVersionRequest(level, validate_only)
        self.request(lambda token: inputs.RequestReceived(token, _NO_CONNECTION, request), reply)

    # ------------------------------------------------------------------ effects

    def _run(self, effects: Sequence[fx.Effect]) -> None:
        for effect in effects:
            self._run_one(effect)

    def _run_one(self, effect: fx.Effect) -> None:  # noqa: C901, PLR0912 - one line per effect
        match effect:
            case fx.Trace():
                self.tracer.emit(effect.type, effect.epoch, effect.fields)
            case fx.Send():
                self._outbox.append(lambda: self._peers.send(effect))
            case fx.Reply():
                self._reply(effect)
            case fx.AppendAsLeader():
                self._append_as_leader(effect)
            case fx.AppendBatches():
                self.storage.log.append_batches(effect.batches)
            case fx.FlushLog():
                self._flush_wanted = True
            case fx.HighWatermarkAdvanced():
                self._committed(effect.high_watermark)
            case fx.PersistElectionState():
                self.storage.elections.save(
                    effect.state,
                    kraft_version=self.replica.kraft_version,
                    voter_ids=self.replica.voters.ids,
                )
            case fx.TruncateLog():
                self._truncate(effect.to)
            case fx.ProposalAccepted():
                self._proposal_accepted(effect)
            case fx.ProposalRejected():
                self._proposal_rejected(effect)
            case fx.BarrierConfirmed():
                self._barrier_confirmed(effect)
            case fx.BarrierFailed():
                self._barrier_failed(effect)
            case fx.LeadershipAcquired():
                self._lead(effect.epoch, effect.epoch_start)
            case fx.LeadershipLost():
                self._renounce()
            case fx.OpenSnapshot():
                self.snapshots.open(effect.id)
            case fx.WriteSnapshot():
                self.snapshots.write(effect.id, effect.position, effect.data)
            case fx.InstallSnapshot():
                self._install(effect)
            case fx.DiscardSnapshot():
                self.snapshots.discard(effect.id)
            case fx.VotersChanged():
                log.info(
                    "voters are now %s (kraft.version %d)",
                    ", ".join(str(v.key) for v in effect.voters) or "nobody",
                    effect.kraft_version,
                )
            case fx.ResetConnections():
                self._outbox.append(self._peers.reset)
            case fx.Fatal():
                raise NodeFatalError(effect.reason)

    def _truncate(self, to: int) -> None:
        """Cut the log there and nowhere else: the core's next Fetch promises all below ``to``."""
        end = self.storage.log.truncate_to(to)
        if end < to:
            raise NodeFatalError(
                f"asked to truncate to {to}, inside of a batch that begins at {end}"
            )

    def _install(self, effect: fx.InstallSnapshot) -> None:
        self.step_next(self.snapshots.install(effect.id))
        self._catch_up()

    def _reply(self, effect: fx.Reply) -> None:
        reply, response = self._replies.pop(effect.token), effect.response
        data = b""
        match response:
            case FetchResponse(records=range_) if range_ is not None:
                data = self.storage.log.read(range_.offset, range_.max_bytes)
            case FetchSnapshotResponse(chunk=chunk) if chunk is not None:
                store = self.storage.log.snapshots
                data, _ = store.read_chunk(chunk.snapshot, chunk.position, chunk.max_bytes)
        self._outbox.append(lambda: reply(response, data))

    def _append_as_leader(self, effect: fx.AppendAsLeader) -> None:
        content, base_offset = effect.content, effect.base_offset
        records: Sequence[Record]
        if isinstance(content, ControlRecords):
            records = [encode_control(record) for record in content.records]
        else:
            records = [(None, value) for value in payload_values(content.payload, base_offset)]
        data = encode_batch(
            base_offset,
            effect.epoch,
            records,
            control=isinstance(content, ControlRecords),
            timestamp_ms=self.clock.wall_ms(),
        )
        batch = self.storage.log.append_as_leader(data)
        self.tracer.emit(
            "append",
            effect.epoch,
            {
                "base": batch.base_offset,
                "last": batch.last_offset,
                "bep": batch.epoch,
                "h": batch.crc,
                "ctl": batch.is_control,
                "src": "leader",
            },
        )

    # ------------------------------------------------------------------ helpers

    def trace_fields(self, type_: str, fields: Mapping[str, Any]) -> None:
        """Trace an event of the present epoch whose fields are at hand."""
        self.tracer.emit(type_, self.replica.epoch, fields)

    def _replica_config(self) -> ReplicaConfig:
        config, timers = self.config, self.config.timers
        return ReplicaConfig(
            key=self.storage.key,
            cluster_id=self.storage.cluster_id,
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
            flush_before_fetch=config.is_controller,
        )

    def _log_state(self) -> LogState:
        log_ = self.storage.log
        return LogState(
            log_.start_offset,
            log_.end_offset,
            log_.flushed_offset,
            tuple(log_.epoch_entries),
            snapshots=log_.snapshots.infos,
            voters=log_.voter_history(),
            kraft_versions=log_.kraft_version_history(),
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
