"""The model of a run report, as plain data: every string is cleaned, nothing is HTML yet.

Times are nanoseconds since the start of the run on the harness's clock unless a name says
otherwise; ``None`` means not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reports.blocks import Picture


@dataclass(frozen=True, slots=True)
class Headline:
    """The verdict in one sentence; ``kind`` is valid, invalid, unknown or broken.

    ``expected`` and ``found`` say it of the first anomaly, as its card does.
    """

    kind: str
    label: str
    sentence: str
    reasons: tuple[str, ...] = ()
    expected: str = ""
    found: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command line to copy, and what it is for."""

    purpose: str
    line: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A named value of the summary; ``note`` adds what the number alone does not say."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class OpRow:
    """One op of the history in a table."""

    index: int
    time_ns: int
    process: str
    type: str
    f: str
    key: str
    value: str
    error: str
    node: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """One trace event in a table; ``rest`` is its own fields as one line of JSON."""

    time_ns: int | None
    node: str
    epoch: str
    type: str
    rest: str
    href: str = ""  # to the line that the node's log ended with at that time


@dataclass(frozen=True, slots=True)
class AnomalyView:
    """A broken promise, with the ops and events that show it."""

    number: int
    invariant: str
    title: str
    promise: str  # of the invariant; empty when nobody here knows it, and so is why it matters
    why: str
    checker: str
    message: str
    nodes: tuple[str, ...]
    time_ns: int | None
    start_ns: int | None  # the span of everything involved: where a link to the timeline leads
    end_ns: int | None
    ops: tuple[OpRow, ...]
    ops_left_out: int
    events: tuple[EventRow, ...]
    events_left_out: int
    details: str
    defect: str  # the title: who did what, where
    expected: str  # what should have been; empty where only the promise says it
    found: str
    finding: str = ""  # where this is told, when the system is known to do it
    after: str = ""  # where that is told from which this may follow
    rank: int = 0  # those that nothing explains come first


@dataclass(frozen=True, slots=True)
class AnomalyGroup:
    """The anomalies of one invariant; those that say the same again are folded away."""

    invariant: str
    shown: tuple[AnomalyView, ...]
    folded: tuple[AnomalyView, ...]


@dataclass(frozen=True, slots=True)
class FaultView:
    """A fault: what was planned, what became of it, and how we know."""

    id: str
    nemesis: str
    params: str
    targets: tuple[str, ...]
    outcome: str  # planned (never tried), installed, skipped, failed
    reason: str
    planned_ms: int | None
    planned_duration_ms: int | None
    begin_ns: int | None
    installed_ns: int | None
    heal_begin_ns: int | None
    healed_ns: int | None
    heal_outcome: str
    evidence: tuple[str, ...]
    heal_evidence: tuple[str, ...]
    aim: str = ""  # whom the schedule meant
    leader: str | None = None  # as the nemesis saw it
    away: tuple[str, ...] = ()  # of an installed one: the nodes that it really took away
    at_once: int = 0  # how many of them at one time
    hit: str = ""  # the same in words
    leader_hit: str = ""  # of an installed one: in (the nodes that it hit), out, or unknown
    quorum: str = ""  # of an installed one: kept when the voters left are a majority, or lost


@dataclass(frozen=True, slots=True)
class NemesisRow:
    """The outcomes of the faults of one nemesis, and whom they hit.

    The last two say whether the leader of that moment was among those it hit, and whether the
    voters that were left at each time are a majority.
    """

    name: str
    planned: int
    installed: int
    skipped: int
    failed: int
    untried: int
    healed: int
    reasons: tuple[str, ...]  # why it was skipped or failed, with how often
    aims: tuple[str, ...]  # of installed ones, as all that follow: "leader: 2", "minority: 1"
    sizes: tuple[str, ...]  # "1 node"
    leader: tuple[str, ...]  # "in: 2", "out: 1", "unknown: 1"
    quorum: tuple[str, ...]  # "kept: 2", "lost: 1"


