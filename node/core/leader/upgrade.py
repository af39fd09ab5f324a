"""``Upgrade`` takes a quorum from static voters (kraft.version 0) to voters in the log (1).

Static voters are known by id and address alone. Each of them tells every new leader its directory
id, its listeners and the versions that it supports; when the leader knows that of all of them, it
may write the first voter set, with the new level before it in the same batch.

Source: KIP-853 "Upgrade"; Kafka 4.1 ``LeaderState.maybeAppendUpgradedKRaftVersion`` (KAFKA-16538).
"""

from __future__ import annotations

from node.core.leader.voters.changes import Refusal, VoterChanges
from node.core.leader.voters.rules import VoterRules
from node.core.messages import Error, KRaftVersion, UpgradeVersionRequest
from node.core.roles import Leader
from node.core.state import ReplicaState
from node.core.types import KRAFT_VERSIONS, VoterSet


class Upgrade:
    """This handler changes the kraft.version, as leader."""

    def __init__(self, state: ReplicaState, rules: VoterRules, changes: VoterChanges) -> None:
        self._state = state
        self._rules = rules
        self._changes = changes

    def on_upgrade_version(self, token: int, request: UpgradeVersionRequest) -> None:
        """Answer when the level is committed; at once if nothing is to be written."""
        state, role = self._state, self._state.role
        refusal = self._refuse(request.level)
        if refusal is not None:
            self._changes.refuse(token, "UpdateFeatures", state.config.key, refusal)
            return
        if request.validate_only or request.level == state.log.kraft_version:
            self._changes.answer(token, Error.NONE)
            return
        assert isinstance(role, Leader), "checked above"
        change = self._changes.begin(token)
        level = KRaftVersion(request.level)
        change.offset = self._changes.append(self._told_voters(role), level)

    def _told_voters(self, role: Leader) -> VoterSet:
        """Give the voters as they describe themselves, and as configured those that have not."""
        voters, own = self._state.log.voters, self._state.config.as_voter
        for voter in (*role.told.values(), *(() if own is None else (own,))):
            voters = voters.with_voter(voter)
        return voters

    def _refuse(self, level: int) -> Refusal | None:
        role, present = self._state.role, self._state.log.kraft_version
        if not isinstance(role, Leader):
            return Refusal(Error.NOT_LEADER_OR_FOLLOWER, "not the leader")
        refusal = self._rules.refuse_known(role)
        if refusal is not None:
            return refusal
        if not KRAFT_VERSIONS.min <= level <= KRAFT_VERSIONS.max:
            problem = f"this controller supports {KRAFT_VERSIONS.min} to {KRAFT_VERSIONS.max}"
        elif level < present:
            problem = f"it is {present} and cannot be lowered"
        elif level > present and (missing := self._not_ready(role, level)):
            problem = (
                "not all of the voters support it, or have told this leader so yet: "
                f"{', '.join(map(str, missing))}; try again when they have been up for some seconds"
            )
        else:
            return None
        return Refusal(
            Error.INVALID_UPDATE_VERSION, f"kraft.version cannot become {level}: {problem}"
        )

    def _not_ready(self, role: Leader, level: int) -> list[int]:
        """List the voters whose disk is not known, or that do not support that level."""
        return [
            voter.key.id
            for voter in self._told_voters(role)
            if voter.key.directory_id is None
            or not voter.kraft_versions.min <= level <= voter.kraft_versions.max
        ]
