"""Invariants of snapshots: what one may cover, what a log begins with, what an install leaves.

Source: KIP-630; SnapshotAtLogStart of Kafka's own simulation tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

from checkers.replay.invariant import FinalLogs, Invariant
from checkers.replay.trace import Event, ReplicaId, label, snapshots_of
from checkers.replay.voter_sets import NEVER, VoterKeys, difference, keys_of, told
from checkers.replay.world import Replica, World
from harness.contracts.checker import RunData
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

SnapshotId = tuple[int, int]

_InForce = tuple[int, VoterKeys]  # a voter set, and its offset
NO_IMAGES: Final[Mapping[int, str]] = MappingProxyType({})
IMAGES_KEPT: Final = 8  # digests, of each node


class _Had(NamedTuple):
    """Holds the voters where a node's snapshot ends, and the digests of its images up to there."""

    voters: _InForce | None = None
    images: Mapping[int, str] = NO_IMAGES  # the last ones, by offset


class SnapshotValidity(Invariant):
    """S22: a snapshot covers committed whole batches, names the voters of its end, and is unique.

    Its epoch is that of the last record covered; the same id has the same bytes and the same
    kraft.version on all nodes.
    """

    name: ClassVar[str] = "S22"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="snapshot validity",
        promise=(
            "A snapshot covers whole, committed batches up to the offset in its name and carries "
            "the voters in force there. Snapshots of the same name are equal on all nodes. Each "
            "that a node makes is newer than those before."
        ),
        why=(
            "A new broker, or one that is far behind, starts from a snapshot. A wrong one gives it "
            "wrong metadata, or voters among which it never finds the leader."
        ),
        source="KIP-630; KIP-853 (voters in snapshots); KAFKA-14618",
    )
    listens: ClassVar[tuple[str, ...]] = ("snap", "image")

    def __init__(self) -> None:
        super().__init__()
        # By id and field: who told of it first, and what that node had there, if it made it.
        self._first: dict[SnapshotId, dict[str, tuple[Event, _Had]]] = {}
        # Of nodes that tell of images: the last ones by offset, and snapshots whose image is due.
        self._images: dict[int, dict[int, str]] = {}
        self._made: dict[int, list[tuple[Event, _InForce | None]]] = {}

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Look at a snapshot that came into being."""
        node = event["node"]
        if event["t"] == "image":
            images = self._images.setdefault(node, {})
            images[event["off"]] = event["digest"]
            if len(images) > IMAGES_KEPT:
                del images[next(iter(images))]
            yield from self._settle(node, lambda made: made["id"][0] <= event["off"])
            return
        if event["op"] not in ("freeze", "install"):
            return
        self.checked += 1
        yield from self._settle(node, lambda made: made["ts"] < event["ts"])
        replica = world.replica(event)
        if event["op"] != "freeze" or not replica.known:
            yield from self._unique(event, _Had(images=self._seen(event)))
            return
        id_ = event["id"][0], event["id"][1]
        self._made.setdefault(node, []).append((event, replica.sets.entry_at(id_[0])))
        if node not in self._images:
            yield from self._settle(node)
        yield from self._covers(id_, replica, event)
        yield from self._voters(id_, replica, event)

    def finish(self, logs: FinalLogs, world: World) -> Iterator[Anomaly]:
        """Look at the snapshots whose images nobody has told of."""
        del logs, world
        for node in list(self._made):
            yield from self._settle(node)

    def _settle(
        self, node: int, is_due: Callable[[Event], bool] = lambda _: True
    ) -> Iterator[Anomaly]:
        """Compare the node's snapshots with others of their names, if that is still to be done.

        A node tells of a snapshot's image after the snapshot; where it makes several at once, after
        the last of them.
        """
        made = self._made.pop(node, [])
        self._made[node] = [each for each in made if not is_due(each[0])]
        for event, voters in made:
            if is_due(event):
                yield from self._unique(event, _Had(voters, self._seen(event)))

    def _seen(self, event: Event) -> dict[int, str]:
        """Give the digests of the node's last images up to where a snapshot of it ends."""
        images, end = self._images.get(event["node"], {}), event["id"][0]
        return {offset: digest for offset, digest in images.items() if offset <= end}

    def _unique(self, event: Event, had: _Had) -> Iterator[Anomaly]:
        id_ = event["id"][0], event["id"][1]
        seen = self._first.setdefault(id_, {})
        for field in ("sha", "size", "kv"):
            value = event.get(field)
            if value is None:
                continue
            first, other = seen.setdefault(field, (event, had))
            if first[field] != value and self._once((id_, field)):
                why = f"{_by_voters(other.voters, had.voters)}{_by_images(other, had)}"
                yield self._anomaly(
                    f"snapshot {_named(id_)} has {field} {first[field]} at {label(first)}"
                    f" and {value} at {label(event)}{why}",
                    first,
                    event,
                    id=list(id_),
                )

    def _covers(self, id_: SnapshotId, replica: Replica, event: Event) -> Iterator[Anomaly]:
        end, epoch = id_
        if replica.hwm is None or end > replica.hwm:
            yield self._anomaly(
                f"{replica.id} froze snapshot {_named(id_)} at high watermark {replica.hwm}"
                f" ({label(event)})",
                event,
                id=list(id_),
                hwm=replica.hwm,
            )
        last = replica.log.at(end - 1)
        if last is None:
            return
        if last.last != end - 1:
            yield self._anomaly(
                f"snapshot {_named(id_)} of {replica.id} ends inside of {last} ({label(event)})",
                event,
                id=list(id_),
            )
        if last.epoch != epoch:
            yield self._anomaly(
                f"snapshot {_named(id_)} of {replica.id} says epoch {epoch}, but its last record"
                f" is in {last} ({label(event)})",
                event,
                id=list(id_),
            )

    def _voters(self, id_: SnapshotId, replica: Replica, event: Event) -> Iterator[Anomaly]:
        keys, in_force = keys_of(event.get("voters")), replica.sets.at(id_[0])
        if keys is not None and in_force and difference(keys, in_force):
            yield self._anomaly(
                f"snapshot {_named(id_)} of {replica.id} names the voters {told(keys)}, but"
                f" {told(in_force)} were in force at its end ({label(event)})",
                event,
                id=list(id_),
            )


