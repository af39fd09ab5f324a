"""S28: a node goes by a voter set as soon as its log has it.

The first node that goes by a set tells in which batch that is: mostly the leader, which wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from checkers.invariants.membership import LatestSetInForce
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import Batch, Replica, World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

# A node that does one of these is done with what it has appended.
_ACTS = frozenset({"fetch_tx", "votereq", "elected"})


class VotersOnceAppended(Invariant):
    """S28: who has appended a voter set goes by it before it asks for more, or for a vote."""

    name: ClassVar[str] = LatestSetInForce.name
    meaning: ClassVar[Meaning] = LatestSetInForce.meaning
    listens: ClassVar[tuple[str, ...]] = (
        *("append", "trunc", "voters", "snap", "start", "disk"),
        *sorted(_ACTS),
    )

    def __init__(self) -> None:
        super().__init__()
        self._sets: dict[Batch, int] = {}  # batches that hold a voter set, and its offset
        self._due: dict[ReplicaId, tuple[int, Event]] = {}  # sets that are in a log, not in force
        # Control batches that a process has appended: a set of another offset is of a snapshot.
        self._control: dict[ReplicaId, set[Batch]] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Note the sets in a log, and those that its node goes by."""
        kind, replica = event["t"], world.here
        if kind == "start":
            self._control.pop(replica.id, None)
        if kind == "append":
            if event["ctl"]:
                self._control.setdefault(replica.id, set()).add(world.appended(event))
            if self._sets and (offset := self._sets.get(world.appended(event))) is not None:
                self._due[replica.id] = offset, event
            return ()
        if kind == "voters":
            self._in_force(event, replica)
            return ()
        due = self._due.get(replica.id)
        if due is None:
            return ()
        offset, append = due
        if kind in _ACTS:
            return self._judge(event, replica, offset, append)
        is_gone = kind != "trunc" or event["to"] <= offset
        if is_gone and (kind != "snap" or event["op"] == "install"):
            del self._due[replica.id]  # or a restart reads the log anew
        return ()

    def _in_force(self, event: Event, replica: Replica) -> None:
        offset = event.get("off")
        batch = replica.log.at(offset) if isinstance(offset, int) else None
        if batch is None or batch not in self._control.get(replica.id, ()):
            return  # of a snapshot, or of what is not traced
        self._sets[batch] = event["off"]
        due = self._due.get(replica.id)
        if due is not None and due[0] <= event["off"]:
            self.checked += 1
            del self._due[replica.id]

    def _judge(
        self, event: Event, replica: Replica, offset: int, append: Event
    ) -> Iterable[Anomaly]:
        self.checked += 1
        before = replica.sets.offset
        if not replica.known or not replica.sets.in_force or before >= offset:
            return ()
        if not self._once((replica.id, offset, event["t"])):
            return ()
        if event["t"] == "elected":
            told = (
                f"{replica.id} is elected ({label(event)}) by the voters of offset {before},"
                f" and those of {offset} are in its log ({label(append)})"
            )
        else:
            does = "fetches" if event["t"] == "fetch_tx" else "asks for votes"
            told = (
                f"{replica.id} {does} ({label(event)}) with the voters of offset {before},"
                f" though its log has others at {offset} ({label(append)})"
            )
        return [self._anomaly(told, append, event, offset=offset)]
