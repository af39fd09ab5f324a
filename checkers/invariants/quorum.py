"""Invariants of check quorum: who keeps a leader in its role, and that it goes without them.

Source: KAFKA-15489, KAFKA-16144, KAFKA-16531; KIP-853 (replicas are counted by their keys).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from checkers.invariants.membership import Identity
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, ReplicaId, label
from checkers.replay.voter_sets import VoterKey, VoterKeys, holds, key_of, keys_of, told
from checkers.replay.world import Replica, World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

MS = 1_000_000
EARLY = 4  # a fourth of the time: a Fetch counts from when it is read, and is stamped when answered
JUST = 3  # a third of the time: no clock of a fault's runs three times as fast
SLACK_MS = 1000  # between a clock that is read and an event that is stamped, on a busy host
GRACE_MS = 2000  # between being overdue and doing something about it
SIGNS_MIN = 5  # that it still leads, so that one slow step is not taken for a reign
NEVER_NS = -1
_Fetched = tuple[int, int]  # when it did, and when it did as a voter, in ns of the leader's clock


def fetcher_of(event: Event, world: World) -> VoterKey | None:
    """Name the sender of a valid Fetch or FetchSnapshot that a leader accepted, else None."""
    match event["t"]:
        case "fetch_rx":
            return asker_of(event, world) if event["res"] == "ok" else None
        case "rpc_ok":
            return asker_of(event, world) if event["api"] == "FetchSnapshot" else None
        case _:
            return None


def keeper_of(event: Event, world: World) -> VoterKey | None:
    """Name the sender of a request that keeps a leader in its role, if it accepted it, else None.

    Beside fetches it is UpdateRaftVoter, in the place of which a follower does not fetch. Source:
    Kafka's ``UpdateVoterHandler``.
    """
    if event["t"] == "rpc_ok" and event["api"] == "UpdateVoter":
        return asker_of(event, world)
    return fetcher_of(event, world)


def asker_of(event: Event, world: World) -> VoterKey | None:
    """Do as ``asker``, once for all invariants that look at the event."""
    told_of, key = world.asker
    if told_of is not event:
        key = asker(event)
        world.asker = event, key
    return key


def asker(event: Event) -> VoterKey | None:
    """Name the sender of the request that a ``fetch_rx`` or ``rpc_ok`` event tells of."""
    who, where = ("from", "from_dir") if event["t"] == "fetch_rx" else ("peer", "peer_dir")
    return key_of((event.get(who), event.get(where)))


class QuorumCredit(Invariant):
    """S29: a leader's majority for check quorum is one of voters, who have fetched from it.

    Each as the very replica that the set names, since the last majority that the leader told of.
    That is by the order of events: a leader's clock may run fast or slow.
    """

    name: ClassVar[str] = "S29"
    meaning: ClassVar[Meaning] = Identity.meaning
    listens: ClassVar[tuple[str, ...]] = ("fetch_rx", "rpc_ok", "quorum", "elected", "start")

    def __init__(self) -> None:
        super().__init__()
        self._fetched: dict[ReplicaId, dict[VoterKey, _Fetched]] = {}
        self._majority_ns: dict[ReplicaId, int] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Collect fetches, and compare them with those that a leader counts."""
        replica, kind = world.here, event["t"]
        if kind in ("fetch_rx", "rpc_ok"):
            key = keeper_of(event, world)
            if key is not None:
                of_leader = self._fetched.setdefault(replica.id, {})
                _, as_voter = of_leader.get(key, (NEVER_NS, NEVER_NS))
                is_voter = holds(replica.sets.in_force, key)
                of_leader[key] = event["ts"], event["ts"] if is_voter else as_voter
        elif kind == "quorum":
            return self._quorum(event, replica) if event["ok"] and replica.known else ()
        else:
            self._fetched[replica.id] = {}
            self._majority_ns.pop(replica.id, None)
        return ()

    def _quorum(self, event: Event, replica: Replica) -> Iterator[Anomaly]:
        voters, heard = replica.sets.in_force, keys_of(event["heard"])
        if not voters or heard is None:
            return
        self.checked += 1
        who = f"{replica.id} counted {told(heard)} as those that keep it leader ({label(event)})"
        others = {key for key in heard if key.node != replica.id.node}
        needed, removed = _others_needed(voters, replica), False
        for key in heard:
            fetched = self._fetches(key, replica.id)
            if holds(voters, key):
                if not fetched:
                    yield self._anomaly(f"{who}, but {key} has not fetched", event, voter=key.node)
                continue
            others.discard(key)
            if any(fetched):
                removed = True
            else:
                yield self._anomaly(
                    f"{who}, but the voters are {told(voters)}", event, voter=key.node
                )
        if removed or len({key.node for key in others}) < needed:
            why = ", of whom some are voters no more" if removed else ""
            yield self._anomaly(
                f"{who}{why}, but of the voters {told(voters)} {needed} others make a majority",
                event,
            )
        self._majority_ns[replica.id] = event["ts"]

    def _fetches(self, key: VoterKey, leader: ReplicaId) -> list[bool]:
        """Tell who fetched under a key since the last majority, each whether as a voter."""
        began = self._majority_ns.get(leader, 0) - SLACK_MS * MS  # a Fetch that waits counts twice
        fetched = self._fetched.get(leader, {}).items()
        return [voter >= began for each, (at, voter) in fetched if each.fits(key) and at >= began]


def _others_needed(voters: VoterKeys, replica: Replica) -> int:
    return len(voters) // 2 + 1 - holds(voters, replica.key)


