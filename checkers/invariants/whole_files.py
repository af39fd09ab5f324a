"""Judges the files that a node replaces as a whole by each content that a restart might find.

Only a simulated host tells of these (``left``). Source: KIP-595 and Kafka's FileQuorumStateStore,
which replace the file atomically; KIP-630 on snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, ClassVar

from checkers.invariants.disk_claims import QUORUM_STATE, same_election, told_of
from checkers.replay.invariant import Invariant
from checkers.replay.trace import VOTE_LOST, Event, ReplicaId, label
from checkers.replay.world import Replica, World, persisted
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

META = "meta.properties"


class WholeFiles(Invariant):
    """S36: at any moment a restart finds each file whole, and in a state that the node was in.

    The election state on disk is the one that the node told last, or the one that it tells next.
    Once the voters are in the log, with their directories (KIP-853), it holds that of a vote, too.
    """

    name: ClassVar[str] = "S36"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="whole files",
        promise=(
            "A file that is replaced as a whole (quorum-state, meta.properties, snapshots, "
            "checkpoints) is found whole after a loss of power at any moment, and in a state that "
            "the node was in."
        ),
        why=(
            "A node that starts from half of a file, or from a mixture of two states, votes again "
            "or for somebody it never chose. The window is one write wide, and one day it is hit."
        ),
        source=(
            "KIP-595 (quorum-state); FileQuorumStateStore; KIP-630; Pillai et al., All File "
            "Systems Are Not Created Equal, OSDI 2014"
        ),
    )
    listens: ClassVar[tuple[str, ...]] = ("left", "qs", "disk", "voters")

    def __init__(self) -> None:
        super().__init__()
        self._untold: dict[ReplicaId, list[Event]] = {}  # of election states, until ``qs`` tells
        self._meta: dict[ReplicaId, Mapping[str, Any]] = {}
        self._directories: set[ReplicaId] = set()  # replicas whose log has those of all voters

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Look at what a file may be found to hold."""
        replica = world.here
        if not replica.known:
            return ()
        if event["t"] == "voters":
            has_all = event["off"] is not None and all(key[1] for key in event["set"])
            (self._directories.add if has_all else self._directories.discard)(replica.id)
            return ()
        if event["t"] == "qs":
            return self._told(event, replica)
        if event["t"] == "disk":
            self._directories.discard(replica.id)  # the log may be an older one now
            if event["what"] in VOTE_LOST:
                self._meta.pop(replica.id, None)
            return ()
        return self._left(event, replica)

    def _left(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        self.checked += 1
        name, found = event["file"], [state for state in event["may"] if state is not None]
        bad = next((state["bad"] for state in found if "bad" in state), None)
        if event["torn"] or bad is not None:
            why = "half of a write" if bad is None else f"what no restart can read: {bad}"
            yield self._anomaly(
                f"a loss of power could leave in {name} of {replica.id} {why} ({label(event)})",
                event,
                file=name,
            )
        elif name == QUORUM_STATE:
            self._election(event, replica, found)
        elif name == META:
            yield from self._identity(event, replica, found)
        elif found and "epochs" in found[0]:
            yield from self._epochs(event, replica, found)

    def _election(self, event: Event, replica: Replica, found: list[Mapping[str, Any]]) -> None:
        """Keep what is not told yet; what a process finds when it begins is judged by S37."""
        if replica.durable is None:
            self._untold.pop(replica.id, None)
        elif any(not _is_last(state, replica) for state in found):
            self._untold.setdefault(replica.id, []).append(event)

    def _told(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        """Compare what the disk may have held since the last state with the one that is told."""
        last = replica.quorum
        for left in self._untold.pop(replica.id, ()):
            for state in left["may"]:
                self.checked += 1
                old = state is None or _is_last(state, replica)
                lacks = replica.id in self._directories and _lacks_directory(state, event)
                if not old and (lacks or not same_election(state, event)):
                    before = "nothing" if last is None else str(last)
                    without = " without the directory of whom it is for" if lacks else ""
                    yield self._anomaly(
                        f"a loss of power could leave in {QUORUM_STATE} of {replica.id}"
                        f" {told_of(state)}{without} ({label(left)}): it went from {before} to"
                        f" {persisted(event['ep'], event)}, and was never in that state",
                        left,
                        event,
                        epoch=event["ep"],
                    )
                    return

    def _identity(
        self, event: Event, replica: Replica, found: list[Mapping[str, Any]]
    ) -> Iterator[Anomaly]:
        for state in found:
            first = self._meta.setdefault(replica.id, state)
            if state != first:
                yield self._anomaly(
                    f"{META} of {replica.id} has become {dict(state)} ({label(event)}); it was"
                    f" {dict(first)}",
                    event,
                )
                return

    def _epochs(
        self, event: Event, replica: Replica, found: list[Mapping[str, Any]]
    ) -> Iterator[Anomaly]:
        for state in found:
            entries = [tuple(entry) for entry in state.get("epochs", ())]
            if any(a[0] >= b[0] or a[1] > b[1] for a, b in pairwise(entries)):
                yield self._anomaly(
                    f"the epochs in {event['file']} of {replica.id} do not rise: {entries}"
                    f" ({label(event)})",
                    event,
                )
                return


def _lacks_directory(state: Mapping[str, Any] | None, told: Event) -> bool:
    """Tell whether a file has a vote without its directory, which the node knows."""
    return state is not None and bool(told.get("voted_dir")) and not state.get("voted_dir")


def _is_last(state: Mapping[str, Any], replica: Replica) -> bool:
    """Tell whether it is the election state that the node told last."""
    last = replica.quorum
    return last is not None and same_election(state, {**last._asdict(), "ep": last.epoch})
