"""Invariant of reads: who answers one has made sure that it leads.

Source: Raft thesis section 6.4 (a majority is asked after the read came); etcd #741, #20418.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from checkers.invariants.quorum import asker_of
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.voter_sets import VoterKey, holds, told
from checkers.replay.world import Replica, World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

_HEARD = frozenset({"ok", "diverging", "snapshot"})  # of a voter in the leader's own epoch


class ReadsConfirmed(Invariant):
    """S34: a leader answers a read when a majority has fetched since that was asked for.

    That the history is linearizable is for the checkers of histories to say.
    """

    name: ClassVar[str] = "S34"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="linearizable writes",
        promise=(
            "Each write takes effect at one moment between its request and its answer, and so does "
            "a read that asks the leader. No read shows what is not committed yet."
        ),
        why=(
            "Scripts and operators look at the cluster and act on what they see. An old or "
            "uncommitted answer makes them create a topic again, or delete what was configured a "
            "moment ago."
        ),
        source=(
            "Herlihy and Wing, 1990; Raft thesis, 6.4; KIP-836 (DescribeQuorum); KAFKA-15048; etcd "
            "#741"
        ),
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "elected", "voters", "fetch_rx", "read")

    def __init__(self) -> None:
        super().__init__()
        self._fetched: dict[ReplicaId, dict[VoterKey, int]] = {}  # the newest of each, by seq
        self._changed: dict[ReplicaId, int] = {}  # the newest change of the voters, by seq

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Collect fetches, and count those since a read was asked for."""
        replica, kind = world.here, event["t"]
        if kind == "fetch_rx":
            if event["res"] in _HEARD:
                key = asker_of(event, world)
                if key is not None:
                    self._fetched.setdefault(replica.id, {})[key] = event["seq"]
        elif kind == "read":
            return self._read(event, replica) if replica.known else ()
        elif kind == "voters":
            self._changed[replica.id] = event["seq"]
        else:
            self._fetched[replica.id] = {}
            self._changed[replica.id] = event["seq"]
        return ()

    def _read(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        asked, voters = event.get("asked"), replica.sets.in_force
        if not isinstance(asked, int) or not voters or self._changed.get(replica.id, 0) > asked:
            return  # which set counted is not told
        self.checked += 1
        since = [key for key, seq in self._fetched.get(replica.id, {}).items() if seq > asked]
        others = [key for key in voters if key.node != replica.key.node and holds(since, key)]
        needed = len(voters) // 2 + 1 - holds(voters, replica.key)
        if len(others) < needed:
            yield self._anomaly(
                f"{replica.id} answered a read ({label(event)}) that was asked for after its event"
                f" {asked}; of the voters {told(voters)} only {told(tuple(others))} have"
                f" fetched since, and {needed} others make a majority",
                event,
                epoch=event["ep"],
            )
