"""Changing the voters, as leader: AddVoter, RemoveVoter and UpdateVoter.

One change at a time: the set that it replaces must be committed, and so must something of this
leader's epoch. The new set holds from the moment it is appended, so that any majority of it
overlaps with any majority of the old one (Raft thesis 4.1 and the correction to it).

Source: KIP-853; Kafka 4.1 ``AddVoterHandler``, ``RemoveVoterHandler``, ``UpdateVoterHandler``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from node.core import effects as fx
from node.core.messages import (
    AddVoterRequest,
    ControlRecord,
    Error,
    ProbeVersionsRequest,
    ProbeVersionsResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    Voters,
)
from node.core.roles import Leader
from node.core.serving import Serving
from node.core.types import Listener, ReplicaKey, VersionRange, Voter, VoterSet

PROBE_PEER = -1_000_000  # a node that is asked for its versions; each time another number below
# The record that holds all voters must fit into a batch, whatever anybody asks for.
LISTENERS_MAX = 32  # of one voter
LISTENER_TEXT_MAX = 255  # characters of a name or host; DNS allows no more


class Refusal(NamedTuple):
    """Why a change of the voters is not made."""

    error: Error
    message: str


@dataclass(slots=True)
class VoterChange:
    """The change that is being made, answered when its record at ``offset`` is committed."""

    token: int
    deadline_ms: int
    added: AddVoterRequest | None = None  # until its node has told its versions
    probe: int | None = None  # what that node is called meanwhile
    offset: int | None = None


class Reconfiguring(Serving):
    """The changes of the voter set that a leader makes."""

    _change: VoterChange | None
    _probes: int

    def _init_leading(self) -> None:
        super()._init_leading()
        self._change = None
        self._probes = 0

    # ------------------------------------------------------------------ requests

    def _on_add_voter(self, token: int, request: AddVoterRequest) -> None:
        refusal = self._refuse_add(request)
        if refusal is not None:
            self._refuse_change(token, "AddVoter", request.voter, refusal)
            return
        early = {} if request.ack_when_committed else {"early": True}
        self._trace_accepted("AddVoter", request.voter, None, request.cluster_id, **early)
        self._probes += 1
        peer = PROBE_PEER - self._probes
        self._change = VoterChange(token, self._change_deadline(), request, peer)
        endpoint = self._default_listener(request.listeners)
        assert endpoint is not None, "checked above"
        self._send(peer, endpoint.endpoint, ProbeVersionsRequest())

    def _on_remove_voter(self, token: int, request: RemoveVoterRequest) -> None:
        refusal = self._refuse_remove(request)
        if refusal is not None:
            self._refuse_change(token, "RemoveVoter", request.voter, refusal)
            return
        self._trace_accepted("RemoveVoter", request.voter, None, request.cluster_id)
        change = self._change = VoterChange(token, self._change_deadline())
        change.offset = self._append_voters(self._voters.without(request.voter.id))

    def _on_update_voter(self, token: int, request: UpdateVoterRequest) -> None:
        refusal = self._refuse_update(request)
        if refusal is not None:
            self._refuse_change(token, "UpdateVoter", request.voter, refusal, request.epoch)
            return
        self._trace_accepted("UpdateVoter", request.voter, request.epoch, request.cluster_id)
        updated = self._voter(request.voter, request.listeners, request.kraft_versions)
        if self.kraft_version < 1:
            assert isinstance(self._role, Leader), "checked above"
            self._role.told[request.voter.id] = updated
        else:
            self._append_voters(self._voters.with_voter(updated))
        self._answer_change(token, Error.NONE)

    def _voter(
        self, key: ReplicaKey, listeners: tuple[Listener, ...], versions: VersionRange
    ) -> Voter:
        """An entry of a voter set; the listener of the quorum stands first."""
        default = self._default_listener(listeners)
        assert default is not None, "checked before"
        others = tuple(x for x in listeners if x is not default)
        return Voter(key, default.endpoint, (default, *others), versions)

    def _default_listener(self, listeners: tuple[Listener, ...]) -> Listener | None:
        """The one by which the quorum speaks: of the name that this leader's own has."""
        own = self.config.listeners
        named = [x for x in listeners if not own or x.name == own[0].name]
        return named[0] if named else None

    def _change_deadline(self) -> int:
        return self._now_ms + self.config.request_timeout_ms

    def _append_voters(self, voters: VoterSet, *before: ControlRecord) -> int:
        """Write a voter set; it is in force at once, and committed by its own majority."""
        last = self._append_controls((*before, Voters(voters)))
        role = self._role
        assert isinstance(role, Leader), "only a leader changes the voters"
        self._wake_for_data(role)
        self._emit(fx.FlushLog(self._log_end))
        self._advance_high_watermark(role)  # fewer voters may be a majority already
        return last

    # ------------------------------------------------------------------ preconditions

    def _refuse_add(self, request: AddVoterRequest) -> Refusal | None:
        if not self._same_cluster(request.cluster_id):
            return Refusal(Error.INCONSISTENT_CLUSTER_ID, "another cluster")
        if not isinstance(self._role, Leader):
            return Refusal(Error.NOT_LEADER_OR_FOLLOWER, "not the leader")
        if request.voter.id < 0 or request.voter.directory_id is None:
            return Refusal(Error.INVALID_REQUEST, f"{request.voter} has no node and directory id")
        refusal = self._refuse_listeners(request.voter, request.listeners)
        refusal = refusal or self._refuse_any(self._role)
        if refusal is None and request.voter.id in self._voters.voters:
            return Refusal(Error.DUPLICATE_VOTER, f"node {request.voter.id} is a voter already")
        return refusal

    def _refuse_remove(self, request: RemoveVoterRequest) -> Refusal | None:
        if not self._same_cluster(request.cluster_id):
            return Refusal(Error.INCONSISTENT_CLUSTER_ID, "another cluster")
        if not isinstance(self._role, Leader):
            return Refusal(Error.NOT_LEADER_OR_FOLLOWER, "not the leader")
        if request.voter.id < 0 or request.voter.directory_id is None:
            return Refusal(Error.INVALID_REQUEST, f"{request.voter} has no node and directory id")
        refusal = self._refuse_any(self._role)
        if refusal is not None:
            return refusal
        if not self._is_listed(request.voter):
            return Refusal(Error.VOTER_NOT_FOUND, f"{request.voter} is not a voter")
        if len(self._voters) == 1:
            return Refusal(Error.INVALID_REQUEST, f"{request.voter} is the last voter")
        return None

    def _refuse_update(self, request: UpdateVoterRequest) -> Refusal | None:
        if not self._same_cluster(request.cluster_id):
            return Refusal(Error.INCONSISTENT_CLUSTER_ID, "another cluster")
        error = self._check_leader_only(request.epoch)
        if error is not Error.NONE or not isinstance(self._role, Leader):
            return Refusal(error, "not the leader of that epoch")
        if request.voter.id < 0 or request.voter.directory_id is None:
            return Refusal(Error.INVALID_REQUEST, f"{request.voter} has no node and directory id")
        refusal = self._refuse_known(self._role)
        if refusal is not None:
            return refusal
        if not self._supports_quorum(request.kraft_versions):
            return Refusal(
                Error.INVALID_REQUEST, f"supports kraft.version {request.kraft_versions}"
            )
        refusal = self._refuse_listeners(request.voter, request.listeners)
        if refusal is not None:
            return refusal
        if not self._is_listed(request.voter):
            return Refusal(Error.VOTER_NOT_FOUND, f"{request.voter} is not a voter")
        return None

    def _refuse_listeners(
        self, voter: ReplicaKey, listeners: tuple[Listener, ...]
    ) -> Refusal | None:
        if self._default_listener(listeners) is None:
            return Refusal(Error.INVALID_REQUEST, f"{voter} lacks the quorum's listener")
        longest = max(len(text) for x in listeners for text in (x.name, x.endpoint.host))
        if len(listeners) > LISTENERS_MAX or longest > LISTENER_TEXT_MAX:
            return Refusal(
                Error.INVALID_REQUEST,
                f"{voter} has more than {LISTENERS_MAX} listeners, or a name or host of more than "
                f"{LISTENER_TEXT_MAX} characters",
            )
        return None

    def _refuse_any(self, role: Leader) -> Refusal | None:
        """What stands against every change, in Kafka's order."""
        refusal = self._refuse_early(role)
        if refusal is not None:
            return refusal
        if self.kraft_version < 1:
            return Refusal(Error.UNSUPPORTED_VERSION, "kraft.version is 0: the voters are static")
        if not self._voters_committed(role):
            return Refusal(Error.REQUEST_TIMED_OUT, "the last change is not committed yet")
        return None

    def _refuse_known(self, role: Leader) -> Refusal | None:
        """The same for what is not refused to static voters either: they cannot be changing."""
        return self._refuse_any(role) if self.kraft_version else self._refuse_early(role)

    def _refuse_early(self, role: Leader) -> Refusal | None:
        if self._change is not None:
            return Refusal(Error.REQUEST_TIMED_OUT, "another change of the voters is under way")
        if not self._may_reconfigure(role):
            return Refusal(Error.REQUEST_TIMED_OUT, "nothing of this epoch is committed yet")
        return None

    def _may_reconfigure(self, role: Leader) -> bool:
        """Not before a record of the own epoch is committed: the bug of single-server changes.

        Source: Ongaro, "bug in single-server membership changes", raft-dev 2015.
        """
        return role.high_watermark is not None

    def _voters_committed(self, role: Leader) -> bool:
        offset = self._history.offset
        return (
            offset is not None and role.high_watermark is not None and offset < role.high_watermark
        )

    def _is_listed(self, key: ReplicaKey) -> bool:
        return self._voters.contains(key)

    def _supports_quorum(self, versions: VersionRange | None) -> bool:
        return versions is not None and versions.min <= self.kraft_version <= versions.max

    # ------------------------------------------------------------------ AddVoter, going on

    def _on_probe_response(self, peer: int, response: ProbeVersionsResponse) -> None:
        """The new node told its versions: if it also keeps up, it becomes a voter."""
        role, change = self._role, self._change
        if not isinstance(role, Leader) or change is None or change.probe != peer:
            return
        request, versions = change.added, response.kraft_versions
        assert request is not None, "only an added voter is probed"
        if response.error is not Error.NONE:
            error = Refusal(Error.REQUEST_TIMED_OUT, f"it answered {response.error.name}")
        elif versions is None or not self._supports_quorum(versions):
            error = Refusal(Error.INVALID_REQUEST, f"it supports kraft.version {versions}")
        elif not role.progress.caught_up_lately(request.voter, self._clock_ms):
            error = Refusal(Error.REQUEST_TIMED_OUT, f"{request.voter} has not caught up")
        else:
            self._append_added(change, request, versions)
            return
        self._end_change(change, *error)

    def _append_added(
        self, change: VoterChange, request: AddVoterRequest, versions: VersionRange
    ) -> None:
        change.probe = None
        voter = self._voter(request.voter, request.listeners, versions)
        change.offset = self._append_voters(self._voters.with_voter(voter))
        if not request.ack_when_committed:
            self._end_change(change, Error.NONE)

    def _on_probe_failed(self, peer: int, reason: str) -> None:
        change = self._change
        if change is not None and change.probe == peer:
            self._end_change(change, Error.REQUEST_TIMED_OUT, f"it does not answer: {reason}")

    # ------------------------------------------------------------------ how it ends

    def _committed_more(self, role: Leader, high_watermark: int) -> None:
        super()._committed_more(role, high_watermark)
        change = self._change
        if change is not None and change.offset is not None and change.offset < high_watermark:
            self._end_change(change, Error.NONE)

    def _poll_leader(self, role: Leader) -> None:
        change = self._change
        if change is not None and change.deadline_ms <= self._now_ms:
            # Its record may still be committed; nobody else is refused meanwhile for its sake.
            self._end_change(change, Error.REQUEST_TIMED_OUT, "not committed in time")
        super()._poll_leader(role)

    def _left_leadership(self, leader: Leader) -> None:
        if self._change is not None:
            self._end_change(self._change, Error.NOT_LEADER_OR_FOLLOWER, "not the leader any more")
        super()._left_leadership(leader)

    def _end_change(self, change: VoterChange, error: Error, message: str | None = None) -> None:
        self._change = None
        if error is Error.NONE:
            api = "RemoveVoter" if change.added is None else "AddVoter"
            self._trace("ack", api=api, off=change.offset, hwm=self.high_watermark)
        self._answer_change(change.token, error, message)

    def _refuse_change(
        self, token: int, api: str, voter: ReplicaKey, refusal: Refusal, epoch: int | None = None
    ) -> None:
        asked = self.epoch if epoch is None else epoch
        self._trace_refusal(api, voter.id, asked, refusal.error)
        self._answer_change(token, *refusal)

    def _answer_change(self, token: int, error: Error, message: str | None = None) -> None:
        self._emit(
            fx.Reply(
                token,
                VoterChangeResponse(
                    error, self.epoch, self.leader_id, self.leader_endpoint, message
                ),
            )
        )