@dataclass(slots=True)
class Reign:
    """A leader, and what keeps it in its role.

    ``since`` is when the last majority had fetched; ``said`` when the leader last said so, or when
    its reign began.
    """

    limit_ns: int
    since: int
    said: int
    heard: set[int] = field(default_factory=set)
    fetched: dict[int, int] = field(default_factory=dict)  # when each voter last did
    is_lone: bool = False
    overdue: Event | None = None
    signs: int = 0  # that it leads, after it should have resigned


class StepDown(Invariant):
    """L4: a leader from which no majority fetches is none after one and a half fetch timeouts.

    And no earlier. A fetch counts if it is one of the voters in force.
    """

    name: ClassVar[str] = "L4"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="cut-off leader steps down",
        promise=(
            "A leader from which no majority fetches leads no more after one and a half fetch "
            "timeouts, and steps down no earlier."
        ),
        why=(
            "A leader that is cut off can commit nothing. Clients that still ask it hang, and what "
            "they read there is old, while the others have long elected a new one."
        ),
        source="Raft thesis, 6.2; LeaderState; KAFKA-15489; KAFKA-16144",
    )
    listens: ClassVar[tuple[str, ...]] = (
        *("start", "role", "elected", "voters", "quorum"),
        *("fetch_rx", "rpc_ok", "append", "hwm"),
    )
    timed: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._reigns: dict[ReplicaId, Reign] = {}

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Follow a reign, and look for signs of it when it should be over."""
        replica, kind = world.here, event["t"]
        if kind == "elected" and isinstance(event.get("quorum_ms"), int):
            lone, limit_ns = _is_lone(replica.sets.in_force, replica), event["quorum_ms"] * MS
            self._reigns[replica.id] = Reign(limit_ns, event["ts"], event["ts"], is_lone=lone)
        elif kind == "start" or (kind == "role" and event["to"] != "leader") or not replica.known:
            self._reigns.pop(replica.id, None)
        reign = self._reigns.get(replica.id)
        if reign is None:
            return ()
        if kind == "voters":
            self._follow(event, reign, replica)
        elif kind == "quorum":
            if not event["ok"]:
                return self._resigns(event, reign, replica)
            reign.said = event["ts"]
        elif kind in ("fetch_rx", "rpc_ok"):
            self._credit(event, reign, replica, keeper_of(event, world))
        self.checked += 1
        is_due = event["ts"] - reign.since > reign.limit_ns + SLACK_MS * MS
        return self._leads(event, reign, replica) if is_due and not reign.is_lone else ()

    def _follow(self, event: Event, reign: Reign, replica: Replica) -> None:
        voters = keys_of(event["set"]) or ()
        reign.heard &= {key.node for key in voters}
        was_lone, reign.is_lone = reign.is_lone, _is_lone(voters, replica)
        if was_lone:
            reign.since = event["ts"]

    def _credit(self, event: Event, reign: Reign, replica: Replica, key: VoterKey | None) -> None:
        voters = replica.sets.in_force
        if key is None or key.node == replica.id.node or not holds(voters, key):
            return
        reign.heard.add(key.node)
        if event["t"] == "fetch_rx":  # an UpdateVoter is told of when it has been answered
            reign.fetched[key.node] = event["ts"]
        if len(reign.heard) >= _others_needed(voters, replica):
            reign.heard.clear()
            reign.since, reign.overdue, reign.signs = event["ts"], None, 0

    def _resigns(self, event: Event, reign: Reign, replica: Replica) -> Iterator[Anomaly]:
        """Compare what the leader says of the last majority, and who has just fetched."""
        self.checked += 1
        since_ms, limit_ms = event.get("since_ms"), event.get("quorum_ms")
        is_early = not isinstance(limit_ms, int) or not isinstance(since_ms, int)
        if isinstance(limit_ms, int) and isinstance(since_ms, int):
            slack_ms = limit_ms // EARLY
            goes_right = abs((event["ts"] - reign.said) // MS - since_ms) < slack_ms
            ago_ms = _majority_ms(event["ts"], reign, replica)
            if goes_right and ago_ms is not None and ago_ms < limit_ms // JUST:
                since_ms = ago_ms
            is_early = since_ms < limit_ms - slack_ms
        if is_early:
            yield self._anomaly(
                f"n{event['node']} resigned for want of a majority ({label(event)}), which had"
                f" fetched {since_ms} ms before; that is to be after {limit_ms} ms",
                event,
                epoch=event["ep"],
            )

    def _leads(self, event: Event, reign: Reign, replica: Replica) -> Iterator[Anomaly]:
        now = event["ts"]
        reign.overdue = reign.overdue or event
        reign.signs += 1
        lasts = now - reign.overdue["ts"] > GRACE_MS * MS and reign.signs >= SIGNS_MIN
        if lasts and self._once((replica.id, event["ep"], reign.since)):
            yield self._anomaly(
                f"{replica.id} still leads epoch {event['ep']} ({label(event)}), though no majority"
                f" of the voters {told(replica.sets.in_force)} has fetched from it for"
                f" {(now - reign.since) / 1e9:.3f} s",
                reign.overdue,
                event,
                epoch=event["ep"],
            )


def _majority_ms(now_ns: int, reign: Reign, replica: Replica) -> int | None:
    """Give how long ago the last of a majority fetched that did so lately; None: there is none."""
    voters = {key.node for key in replica.sets.in_force} - {replica.id.node}
    times = sorted((at for node, at in reign.fetched.items() if node in voters), reverse=True)
    needed = _others_needed(replica.sets.in_force, replica)
    return (now_ns - times[needed - 1]) // MS if 0 < needed <= len(times) else None


def _is_lone(voters: VoterKeys, replica: Replica) -> bool:
    return len(voters) == 1 and holds(voters, replica.key)
