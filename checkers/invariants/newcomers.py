"""Judges that a new voter has all of the log, so that no commit has to wait for it.

Source: KIP-853 "AddVoter"; Kafka 4.1 ``AddVoterHandler``, ``LeaderState.isReplicaCaughtUp``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from checkers.invariants.membership import OneChangeAtATime
from checkers.invariants.quorum import fetcher_of
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.voter_sets import VoterKey, holds, keys_of
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


@dataclass(slots=True)
class Fetched:
    """The fetches of one replica; ``end`` is the leader's log end at the last one."""

    end: int
    caught_up: bool = False


class CaughtUpNewcomers(Invariant):
    """S27: a leader adds a voter that had all of its log at some time in its reign.

    With a Fetch at its log end, or at what that was when the replica fetched before.
    """

    name: ClassVar[str] = "S27"
    meaning: ClassVar[Meaning] = OneChangeAtATime.meaning
    listens: ClassVar[tuple[str, ...]] = ("elected", "fetch_rx", "voters")

    def __init__(self) -> None:
        super().__init__()
        self._fetched: dict[ReplicaId, dict[VoterKey, Fetched]] = {}  # by leader

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Follow who fetches what, and compare it with whom the leader adds."""
        replica, kind = world.here, event["t"]
        if kind == "fetch_rx":
            fetches = self._fetched.get(replica.id) if event["res"] == "ok" else None
            if fetches is not None:
                self._note(event, fetches, fetcher_of(event, world))
        elif kind == "elected":
            self._fetched[replica.id] = {}
        elif replica.known and replica.leads == event["ep"] and not event.get("revert"):
            return self._added(event, replica.id, world)
        return ()

    def _note(self, event: Event, fetches: dict[VoterKey, Fetched], key: VoterKey | None) -> None:
        end, offset = event.get("end"), event.get("off")
        if key is None or not isinstance(end, int) or not isinstance(offset, int):
            return
        known = fetches.get(key)
        if known is None:
            known = fetches[key] = Fetched(end)
        known.caught_up = known.caught_up or offset >= known.end
        known.end = end

    def _added(self, event: Event, leader: ReplicaId, world: World) -> Iterator[Anomaly]:
        before, keys = world.replica(event).sets.in_force, keys_of(event["set"])
        fetches = self._fetched.get(leader)
        if not before or keys is None or fetches is None:
            return
        for key in keys:
            if holds(before, key):
                continue
            self.checked += 1
            if not any(each.fits(key) and has.caught_up for each, has in fetches.items()):
                yield self._anomaly(
                    f"{leader} made {key} a voter at offset {event.get('off')} ({label(event)}),"
                    f" which had not fetched to its log end in epoch {event['ep']}",
                    event,
                    voter=key.node,
                )
