"""Judges that a replica does not put off its own election when it refuses a vote.

Else one candidate that asks again and again, and cannot win, keeps all others from standing.
Source: Raft 5.2 and thesis 3.4; KIP-595 "Vote": granting resets the election timer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

VOTE = "VoteRequest"  # what may have changed the role just before it was answered


class Patience(Invariant):
    """L9: a vote that is refused, and any pre-vote, leaves the election timer as it is."""

    name: ClassVar[str] = "L9"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="few elections",
        promise=(
            "A crash costs few elections. Nobody stands before its timeout, candidates wait for "
            "random times, a vote that is refused delays nobody's own election, and after a "
            "resignation the voter with the longest log stands first."
        ),
        why=(
            "Candidates that stand at the same moments elect nobody, again and again. The cluster "
            "is without a controller for minutes instead of a second."
        ),
        source="Raft paper, 5.2; KIP-595 (EndQuorumEpoch); KAFKA-18345",
    )
    listens: ClassVar[tuple[str, ...]] = ("vote",)

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Compare the time before the answer with that after it; a newer epoch sets it anew."""
        due, before = event.get("due"), world.replica(event).told
        if not isinstance(due, list | tuple) or len(due) != 2:  # noqa: PLR2004 - before and after
            return
        if due[0] is None:
            return  # a leader, or who was one: it stands again only once it hears of a newer epoch
        granted = event["ok"] and not event["pre"]
        moved = before is None or (before["t"] == "role" and before.get("by", VOTE) == VOTE)
        if granted or moved:
            return
        self.checked += 1
        if due[0] != due[1]:
            kind = "pre-vote" if event["pre"] else "vote"
            yield self._anomaly(
                f"n{event['node']} put off its election from {due[0]} to {due[1]} ms for a {kind}"
                f" of n{event['cand']} in epoch {event['ep']} ({label(event)})",
                event,
                epoch=event["ep"],
            )
