"""Judges the LeaderChange record, by which a leader opens its epoch.

Source: KIP-595 "Leader Change Message"; KIP-853 (the voters in it are those of the election).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from checkers.invariants.leading import LeaderAppendOnly
from checkers.replay.invariant import FinalLogs, Invariant
from checkers.replay.trace import Event, label
from checkers.replay.world import World
from harness.contracts.evidence import LogBatch
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

LEADER_CHANGE = "LeaderChange"


class EpochRecord(Invariant):
    """S12: the LeaderChange record of an epoch says who was elected, by whom, and among whom."""

    name: ClassVar[str] = "S12"
    meaning: ClassVar[Meaning] = LeaderAppendOnly.meaning
    listens: ClassVar[tuple[str, ...]] = ("elected",)

    def __init__(self) -> None:
        super().__init__()
        self._elected: dict[int, Event] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Note an election; a second one in the same epoch is the matter of others."""
        del world
        self._elected.setdefault(event["ep"], event)
        return ()

    def finish(self, logs: FinalLogs, world: World) -> Iterator[Anomaly]:
        """Compare the first batch of each epoch with its election."""
        del world
        for node, log in sorted(logs.items()):
            for batch in log:
                elected = self._elected.get(batch.epoch)
                if elected is not None and (batch.control or batch.base == elected["es"]):
                    yield from self._judge(node, batch, elected)

    def _judge(self, node: str, batch: LogBatch, elected: Event) -> Iterator[Anomaly]:
        if not batch.records:
            return  # nobody has looked into it
        first = batch.records[0]
        opens, is_change = batch.base == elected["es"], first.get("type") == LEADER_CHANGE
        if not opens and not is_change:
            return  # another control record, of voters perhaps
        self.checked += 1
        wrong = _difference(first.get("fields") or {}, elected) if opens and is_change else None
        if opens and not is_change:
            wrong = f"is {first.get('type')} and no {LEADER_CHANGE}"
        elif not opens:
            wrong = f"does not begin the epoch, which is at offset {elected['es']}"
        if wrong is not None and self._once((batch.epoch, batch.base)):
            yield self._anomaly(
                f"the record at offset {batch.base} in the log of {node} {wrong}:"
                f" n{elected['node']} was elected for epoch {batch.epoch} ({label(elected)})",
                elected,
                node=node,
                offset=batch.base,
            )


def _difference(told: Mapping[str, Any], elected: Event) -> str | None:
    """Tell what a LeaderChange says differently from what happened."""
    happened = {
        "leader_id": elected["node"],
        "voter_ids": sorted(key[0] for key in elected.get("voters") or ()),
        "granting_ids": sorted(elected.get("grants") or ()),
    }
    for field, value in happened.items():
        found = told.get(field)
        if (sorted(found) if isinstance(found, list) else found) != value:
            return f"has {field} {found}, not {value}"
    return None
