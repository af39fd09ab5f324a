"""A vote is kept for as long as its epoch lasts, whatever role comes next.

Source: Kafka 4.1 ``QuorumState``: a follower and a prospective keep the vote of their epoch, so
that falling back to unattached in the same epoch cannot vote twice (KIP-996). Who has voted for
itself and leads may write itself as the leader in the place of the vote, as Kafka's leaders do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from checkers.invariants.elections import VoteDurability
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class KeptVote(Invariant):
    """S3: a vote that is on disk is not taken back in its epoch."""

    name: ClassVar[str] = "S3"
    meaning: ClassVar[Meaning] = VoteDurability.meaning
    listens: ClassVar[tuple[str, ...]] = ("qs",)

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Compare what is written with what was there."""
        replica = world.replica(event)
        disk = replica.quorum
        if disk is None or disk.voted is None or not replica.known or disk.epoch != event["ep"]:
            return
        self.checked += 1
        leader = event.get("leader")
        if event.get("voted") is None and not disk.gives_way(event["node"], leader):
            then = "" if leader is None else f", now that it follows n{leader}"
            yield self._anomaly(
                f"{replica.id} forgot in epoch {event['ep']} that it had voted for"
                f" n{disk.voted}{then} ({label(event)})",
                event,
                epoch=event["ep"],
                voted=disk.voted,
            )
