"""Invariants of those who want to lead: who may be voted for, and who must not even ask.

Source: KIP-595, KIP-853, KIP-996 (pre-vote); KAFKA-17067, KAFKA-17333.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.voter_sets import holds, told
from checkers.replay.world import Persisted, Replica, World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

AGAIN: Final = ", as it had done when that log was longer"


class UpToDateGrants(Invariant):
    """S5: a vote goes only to a log that is at least as up to date as the voter's own.

    Last epochs are compared first, then log ends; the voter's own are those of its log. So with a
    vote that is told again, too: what the candidate had when it was given may be lost by then. The
    same request, which the network brings once more, has the same answer: nothing follows from it.
    A leader of Kafka notes its epoch in its log before it writes the first record
    (``initializeLeaderEpoch``). If it resigns before that, its votes name that epoch as its last.
    """

    name: ClassVar[str] = "S5"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="up-to-date grants",
        promise=(
            "A controller votes only for a candidate whose log is at least as complete as its own: "
            "its last epoch is higher, or is the same in a log that is at least as long."
        ),
        why=(
            "A candidate with a shorter log lacks committed records. If it wins, the others cut "
            "their logs to match it: topics that were created with success do not exist any more."
        ),
        source="KIP-595 (Vote); Raft paper, 5.4.1; liferaft #8",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "elected", "vote")

    def __init__(self) -> None:
        super().__init__()
        self._won: dict[ReplicaId, tuple[int, int]] = {}  # epoch and its start, by this process
        # The newest vote of each voter: its epoch, the candidate, and the end of that one's log.
        self._given: dict[int, tuple[Any, ...]] = {}

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Compare the two logs of a granted vote."""
        if event["t"] == "start":
            self._won.pop(world.here.id, None)
            return
        if event["t"] == "elected":
            self._won[world.here.id] = event["ep"], event["es"]
            return
        if not event["ok"]:
            return
        self.checked += 1
        asks, own = (event["cl_ep"], event["cl_leo"]), (event["my_ep"], event["my_leo"])
        if asks < own and not self._is_the_same_again(event):
            yield self._anomaly(
                f"n{event['node']} voted for n{event['cand']} in epoch {event['ep']}, whose log"
                f" ends at {asks[1]} of epoch {asks[0]}, its own at {own[1]} of epoch {own[0]}"
                f" ({label(event)}){AGAIN if self._is_given(event) else ''}",
                event,
                epoch=event["ep"],
                candidate=event["cand"],
            )
        elif not event["pre"]:
            self._given[event["node"]] = _asked(event)
        yield from self._own_log(event, world.replica(event), own)

    def _is_the_same_again(self, event: Event) -> bool:
        """Tell whether that very vote was given before, when the log was up to date."""
        return not event["pre"] and self._given.get(event["node"]) == _asked(event)

    def _is_given(self, event: Event) -> bool:
        """Tell whether the candidate has that vote already, given when it had another log."""
        given = self._given.get(event["node"], ())
        return not event["pre"] and given[:3] == _asked(event)[:3]

    def _own_log(self, event: Event, replica: Replica, said: tuple[int, int]) -> Iterator[Anomaly]:
        end, epoch = replica.log.end, _last_epoch(replica)
        if not replica.known or end is None:
            return
        if said[1] == end and said == self._won.get(replica.id):
            return
        if said[1] != end or epoch not in (None, said[0]):
            yield self._anomaly(
                f"n{event['node']} voted with a log that ends at {said[1]} of epoch {said[0]},"
                f" but its log ends at {end} of epoch {epoch} ({label(event)})",
                event,
                epoch=event["ep"],
            )


def _asked(event: Event) -> tuple[Any, ...]:
    return tuple(event.get(each) for each in ("ep", "cand", "cand_dir", "cl_ep", "cl_leo"))


def _last_epoch(replica: Replica) -> int | None:
    """The epoch of the last record as far as the trace tells."""
    tail = replica.log.tail
    if tail is not None:
        return tail.epoch
    return (
        replica.snapshots.get(replica.log.start) if replica.log.end == replica.log.start else None
    )


