"""Works out the change of one partition: ISR, leader, replicas and eligible leaders.

Source: Kafka's PartitionChangeBuilder and PartitionReassignmentReplicas; KIP-455 (reassignment),
KIP-704 (leader recovery), KIP-858 (directories), KIP-966 (eligible leader replicas).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from node.metadata.features import IBP_3_6_IV0, directories_supported, partition_version
from node.metadata.image import NO_LEADER, PartitionState
from node.metadata.schemas import PartitionChangeRecord
from node.metadata.state import UNASSIGNED_DIR

NO_LEADER_CHANGE = -2
NO_RECOVERY_CHANGE = -1
RECOVERED = 0
RECOVERING = 1
MIGRATING: UUID | None = None  # the directory a replica had before directories were told
LOST = UUID(int=2)
_RESERVED_DIRECTORIES = 100

Ids = tuple[int, ...]


class Election(Enum):
    """The kinds of leader to look for."""

    PREFERRED = "the first replica, if it is in sync"
    ONLINE = "the present leader, or the first replica in sync"
    UNCLEAN = "as ONLINE, or else the first replica alive, at the cost of data"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a change beside the partition: brokers, features and settings."""

    acceptable: Callable[[PartitionState, int], bool]  # whether that broker may lead it
    default_directory: Callable[[int], UUID | None]  # of a broker's new replicas
    min_isr: int
    metadata_version: int
    elr: bool
    election: Election = Election.ONLINE
    full_targets: bool = False  # see ControllerConfig


def stays(state: PartitionState, rules: Rules) -> bool:
    """Tell at a glance that a change of which nothing is wanted but an election gives no record.

    False says nothing: of a partition that is not a usual one ``PartitionChange`` knows more.
    """
    if state.adding or state.removing or state.eligible_leaders or state.last_known_leaders:
        return False
    leader, isr, acceptable = state.leader, state.isr, rules.acceptable
    if rules.election is Election.PREFERRED:
        first = state.replicas[:1]
        if first and first[0] in isr and acceptable(state, first[0]):
            return first[0] == leader
    if leader in isr and acceptable(state, leader):
        return True
    if any(broker_id in isr and acceptable(state, broker_id) for broker_id in state.replicas):
        return False
    return leader == NO_LEADER and rules.election is not Election.UNCLEAN


