"""Invariants of elections: one leader, one vote, votes on disk, epochs that only rise.

Source: KIP-595, KIP-853, KIP-996; ElectionSafety of the KRaft TLA+ specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import ClassVar

from checkers.replay.invariant import FinalLogs, Invariant
from checkers.replay.trace import VOTE_LOST, Event, ReplicaId, label, replica_of
from checkers.replay.world import Batch, Persisted, Replica, World, persisted, same_directory
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class ElectionSafety(Invariant):
    """S1: in each epoch at most one replica leads, and all who name a leader name the same."""

    name: ClassVar[str] = "S1"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="election safety",
        promise=(
            "Each epoch has at most one leader, and all nodes that name the leader of an epoch "
            "name the same node."
        ),
        why=(
            "Two leaders of one epoch both accept writes at the same offsets. Topics, ACLs and "
            "configs that one of them acknowledged vanish when the log of the other one wins."
        ),
        source="KIP-595; Raft paper, 5.2 (Election Safety); RaftEventSimulationTest (SingleLeader)",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "role", "qs", "elected", "append")

    def __init__(self) -> None:
        super().__init__()
        self._leads: dict[int, tuple[ReplicaId, Event]] = {}
        self._named: dict[int, tuple[int, Event]] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Collect who leads and who is said to lead."""
        kind = event["t"]
        if kind == "append":
            if event["src"] != "leader":
                return ()
            first = self._leads.get(event["bep"])
            is_known = first is not None and first[0] == world.here.id
            return () if is_known else self._leading(event["bep"], event)
        if kind == "elected" or (kind == "role" and event["to"] == "leader"):
            return self._leading(event["ep"], event)
        fields = event["qs"] if kind == "start" else event
        leader, epoch = fields.get("leader"), fields.get("ep")
        if isinstance(leader, int) and isinstance(epoch, int):
            return self._naming(epoch, leader, event)
        return ()

    def _leading(self, epoch: int, event: Event) -> Iterator[Anomaly]:
        replica = replica_of(event)
        first = self._leads.get(epoch)
        if first is None:
            self.checked += 1
            self._leads[epoch] = replica, event
            yield from self._naming(epoch, replica.node, event)
        elif first[0] != replica and self._once((epoch, first[0], replica)):
            other, seen = first
            yield self._anomaly(
                f"epoch {epoch} has two leaders: {other} ({label(seen)}, dir {other.directory})"
                f" and {replica} ({label(event)}, dir {replica.directory})",
                seen,
                event,
                epoch=epoch,
                leaders=[other.node, replica.node],
            )

    def _naming(self, epoch: int, leader: int, event: Event) -> Iterator[Anomaly]:
        first = self._named.get(epoch)
        if first is None:
            self._named[epoch] = leader, event
        elif first[0] != leader and self._once((epoch, leader)):
            yield self._anomaly(
                f"epoch {epoch} has two leaders: {label(first[1])} names n{first[0]}"
                f" and {label(event)} names n{leader}",
                first[1],
                event,
                epoch=epoch,
                leaders=[first[0], leader],
            )


