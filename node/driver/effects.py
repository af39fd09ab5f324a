"""Runs the effects of the core, in order, on the log, the trace, the snapshots and the peers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from node.controller.operations import payload_values
from node.core import effects as fx
from node.core import inputs
from node.core.messages import (
    ControlRecords,
    FetchResponse,
    FetchSnapshotResponse,
    Response,
)
from node.driver.controller_work import ControllerWork
from node.driver.held import Storage
from node.driver.peers import Peers
from node.driver.pump import NodeFatalError, Pump
from node.driver.snapshots import Snapshots
from node.log.batch import Record, encode_batch
from node.log.control.records import encode_control

log = logging.getLogger("krucible.node")


class Effects:
    """Does what the core wants done, and answers the requests that were handed to it.

    Args:
        pump: Sends later, and is told when the log is to be fsynced.
        storage: What the core appends to, truncates and votes on.
        work: Hears of commits, proposals, barriers and the leadership.
        snapshots: Receives and installs those of the leader.
        peers: Sends requests to other replicas.
    """

    def __init__(
        self,
        pump: Pump,
        storage: Storage,
        work: ControllerWork,
        snapshots: Snapshots,
        peers: Peers,
    ) -> None:
        self.pump = pump
        self.replica = pump.replica
        self.tracer = pump.tracer
        self.storage = storage
        self.work = work
        self.snapshots = snapshots
        self.peers = peers
        self._replies: dict[int, Callable[[Response, bytes], None]] = {}

    def request(
        self,
        make: Callable[[int], inputs.RequestReceived],
        reply: Callable[[Response, bytes], None],
    ) -> None:
        """Hand a quorum request to the core; ``reply`` gets the answer and its record bytes."""
        token = self.pump.new_token()
        self._replies[token] = reply
        self.pump.enqueue(make(token))

    def run(self, effects: Sequence[fx.Effect]) -> None:
        """Run effects in order; raises NodeFatalError, OSError: the node must stop."""
        for effect in effects:
            self.run_one(effect)

    def run_one(self, effect: fx.Effect) -> None:  # noqa: C901, PLR0912, PLR0915 - a line each
        """Run one effect."""
        match effect:
            case fx.Trace():
                self.tracer.emit(effect.type, effect.epoch, effect.fields)
            case fx.Send():
                self.pump.later(partial(self.peers.send, effect))
            case fx.Reply():
                self._reply(effect)
            case fx.AppendAsLeader():
                self._append_as_leader(effect)
            case fx.AppendBatches():
                self.storage.log.append_batches(effect.batches)
            case fx.FlushLog():
                self.pump.want_flush()
            case fx.HighWatermarkAdvanced():
                self.work.commit(effect.high_watermark)
            case fx.PersistElectionState():
                self.storage.elections.save(
                    effect.state,
                    kraft_version=self.replica.kraft_version,
                    voter_ids=self.replica.voters.ids,
                )
            case fx.TruncateLog():
                self._truncate(effect.to)
            case fx.ProposalAccepted():
                self.work.proposal_accepted(effect)
            case fx.ProposalRejected():
                self.work.proposal_rejected(effect)
            case fx.BarrierConfirmed():
                self.work.barrier_confirmed(effect)
            case fx.BarrierFailed():
                self.work.barrier_failed(effect)
            case fx.LeadershipAcquired():
                self.work.lead(effect.epoch, effect.epoch_start)
            case fx.LeadershipLost():
                self.work.renounce()
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
                self.pump.later(self.peers.reset)
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
        self.pump.do_next(self.snapshots.install(effect.id))
        self.work.catch_up()

    def _reply(self, effect: fx.Reply) -> None:
        reply, response = self._replies.pop(effect.token), effect.response
        data = b""
        match response:
            case FetchResponse(records=range_) if range_ is not None:
                data = self.storage.log.read(range_.offset, range_.max_bytes)
            case FetchSnapshotResponse(chunk=chunk) if chunk is not None:
                store = self.storage.log.snapshots
                data, _ = store.read_chunk(chunk.snapshot, chunk.position, chunk.max_bytes)
        self.pump.later(partial(reply, response, data))

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
            timestamp_ms=self.pump.wall_ms(),
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
