"""Judges that nobody stands for election whom a majority would not support.

Source: KIP-996; Raft thesis, 9.6; Kafka 4.1 ``ProspectiveState``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from checkers.invariants.candidates import PreVoteHarmless
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.voter_sets import holds, told
from checkers.replay.world import Replica, World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class PreVoteMajority(Invariant):
    """S32: a prospective stands when a majority of the voters has granted it a pre-vote.

    Judged where all voters are known to know pre-votes: one that is too old for them lets anybody
    stand.
    """

    name: ClassVar[str] = "S32"
    meaning: ClassVar[Meaning] = PreVoteHarmless.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "role", "vote")

    def __init__(self) -> None:
        super().__init__()
        self._knowing: set[ReplicaId] = set()  # those that have asked for, or answered, pre-votes
        self._asking: dict[ReplicaId, Event] = {}
        self._granted: dict[int, set[ReplicaId]] = {}  # by the node that asks, since it does

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Collect pre-votes, and count them when somebody stands."""
        replica = world.here
        if event["t"] == "vote":
            if event["pre"]:
                self._knowing.add(replica.id)
                if event["ok"]:
                    self._granted.setdefault(event["cand"], set()).add(replica.id)
            return ()
        asking = self._asking.pop(replica.id, None)
        if event["t"] == "start":
            return ()
        if event["to"] == "prospective":
            self._knowing.add(replica.id)
            self._asking[replica.id] = asking or event  # it may record a vote meanwhile
            if asking is None:
                self._granted[replica.id.node] = set()
            return ()
        stands = asking is not None and event["to"] == "candidate"
        return self._stands(event, replica, world) if stands else ()

    def _stands(self, event: Event, replica: Replica, world: World) -> Iterable[Anomaly]:
        voters = replica.sets.in_force
        known = [world.voter(key) for key in voters]
        if not replica.known or not world.whole or not voters:
            return ()
        if not all(each is not None and each.id in self._knowing for each in known):
            return ()
        self.checked += 1
        granted = self._granted.get(replica.id.node, set())
        keys = tuple(r.key for r in world.replicas.values() if r.id in granted | {replica.id})
        count = sum(holds(keys, key) for key in voters)
        if count > len(voters) // 2:
            return ()
        return [
            self._anomaly(
                f"{replica.id} stood in epoch {event['ep']} ({label(event)}) with the pre-votes of"
                f" {told(keys)}; the voters are {told(voters)}",
                event,
                epoch=event["ep"],
            )
        ]
