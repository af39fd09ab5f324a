"""``LeaderProgress`` knows how far the replicas are that fetch from a leader.

Source: KIP-595 "Fetch" and "Log replication", KIP-853 (progress is kept by replica key).
"""

from __future__ import annotations

from dataclasses import dataclass

from node.core.messages import ReplicaStatus
from node.core.types import ReplicaKey, VoterSet

OBSERVER_SESSION_MS = 300_000
CAUGHT_UP_WITHIN_MS = 3_600_000
OBSERVERS_MAX = 1_000  # anybody may claim to be an observer: bound what they cost


@dataclass(slots=True)
class ReplicaProgress:
    """A progress tells how far one replica is; ``end_offset`` is None before its first fetch."""

    key: ReplicaKey
    end_offset: int | None = None
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    last_fetch_log_end: int | None = None  # the leader's log end at the last fetch
    # The read barrier: the last fetch reply to this voter went out on this connection after so
    # many barriers had been asked for; the newest barrier this voter has confirmed.
    replied: tuple[int, int] | None = None
    confirmed_barrier: int = 0

    def fetched(self, offset: int, log_end: int, now_ms: int) -> None:
        """Take a valid fetch at ``offset``; it may lie lower than before after a lost disk."""
        if offset >= log_end:
            self.last_caught_up_ms = now_ms
        elif self.last_fetch_log_end is not None and offset >= self.last_fetch_log_end:
            self.last_caught_up_ms = self.last_fetch_ms
        self.end_offset = offset
        self.last_fetch_ms = now_ms
        self.last_fetch_log_end = log_end

    @property
    def ack(self) -> tuple[int, str | None, int | None]:
        """Give node id, directory and end offset, for the trace."""
        directory_id = self.key.directory_id
        return self.key.id, None if directory_id is None else directory_id.hex, self.end_offset

    def heard(self, now_ms: int) -> tuple[int, str | None, int | None]:
        """Give node id, directory and how many ms ago it has fetched, for the trace."""
        directory_id, last_ms = self.key.directory_id, self.last_fetch_ms
        silent_ms = None if last_ms is None else now_ms - last_ms
        return self.key.id, None if directory_id is None else directory_id.hex, silent_ms

    def status(self) -> ReplicaStatus:
        """Describe it for DescribeQuorum."""
        return ReplicaStatus(self.key, self.end_offset, self.last_fetch_ms, self.last_caught_up_ms)


class LeaderProgress:
    """A leader keeps the progress of all voters, and of the observers that fetched lately."""

    def __init__(self, voters: VoterSet, local: ReplicaKey) -> None:
        self.voters: dict[int, ReplicaProgress] = {}
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}
        self._local = ReplicaProgress(local)
        self._local_key = local
        self._local_id = local.id
        self._set = voters
        self.follow(voters)

    def follow(self, voters: VoterSet) -> None:
        """Take over another voter set; progress moves with the exact key.

        A new voter brings what it had fetched as an observer; one that is removed goes on as an
        observer. The leader's own entry counts only while it is in the set (KAFKA-16530).
        """
        old = {p.key: p for p in self.voters.values() if p is not self._local}
        self.voters = {}
        for voter in voters:
            key = voter.key
            if key.id == self._local_id and voters.contains(self._local_key):
                self.voters[key.id] = self._local
            else:
                known = old.pop(key, None) or self.observers.pop(key, None)
                self.voters[key.id] = known or ReplicaProgress(key)
        # An entry of a static voter names no disk: nobody will fetch under it any more.
        self.observers |= {key: progress for key, progress in old.items() if key.directory_id}
        self._set = voters

    def voter(self, key: ReplicaKey) -> ReplicaProgress | None:
        """Find the voter that ``key`` speaks for; never the leader itself, whose disk it knows."""
        if key.id == self._local_id or not self._set.contains(key):
            return None
        return self.voters[key.id]

    def observer(self, key: ReplicaKey, now_ms: int) -> ReplicaProgress | None:
        """Find the observer ``key``, made known if new; None for an anonymous reader."""
        if key.id < 0 or key.id == self._local_id:
            return None
        if key not in self.observers:
            self._forget_observers(now_ms)
            self.observers[key] = ReplicaProgress(key)
        return self.observers[key]

    def live_observers(self, now_ms: int) -> tuple[ReplicaProgress, ...]:
        """List the observers that fetched within the last five minutes, by key."""
        return tuple(
            sorted(
                (p for p in self.observers.values() if not self._expired(p, now_ms)),
                key=lambda p: (p.key.id, str(p.key.directory_id)),
            )
        )

    def local(self) -> ReplicaProgress:
        """Give the leader's own entry, voter or not; its ``end_offset`` is what it has flushed."""
        return self._local

    def caught_up_lately(self, key: ReplicaKey, now_ms: int) -> bool:
        """Say whether the observer ``key`` was level with the leader once and still fetches.

        Source: Kafka 4.1 ``LeaderState.isReplicaCaughtUp``: a fetch within the last hour.
        """
        observer = self.observers.get(key)
        if observer is None or observer.last_fetch_ms is None:
            return False
        return (
            observer.last_caught_up_ms is not None
            and observer.last_fetch_ms > now_ms - CAUGHT_UP_WITHIN_MS
        )

    def end_offsets_descending(self) -> list[int]:
        """List the end offsets of the voters, highest first; -1 for one that has not fetched."""
        ends = (-1 if p.end_offset is None else p.end_offset for p in self.voters.values())
        return sorted(ends, reverse=True)

    def others_by_progress(self) -> tuple[ReplicaKey, ...]:
        """List the other voters, the most advanced first; ids decide between equals."""
        others = [p for p in self.voters.values() if p is not self._local]
        others.sort(key=lambda p: (-(-1 if p.end_offset is None else p.end_offset), p.key.id))
        return tuple(p.key for p in others)

    def _expired(self, progress: ReplicaProgress, now_ms: int) -> bool:
        last_ms = progress.last_fetch_ms
        return last_ms is None or now_ms - last_ms > OBSERVER_SESSION_MS

    def _forget_observers(self, now_ms: int) -> None:
        for key in [k for k, p in self.observers.items() if self._expired(p, now_ms)]:
            del self.observers[key]
        while len(self.observers) >= OBSERVERS_MAX:
            del self.observers[
                min(self.observers, key=lambda k: self.observers[k].last_fetch_ms or 0)
            ]
