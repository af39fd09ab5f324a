"""Finds nodes whose Fetches never reach the node that they are sent to.

The sender's trace says that they were sent, and the other's that none was taken up. The cause is
below the raft client, or in the network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

ASKED_MIN: Final = 3  # Fetches; fewer may be on their way


def unheard(events: Mapping[str, Iterable[Mapping[str, Any]]], since_ns: int) -> dict[str, str]:
    """Name the nodes none of whose Fetches arrived since a time; each with a sentence.

    Args:
        events: The events of each node, by its name, as they lie in a run.
        since_ns: On the clock of the history, by which events arrived (``rx_ns``).
    """
    sent: dict[str, Counter[str]] = {}
    heard: set[tuple[str, str]] = set()
    told = set[str]()
    for node, own in events.items():
        for event in own:
            arrived_ns = event.get("rx_ns")
            if not isinstance(arrived_ns, int) or arrived_ns < since_ns:
                continue
            told.add(node)
            if event.get("t") == "fetch_tx" and "to" in event:
                sent.setdefault(node, Counter())[f"n{event['to']}"] += 1
            elif event.get("t") == "fetch_rx" and "from" in event:
                heard.add((f"n{event['from']}", node))
    found = {}
    for node, asked in sent.items():
        peer, times = asked.most_common(1)[0]
        if times >= ASKED_MIN and peer in told and (node, peer) not in heard:
            found[node] = f"{peer} took none of the {times} Fetches that {node} sent to it"
    return found
