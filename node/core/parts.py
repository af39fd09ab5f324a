"""``CoreParts`` names the classes of a replica; a seeded bug puts another one in a place."""

from __future__ import annotations

from dataclasses import dataclass

from node.core.elections import Elections
from node.core.fencing import Fencing
from node.core.follower.appending import Appending
from node.core.follower.downloading import Downloading
from node.core.follower.fetching import Fetching
from node.core.follower.own_entry import OwnEntry
from node.core.leader.barriers import Barriers
from node.core.leader.describe import QuorumDescription
from node.core.leader.fetch_replies import FetchReplies
from node.core.leader.fetches import Fetches
from node.core.leader.leadership import Leadership
from node.core.leader.replication import Replication
from node.core.leader.snapshots import SnapshotFetches
from node.core.leader.upgrade import Upgrade
from node.core.leader.voters.changes import VoterChanges
from node.core.leader.voters.requests import VoterRequests
from node.core.leader.voters.rules import VoterRules
from node.core.own_log import OwnLog
from node.core.role_changes import RoleChanges
from node.core.state import ReplicaState
from node.core.succession import Succession
from node.core.votes import Votes


@dataclass(frozen=True, slots=True)
class CoreParts:
    """The shared state and the handlers are built from these classes."""

    # what all share
    log: type[OwnLog] = OwnLog
    state: type[ReplicaState] = ReplicaState
    roles: type[RoleChanges] = RoleChanges
    fencing: type[Fencing] = Fencing
    # elections
    elections: type[Elections] = Elections
    votes: type[Votes] = Votes
    succession: type[Succession] = Succession
    # as leader
    replies: type[FetchReplies] = FetchReplies
    replication: type[Replication] = Replication
    leadership: type[Leadership] = Leadership
    barriers: type[Barriers] = Barriers
    fetches: type[Fetches] = Fetches
    snapshots: type[SnapshotFetches] = SnapshotFetches
    description: type[QuorumDescription] = QuorumDescription
    voter_changes: type[VoterChanges] = VoterChanges
    voter_rules: type[VoterRules] = VoterRules
    voter_requests: type[VoterRequests] = VoterRequests
    upgrade: type[Upgrade] = Upgrade
    # as follower
    appending: type[Appending] = Appending
    downloading: type[Downloading] = Downloading
    own_entry: type[OwnEntry] = OwnEntry
    fetching: type[Fetching] = Fetching
