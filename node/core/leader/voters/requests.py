"""``VoterRequests`` serves AddVoter, RemoveVoter and UpdateVoter, as leader.

Source: KIP-853; Kafka 4.1 ``AddVoterHandler``, ``RemoveVoterHandler``, ``UpdateVoterHandler``.
"""

from __future__ import annotations

from node.core.leader.voters.changes import Refusal, VoterChange, VoterChanges
from node.core.leader.voters.rules import VoterRules
from node.core.messages import (
    AddVoterRequest,
    Error,
    ProbeVersionsRequest,
    ProbeVersionsResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from node.core.roles import Leader
from node.core.state import ReplicaState
from node.core.types import Listener, ReplicaKey, VersionRange, Voter

PROBE_PEER = -1_000_000  # a node that is asked for its versions; each time another number below


class VoterRequests:
    """This handler takes the requests for changes of the voter set."""

    def __init__(self, state: ReplicaState, rules: VoterRules, changes: VoterChanges) -> None:
        self._state = state
        self._rules = rules
        self._changes = changes
        self._probes = 0

    # ------------------------------------------------------------------ requests

    def on_add_voter(self, token: int, request: AddVoterRequest) -> None:
        """Ask the new node for its versions first."""
        refusal = self._rules.refuse_add(request)
        if refusal is not None:
            self._changes.refuse(token, "AddVoter", request.voter, refusal)
            return
        early = {} if request.ack_when_committed else {"early": True}
        self._state.trace_accepted("AddVoter", request.voter, None, request.cluster_id, **early)
        self._probes += 1
        peer = PROBE_PEER - self._probes
        self._changes.begin(token, request, peer)
        endpoint = self._rules.default_listener(request.listeners)
        assert endpoint is not None, "checked above"
        self._state.send(peer, endpoint.endpoint, ProbeVersionsRequest())

    def on_remove_voter(self, token: int, request: RemoveVoterRequest) -> None:
        """Write the voter set without that voter."""
        refusal = self._rules.refuse_remove(request)
        if refusal is not None:
            self._changes.refuse(token, "RemoveVoter", request.voter, refusal)
            return
        self._state.trace_accepted("RemoveVoter", request.voter, None, request.cluster_id)
        change = self._changes.begin(token)
        change.offset = self._changes.append(self._state.log.voters.without(request.voter.id))

    def on_update_voter(self, token: int, request: UpdateVoterRequest) -> None:
        """Write, or for static voters remember, what a voter says of itself."""
        state, role = self._state, self._state.role
        refusal = self._rules.refuse_update(request)
        if refusal is not None:
            self._changes.refuse(token, "UpdateVoter", request.voter, refusal, request.epoch)
            return
        state.trace_accepted("UpdateVoter", request.voter, request.epoch, request.cluster_id)
        updated = self._voter(request.voter, request.listeners, request.kraft_versions)
        if state.log.kraft_version < 1:
            assert isinstance(role, Leader), "checked above"
            role.told[request.voter.id] = updated
        else:
            self._changes.append(state.log.voters.with_voter(updated))
        self._changes.answer(token, Error.NONE)

    def _voter(
        self, key: ReplicaKey, listeners: tuple[Listener, ...], versions: VersionRange
    ) -> Voter:
        """Make an entry of a voter set; the listener of the quorum stands first."""
        default = self._rules.default_listener(listeners)
        assert default is not None, "checked before"
        others = tuple(x for x in listeners if x is not default)
        return Voter(key, default.endpoint, (default, *others), versions)

    # ------------------------------------------------------------------ AddVoter, going on

    def on_probe_response(self, peer: int, response: ProbeVersionsResponse) -> None:
        """Make the new node a voter when it has told its versions and keeps up."""
        role, change = self._state.role, self._changes.change
        if not isinstance(role, Leader) or change is None or change.probe != peer:
            return
        request, versions = change.added, response.kraft_versions
        assert request is not None, "only an added voter is probed"
        if response.error is not Error.NONE:
            error = Refusal(Error.REQUEST_TIMED_OUT, f"it answered {response.error.name}")
        elif versions is None or not self._rules.supports_quorum(versions):
            error = Refusal(Error.INVALID_REQUEST, f"it supports kraft.version {versions}")
        elif not role.progress.caught_up_lately(request.voter, self._state.clock_ms):
            error = Refusal(Error.REQUEST_TIMED_OUT, f"{request.voter} has not caught up")
        else:
            self._append_added(change, request, versions)
            return
        self._changes.end(change, *error)

    def _append_added(
        self, change: VoterChange, request: AddVoterRequest, versions: VersionRange
    ) -> None:
        change.probe = None
        voter = self._voter(request.voter, request.listeners, versions)
        change.offset = self._changes.append(self._state.log.voters.with_voter(voter))
        if not request.ack_when_committed:
            self._changes.end(change, Error.NONE)

    def on_probe_failed(self, peer: int, reason: str) -> None:
        """End the change whose new node does not answer."""
        change = self._changes.change
        if change is not None and change.probe == peer:
            self._changes.end(change, Error.REQUEST_TIMED_OUT, f"it does not answer: {reason}")