def _by_images(one: _Had, other: _Had) -> str:
    """Say that the images differ from which the snapshots were made, which C8 judges.

    A node that ends just after its snapshot does not tell of that image, but of those before.
    """
    both = max(one.images.keys() & other.images.keys(), default=None)
    if both is None or one.images[both] == other.images[both]:
        return ""
    return ", as the images do that they are of"


def _by_voters(one: _InForce | None, other: _InForce | None) -> str:
    """Say how the voters differ that two nodes went by where a snapshot ends; "": they do not.

    Sets of the same voters at other offsets may have them at other addresses.
    """
    if one is None or other is None:
        return ""
    elsewhere = one[0] != other[0] and NEVER not in (one[0], other[0])
    if not elsewhere and not difference(one[1], other[1]):
        return ""
    return ", whose voters there are " + " and ".join(
        f"{told(keys)} of offset {offset}" for offset, keys in (one, other)
    )


class SnapshotAtLogStart(Invariant):
    """S23: a log that does not begin at 0 begins where a complete snapshot ends.

    One that a process finds may begin below that: with the file that has the records there. Kafka
    does not keep on disk where within its first file a log begins.
    """

    name: ClassVar[str] = "S23"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="snapshot at log start",
        promise=(
            "A log that does not begin at offset 0 begins exactly where a complete, readable "
            "snapshot ends. After a restart it may begin below that. The newest snapshot stays; an "
            "older one goes only when it is older, or all are larger, than the settings allow."
        ),
        why=(
            "What was deleted of the log is in the snapshot only. Without it the node cannot "
            "start, or it starts with a hole in its metadata."
        ),
        source=(
            "KIP-630; RaftEventSimulationTest (SnapshotAtLogStart); KAFKA-14238; KAFKA-14240; "
            "KAFKA-15312"
        ),
    )
    listens: ClassVar[tuple[str, ...]] = ("lstart", "start")

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Look for the snapshot of a log's beginning."""
        replica = world.replica(event)
        if event["t"] == "start":
            start: int = event["log_start"]
            if "snaps" not in event:
                return
            found = snapshots_of(event)
        else:
            start, found = event["v"], replica.snapshots
            if not replica.known:
                return
        if start <= 0:
            return
        self.checked += 1
        is_covered = event["t"] == "start" and any(end > start for end in found)
        if start not in found and not is_covered:
            there = ", ".join(_named(id_) for id_ in sorted(found.items())) or "none"
            yield self._anomaly(
                f"the log of {replica.id} begins at {start} without a snapshot that ends there"
                f" ({label(event)}); its snapshots: {there}",
                event,
                log_start=start,
                snapshots=sorted(found),
            )


