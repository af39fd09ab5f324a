"""``topics``: creating, deleting and describing contended names, judged by answers alone."""

from __future__ import annotations

from checkers.linearizable import LINEARIZABILITY, check_history
from checkers.models.topics import FS, JUDGED, NAME, check_topics
from harness.contracts.checker import RunData
from harness.history.formats.conventions import Conventions
from harness.history.ops import History
from harness.registry import checkers
from harness.verdict import CheckResult


@checkers.register(NAME, judges=(LINEARIZABILITY, *JUDGED))
def topics(run: RunData) -> CheckResult:
    """Each contended name has one creator, topics are whole, topic ids are never reused."""
    ops = History(op for op in run.history.clients() if op.f in FS)
    return check_topics(ops, check_history, conventions=Conventions(equal_times="ordered"))
