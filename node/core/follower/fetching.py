"""``Fetching`` finds the leader, and fetches from it.

Source: KIP-595 "Fetch"; KAFKA-17030 (everybody asks the bootstrap servers).
"""

from __future__ import annotations

from node.core.follower.appending import Appending
from node.core.follower.downloading import Downloading
from node.core.follower.own_entry import OwnEntry
from node.core.messages import Error, FetchRequest, FetchResponse
from node.core.role_changes import RoleChanges
from node.core.roles import Follower, Unattached
from node.core.state import ReplicaState, earliest, known_id
from node.core.types import Endpoint

BOOTSTRAP_PEER = -2  # the first bootstrap server; the next are -3, -4...
# In a row, before others are asked: as only one Fetch may be in flight, one that hangs at a dead
# bootstrap server keeps a follower from a leader that dropped but one connection.
LEADER_FAILURES_MAX = 2


class Fetching:
    """This handler asks for what the leader has, and for the leader."""

    def __init__(
        self,
        state: ReplicaState,
        roles: RoleChanges,
        appending: Appending,
        downloading: Downloading,
        own_entry: OwnEntry,
    ) -> None:
        self._state = state
        self._roles = roles
        self._appending = appending
        self._downloading = downloading
        self._own_entry = own_entry

    # ------------------------------------------------------------------ time

    def poll_unattached(self, role: Unattached) -> None:
        """Stand when it is time, else look for a leader."""
        expired = role.deadline_ms is not None and role.deadline_ms <= self._state.now_ms
        is_lone = self._state.is_lone_voter
        if expired or is_lone:
            self._roles.become_prospective("lone voter" if is_lone else "election timeout")
        else:
            self._discover()

    def unattached_deadline_ms(self, role: Unattached) -> int | None:
        """Say when there is something to do next."""
        return earliest(role.deadline_ms, self._next_fetch_ms())

    def poll_follower(self, role: Follower) -> None:
        """Stand when the leader is silent, else ask it for more."""
        state = self._state
        expired = role.deadline_ms <= state.now_ms
        if expired and state.log.is_voter:
            self._roles.become_prospective("fetch timeout")
        elif not self._may_fetch():
            return
        elif not expired and state.connections.is_ready(role.leader_id, state.now_ms):
            if not self._own_entry.ask(role) and not self._downloading.ask(role):
                self._send_fetch(role.leader_id, role.leader_endpoint)
        elif expired or role.failures >= LEADER_FAILURES_MAX:
            # The leader does not answer: perhaps it is another by now.
            self._discover()

    def follower_deadline_ms(self, role: Follower) -> int | None:
        """Say when there is something to do next."""
        expired = role.deadline_ms <= self._state.now_ms
        return earliest(None if expired else role.deadline_ms, self._next_fetch_ms())

    # ------------------------------------------------------------------ asking

    def _may_fetch(self) -> bool:
        """Send one Fetch at a time, and none before what we have is on disk: it is a promise."""
        state = self._state
        return (
            not state.connections.fetching
            and self._is_durable()
            and not self._downloading.is_installing(state.role)
        )

    def _is_durable(self) -> bool:
        log = self._state.log
        return log.flushed >= log.end or not log.must_flush

    def _discover(self) -> None:
        """Ask a random bootstrap server; a refusal tells who leads."""
        state = self._state
        if not self._may_fetch():
            return
        ready = [
            (peer, endpoint)
            for peer, endpoint in self._discovery_targets()
            if state.connections.is_ready(peer, state.now_ms)
        ]
        if ready:
            self._send_fetch(*ready[int(state.rng.random() * len(ready))])

    def _discovery_targets(self) -> list[tuple[int, Endpoint]]:
        """List whom to ask for the leader: the bootstrap servers, or else the voters; never itself.

        The last known leader too: it may be no bootstrap server and still lead, and to be told by
        others that it leads is no news.
        """
        config, role = self._state.config, self._state.role
        if config.bootstrap:
            numbered = [(BOOTSTRAP_PEER - i, each) for i, each in enumerate(config.bootstrap)]
            if isinstance(role, Follower) and role.leader_endpoint not in config.bootstrap:
                numbered.append((role.leader_id, role.leader_endpoint))
            own = self._state.advertised
            return [(i, each) for i, each in numbered if each != own]
        voters = self._state.log.voters
        return [(v.key.id, v.endpoint) for v in voters if v.key.id != config.key.id]

    def _next_fetch_ms(self) -> int | None:
        """Say when a fetch may leave that could not yet, None when no timer decides that."""
        if not self._may_fetch():
            return None
        connections, role = self._state.connections, self._state.role
        if not isinstance(role, Follower) or role.deadline_ms <= self._state.now_ms:
            peers = self._discovery_peers()
        elif role.failures < LEADER_FAILURES_MAX:
            peers = [role.leader_id]
        else:
            peers = [role.leader_id, *self._discovery_peers()]
        idle = [p for p in peers if not connections.is_busy(p)]
        return min((connections.ready_at_ms(p) for p in idle), default=None)

    def _discovery_peers(self) -> list[int]:
        return [peer for peer, _ in self._discovery_targets()]

    def _send_fetch(self, peer: int, endpoint: Endpoint) -> None:
        state, config, last = self._state, self._state.config, self._state.log.last
        state.out.trace("fetch_tx", off=last.offset, last_ep=last.epoch, to=known_id(peer))
        state.send(
            peer,
            endpoint,
            FetchRequest(
                replica=config.key,
                epoch=state.epoch,
                offset=last.offset,
                last_fetched_epoch=last.epoch,
                max_wait_ms=config.fetch_max_wait_ms,
                max_bytes=config.fetch_max_bytes,
                # Knowing nothing is knowing that nothing is committed: wake me for anything.
                high_watermark=state.log.committed or 0,
                cluster_id=config.cluster_id,
            ),
        )

    # ------------------------------------------------------------------ answers

    def on_answer_of(self, peer: int) -> None:
        """Note that the leader answers."""
        role = self._state.role
        if isinstance(role, Follower) and peer == role.leader_id:
            role.failures = 0

    def on_failure_of(self, peer: int) -> None:
        """Note that the leader does not answer."""
        role = self._state.role
        if isinstance(role, Follower) and peer == role.leader_id:
            role.failures += 1

    def on_fetch_response(self, peer: int, request: FetchRequest, response: FetchResponse) -> None:
        """Follow the leader: to a snapshot, back to where the logs part, or on by its batches."""
        state, role = self._state, self._state.role
        if response.error is not Error.NONE:
            state.back_off(peer)
            return
        if not isinstance(role, Follower) or response.leader_id != role.leader_id:
            state.back_off(peer)
            return
        role.deadline_ms = state.now_ms + state.config.fetch_timeout_ms
        role.has_fetched = True
        if request.offset != state.log.end:
            return
        if self._downloading.needs_snapshot(peer, role, response):
            return
        if response.diverging is not None:
            self._appending.cut_divergence(peer, response.diverging)
            return
        if not self._appending.append_fetched(response.batches) and response.batches:
            state.back_off(peer)  # nothing usable: do not ask for the same again at once
        state.log.follow_high_watermark(response.high_watermark)
