"""``FetchReplies`` answers fetches, at once or when there is something to tell.

Source: KIP-595 "Fetch"; KIP-1166 (fetches wake on the high watermark).
"""

from __future__ import annotations

from node.core.effects import Reply
from node.core.leader.purgatory import ParkedFetch, Purgatory
from node.core.messages import Error, FetchRequest, FetchResponse, RecordRange
from node.core.roles import Leader
from node.core.state import ReplicaState
from node.core.types import OffsetAndEpoch


class FetchReplies:
    """This handler holds back the fetches that must wait, and answers all.

    ``rounds`` counts the read barriers so far: each begins a round of fetches, and the reply to a
    voter says in which round it went out.
    """

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._purgatory = Purgatory()
        self.rounds = 0

    # ------------------------------------------------------------------ one fetch

    def park(self, token: int, connection: int, request: FetchRequest) -> None:
        """Hold the reply back until there is news, or the request's time is over."""
        self._purgatory.add(ParkedFetch.of(token, connection, request, self._state.now_ms))

    def reply_now(
        self,
        role: Leader,
        token: int,
        connection: int,
        request: FetchRequest,
        *,
        diverging: OffsetAndEpoch | None = None,
        snapshot: OffsetAndEpoch | None = None,
    ) -> None:
        """Answer without waiting."""
        parked = ParkedFetch.of(token, connection, request, self._state.now_ms)
        self._reply(role, parked, diverging=diverging, snapshot=snapshot)

    def refuse(self, token: int, error: Error) -> None:
        """Answer with ``error``, and with who leads."""
        role = self._state.role
        self._state.out.emit(
            Reply(
                token,
                FetchResponse(
                    error=error,
                    epoch=role.epoch,
                    leader_id=role.leader_id,
                    leader_endpoint=role.leader_endpoint,
                ),
            )
        )

    def _reply(
        self,
        role: Leader,
        fetch: ParkedFetch,
        *,
        diverging: OffsetAndEpoch | None = None,
        snapshot: OffsetAndEpoch | None = None,
    ) -> None:
        """Answer with whatever there is from the fetch offset on, committed or not."""
        state, log = self._state, self._state.log
        voter = role.progress.voter(fetch.request.replica)
        if voter is not None:
            voter.replied = (fetch.connection, self.rounds)
        offset = fetch.request.offset
        records = None
        if diverging is None and snapshot is None and offset < log.end:
            max_bytes = min(fetch.request.max_bytes, state.config.fetch_max_bytes)
            records = RecordRange(offset, max_bytes)
        state.out.emit(
            Reply(
                fetch.token,
                FetchResponse(
                    error=Error.NONE,
                    epoch=role.epoch,
                    leader_id=role.leader_id,
                    high_watermark=role.high_watermark,
                    log_start_offset=log.start,
                    leader_endpoint=role.leader_endpoint,
                    diverging=diverging,
                    snapshot=snapshot,
                    records=records,
                ),
            )
        )

    # ------------------------------------------------------------------ those who wait

    def wake_for_data(self, role: Leader) -> None:
        """Answer those who wait for the records that are in the log now."""
        for parked in self._purgatory.take_below(self._state.log.end):
            self._reply(role, parked)

    def wake_voters(self, role: Leader) -> None:
        """Answer the voters, so that new fetches begin."""
        for parked in self._purgatory.take_of(role.progress.voter):
            self._reply(role, parked)

    def poll(self, role: Leader) -> None:
        """Answer those who have waited long enough."""
        for parked in self._purgatory.take_expired(self._state.now_ms):
            self._reply(role, parked)

    @property
    def deadline_ms(self) -> int | None:
        """Say when the first of them must be answered."""
        return self._purgatory.deadline_ms

    def on_committed(self, role: Leader, high_watermark: int) -> None:
        """Answer those who know a lower high watermark."""
        for parked in self._purgatory.take_behind(high_watermark):
            self._reply(role, parked)

    def on_left(self, leader: Leader) -> None:
        """Refuse all who wait: nobody may wait for a leader that is none."""
        del leader
        for parked in self._purgatory.take_all():
            self.refuse(parked.token, Error.NOT_LEADER_OR_FOLLOWER)