class PartitionChange:
    """Collects what is wanted of a partition; ``build`` makes the record that does it."""

    def __init__(self, state: PartitionState, topic_id: UUID, index: int, rules: Rules) -> None:
        self.isr: Ids = state.isr
        self.replicas: Ids = state.replicas
        self.removing: Ids = state.removing
        self.adding: Ids = state.adding
        self.recovery = state.recovery
        self.unclean_shutdown: int | None = None  # a broker that may have lost what it had
        self._emptied: int | None = None  # a broker that has nothing any more
        self._state = state
        self._key = (topic_id, index)
        self._rules = rules
        self._elr: Ids = state.eligible_leaders
        self._directories = dict(zip(state.replicas, _directories(state), strict=True))

    def assign_directory(self, broker_id: int, directory: UUID | None) -> None:
        """Note that a broker's replica lies in that directory."""
        self._directories[broker_id] = directory

    def begin_anew(self, broker_id: int) -> None:
        """Note that a broker's replica is a new, empty one, which can lead nobody."""
        self.isr = _without(self.isr, broker_id)
        self.unclean_shutdown = self._emptied = broker_id

    def build(self) -> PartitionChangeRecord | None:
        """The record of the change; None when nothing changes."""
        state = self._state
        self._complete_reassignment()
        self._populate_elr()
        leader, unclean = self._elect()
        fields = _Fields()
        if leader in self._elr:
            self.isr = (leader,)
            self._elr = _without(self._elr, leader)
        if leader != state.leader:
            fields.leader = leader
            if unclean:
                fields.isr = (leader,)
                self._elr = ()
                if state.recovery != RECOVERING:
                    fields.recovery = RECOVERING
        if fields.leader == NO_LEADER_CHANGE and not set(state.replicas) <= set(self.replicas):
            fields.leader = state.leader  # who is no replica any more must hear of it
        if not self._rules.elr:
            self._elr = ()
        if self._elr != state.eligible_leaders:
            fields.elr = self._elr
        if fields.isr is None and self.isr != state.isr and (self.isr or self._rules.elr):
            fields.isr = self.isr
        self._bump_for_shrink(fields)
        self._last_known_leader(fields)
        self._assignment(fields)
        if self.recovery != state.recovery:
            fields.recovery = self.recovery
        return fields.record(self._key, self._rules.metadata_version)

    # ------------------------------------------------------------------ inside

    def _complete_reassignment(self) -> None:
        """Finish a reassignment when all that are added are in the ISR (KAFKA-19975).

        One that leaves fewer replicas than before waits for all of them, or the ISR could shrink.
        """
        if not self.removing and not self.adding:
            return
        isr = _without(self.isr, *self.removing)
        replicas = _without(self.replicas, *self.removing)
        full = self._rules.full_targets or len(self.adding) < len(self.removing)
        if isr and replicas and set(replicas if full else self.adding) <= set(isr):
            self.isr, self.replicas = isr, replicas
            self.removing = self.adding = ()

    def _populate_elr(self) -> None:
        """Keep those eligible who leave an ISR that gets too small (KIP-966).

        A partition with fewer replicas than the minimum needs them all, whatever others of its
        topic have. Apache Kafka goes by partition 0's replicas (docs/findings.md).
        """
        if not self._rules.elr:
            return
        if len(self.isr) >= min(self._rules.min_isr, len(self.replicas)):
            self._elr = ()
            return
        candidates = dict.fromkeys([*self._state.eligible_leaders, *self._state.isr])
        self._elr = tuple(
            [
                b
                for b in sorted(candidates)
                if b not in self.isr and b != self.unclean_shutdown and b in self.replicas
            ]
        )

    def _elect(self) -> tuple[int, bool]:
        """The leader, and whether it is chosen at the cost of data."""
        state = self._state
        order = [state.leader, *self.replicas]
        if self._rules.election is Election.PREFERRED:
            order = [*self.replicas[:1], *order]
        for broker_id in order:
            if self._valid(broker_id):
                return broker_id, False
        if self._last_known_leader_may_lead():
            return state.last_known_leaders[0], True
        if self._rules.election is Election.UNCLEAN:
            for broker_id in self.replicas:
                if self._rules.acceptable(state, broker_id):
                    return broker_id, True
        return NO_LEADER, False

    def _valid(self, broker_id: int) -> bool:
        in_sync = broker_id in self.isr or (not self.isr and broker_id in self._elr)
        return in_sync and self._rules.acceptable(self._state, broker_id)

    def _last_known_leader_may_lead(self) -> bool:
        """Tell whether the last leader may lead: ISR and ELR are empty, and it is alive."""
        last_known = self._state.last_known_leaders
        return (
            self._rules.elr
            and not self._elr
            and not self.isr
            and len(last_known) == 1
            and last_known[0] != self._emptied
            and last_known[0] in self.replicas
            and self._rules.acceptable(self._state, last_known[0])
        )

    def _bump_for_shrink(self, fields: _Fields) -> None:
        """Raise the leader epoch when the ISR shrinks, as needed before 3.6 (KAFKA-15021)."""
        shrinks = fields.isr is not None and not set(self._state.isr) <= set(fields.isr)
        if (
            shrinks
            and self._rules.metadata_version < IBP_3_6_IV0
            and fields.leader == NO_LEADER_CHANGE
        ):
            fields.leader = self._state.leader

    def _last_known_leader(self, fields: _Fields) -> None:
        """Remember the last leader from when nobody leads until somebody leads again.

        Somebody may lead again while eligible leaders are switched off: then, too, it is cleared.
        """
        state, elr = self._state, self._rules.elr
        if elr and self._emptied in (state.leader, *state.last_known_leaders):
            fields.last_known = () if state.last_known_leaders else None
            return
        leader = state.leader if fields.leader == NO_LEADER_CHANGE else fields.leader
        if leader != NO_LEADER:
            fields.last_known = () if state.last_known_leaders else None
        elif elr and state.leader not in (NO_LEADER, *state.last_known_leaders):
            fields.last_known = (state.leader,)

    def _assignment(self, fields: _Fields) -> None:
        state = self._state
        if directories_supported(self._rules.metadata_version):
            directories = tuple(
                [
                    self._directories[b]
                    if b in self._directories
                    else self._rules.default_directory(b)
                    for b in self.replicas
                ]
            )
            if directories != _directories(state):
                fields.directories = directories
        if self.replicas != state.replicas:
            fields.replicas = self.replicas
        if self.removing != state.removing:
            fields.removing = self.removing
        if self.adding != state.adding:
            fields.adding = self.adding


class _Fields:
    """The fields of the record to be, as far as they are known."""

    def __init__(self) -> None:
        self.isr: Ids | None = None
        self.leader = NO_LEADER_CHANGE
        self.replicas: Ids | None = None
        self.removing: Ids | None = None
        self.adding: Ids | None = None
        self.recovery = NO_RECOVERY_CHANGE
        self.elr: Ids | None = None
        self.last_known: Ids | None = None
        self.directories: tuple[UUID | None, ...] | None = None

    def record(self, key: tuple[UUID, int], version: int) -> PartitionChangeRecord | None:
        record = PartitionChangeRecord(
            version=partition_version(version),
            topic_id=key[0],
            partition_id=key[1],
            isr=self.isr,
            leader=self.leader,
            replicas=self.replicas,
            removing_replicas=self.removing,
            adding_replicas=self.adding,
            leader_recovery_state=self.recovery,
            directories=self.directories,
            eligible_leader_replicas=self.elr,
            last_known_elr=self.last_known,
        )
        nothing = PartitionChangeRecord(
            version=record.version, topic_id=key[0], partition_id=key[1]
        )
        return None if record == nothing else record


def is_reserved(directory: UUID | None) -> bool:
    """Tell whether a directory id stands for no real directory (KIP-858)."""
    return directory is None or directory.int < _RESERVED_DIRECTORIES


def is_online(directory: UUID | None, online: Sequence[UUID | None]) -> bool:
    """Tell whether a replica there is usable; a broker that named no directories has them all."""
    if directory in (UNASSIGNED_DIR, MIGRATING):
        return True
    return directory != LOST and (not online or directory in online)


def _directories(state: PartitionState) -> tuple[UUID | None, ...]:
    """The directory of each replica; MIGRATING where an old record did not say."""
    return state.directories or (MIGRATING,) * len(state.replicas)


def _without(ids: Ids, *gone: int) -> Ids:
    return tuple([broker_id for broker_id in ids if broker_id not in gone])
