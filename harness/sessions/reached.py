"""Counts what a batch of simulated seeds really exercised, and what never happened.

Counted from the nodes' own events and from the history, never from what was planned.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from harness.catalogue import place
from harness.contracts.checker import RunData
from harness.registry import checkers
from harness.verdict import CheckResult

Event = Mapping[str, Any]

_INVARIANT: Final = re.compile(r"[SCL]\d+")
# C9 is judged with the images of C8, which count there; of C16 only nodes of Kafka tell
NOT_COUNTED: Final = frozenset({"C9", "C16"})

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


@dataclass(slots=True)
class Premise:
    """How often the premise of an invariant came true: times, and runs, of those watched for it."""

    times: int = 0
    runs: int = 0
    watched: int = 0

    def add(self, times: int, runs: int, watched: int) -> None:
        """Add what other runs showed."""
        self.times += times
        self.runs += runs
        self.watched += watched


@dataclass(slots=True)
class Reach:
    """The sum of all that runs reached."""

    counts: Counter[str] = field(default_factory=Counter)  # as of ``reached``
    premises: dict[str, Premise] = field(default_factory=dict)  # by invariant

    def take(self, run: RunData, results: Iterable[CheckResult]) -> None:
        """Count what a run reached, and what its checkers had to judge."""
        self.counts.update(reached(run))
        for name, times in premises(results).items():
            self.premises.setdefault(name, Premise()).add(times, times > 0, 1)

    def add(self, line: Mapping[str, Any]) -> None:
        """Add what ``to_json`` told of other runs; what is older tells of no premises."""
        self.counts.update(line["counts"])
        for name, told in line.get("premises", {}).items():
            self.premises.setdefault(name, Premise()).add(*told)

    def to_json(self) -> dict[str, Any]:
        """Give it as a JSON object: each premise as times, runs, watched."""
        told = {name: [each.times, each.runs, each.watched] for name, each in self.premises.items()}
        return {"counts": dict(self.counts), "premises": told}


def is_counted(invariant: str) -> bool:
    """Tell whether runs count how often an invariant had something to judge."""
    return _INVARIANT.fullmatch(invariant) is not None and invariant not in NOT_COUNTED


def unmet(premises: Mapping[str, Premise], least: int = 1) -> list[str]:
    """Name the invariants whose premise never came true in so many runs watched or more."""
    return sorted(
        (
            name
            for name, each in premises.items()
            if not each.runs and each.watched >= least and is_counted(name)
        ),
        key=place,
    )


def premises(results: Iterable[CheckResult]) -> dict[str, int]:
    """Tell how often the premise of each invariant came true that a run was watched for."""
    counts: Counter[str] = Counter()
    watched: set[str] = set()
    for result in results:
        counts.update(result.checked)
        if result.checker in checkers.names():
            watched.update(meaning.name for meaning in checkers.judges(result.checker))
    return {name: counts[name] for name in sorted(watched | counts.keys()) if is_counted(name)}


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


def told_of(reach: Reach) -> dict[str, Any]:
    """Tell what a batch reached and what it never did, as fields of a JSON object."""
    told = reach.to_json()
    return {
        "reached": dict(sorted(told["counts"].items())),
        "never": never(reach.counts),
        "premises": dict(sorted(told["premises"].items(), key=lambda item: place(item[0]))),
        "premises_unmet": unmet(reach.premises),
    }


def never_reached(figures: Mapping[str, Any]) -> Iterator[str]:
    """Say in lines what is missing in ``told_of``."""
    if figures["never"]:
        yield f"not exercised by any run: {', '.join(figures['never'])}"
    if figures["premises_unmet"]:
        names = ", ".join(figures["premises_unmet"])
        watched = len(figures["premises"])
        yield f"premise never came true, of {watched} invariants: {names}"


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