@dataclass(frozen=True, slots=True)
class KnownView:
    """One finding that the system is known by, as one checker saw it in the run.

    ``red`` ones are anomalies all the same. ``times`` counts them, and the message and time are
    those of the first; results of older versions tell only finding and times.
    """

    checker: str
    invariant: str
    title: str  # of the invariant; empty when nobody here knows it
    finding: str
    red: bool
    times: int
    message: str
    time_ns: int | None


@dataclass(frozen=True, slots=True)
class CheckerView:
    """The examination of one checker, and its verdict."""

    name: str
    verdict: str
    anomalies: int
    reason: str
    checked: tuple[tuple[str, str], ...]
    idle: tuple[str, ...]  # what it could have examined, and the run had none of
    stats: tuple[tuple[str, str], ...]
    known: int = 0  # how often it saw what the system is known to do


@dataclass(frozen=True, slots=True)
class OpStats:
    """Counts and latencies of one kind of op."""

    f: str
    ok: int
    fail: int
    info: int
    p50_ns: int | None
    p99_ns: int | None
    max_ns: int | None


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """The number of ops that ended with one error."""

    error: str
    outcome: str
    count: int


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a node's log; without a number it stands for lines that are left out."""

    number: int | None
    text: str
    anchor: str  # id of its place on the page, when something leads there


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node: what it was, and the end of what it said."""

    anchor: str  # id of its place on the page
    name: str
    kind: str  # voter, observer or node
    starts: int
    reigns: int
    hwm: int | None
    log_end: int | None
    longest_turn_ms: float | None
    alarms: tuple[str, ...]  # warnings and errors before the tail, "line: text"
    alarms_left_out: int
    around: tuple[LogLine, ...]  # before the tail: lines that pictures and events lead to
    tail: tuple[LogLine, ...]
    lines: int
    involved: bool  # named by an anomaly


@dataclass(frozen=True, slots=True)
class Block:
    """A block of ops: their number, the planes of each column, and the compressed streams."""

    rows: int
    planes: tuple[int, ...]
    columns: str
    texts: str

    def head(self) -> dict[str, Any]:
        """Tell what the script must know before it reads the streams."""
        return {"n": self.rows, "w": list(self.planes)}


@dataclass(frozen=True, slots=True)
class Made:
    """The origin of the run: when, where, by which version; and from which run it was shrunk."""

    facts: tuple[tuple[str, str], ...] = ()
    mutant: str = ""  # the seeded bug that was in
    shrunk: str = ""  # from which run, and how much of it is left
    story: tuple[str, ...] = ()  # of a shrunk run


@dataclass(frozen=True, slots=True)
class ReportModel:
    """Everything a report shows; ``timeline`` is the JSON that the page's script draws."""

    title: str
    headline: Headline
    commands: tuple[Command, ...]
    facts: tuple[Fact, ...]
    settings: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    anomalies: tuple[AnomalyView, ...]
    anomaly_groups: tuple[AnomalyGroup, ...]  # the same anomalies
    anomalies_left_out: int
    faults: tuple[FaultView, ...]
    coverage: tuple[tuple[str, str], ...]
    checkers: tuple[CheckerView, ...]
    op_stats: tuple[OpStats, ...]
    errors: tuple[ErrorCount, ...]
    nodes: tuple[NodeView, ...]
    notes: tuple[str, ...] = ()
    timeline: dict[str, Any] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()  # all ops, for the script
    nemeses: tuple[NemesisRow, ...] = ()
    pictures: Mapping[int, tuple[Picture, ...]] = field(default_factory=dict)  # by anomaly's number
    made: Made = field(default_factory=Made)
    known: tuple[KnownView, ...] = ()

    @property
    def op_total(self) -> int:
        """Tell how many ops the page holds."""
        return sum(block.rows for block in self.blocks)
