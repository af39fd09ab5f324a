"""L12: a node that hears no pauses before it asks again, and who hears yes asks no more.

Every other answer is news, and moves the fetch offset or the epoch on; the same question, time
after time, is a request that fails and is repeated without ``retry.backoff``. A voter tells a
leader once where it is and what it knows (UpdateRaftVoter, KIP-853), and again only if that changed
or the answer was lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Final

from checkers.replay.trace import Event
from harness.verdict import Anomaly

# A backoff of 20 ms lets 50 a second through to each of at most ten nodes.
SAME_PER_S_MAX: Final = 1_000
GRANTED_MAX: Final = 6  # in one epoch; most voters are granted it once, and answers may be lost
UPDATE: Final = "UpdateVoter"
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


def repeated_updates(events: Mapping[str, Sequence[Event]]) -> tuple[int, list[Anomaly]]:
    """Voters whose update one leader granted more than ``GRANTED_MAX`` times in an epoch.

    A voter that loses its leader and follows it again forgets that it was granted one.

    Returns:
        How many were granted, and one anomaly for each such voter, epoch, and time of following.
    """
    checked, found = 0, list[Anomaly]()
    for leader, of_leader in events.items():
        granted: dict[tuple[object, ...], list[Event]] = defaultdict(list)
        for event in of_leader:
            if event["t"] == "rpc_ok" and event["api"] == UPDATE:
                asker = event["inc"], event["ep"], event["peer"], event.get("peer_dir")
                granted[asker].append(event)
        for each in granted.values():
            checked += len(each)
            found += _too_many(leader, each, events)
    return checked, found


def _too_many(
    leader: str, granted: Sequence[Event], events: Mapping[str, Sequence[Event]]
) -> Iterator[Anomaly]:
    """Judge what one leader granted one voter in an epoch: by each time that this followed it."""
    if len(granted) <= GRANTED_MAX:
        return
    told = events.get(f"n{granted[0]['peer']}", ())
    follows = [e["rx_ns"] for e in told if e["t"] == "role" and e["to"] == "follower"]
    for _, some in groupby(granted, lambda event: bisect_right(follows, event["rx_ns"])):
        for event in islice(some, GRANTED_MAX, GRANTED_MAX + 1):
            yield _again(leader, event)


def _again(leader: str, event: Event) -> Anomaly:
    return Anomaly(
        "L12",
        f"n{event['peer']} asked {leader} to be updated as a voter over {GRANTED_MAX} times in"
        f" epoch {event['ep']}, and was granted it each time",
        events=(dict(event),),
        time_ns=event["rx_ns"],
    )


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
