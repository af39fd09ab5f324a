"""Judges from both sides what a node starts from: by the disk, and by what can have been written.

A process may die between writing and telling, so what it finds may be newer than what was told. But
then somebody else has told why it could be written: a candidate asked for that vote, a leader of
that epoch appended that batch. Source: KIP-595 (quorum-state, recovery); etcd #14143.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from checkers.invariants.disk_claims import QUORUM_STATE, same_election, told_of
from checkers.invariants.recovery import Recovery
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.world import Batch, Left, Replica, World, persisted
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

HOLE: Final = ", where it had cut its log: what it found behind that leaves a hole"


class TruthfulStart(Invariant):
    """S37: a node starts from the election state on its disk, which it can have written.

    An epoch that nobody has entered, a leader that nobody elected and a vote that nobody asked for
    cannot have been.
    """

    name: ClassVar[str] = "S37"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="truthful starts",
        promise=(
            "A node starts from the epoch, leader and vote that are on its disk, and these were "
            "true once: no vote that was never asked for, no leader that was never elected, no "
            "epoch that was never entered."
        ),
        why=(
            "A vote that a node believes to have given keeps it from the one that it should give, "
            "or is counted twice. An epoch that nobody entered disturbs a healthy quorum."
        ),
        source="KIP-595 (quorum-state); Kafka's QuorumState.initialize; KAFKA-15412",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "durable", "votereq", "elected", "role", "qs")

    def __init__(self) -> None:
        super().__init__()
        self._entered: set[int] = set()  # epochs that somebody has told of
        self._asked: dict[int, set[int]] = defaultdict(set)  # the candidates of each epoch
        self._led: dict[int, set[int]] = defaultdict(set)  # the leaders of each epoch

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Note who stood and who won, or judge a start."""
        kind, epoch = event["t"], event.get("ep")
        if kind == "start":
            return self._possible(event, world.here) if world.whole else ()
        if kind == "durable":
            return self._found(event, world.here)
        if kind == "votereq":
            if not event["pre"]:
                self._asked[event["ep"]].add(event["node"])
        elif kind == "elected" or event.get("to") == "leader":
            self._led[event["ep"]].add(event["node"])
        elif kind == "role" and event["to"] == "candidate":
            self._asked[event["ep"]].add(event["node"])
        elif kind == "qs" and isinstance(epoch, int):
            self._entered.add(epoch)
            if event.get("voted") == event["node"]:
                self._asked[epoch].add(event["node"])
        return ()

    def _found(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        """Compare what the process has said with what a restart finds, as soon as all is told."""
        said = replica.quorum
        if replica.durable is not None or said is None or not replica.known:
            return
        self.checked += 1
        left = replica.files.get(QUORUM_STATE, Left((None,), torn=False))
        fields = {**said._asdict(), "ep": said.epoch}
        nothing = said == (0, None, None, None)
        # a process that was killed as it wrote leaves two contents that a loss of power may choose
        right = any(same_election(state, fields) for state in left.may)
        if not right and not (nothing and left.may == (None,)):
            yield self._anomaly(
                f"{replica.id} started from {said}, and its {QUORUM_STATE} has"
                f" {told_of(left.may[0])} ({label(event)})",
                event,
                epoch=said.epoch,
            )

    def _possible(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        """Tell what in a state that the node has not told cannot have been."""
        last, found = replica.quorum, event["qs"]
        epoch, leader, voted = found.get("ep"), found.get("leader"), found.get("voted")
        if not isinstance(epoch, int):
            return
        before = last or persisted(0, {})
        told = before.epoch, before.leader, before.voted
        if (epoch, leader, voted) == told:
            return
        self.checked += 1
        node, same = replica.id.node, epoch == before.epoch
        # what a process did just before it died, and could not tell of any more
        stood = voted == node and epoch in (before.epoch, before.epoch + 1)
        won = leader == node and same and before.voted == node
        # a leader that resigned, and heard of no other, goes on to the next epoch by itself
        gone_on = before.leader == node and epoch == before.epoch + 1
        news_of_leader = leader is not None and not (same and leader == before.leader)
        news_of_vote = voted is not None and not (same and voted == before.voted)
        wrong = None
        heard = epoch in self._entered or self._asked.get(epoch) or self._led.get(epoch)
        if not (heard or stood or gone_on or same):
            wrong = f"epoch {epoch}, which nobody has entered"
        elif news_of_leader and leader not in self._led.get(epoch, ()) and not won:
            wrong = f"n{leader} as the leader of epoch {epoch}, which nobody has elected"
        elif news_of_vote and voted not in self._asked.get(epoch, ()) and not stood:
            wrong = f"a vote for n{voted} in epoch {epoch}, for which it never asked"
        if wrong is not None:
            yield self._anomaly(
                f"{replica.id} started from {wrong} ({label(event)}): it had told of"
                f" {'nothing' if last is None else last}",
                event,
                epoch=epoch,
            )
            return
        self._entered.add(epoch)  # and others may hear of all this from now on
        if stood:
            self._asked[epoch].add(node)
        if won:
            self._led[epoch].add(node)


class RecoveryAddsNothing(Invariant):
    """S25: a start finds no batch that was never written, and none that had been cut.

    A batch that the node has not told of is one that a leader of its epoch has appended. A cut is
    told before it is made: one that is a process's last word may have failed, and killed it.
    """

    name: ClassVar[str] = Recovery.name
    meaning: ClassVar[Meaning] = Recovery.meaning
    listens: ClassVar[tuple[str, ...]] = ("start", "durable", "append", "trunc", "snap", "disk")

    def __init__(self) -> None:
        super().__init__()
        self._led: set[Batch] = set()  # that leaders have appended
        self._cut: dict[ReplicaId, dict[Batch, Event]] = defaultdict(dict)  # not written since

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Note what is written and cut, or judge what a start finds."""
        kind, replica = event["t"], world.here
        if kind == "append":
            batch = world.appended(event)
            if event["src"] == "leader":
                self._led.add(batch)
            if self._cut:
                self._cut.get(replica.id, {}).pop(batch, None)
            return ()
        if kind == "durable":
            first = replica.durable is None and replica.known and replica.log.end is not None
            return self._start(event, replica, world) if first else ()
        if kind == "disk":
            self._cut.pop(replica.id, None)
        elif kind == "start":
            cut = self._cut.pop(replica.id, {})
            self._cut[replica.id] = {b: by for b, by in cut.items() if by is not replica.told}
        elif kind == "trunc" or event["op"] == "install":
            low = event["to"] if kind == "trunc" else event["id"][0]
            for batch in replica.log.between(low, (replica.log.end or 0) + 1):
                self._cut[replica.id][batch] = event
        return ()

    def _start(self, event: Event, replica: Replica, world: World) -> Iterator[Anomaly]:
        """Look at the log as the process has found it; the event is the first of its kind.

        It may end behind what is durable, where a process died before its fsync, as long as the
        node does not say that this is flushed: what it then fetches by is judged by S16.
        """
        log, upto = replica.log, event["upto"]
        self.checked += 1
        if log.flushed > upto or (log.end is not None and upto > log.end):
            yield self._anomaly(
                f"{replica.id} started with a log up to {log.end}, {log.flushed} of it flushed;"
                f" its disk has it up to {upto} ({label(event)}){self._hole(upto, replica)}",
                event,
                offset=upto,
            )
        yield from self._found(event, replica, world)

    def _hole(self, upto: int, replica: Replica) -> str:
        """Say where a cut was taken back but for its first batch, as of segments it removed."""
        cut = self._cut.get(replica.id, ())
        return HOLE if any(batch.base == upto for batch in cut) else ""

    def _found(self, event: Event, replica: Replica, world: World) -> Iterator[Anomaly]:
        if not world.whole:
            return
        log, cut = replica.log, self._cut.get(replica.id, {})
        for batch in (Batch(*each) for each in event["batches"]):
            self.checked += 1
            if log.at(batch.base) == batch:
                continue
            if batch in cut and not self._came_again(batch, replica, world):
                yield self._anomaly(
                    f"{replica.id} found {batch} on its disk ({label(event)}), which it had cut"
                    f" ({label(cut[batch])})",
                    cut[batch],
                    event,
                    offset=batch.base,
                )
                return
            if batch not in self._led and not self._own(batch, replica):
                yield self._anomaly(
                    f"{replica.id} found {batch} on its disk ({label(event)}), which no leader has"
                    " ever written",
                    event,
                    offset=batch.base,
                )
                return

    def _own(self, batch: Batch, replica: Replica) -> bool:
        """Tell whether the node may have written it itself, and died before it told."""
        if batch.epoch in replica.epoch_starts:
            return True
        left = replica.files.get(QUORUM_STATE)
        states = () if left is None else left.may
        return any(
            state is not None
            and state.get("ep") == batch.epoch
            and state.get("leader") == replica.id.node
            for state in states
        )

    def _came_again(self, batch: Batch, replica: Replica, world: World) -> bool:
        """Tell whether a later leader has the batch, too, and may have sent it once more."""
        return any(
            other is not replica
            and other.log.at(batch.base) == batch
            and any(epoch > batch.epoch for epoch in other.epoch_starts)
            for other in world.replicas.values()
        )
