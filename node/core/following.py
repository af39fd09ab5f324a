"""Following: finding the leader, fetching from it, cutting what diverges, appending the rest.

Source: KIP-595 "Fetch"; KAFKA-17030 (everybody asks the bootstrap servers); KAFKA-18723 (batches
of a newer epoch are dropped).
"""

from __future__ import annotations

from node.core import effects as fx
from node.core.messages import Batch, Error, FetchRequest, FetchResponse
from node.core.roles import Follower, Unattached
from node.core.state import known_id
from node.core.types import Endpoint, OffsetAndEpoch
from node.core.upgrading import Upgrading

BOOTSTRAP_PEER = -2  # the first bootstrap server; the next are -3, -4...
# In a row, before others are asked: as only one Fetch may be in flight, one that hangs at a dead
# bootstrap server keeps a follower from a leader that dropped but one connection.
LEADER_FAILURES_MAX = 2


class Following(Upgrading):
    """What a replica does that does not lead."""

    # ------------------------------------------------------------------ what time brings

    def _poll_unattached(self, role: Unattached) -> None:
        expired = role.deadline_ms is not None and role.deadline_ms <= self._now_ms
        if expired or self._is_lone_voter:
            self._become_prospective("lone voter" if self._is_lone_voter else "election timeout")
        else:
            self._discover()

    def _poll_follower(self, role: Follower) -> None:
        expired = role.deadline_ms <= self._now_ms
        if expired and self.is_voter:
            self._become_prospective("fetch timeout")
        elif not self._may_fetch():
            return
        elif not expired and self._connections.is_ready(role.leader_id, self._now_ms):
            self._ask_leader(role)
        elif expired or role.failures >= LEADER_FAILURES_MAX:
            # The leader does not answer: perhaps it is another by now.
            self._discover()

    def _ask_leader(self, role: Follower) -> None:
        """Send the idle leader what there is to ask; extended where more than records is."""
        self._send_fetch(role.leader_id, role.leader_endpoint)

    def _may_fetch(self) -> bool:
        """One Fetch at a time, and none before what we have is on disk: it is a promise."""
        return not self._connections.fetching and self._is_durable()

    def _is_durable(self) -> bool:
        return not self._must_flush or self._flushed >= self._log_end

    def _discover(self) -> None:
        """Ask a random bootstrap server; a refusal tells who leads."""
        if not self._may_fetch():
            return
        ready = [
            (peer, endpoint)
            for peer, endpoint in self._discovery_targets()
            if self._connections.is_ready(peer, self._now_ms)
        ]
        if ready:
            self._send_fetch(*ready[int(self._rng.random() * len(ready))])

    def _discovery_targets(self) -> list[tuple[int, Endpoint]]:
        """Whom to ask for the leader: the bootstrap servers, or else the voters; never itself.

        The last known leader too: it may be no bootstrap server and still lead, and to be told by
        others that it leads is no news.
        """
        bootstrap, role = self.config.bootstrap, self._role
        if bootstrap:
            numbered = [(BOOTSTRAP_PEER - i, endpoint) for i, endpoint in enumerate(bootstrap)]
            if isinstance(role, Follower) and role.leader_endpoint not in bootstrap:
                numbered.append((role.leader_id, role.leader_endpoint))
            return [(i, e) for i, e in numbered if e != self.advertised]
        return [(v.key.id, v.endpoint) for v in self._voters if v.key.id != self.config.key.id]

    def _next_fetch_ms(self) -> int | None:
        """When a fetch may leave that could not yet, None when no timer decides that."""
        if not self._may_fetch():
            return None
        role = self._role
        if not isinstance(role, Follower) or role.deadline_ms <= self._now_ms:
            peers = self._discovery_peers()
        elif role.failures < LEADER_FAILURES_MAX:
            peers = [role.leader_id]
        else:
            peers = [role.leader_id, *self._discovery_peers()]
        idle = [p for p in peers if not self._connections.is_busy(p)]
        return min((self._connections.ready_at_ms(p) for p in idle), default=None)

    def _discovery_peers(self) -> list[int]:
        return [peer for peer, _ in self._discovery_targets()]

    def _send_fetch(self, peer: int, endpoint: Endpoint) -> None:
        last = self.last
        self._trace("fetch_tx", off=last.offset, last_ep=last.epoch, to=known_id(peer))
        self._send(
            peer,
            endpoint,
            FetchRequest(
                replica=self.config.key,
                epoch=self.epoch,
                offset=last.offset,
                last_fetched_epoch=last.epoch,
                max_wait_ms=self.config.fetch_max_wait_ms,
                max_bytes=self.config.fetch_max_bytes,
                # Knowing nothing is knowing that nothing is committed: wake me for anything.
                high_watermark=self._committed or 0,
                cluster_id=self.config.cluster_id,
            ),
        )

    # ------------------------------------------------------------------ answers

    def _on_fetch_response(self, peer: int, request: FetchRequest, response: FetchResponse) -> None:
        role = self._role
        if response.error is not Error.NONE:
            self._back_off(peer)
            return
        if not isinstance(role, Follower) or response.leader_id != role.leader_id:
            self._back_off(peer)
            return
        role.deadline_ms = self._now_ms + self.config.fetch_timeout_ms
        role.has_fetched = True
        if request.offset != self._log_end or self._needs_snapshot(peer, role, response):
            return
        if response.diverging is not None:
            self._cut_divergence(peer, response.diverging)
            return
        if not self._append_fetched(response.batches) and response.batches:
            self._back_off(peer)  # nothing usable: do not ask for the same again at once
        self._follow_high_watermark(response.high_watermark)

    def _needs_snapshot(self, peer: int, role: Follower, response: FetchResponse) -> bool:
        """Whether the leader sent us to a snapshot first; defined where snapshots are fetched."""
        raise NotImplementedError

    def _cut_divergence(self, peer: int, diverging: OffsetAndEpoch) -> None:
        """Go back to the last point that both logs can share; it may take several rounds."""
        if diverging.offset < 0 or diverging.epoch < 0:
            self._back_off(peer)
            return
        self._check_truncation(diverging.offset)
        self._truncate(self._truncation_point(diverging), f"diverged at epoch {diverging.epoch}")

    def _truncation_point(self, diverging: OffsetAndEpoch) -> int:
        end = self._log_end
        if diverging.epoch == 0:
            return min(diverging.offset, end)
        local = self._end_offset_for(diverging.epoch)
        if local.epoch == diverging.epoch:
            return min(local.offset, diverging.offset, end)
        return min(local.offset, end)

    def _append_fetched(self, batches: tuple[Batch, ...]) -> bool:
        """Append the usable head of what the leader sent; says whether there was any."""
        usable = self._usable(batches)
        if not usable:
            return False
        self._emit(fx.AppendBatches(usable))
        for batch in usable:
            self._trace(
                "append",
                base=batch.base_offset,
                last=batch.last_offset,
                bep=batch.epoch,
                h=batch.crc,
                ctl=batch.is_control,
                src="follower",
            )
            self._appended(batch)
        if self._must_flush:
            self._emit(fx.FlushLog(self._log_end))
        return True

    def _usable(self, batches: tuple[Batch, ...]) -> tuple[Batch, ...]:
        """The leading batches that continue our log; all after the first odd one are dropped.

        A batch of an epoch beyond ours comes from bytes that were being overwritten while the
        leader read them (KAFKA-18723).
        """
        usable: list[Batch] = []
        offset, epoch = self._log_end, self._epochs.latest_epoch
        for batch in batches:
            if batch.base_offset != offset or batch.last_offset < offset:
                break
            if not epoch <= batch.epoch <= self.epoch:
                break
            if len(batch.controls) > batch.last_offset - batch.base_offset + 1:
                break
            usable.append(batch)
            offset, epoch = batch.last_offset + 1, batch.epoch
        return tuple(usable)

    def _follow_high_watermark(self, leader_high_watermark: int | None) -> None:
        """Take the leader's high watermark as far as our own log goes; it never falls."""
        if leader_high_watermark is None:
            return
        high_watermark = min(leader_high_watermark, self._log_end)
        if high_watermark > (self._committed or 0):
            self._commit(high_watermark, **{"as": "follower" if self.is_voter else "observer"})
