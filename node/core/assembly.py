"""``Handlers`` builds the handlers of one replica, and says who hears of what happens inside."""

from __future__ import annotations

from node.core.parts import CoreParts
from node.core.state import ReplicaState


class Handlers:
    """Each handler gets the shared state, and by name the handlers that it needs."""

    def __init__(self, parts: CoreParts, state: ReplicaState) -> None:
        self.roles = parts.roles(state)
        self.fencing = parts.fencing(state, self.roles)
        self._build_leader(parts, state)
        self._build_follower(parts, state)
        self.elections = parts.elections(state, self.roles, self.leadership)
        self.votes = parts.votes(state, self.roles, self.fencing)
        self.succession = parts.succession(state, self.roles, self.fencing)

        state.events.left = (
            self.voter_changes.on_left,
            self.replies.on_left,
            self.barriers.on_left,
            self.leadership.on_left,
        )
        state.events.committed = (
            self.replies.on_committed,
            self.barriers.on_committed,
            self.voter_changes.on_committed,
        )
        state.events.voters_changed = (self.leadership.on_voters_changed,)

    def _build_leader(self, parts: CoreParts, state: ReplicaState) -> None:
        fencing = self.fencing
        self.replies = parts.replies(state)
        self.replication = parts.replication(state, self.replies)
        self.leadership = parts.leadership(state, self.roles, self.replication)
        self.barriers = parts.barriers(state, self.replies)
        self.fetches = parts.fetches(
            state, fencing, self.replication, self.leadership, self.barriers, self.replies
        )
        self.snapshots = parts.snapshots(state, fencing, self.leadership)
        self.description = parts.description(state)
        self.voter_changes = parts.voter_changes(state, self.replication)
        self.voter_rules = parts.voter_rules(state, fencing, self.voter_changes)
        self.voter_requests = parts.voter_requests(state, self.voter_rules, self.voter_changes)
        self.upgrade = parts.upgrade(state, self.voter_rules, self.voter_changes)

    def _build_follower(self, parts: CoreParts, state: ReplicaState) -> None:
        self.appending = parts.appending(state)
        self.downloading = parts.downloading(state)
        self.own_entry = parts.own_entry(state)
        self.fetching = parts.fetching(
            state, self.roles, self.appending, self.downloading, self.own_entry
        )