def judge_stored(run: RunData) -> tuple[list[Anomaly], int]:
    """S23 on the disks after a run: what is wrong with the snapshots, how many were looked at."""
    found: list[Anomaly] = []
    for node, snapshots in sorted(run.snapshots.items()):
        found += [
            Anomaly(
                SnapshotAtLogStart.name,
                f"snapshot {_named((s.end, s.epoch))} on {node}'s disk is not whole: {s.error}",
                details={"node": node, "id": [s.end, s.epoch]},
            )
            for s in snapshots
            if s.error is not None
        ]
        log = run.logs.get(node, ())
        start = log[0].base if log else 0
        if start > 0 and not any(s.end >= start for s in snapshots if s.error is None):
            found.append(
                Anomaly(
                    SnapshotAtLogStart.name,
                    f"the final log of {node} begins at {start}, and no snapshot on its disk has"
                    " what was before",
                    details={"node": node, "log_start": start},
                )
            )
    return found, sum(map(len, run.snapshots.values()))


class SnapshotInstall(Invariant):
    """S24: an installed snapshot is ahead of the log, takes nothing committed, and begins it anew.

    It ends above the log end, or its epoch is later than the log's; the log begins at its end.
    """

    name: ClassVar[str] = "S24"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="snapshot install",
        promise=(
            "A node takes a snapshot of the leader only when it is ahead of the node's own log. "
            "The log then begins anew where the snapshot ends, and nothing committed is lost."
        ),
        why=(
            "Old records that stay in the log contradict those that follow the snapshot: the node "
            "never catches up, or it serves metadata that the cluster has dropped."
        ),
        source="KIP-630 (FetchSnapshot); Raft paper, 7; hashicorp/raft #697",
    )
    listens: ClassVar[tuple[str, ...]] = ("snap", "lstart", "append", "fetch_tx")

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[ReplicaId, tuple[int, Event]] = {}  # installs whose log start is due

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare an install with the log before it, and with what the replica says after it."""
        replica = world.here
        if event["t"] != "snap":
            is_due = self._open and replica.id in self._open
            return self._after(event, replica) if is_due else ()
        if event["op"] == "install":
            self._open[replica.id] = replica.incarnation, event
            return self._install(event, replica)
        return ()

    def _install(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        end, epoch = event["id"]
        self.checked += 1
        if not replica.known:
            return
        if replica.hwm is not None and end < replica.hwm:
            yield self._anomaly(
                f"{replica.id} installed snapshot {_named((end, epoch))} below its high watermark"
                f" {replica.hwm} ({label(event)})",
                event,
                id=[end, epoch],
                hwm=replica.hwm,
            )
        tail = replica.log.tail
        if tail is not None and end <= tail.last + 1 and epoch <= tail.epoch:
            yield self._anomaly(
                f"{replica.id} installed snapshot {_named((end, epoch))}, but its log ended with"
                f" {tail} ({label(event)})",
                event,
                id=[end, epoch],
            )

    def _after(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        incarnation, install = self._open.pop(replica.id)
        if incarnation != replica.incarnation or not replica.known:
            return
        end = install["id"][0]
        if event["t"] == "lstart":
            self._open[replica.id] = incarnation, install  # and the log ends there too
        begins = {"lstart": "v", "append": "base", "fetch_tx": "off"}[event["t"]]
        if event[begins] != end:
            yield self._anomaly(
                f"{replica.id} installed a snapshot that ends at {end} ({label(install)}), but"
                f" went on at {event[begins]} ({label(event)})",
                install,
                event,
                end=end,
            )


def _named(id_: SnapshotId) -> str:
    """A snapshot in a sentence, as in its file's name."""
    return f"{id_[0]}-{id_[1]}"
