"""Judges where two logs part, as a leader tells a follower and as the follower acts on it.

Source: KIP-595 "Fetch" (diverging epochs); Kafka 4.1 ``KafkaRaftClient`` and ``KafkaRaftLog``:
``validateOffsetAndEpoch`` and ``truncateToEndOffset``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from checkers.invariants.logs import LogMatching, NoCommittedTruncation
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class FetchedPrefix(Invariant):
    """S8: a leader serves a fetch whose last record it has, and calls only others diverging."""

    name: ClassVar[str] = "S8"
    meaning: ClassVar[Meaning] = LogMatching.meaning
    listens: ClassVar[tuple[str, ...]] = ("fetch_rx",)

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Look for the fetcher's last record in the leader's log."""
        leader, said = world.here, event["res"]
        if said not in ("ok", "diverging") or not leader.known or leader.leads != event["ep"]:
            return ()
        offset, epoch, end = event.get("off"), event.get("last_ep"), leader.log.end
        if not isinstance(offset, int) or not isinstance(epoch, int) or end is None:
            return ()
        last = leader.log.at(offset - 1)
        if last is None and offset <= end:
            return ()  # at the beginning of the log, or in a hole of the trace
        self.checked += 1
        agrees = last is not None and last.epoch == epoch
        if agrees == (said == "ok"):
            return ()
        found = f"nothing: its log ends at {end}" if last is None else f"{last} there"
        answer = "served it" if said == "ok" else "called it diverging"
        return [
            self._anomaly(
                f"n{event.get('from')} fetched at offset {offset} after a record of epoch {epoch},"
                f" and {leader.id} {answer} ({label(event)}), which has {found}",
                event,
                offset=offset,
                epoch=epoch,
            )
        ]


class NeedlessTruncation(Invariant):
    """S10: a follower cuts away nothing that its leader has, too.

    It has promised to keep that, by its fetch.
    """

    name: ClassVar[str] = "S10"
    meaning: ClassVar[Meaning] = NoCommittedTruncation.meaning
    listens: ClassVar[tuple[str, ...]] = ("trunc",)

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the first batch that goes with the leader's at its place."""
        replica, epoch = world.here, event.get("ep")
        leader = next((r for r in world.replicas.values() if r.leads == epoch and r.known), None)
        if leader is None or leader is replica or not replica.known:
            return ()
        self.checked += 1
        first = replica.log.at(event["to"])
        if first is None or leader.log.at(first.base) != first:
            return ()
        return [
            self._anomaly(
                f"{replica.id} cut its log to {event['to']} ({label(event)}), and {first}, which"
                f" goes with that, is in the log of its leader {leader.id}",
                event,
                to=event["to"],
                offset=first.base,
            )
        ]
