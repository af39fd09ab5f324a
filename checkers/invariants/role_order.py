"""Judges which role may follow which, and in which role a process begins.

Source: KIP-595, KIP-996; Kafka 4.1 ``QuorumState``: its transitions, and ``initialize``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from checkers.invariants.applying import Fencing
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import World, same_directory
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

LEADS_ON = frozenset({"leader", "resigned"})  # roles of one reign, which only a newer epoch ends


class RoleOrder(Invariant):
    """S31: only a candidate wins, only a leader resigns, and a reign ends with its epoch.

    A follower names another node that leads. Who has a leader, or stands, is without one only in a
    newer epoch. A replica takes its own role anew only in a newer epoch, or to record a vote.
    """

    name: ClassVar[str] = "S31"
    meaning: ClassVar[Meaning] = Fencing.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "role")

    def __init__(self) -> None:
        super().__init__()
        self._roles: dict[ReplicaId, Event] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare a role with the one before."""
        replica = world.replica(event)
        before = self._roles.pop(replica.id, None)
        if event["t"] == "start":
            return ()
        self._roles[replica.id] = event
        if before is None or not replica.known:
            return ()
        self.checked += 1
        wrong = _misstep(before, event)
        return () if wrong is None else [self._moved(before, event, wrong)]

    def _moved(self, before: Event, event: Event, wrong: str) -> Anomaly:
        return self._anomaly(
            f"n{event['node']}, {before['to']} of epoch {before['ep']} ({label(before)}), became"
            f" {event['to']} of epoch {event['ep']} ({label(event)}): {wrong}",
            before,
            event,
            epoch=event["ep"],
        )


def _misstep(before: Event, event: Event) -> str | None:
    """Tell which rule a change of role breaks."""
    was, to, raised = before["to"], event["to"], event["ep"] - before["ep"]
    if to == "leader":
        return None if was == "candidate" and raised == 0 else "only a candidate of it wins it"
    if to == "resigned":
        return None if was == "leader" and raised == 0 else "only its leader resigns from it"
    if to == "follower" and event.get("leader") in (None, event["node"]):
        return "it follows nobody else"
    if was == "leader" and raised <= 0:
        return "a reign ends with its epoch, or in resignation"
    if was == "resigned" and to == "follower" and raised <= 0:
        return "it led that epoch itself"
    if to == "unattached" and was != "prospective" and raised <= 0:
        recorded = was == to and event.get("voted") is not None
        return None if recorded else "only a newer epoch takes that from it"
    if to == was == "prospective" and event.get("voted") is None:
        return "it asks already"
    return None


class FirstRole(Invariant):
    """S31: a process begins in the epoch and in the role that its disk tells of.

    As one that has resigned where it led, as a candidate where it voted for itself, as a follower
    of the leader that it knew, if that is a voter of its log: then it knows where the leader is.
    Where it cannot be that, it is unattached, and forgets neither the leader nor its vote, unless
    the log is of a newer epoch. It is never leader at once.
    """

    name: ClassVar[str] = "S31"
    meaning: ClassVar[Meaning] = Fencing.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "role")
    uses: ClassVar[tuple[str, ...]] = ("voters",)

    def __init__(self) -> None:
        super().__init__()
        self._starts: dict[ReplicaId, Event] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare the first role of a process with its start."""
        replica = world.replica(event)
        if event["t"] == "start":
            self._starts[replica.id] = event
            return ()
        start = self._starts.pop(replica.id, None)
        last_epoch = start.get("last_ep") if start is not None else None
        if start is None or event.get("from", "") is not None or not isinstance(last_epoch, int):
            return ()
        self.checked += 1
        wrong = _wrong_start(start["qs"], last_epoch, replica.voters, event)
        if wrong is None:
            return ()
        return [
            self._anomaly(
                f"n{event['node']} began as {event['to']} of epoch {event['ep']} ({label(event)}):"
                f" {wrong} ({label(start)})",
                start,
                event,
                epoch=event["ep"],
            )
        ]


def _wrong_start(
    disk: Mapping[str, Any], last_epoch: int, voters: frozenset[int], role: Event
) -> str | None:
    """Tell what the disk says that a first role does not."""
    epoch, leader, voted = disk.get("ep"), disk.get("leader"), disk.get("voted")
    is_behind = not isinstance(epoch, int) or epoch < last_epoch
    if is_behind:
        epoch, leader, voted = max(last_epoch, 0), None, None
    if role["ep"] != epoch:
        return f"its disk has epoch {epoch}"
    own = voted == role["node"] and same_directory(disk.get("voted_dir"), role["dir"])
    right = {"unattached"}
    if leader is not None:
        right.add("resigned" if leader == role["node"] else "follower")
    elif own:
        right.add("candidate")
    if leader is not None and own and role["to"] == "candidate":
        return f"its disk has leader {leader}, so that it had lost that election"
    if role["to"] not in right:
        return f"its disk has leader {leader} and a vote for {voted}"
    if role["to"] == "unattached" and leader in voters - {role["node"]}:
        return f"its disk has leader {leader}, which is a voter, so that it knows where that is"
    if role.get("leader") != leader:
        return f"its disk has leader {leader}, and now it has {role.get('leader')}"
    if leader is None and role.get("voted") != voted:
        return f"its disk has a vote for {voted}, and now it has {role.get('voted')}"
    return None
