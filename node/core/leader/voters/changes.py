"""``VoterChanges`` makes the one change of the voters that is under way, and answers it.

The new set holds from the moment it is appended, so that any majority of it overlaps with any
majority of the old one (Raft thesis 4.1 and the correction to it).

Source: KIP-853.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from node.core.effects import Reply
from node.core.leader.replication import Replication
from node.core.messages import AddVoterRequest, ControlRecord, Error, VoterChangeResponse, Voters
from node.core.own_log import directory
from node.core.roles import Leader
from node.core.state import ReplicaState
from node.core.types import ReplicaKey, VoterSet


class Refusal(NamedTuple):
    """A refusal tells why a change of the voters is not made."""

    error: Error
    message: str


@dataclass(slots=True)
class VoterChange:
    """A change is answered when its record at ``offset`` is committed."""

    token: int
    deadline_ms: int
    added: AddVoterRequest | None = None  # until its node has told its versions
    probe: int | None = None  # what that node is called meanwhile
    offset: int | None = None


class VoterChanges:
    """This handler keeps a change from its beginning to its end; ``change`` is None in between."""

    def __init__(self, state: ReplicaState, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        self.change: VoterChange | None = None

    def begin(
        self, token: int, added: AddVoterRequest | None = None, probe: int | None = None
    ) -> VoterChange:
        """Begin a change, when none is under way."""
        deadline_ms = self._state.now_ms + self._state.config.request_timeout_ms
        self.change = VoterChange(token, deadline_ms, added, probe)
        return self.change

    def append(self, voters: VoterSet, *before: ControlRecord) -> int:
        """Write a voter set; it is in force at once, and committed by its own majority.

        Gives the offset of its record; ``before`` stands before it in the same batch.
        """
        last = self._replication.append_controls((*before, Voters(voters)))
        role = self._state.role
        assert isinstance(role, Leader), "only a leader changes the voters"
        self._replication.replicate(role)
        self._replication.advance_high_watermark(role)  # fewer voters may be a majority already
        return last

    # ------------------------------------------------------------------ how it ends

    def on_committed(self, role: Leader, high_watermark: int) -> None:
        """End the change whose record is committed."""
        del role
        change = self.change
        if change is not None and change.offset is not None and change.offset < high_watermark:
            self.end(change, Error.NONE)

    def poll(self) -> None:
        """End a change that takes too long."""
        change = self.change
        if change is not None and change.deadline_ms <= self._state.now_ms:
            # Its record may still be committed; nobody else is refused meanwhile for its sake.
            self.end(change, Error.REQUEST_TIMED_OUT, "not committed in time")

    @property
    def deadline_ms(self) -> int | None:
        """Say when the change under way takes too long."""
        return None if self.change is None else self.change.deadline_ms

    def on_left(self, leader: Leader) -> None:
        """End the change under way: the next leader may commit it, or not."""
        del leader
        if self.change is not None:
            self.end(self.change, Error.NOT_LEADER_OR_FOLLOWER, "not the leader any more")

    def end(self, change: VoterChange, error: Error, message: str | None = None) -> None:
        """End the change, and answer who has asked for it."""
        state = self._state
        self.change = None
        if error is Error.NONE:
            api = "RemoveVoter" if change.added is None else "AddVoter"
            state.out.trace("ack", api=api, off=change.offset, hwm=state.high_watermark)
        self.answer(change.token, error, message)

    def answer(self, token: int, error: Error, message: str | None = None) -> None:
        """Answer a request to change the voters."""
        role = self._state.role
        response = VoterChangeResponse(
            error, role.epoch, role.leader_id, role.leader_endpoint, message
        )
        self._state.out.emit(Reply(token, response))

    def refuse(
        self, token: int, api: str, voter: ReplicaKey, refusal: Refusal, epoch: int | None = None
    ) -> None:
        """Refuse a request to change the voters; ``epoch`` is the one that it names, if any."""
        asked = self._state.epoch if epoch is None else epoch
        key = directory(voter)
        self._state.trace_refusal(api, voter.id, asked, refusal.error, peer_dir=key)
        self.answer(token, *refusal)
