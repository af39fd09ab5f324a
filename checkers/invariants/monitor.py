"""All invariants at once, fed one event after the other: for a finished trace or a live one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from checkers.invariants.acknowledged import AcknowledgedAfterCommit
from checkers.invariants.applying import ApplyOrder, AtomicBatches, Fencing
from checkers.invariants.base import FinalLogs, Invariant
from checkers.invariants.candidates import (
    NoResumedReign,
    ObserversPassive,
    PreVoteHarmless,
    UpToDateGrants,
)
from checkers.invariants.commits import (
    CommitStability,
    CurrentEpochCommit,
    DurableBeforeFetch,
    MonotonicHighWatermark,
    QuorumBacked,
)
from checkers.invariants.elections import ElectionSafety, MonotonicEpoch, OneVote, VoteDurability
from checkers.invariants.leading import (
    ClaimAfterCatchUp,
    LeaderAppendOnly,
    LeaderCompleteness,
)
from checkers.invariants.logs import LogMatching, NoCommittedTruncation, RecordIdentity
from checkers.invariants.membership import (
    Identity,
    LatestSetInForce,
    MajorityElection,
    OneChangeAtATime,
    RemovedLeader,
)
from checkers.invariants.quorum import QuorumCredit, StepDown
from checkers.invariants.recovery import Recovery
from checkers.invariants.snapshots import SnapshotAtLogStart, SnapshotInstall, SnapshotValidity
from checkers.invariants.trace import Event, Intake, Whole
from checkers.invariants.world import World
from harness.verdict import Anomaly

KEPT_PER_INVARIANT_MAX = 25

INVARIANTS: tuple[type[Invariant], ...] = (
    ElectionSafety,
    OneVote,
    VoteDurability,
    MonotonicEpoch,
    UpToDateGrants,
    MajorityElection,
    RecordIdentity,
    LogMatching,
    CommitStability,
    NoCommittedTruncation,
    LeaderCompleteness,
    LeaderAppendOnly,
    QuorumBacked,
    CurrentEpochCommit,
    MonotonicHighWatermark,
    DurableBeforeFetch,
    AcknowledgedAfterCommit,
    AtomicBatches,
    ApplyOrder,
    ClaimAfterCatchUp,
    SnapshotValidity,
    SnapshotAtLogStart,
    SnapshotInstall,
    Recovery,
    NoResumedReign,
    OneChangeAtATime,
    LatestSetInForce,
    Identity,
    QuorumCredit,
    RemovedLeader,
    Fencing,
    PreVoteHarmless,
    ObserversPassive,
    StepDown,
)
NAMES = frozenset(invariant.name for invariant in INVARIANTS)


class Monitor:
    """Judges events in the order in which they happened; memory is linear in their number.

    Anomalies are returned as they are found. Of one invariant only the first
    ``KEPT_PER_INVARIANT_MAX`` are; ``found`` counts them all.
    """

    def __init__(self, invariants: Iterable[Callable[[], Invariant]] = INVARIANTS) -> None:
        self.world = World()
        self.found: Counter[str] = Counter()
        self.events = 0
        self._intake = Intake()
        self._invariants = [invariant() for invariant in invariants]
        self._listeners: dict[str, list[Invariant]] = defaultdict(list)
        for invariant in self._invariants:
            for kind in invariant.listens:
                self._listeners[kind].append(invariant)

    @property
    def gaps(self) -> list[str]:
        """What was missing from the trace, in sentences; at most a few dozen."""
        return self._intake.gaps

    @property
    def gaps_total(self) -> int:
        """How much was missing from the trace."""
        return self._intake.gaps_total

    @property
    def checked(self) -> dict[str, int]:
        """How much each invariant really examined."""
        total = dict.fromkeys((invariant.name for invariant in self._invariants), 0)
        for invariant in self._invariants:
            total[invariant.name] += invariant.checked
        return total

    def feed(self, event: Event) -> list[Anomaly]:
        """Judge one event and let it happen."""
        return self._judge(event) if self._intake.admit(event) else []

    def feed_all(self, events: Mapping[str, Iterable[dict[str, Any]]]) -> list[Anomaly]:
        """Judge the events of all nodes in their order; see ``feed_whole``."""
        return self.feed_whole(Whole.of(events))

    def feed_whole(self, trace: Whole) -> list[Anomaly]:
        """Judge the events of a finished trace.

        What is missing is known before, so that nothing is concluded from the time before a loss
        shows.
        """
        self._intake = trace.intake
        self.world.whole = not trace.intake.blind
        return [anomaly for event in trace.events for anomaly in self._judge(event)]

    def _judge(self, event: Event) -> list[Anomaly]:
        self.events += 1
        world, blind = self.world, self._intake.blind
        replica = world.arrive(event, blind=bool(blind) and (event["node"], event["inc"]) in blind)
        anomalies: list[Anomaly] = []
        for invariant in self._listeners.get(event["t"], ()):
            anomalies += invariant.feed(event, world)
        world.update(replica, event)
        return self._keep(anomalies) if anomalies else anomalies

    def finish(self, logs: FinalLogs) -> list[Anomaly]:
        """Judge the logs that the run left on the disks."""
        return self._keep(
            anomaly
            for invariant in self._invariants
            for anomaly in invariant.finish(logs, self.world)
        )

    def _keep(self, anomalies: Iterable[Anomaly]) -> list[Anomaly]:
        kept = []
        for anomaly in anomalies:
            self.found[anomaly.invariant] += 1
            if self.found[anomaly.invariant] <= KEPT_PER_INVARIANT_MAX:
                kept.append(anomaly)
        return kept