class OneVote(Invariant):
    """S2: in each epoch a replica votes for one candidate only, over all its incarnations.

    But for one whose disk was made to forget its vote.
    """

    name: ClassVar[str] = "S2"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="one vote per epoch",
        promise=(
            "A controller gives its vote in an epoch to one candidate only, also when it restarts "
            "in between."
        ),
        why=(
            "A voter that votes twice lets two candidates win the same epoch, each with a "
            "majority. Then two controllers act at once (S1), and acknowledged metadata is lost."
        ),
        source="KIP-595 (Vote); Raft paper, 5.2; QuorumState",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "disk", "vote", "qs", "role")

    def __init__(self) -> None:
        super().__init__()
        self._votes: dict[tuple[ReplicaId, int], tuple[int, str | None, Event]] = {}

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Compare every vote given or recorded with the first one of that epoch."""
        del world
        voter = replica_of(event)
        if event["t"] == "disk":
            if event["what"] in VOTE_LOST:
                self._votes = {key: v for key, v in self._votes.items() if key[0] != voter}
            return
        vote = _vote_in(event)
        if vote is None:
            return
        epoch, candidate, directory = vote
        first = self._votes.get((voter, epoch))
        if first is None:
            self.checked += 1
            self._votes[voter, epoch] = candidate, directory, event
            return
        same = first[0] == candidate and same_directory(first[1], directory)
        if not same and self._once((voter, epoch, candidate, directory)):
            yield self._anomaly(
                f"{voter} voted twice in epoch {epoch}: for n{first[0]} ({label(first[2])})"
                f" and for n{candidate} ({label(event)})",
                first[2],
                event,
                epoch=epoch,
                voter=voter.node,
                candidates=[first[0], candidate],
            )


def _vote_in(event: Event) -> tuple[int, int, str | None] | None:
    """(epoch, candidate, its directory) of the vote that an event shows, if it shows one."""
    kind = event["t"]
    if kind == "vote":
        if event["pre"] or not event["ok"]:
            return None
        return event["ep"], event["cand"], event.get("cand_dir")
    if kind == "role":
        return (event["ep"], event["node"], event["dir"]) if event["to"] == "candidate" else None
    state = event["qs"] if kind == "start" else event
    epoch, voted = state.get("ep"), state.get("voted")
    if isinstance(epoch, int) and isinstance(voted, int):
        return epoch, voted, state.get("voted_dir")
    return None


class VoteDurability(Invariant):
    """S3: a vote is on disk before anyone hears of it, and a restart never finds an older state."""

    name: ClassVar[str] = "S3"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="vote durability",
        promise=(
            "A vote is on the voter's disk before any other node hears of it, and it is still "
            "there after a restart."
        ),
        why=(
            "A voter that forgets its vote in a crash votes again in the same epoch. One power cut "
            "during an election is then enough for two leaders (S1)."
        ),
        source="KIP-595 (quorum-state); Raft paper, figure 2; FileQuorumStateStore; KAFKA-15412",
    )
    listens: ClassVar[tuple[str, ...]] = ("start", "vote", "votereq")
    uses: ClassVar[tuple[str, ...]] = ("qs",)

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare what is told, or found at a start, with what was last written."""
        replica = world.replica(event)
        if event["t"] == "start":
            return self._restart(event, replica.quorum)
        if not replica.known or event["pre"] or not event.get("ok", True):
            return ()
        if event["t"] == "votereq":
            if not self._once((replica.id, replica.incarnation, event["ep"])):
                return ()
            return self._told(event, replica.quorum, event["node"], event["dir"])
        return self._told(event, replica.quorum, event["cand"], event.get("cand_dir"))

    def _told(
        self, event: Event, disk: Persisted | None, candidate: int, directory: str | None
    ) -> Iterator[Anomaly]:
        self.checked += 1
        if disk is not None and disk.epoch == event["ep"] and disk.names(candidate, directory):
            return
        what = "asked for votes" if event["t"] == "votereq" else f"voted for n{candidate}"
        found = "nothing" if disk is None else str(disk)
        yield self._anomaly(
            f"n{event['node']} {what} in epoch {event['ep']} before that vote was on its disk"
            f" ({label(event)}); the disk had {found}",
            event,
            epoch=event["ep"],
            candidate=candidate,
        )

    def _restart(self, event: Event, written: Persisted | None) -> Iterator[Anomaly]:
        epoch = event["qs"].get("ep")
        if written is None or not isinstance(epoch, int):
            return
        self.checked += 1
        found = persisted(epoch, event["qs"])
        lost = _lost(event["node"], written, found)
        if lost:
            leads = found.leader if lost == "vote" and found.voted is None else None
            then = "" if leads is None else f", now that it follows n{leads}"
            yield self._anomaly(
                f"n{event['node']} forgot its {lost} at a restart ({label(event)}):"
                f" it had written {written}, and started from {found}{then}",
                event,
                epoch=written.epoch,
                written=written._asdict(),
                found=found._asdict(),
            )


