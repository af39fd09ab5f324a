"""``topics``: creating, deleting and describing contended names, judged by answers alone."""

from __future__ import annotations

from checkers.linearizable import LINEARIZABILITY, check_history
from checkers.models.topics import FS, JUDGED, LOCAL_LOOK, NAME, check_topics
from harness.contracts.checker import RunData
from harness.contracts.traits import LINEARIZABLE
from harness.history.formats.conventions import Conventions
from harness.history.ops import History
from harness.registry import checkers, systems
from harness.verdict import CheckResult


@checkers.register(NAME, judges=(LINEARIZABILITY, *JUDGED))
def topics(run: RunData) -> CheckResult:
    """Each contended name has one creator, topics are whole, topic ids are never reused.

    Where reads have no barrier, nor have refusals: a controller that leads no more may still say
    that a topic exists. There only what was done is to have one order, and looks at a node's own
    image are for ``reads`` to judge.
    """
    by_node = systems.traits(run.spec.system).of(run.spec).reads != LINEARIZABLE
    ops = History(op for op in run.history.clients() if op.f in FS or op.f == LOCAL_LOOK)
    rules = Conventions(equal_times="ordered")
    return check_topics(ops, check_history, conventions=rules, by_node=by_node)
