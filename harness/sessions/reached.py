"""Counts what a batch of simulated seeds really exercised, and what never happened.

Counted from the nodes' own events and from the history, never from what was planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from harness.contracts.checker import RunData

Event = Mapping[str, Any]

# What the default settings must reach in a batch of some hundreds of seeds.
WANTED: Final = (
    *(
        f"role {change}"
        for change in (
            "unattached->prospective",
            "unattached->follower",
            "prospective->candidate",
            "prospective->follower",
            "prospective->unattached",
            "candidate->leader",
            "candidate->follower",
            "candidate->prospective",
            "follower->prospective",
            "follower->unattached",
            "follower->follower",
            "leader->resigned",
            "leader->follower",
            "leader->unattached",
            "resigned->follower",
            "resigned->unattached",
        )
    ),
    *(
        f"refused {error}"
        for error in (
            "Fetch 6",
            "Fetch 74",
            "Vote 74",
            "BeginQuorumEpoch 74",
            "EndQuorumEpoch 74",
        )
    ),
    "vote granted",
    "vote refused",
    "pre-vote granted",
    "pre-vote refused",
    "truncated",
    "fetch diverging",
    "fetch snapshot",
    "snapshot freeze",
    "snapshot install",
    "snapshot delete",
    "log start moved",
    "voters changed",
    "controller claimed",
    "controller renounced",
    "write acknowledged",
    "read behind the barrier",
    "image full",
    "image delta",
    "broker registered",
    "broker fenced",
    "broker unfenced",
    "restarted",
    "op ok",
    "op fail",
    "op info",
)


def reached(run: RunData) -> Counter[str]:
    """Tell how often each thing happened in a run."""
    counts: Counter[str] = Counter()
    for events in run.events.values():
        starts = 0
        for event in events:
            starts += event["t"] == "start"
            counts.update(_of(event))
        counts["restarted"] += max(0, starts - 1)
    for op in run.history:
        if isinstance(op.process, int):
            counts[f"op {op.type}"] += 1
        elif op.f == "inject" and isinstance(op.value, Mapping) and "outcome" in op.value:
            counts[f"fault {op.value['nemesis']} {op.value['outcome']}"] += 1
    del counts["op invoke"]
    return +counts


def never(counts: Mapping[str, int]) -> list[str]:
    """Tell what is wanted and has not happened."""
    return [name for name in WANTED if not counts.get(name)]


_SIMPLE: Final = {
    "trunc": "truncated",
    "lstart": "log start moved",
    "voters": "voters changed",
    "claim": "controller claimed",
    "renounce": "controller renounced",
    "ack": "write acknowledged",
    "read": "read behind the barrier",
}


def _of(event: Event) -> Iterator[str]:
    """The names of what an event tells."""
    kind = event["t"]
    if kind in _SIMPLE:
        yield _SIMPLE[kind]
    elif kind == "role":
        yield f"role {event['from']}->{event['to']}"
    elif kind == "rpc_err":
        yield f"refused {event['api']} {event['code']}"
    elif kind == "vote":
        yield f"{'pre-' if event['pre'] else ''}vote {'granted' if event['ok'] else 'refused'}"
    elif kind == "fetch_rx":
        yield f"fetch {event['res']}"
    elif kind == "snap":
        yield f"snapshot {event['op']}"
    elif kind == "image":
        yield f"image {event['kind']}"
    elif kind == "reg" and event["err"] == 0:
        yield "broker registered"
    elif kind == "fence":
        yield f"broker {'fenced' if event['fenced'] else 'unfenced'}"
