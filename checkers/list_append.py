"""``list-append``: lists that are only appended to, whose reads tell the order of all appends.

The run's side of ``checkers.transactions.cycles``: every list of the run is strictly
serializable, S34; what is read was appended, once, and before it was read, S18; what was refused
is never read, S17.
"""

from __future__ import annotations

from collections import Counter

from checkers.committed.pruning import pruned
from checkers.invariants.acknowledged import AcknowledgedAfterCommit
from checkers.invariants.inventions import S18
from checkers.invariants.reads import ReadsConfirmed
from checkers.transactions.cycles import anomalies, judge
from harness.contracts.checker import RunData
from harness.contracts.traits import LINEARIZABLE
from harness.contracts.workload import LOCAL
from harness.history.ops import NEMESIS, History
from harness.registry import checkers, systems
from harness.verdict import CheckResult, Valid

NAME = "list-append"
SURVIVES, INVENTED, ORDER = "S17", "S18", "S34"
FS = frozenset({"append", "read", LOCAL + "read"})
INVARIANTS = {  # of anomalies by name; any other is a matter of order
    "G1a": SURVIVES,
    "dirty-update": SURVIVES,
    "duplicate-elements": INVENTED,
    "garbage-read": INVENTED,
    "future-read": INVENTED,
    "G1c": INVENTED,
    "G1c-process": INVENTED,
    "G1c-realtime": INVENTED,
}


@checkers.register(NAME, judges=(AcknowledgedAfterCommit.meaning, S18, ReadsConfirmed.meaning))
def list_append(run: RunData) -> CheckResult:
    """Appends are not lost, doubled or invented, and reads are strictly serializable. O(n log n).

    Those of a system whose reads have no barrier are serializable; ``reads`` has the order in time.
    What became of an append of unknown outcome is taken from the committed log, where that was
    read back.

    Raises:
        HistoryFormatError: Ops that do not pair, or values of another shape.
    """
    history = pruned(run)
    ops = [
        op.with_(f=op.f.removeprefix(LOCAL))
        for op in history
        if op.process != NEMESIS and op.f in FS and isinstance(op.key, str)
    ]
    by_node = systems.traits(run.spec.system).of(run.spec).reads != LINEARIZABLE
    judged = judge(History(ops), process=not by_node, realtime=not by_node)
    orders = judged.orders
    appends = sum(len(of_key.appends) for of_key in orders.keys.values())
    elements = sum(len(seen) for of_key in orders.keys.values() for _, seen, _ in of_key.reads)
    reads = sum(len(of_key.reads) for of_key in orders.keys.values())
    reason = None if reads else "no list was read: nothing was judged"
    if orders.unrecoverable:
        reason = f"list {orders.unrecoverable[0]}: an element was appended more than once"
    verdict = Valid.UNKNOWN if reason else Valid.VALID
    return CheckResult(
        NAME,
        Valid.INVALID if judged.found else verdict,
        anomalies(judged, judged.found, lambda name: INVARIANTS.get(name, ORDER)),
        checked={SURVIVES: appends, INVENTED: elements, ORDER: reads},
        stats={
            "lists": len(orders.keys),
            "anomalies": dict(sorted(Counter(found.name for found in judged.found).items())),
        },
        reason=reason,
    )