class NoResumedReign(Invariant):
    """S26: who starts as the leader that it was before writes nothing in that epoch any more.

    It may have lost what it had not flushed, and would give its offsets a second content.
    """

    name: ClassVar[str] = "S26"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="no resumed reign",
        promise="A leader that restarts writes nothing more in the epoch that it led.",
        why=(
            "What it had not flushed is lost on its disk, while followers may have it. New records "
            "at the same offsets and in the same epoch look equal to the lost ones (S7), so logs "
            "differ unnoticed."
        ),
        source="KIP-595; ResignedState; KAFKA-10527",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "append", "elected")

    def __init__(self) -> None:
        super().__init__()
        self._over: dict[tuple[ReplicaId, int], Event] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Remember reigns that a restart ended, and look who goes on with one."""
        replica = world.here.id
        if event["t"] == "start":
            state = event["qs"]
            if state.get("leader") == event["node"] and isinstance(state.get("ep"), int):
                self._over.setdefault((replica, state["ep"]), event)
            return ()
        if event["t"] == "append" and event["src"] != "leader":
            return ()
        self.checked += 1
        reign = replica, event["ep"] if event["t"] == "elected" else event["bep"]
        over = self._over.get(reign) if self._over else None
        if over is None or not self._once(reign):
            return ()
        return [
            self._anomaly(
                f"{replica} leads epoch {reign[1]} again ({label(event)}) after it was restarted"
                f" as its leader ({label(over)})",
                over,
                event,
                epoch=reign[1],
            )
        ]


class PreVoteHarmless(Invariant):
    """S32: a pre-vote changes no epoch and costs no vote.

    A prospective is in the epoch that it was in before, and who answers it is in that epoch, too;
    the answer to a pre-vote is not written. A follower that has had a record or a high watermark
    of its leader is in touch with it, and supports nobody else.
    """

    name: ClassVar[str] = "S32"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="harmless pre-vote",
        promise=(
            "A pre-vote raises no epoch and uses up no vote, and a node that is in touch with its "
            "leader grants none. Nobody stands without the pre-votes of a majority."
        ),
        why=(
            "Pre-votes keep a controller with a bad link from disturbing the others. If they have "
            "effects, each of its reconnects ends a healthy reign, and admin requests time out."
        ),
        source="KIP-996; Raft thesis, 9.6",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "qs", "role", "vote", "append", "hwm")

    def __init__(self) -> None:
        super().__init__()
        self._epochs: dict[ReplicaId, int] = {}
        self._written: dict[ReplicaId, tuple[int, Event]] = {}  # votes not told of yet
        self._fed: dict[ReplicaId, Event | None] = {}  # of followers: what they had of the leader

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Follow a replica's epoch and what it writes."""
        replica, kind = world.here, event["t"]
        if kind in ("append", "hwm"):
            if replica.id in self._fed:
                self._fed[replica.id] = event
            return ()
        if kind == "vote":
            return self._vote(event, replica)
        if event["t"] in ("start", "role"):
            self._fed.pop(replica.id, None)
            if event.get("to") == "follower":
                self._fed[replica.id] = None
        if event["t"] == "qs":
            self._persist(event, replica.quorum, replica.id)
        before = self._epochs.get(replica.id) if replica.known else None
        if event["t"] == "start":
            self._written.pop(replica.id, None)
            self._epochs.pop(replica.id, None)  # its log may be ahead of what it had persisted
            return ()
        self._epochs[replica.id] = event["ep"]
        if event["t"] == "role" and event["to"] == "prospective" and before is not None:
            return self._prospective(event, before)
        return ()

    def _persist(self, event: Event, before: Persisted | None, replica: ReplicaId) -> None:
        voted = event.get("voted")
        old = None if before is None or before.epoch != event["ep"] else before.voted
        if isinstance(voted, int) and voted != event["node"] and voted != old:
            self._written[replica] = voted, event

    def _vote(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        voted, written = self._written.pop(replica.id, (None, event))
        asked = event.get("req_ep")
        if not event["pre"] or event.get("err") not in (0, None):
            return
        self.checked += 1
        if isinstance(asked, int) and event["ep"] != asked:
            yield self._anomaly(
                f"{replica.id} was asked for a pre-vote of epoch {asked} and is in epoch"
                f" {event['ep']} now ({label(event)})",
                event,
                epochs=[asked, event["ep"]],
            )
        fed = self._fed.get(replica.id)
        if event["ok"] and fed is not None and replica.known:
            yield self._anomaly(
                f"{replica.id} granted n{event['cand']} a pre-vote ({label(event)}) while it"
                f" followed its leader ({label(fed)})",
                fed,
                event,
                epoch=event["ep"],
            )
        if event["ok"] and voted == event["cand"] and replica.known:
            yield self._anomaly(
                f"{replica.id} wrote a vote for n{voted} ({label(written)}) to answer a pre-vote"
                f" ({label(event)})",
                written,
                event,
                epoch=event["ep"],
            )

    def _prospective(self, event: Event, before: int) -> Iterator[Anomaly]:
        self.checked += 1
        if event["ep"] != before:
            yield self._anomaly(
                f"n{event['node']} went from epoch {before} to {event['ep']} to ask for pre-votes"
                f" ({label(event)})",
                event,
                epochs=[before, event["ep"]],
            )


class ObserversPassive(Invariant):
    """S33: who is not in the voter set of its own log never wants to lead, nor leads."""

    name: ClassVar[str] = "S33"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="passive observers",
        promise="A node that is not among the voters never stands for election and never leads.",
        why=(
            "Brokers and removed controllers have the metadata log, too. If one of them leads, the "
            "cluster depends on a node that no operator made part of the quorum."
        ),
        source="KIP-595 (observers); KIP-853; KAFKA-17067",
    )
    listens: ClassVar[tuple[str, ...]] = ("role",)

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Look for the replica in the set in force."""
        replica = world.replica(event)
        voters = replica.sets.in_force
        if event["to"] not in ("prospective", "candidate", "leader") or not replica.known:
            return
        if not voters:
            return
        self.checked += 1
        if not holds(voters, replica.key):
            yield self._anomaly(
                f"{replica.id} became {event['to']} in epoch {event['ep']} ({label(event)}), but"
                f" the voters in its log are {told(voters)}",
                event,
                epoch=event["ep"],
            )
