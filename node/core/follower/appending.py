"""``Appending`` cuts what diverges from the leader's log, and appends the leader's batches.

Source: KIP-595 "Log truncation"; KAFKA-18723 (batches of a newer epoch are dropped).
"""

from __future__ import annotations

from node.core.effects import AppendBatches, FlushLog
from node.core.messages import Batch
from node.core.state import ReplicaState
from node.core.types import OffsetAndEpoch


class Appending:
    """This handler makes a follower's log like the leader's."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state

    def cut_divergence(self, peer: int, diverging: OffsetAndEpoch) -> None:
        """Go back to the last point that both logs can share; it may take several rounds."""
        log = self._state.log
        if diverging.offset < 0 or diverging.epoch < 0:
            self._state.back_off(peer)
            return
        log.check_truncation(diverging.offset)
        log.truncate(self._truncation_point(diverging), f"diverged at epoch {diverging.epoch}")

    def _truncation_point(self, diverging: OffsetAndEpoch) -> int:
        log = self._state.log
        if diverging.epoch == 0:
            return min(diverging.offset, log.end)
        local = log.end_offset_for(diverging.epoch)
        if local.epoch == diverging.epoch:
            return min(local.offset, diverging.offset, log.end)
        return min(local.offset, log.end)

    def append_fetched(self, batches: tuple[Batch, ...]) -> bool:
        """Append the usable head of what the leader sent; says whether there was any."""
        usable = self._usable(batches)
        if not usable:
            return False
        out, log = self._state.out, self._state.log
        out.emit(AppendBatches(usable))
        for batch in usable:
            out.trace(
                "append",
                base=batch.base_offset,
                last=batch.last_offset,
                bep=batch.epoch,
                h=batch.crc,
                ctl=batch.is_control,
                src="follower",
            )
            log.appended(batch)
        if log.must_flush:
            out.emit(FlushLog(log.end))
        return True

    def _usable(self, batches: tuple[Batch, ...]) -> tuple[Batch, ...]:
        """Choose the leading batches that continue our log; all after the first odd one go.

        A batch of an epoch beyond ours comes from bytes that were being overwritten while the
        leader read them (KAFKA-18723).
        """
        if not batches:
            return ()
        usable: list[Batch] = []
        log, epoch_max = self._state.log, self._state.epoch
        offset, epoch = log.end, log.epochs.latest_epoch
        for batch in batches:
            if batch.base_offset != offset or batch.last_offset < offset:
                break
            if not epoch <= batch.epoch <= epoch_max:
                break
            if len(batch.controls) > batch.last_offset - batch.base_offset + 1:
                break
            usable.append(batch)
            offset, epoch = batch.last_offset + 1, batch.epoch
        return tuple(usable)