def _lost(node: int, written: Persisted, found: Persisted) -> str | None:
    """Tell what a start from ``found`` forgot of ``written``; a newer state forgets nothing.

    A candidate that wins replaces its vote for itself on disk by itself as the leader.
    """
    if found.epoch != written.epoch:
        return "epoch" if found.epoch < written.epoch else None
    if written.voted is not None and not found.names(written.voted, written.voted_dir):
        won = found.voted is None and written.gives_way(node, found.leader)
        return None if won else "vote"
    if written.leader is not None and found.leader != written.leader:
        return "leader"
    return None


class MonotonicEpoch(Invariant):
    """S4: a replica's epoch never falls, nor do the epochs of the batches in its log.

    But for one whose disk was made to forget its epoch.
    """

    name: ClassVar[str] = "S4"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="monotone epochs",
        promise=(
            "The epoch of a node never falls, not at a restart either, and the epochs of the "
            "batches in a log rise with the offset."
        ),
        why=(
            "Nodes recognise an old leader by its epoch. A node whose epoch falls obeys a leader "
            "that the others have replaced, and takes its old records for new ones."
        ),
        source="KIP-595; Raft paper, 5.1; RaftEventSimulationTest (MonotonicEpoch)",
    )
    listens: ClassVar[tuple[str, ...]] = ("disk", "qs", "role", "append")

    def __init__(self) -> None:
        super().__init__()
        self._highest: dict[ReplicaId, tuple[int, Event]] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare with the highest epoch so far, or with the batch before."""
        if event["t"] == "disk":
            if event["what"] in VOTE_LOST:
                self._highest.pop(replica_of(event), None)
            return ()
        self.checked += 1
        return self._batch(event, world) if event["t"] == "append" else self._state(event)

    def _state(self, event: Event) -> Iterator[Anomaly]:
        replica, epoch = replica_of(event), event["ep"]
        highest = self._highest.get(replica)
        if highest is None or epoch >= highest[0]:
            self._highest[replica] = epoch, event
        elif self._once((replica, highest[0], epoch)):
            yield self._anomaly(
                f"the epoch of {replica} fell from {highest[0]} ({label(highest[1])})"
                f" to {epoch} ({label(event)})",
                highest[1],
                event,
                epochs=[highest[0], epoch],
            )

    def _batch(self, event: Event, world: World) -> Iterable[Anomaly]:
        replica, batch = world.here, world.appended(event)
        tail = replica.log.tail if replica.known else None
        if batch.epoch > event["ep"] or (tail is not None and tail.epoch > batch.epoch):
            return self._misplaced(event, replica, batch)
        return ()

    def _misplaced(self, event: Event, replica: Replica, batch: Batch) -> Iterator[Anomaly]:
        if batch.epoch > event["ep"]:
            yield self._anomaly(
                f"{replica.id} is in epoch {event['ep']} and appended {batch} ({label(event)})",
                event,
            )
        tail = replica.log.tail if replica.known else None
        if tail is not None and tail.base < batch.base and tail.epoch > batch.epoch:
            yield self._anomaly(
                f"{replica.id} appended {batch} behind {tail}, of a later epoch ({label(event)})",
                event,
            )

    def finish(self, logs: FinalLogs, world: World) -> Iterator[Anomaly]:
        """Epochs in each final log rise with the offset."""
        del world
        for node, log in sorted(logs.items()):
            for before, after in pairwise(log):
                self.checked += 1
                if after.epoch < before.epoch:
                    yield self._anomaly(
                        f"the final log of {node} has epoch {after.epoch} at offset {after.base}"
                        f" behind epoch {before.epoch}",
                        node=node,
                        offset=after.base,
                    )
