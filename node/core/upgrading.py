"""From static voters (kraft.version 0) to voters in the log (1), as leader.

Static voters are known by id and address alone. Each of them tells every new leader its directory
id, its listeners and the versions that it supports; when the leader knows that of all of them, it
may write the first voter set, with the new level before it in the same batch.

Source: KIP-853 "Upgrade"; Kafka 4.1 ``LeaderState.maybeAppendUpgradedKRaftVersion`` (KAFKA-16538).
"""

from __future__ import annotations

from node.core.messages import Error, KRaftVersion, UpgradeVersionRequest
from node.core.reconfiguring import Reconfiguring, Refusal, VoterChange
from node.core.roles import Leader
from node.core.types import KRAFT_VERSIONS, VoterSet


class Upgrading(Reconfiguring):
    """The change of the kraft.version that a leader makes."""

    def _on_upgrade_version(self, token: int, request: UpgradeVersionRequest) -> None:
        """Answered when the level is committed; at once if nothing is to be written."""
        refusal = self._refuse_upgrade(request.level)
        if refusal is not None:
            self._refuse_change(token, "UpdateFeatures", self.config.key, refusal)
            return
        if request.validate_only or request.level == self.kraft_version:
            self._answer_change(token, Error.NONE)
            return
        assert isinstance(self._role, Leader), "checked above"
        change = self._change = VoterChange(token, self._change_deadline())
        level = KRaftVersion(request.level)
        change.offset = self._append_voters(self._told_voters(self._role), level)

    def _told_voters(self, role: Leader) -> VoterSet:
        """The voters as they describe themselves, and as configured those that have not."""
        voters, own = self._voters, self.config.as_voter
        for voter in (*role.told.values(), *(() if own is None else (own,))):
            voters = voters.with_voter(voter)
        return voters

    def _refuse_upgrade(self, level: int) -> Refusal | None:
        role = self._role
        if not isinstance(role, Leader):
            return Refusal(Error.NOT_LEADER_OR_FOLLOWER, "not the leader")
        refusal = self._refuse_known(role)
        if refusal is not None:
            return refusal
        if not KRAFT_VERSIONS.min <= level <= KRAFT_VERSIONS.max:
            problem = f"this controller supports {KRAFT_VERSIONS.min} to {KRAFT_VERSIONS.max}"
        elif level < self.kraft_version:
            problem = f"it is {self.kraft_version} and cannot be lowered"
        elif level > self.kraft_version and (missing := self._not_ready(role, level)):
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
        """The voters whose disk is not known, or that do not support that level."""
        return [
            voter.key.id
            for voter in self._told_voters(role)
            if voter.key.directory_id is None
            or not voter.kraft_versions.min <= level <= voter.kraft_versions.max
        ]
