"""Reads in the nodes' traces and loops where the time of a failover goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

STANDING = ("prospective", "candidate")  # who wants to be elected


@dataclass(slots=True)
class Tail:
    """The new lines of a file of JSON lines, each time it is asked."""

    path: Path
    _read: int = field(default=0)

    def take(self) -> list[dict[str, Any]]:
        """Read what was added since the last time; nothing while there is no file."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return [msgspec.json.decode(line) for line in whole.splitlines()]


def longest_turn(events: Iterable[dict[str, Any]]) -> tuple[float, float]:
    """The most CPU time and the most wall time of a turn of a node's event loop, in ms."""
    turns = [event for event in events if event["t"] == "turn"]
    return (
        max((turn["cpu_ms"] for turn in turns), default=0),
        max((turn["ms"] for turn in turns), default=0),
    )


@dataclass(frozen=True, slots=True)
class Phases:
    """One failover, in seconds.

    ``detection``: from the kill until a voter stands for election. ``election``: from there until
    one has won. ``commit``: from there until its first record, that of its epoch, is committed.
    ``write``: from the election until a client has the answer to its write. ``total``: from the
    kill to that answer; ``steady``: the same without the election. ``epochs``: how many it took.
    """

    detection: float
    election: float
    commit: float
    write: float
    total: float
    epochs: int

    @property
    def steady(self) -> float:
        """All but the election, whose timers are random."""
        return self.total - self.election

    @classmethod
    def of(
        cls, events: Iterable[dict[str, Any]], leader: int, killed_ns: int, answered_ns: int
    ) -> Phases:
        """Read the phases from the survivors' events; raises ValueError without an election."""
        seen = sorted(
            (event for event in events if killed_ns <= event["ts"]), key=lambda event: event["ts"]
        )
        standing = [e["ts"] for e in seen if e["t"] == "role" and e["to"] in STANDING]
        won = [
            e
            for e in seen
            if e["t"] == "elected" and e["node"] == leader and e["ts"] <= answered_ns
        ]
        if not standing or not won:
            raise ValueError(f"node {leader} answered, the traces tell of no election")
        elected = won[-1]
        commits = [
            e["ts"]
            for e in seen
            if e["t"] == "hwm" and e["node"] == leader and e["v"] > elected["es"]
        ]
        before = min(e["ep"] for e in seen)
        return cls(
            (standing[0] - killed_ns) / 1e9,
            (elected["ts"] - standing[0]) / 1e9,
            (commits[0] - elected["ts"]) / 1e9,
            (answered_ns - elected["ts"]) / 1e9,
            (answered_ns - killed_ns) / 1e9,
            int(elected["ep"]) - int(before),
        )
