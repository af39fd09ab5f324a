"""Verdicts: what a checker says, and how many of them become one answer and one exit code.

Three values, false dominating unknown dominating true (Jepsen's lattice). A run is judged on
three axes: the system (did it break its promises), coverage (did the faults and enough ops
happen) and the harness (did we break).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Valid(StrEnum):
    """A three-valued verdict."""

    VALID = "valid"
    UNKNOWN = "unknown"
    INVALID = "invalid"


_WORST = {Valid.VALID: 0, Valid.UNKNOWN: 1, Valid.INVALID: 2}


def merge(values: Iterable[Valid]) -> Valid:
    """The worst of the values; VALID when there are none."""
    return max(values, key=_WORST.__getitem__, default=Valid.VALID)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One broken promise.

    ``invariant`` is a name of the catalogue ("S1", "C8", ...). ``message`` is one plain
    sentence with the values that matter. ``ops`` are indices into the history; ``events``
    are trace events as recorded; ``details`` is JSON for the report.
    """

    invariant: str
    message: str
    ops: tuple[int, ...] = ()
    events: tuple[dict[str, Any], ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    time_ns: int | None = None  # when it became visible, harness clock; None = not known

    def to_json(self) -> dict[str, Any]:
        """The anomaly as a JSON object."""
        return {
            "invariant": self.invariant,
            "message": self.message,
            "ops": list(self.ops),
            "events": list(self.events),
            "details": self.details,
            "time_ns": self.time_ns,
        }


@dataclass(frozen=True, slots=True)
class Known:
    """A finding: what a system under test is known to break, and where the story of that is.

    ``text`` and ``also`` are parts of the message of each such anomaly. ``faults`` are the nemeses
    of which a run must have one for that: in runs without them the same is an anomaly; empty: any
    run. What is ``red`` makes a run invalid all the same, and its anomaly names the finding.
    ``then`` is what may follow from that in the same run: names of invariants, each with a part of
    the message, or an empty one for any.
    """

    invariant: str
    text: str
    finding: str
    faults: frozenset[str] = frozenset()
    red: bool = False
    also: str = ""
    then: tuple[tuple[str, str], ...] = ()

    def applies(self, nemeses: Collection[str]) -> bool:
        """Tell whether it can come of a run with these nemeses."""
        return not self.faults or not self.faults.isdisjoint(nemeses)

    def covers(self, anomaly: Anomaly) -> bool:
        """Tell whether an anomaly is this known one."""
        told = anomaly.message
        return anomaly.invariant == self.invariant and self.text in told and self.also in told

    def may_cause(self, anomaly: Anomaly) -> bool:
        """Tell whether an anomaly may follow from this known one."""
        return any(
            anomaly.invariant == name and text in anomaly.message for name, text in self.then
        )

    def excuses(self, anomaly: Anomaly) -> bool:
        """Tell whether an anomaly does not count, as it is this known one."""
        return not self.red and self.covers(anomaly)


@dataclass(frozen=True, slots=True)
class Sighting:
    """How often a checker saw one thing that the system is known to do, and where it began.

    ``message`` and ``time_ns`` are those of the first anomaly of this kind.
    """

    invariant: str
    finding: str
    red: bool
    times: int
    message: str
    time_ns: int | None

    def to_json(self) -> dict[str, Any]:
        """The sighting as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one checker.

    ``checked`` counts what was really examined, by name ({"S1": 14 epochs}); a checker that looked
    at nothing says so there and is UNKNOWN, not VALID, when it had something to decide. ``known``
    is what the judge found among the anomalies that the system is known to do.
    """

    checker: str
    valid: Valid
    anomalies: tuple[Anomaly, ...] = ()
    checked: dict[str, int] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None  # why UNKNOWN
    known: tuple[Sighting, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return {
            "checker": self.checker,
            "valid": str(self.valid),
            "reason": self.reason,
            "anomalies": [a.to_json() for a in self.anomalies],
            "checked": self.checked,
            "stats": self.stats,
            **({"known": [each.to_json() for each in self.known]} if self.known else {}),
        }


EXIT_VALID = 0
EXIT_INVALID = 1
EXIT_UNKNOWN = 2
EXIT_ABORTED = 3  # a guard of a foreign cluster ended the run, which broke no promise until then
EXIT_USAGE = 254
EXIT_HARNESS = 255


def exit_code(*, system: Valid, coverage: Valid, harness_ok: bool) -> int:
    """The exit code of a run: invalid wins over everything, then harness crash, then unknown."""
    if system is Valid.INVALID:
        return EXIT_INVALID
    if not harness_ok:
        return EXIT_HARNESS
    if merge((system, coverage)) is not Valid.VALID:
        return EXIT_UNKNOWN
    return EXIT_VALID
