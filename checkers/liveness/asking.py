"""L12: a node that hears no pauses before it asks again, at any time of the run.

Every other answer is news, and moves the fetch offset or the epoch on; the same question, time
after time, is a request that fails and is repeated without ``retry.backoff``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from checkers.replay.trace import Event
from harness.verdict import Anomaly

# A backoff of 20 ms lets 50 a second through to each of at most ten nodes.
SAME_PER_S_MAX: Final = 1_000
_QUESTIONS: Final = frozenset({"fetch_tx", "votereq"})


def repeated_questions(events: Mapping[str, Sequence[Event]]) -> tuple[int, list[Anomaly]]:
    """Nodes that sent the same Fetch or Vote more than ``SAME_PER_S_MAX`` times in a second.

    Returns:
        How many requests were looked at, and one anomaly for each such node.
    """
    checked, found = 0, list[Anomaly]()
    for node, of_node in events.items():
        asked: Counter[tuple[object, ...]] = Counter()
        for event in of_node:
            if event["t"] not in _QUESTIONS:
                continue
            checked += 1
            key = (*_question(event), event["rx_ns"] // 1_000_000_000)
            asked[key] += 1
            if asked[key] > SAME_PER_S_MAX:
                found.append(_spinning(node, event))
                break
    return checked, found


def _question(event: Event) -> tuple[str, int, object]:
    """Tell what a request asks, be it of whom it may."""
    if event["t"] == "fetch_tx":
        return "Fetch", event["ep"], event["off"]
    return "Vote", event["ep"], event["pre"]


def _spinning(node: str, event: Event) -> Anomaly:
    what, epoch, _ = _question(event)
    return Anomaly(
        "L12",
        f"{node} sent the same {what} of epoch {epoch} over {SAME_PER_S_MAX} times in a second",
        events=(dict(event),),
        time_ns=event["rx_ns"],
    )
