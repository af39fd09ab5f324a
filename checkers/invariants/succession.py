"""The order in which voters stand when a leader has resigned, so that they do not all do at once.

Source: KIP-595 "EndQuorumEpoch"; Kafka 4.1 ``KafkaRaftClient.endEpochElectionBackoff`` and
``LeaderState.nonLeaderVotersByDescendingFetchOffset``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import ClassVar, Final

from checkers.invariants.patience import Patience
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, label
from checkers.replay.voter_sets import VoterKey, VoterKeys, holds, keys_of
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

END: Final = "EndQuorumEpoch"


def wait_ms(place: int | None, voters: int, longest_ms: int) -> int:
    """Tell how long the voter at a place (0-based) in a list waits; at None = not in the list."""
    if place is None:
        return longest_ms
    if place == 0:
        return 0
    return min(longest_ms, (longest_ms >> (voters - 1)) << (place - 1))


class Succession(Invariant):
    """L9: a voter that is told of the end of a reign waits as its place among the successors says.

    The first stands at once, the others in doubling steps, whoever is not listed last of all. Where
    nobody is listed, as by a leader that has been started again, no order is asked for.
    """

    name: ClassVar[str] = "L9"
    meaning: ClassVar[Meaning] = Patience.meaning
    listens: ClassVar[tuple[str, ...]] = ("rpc_ok",)

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare how long it waits with how long it should."""
        del world
        if event["api"] != END:
            return ()
        preferred = keys_of(event.get("preferred"))
        waits, longest = event.get("wait_ms"), event.get("backoff_ms")
        if not preferred or not isinstance(waits, int) or not isinstance(longest, int):
            return ()
        return self._judge(event, preferred, waits, longest)

    def _judge(
        self, event: Event, preferred: VoterKeys, waits: int, longest_ms: int
    ) -> Iterator[Anomaly]:
        self.checked += 1
        place = _place(VoterKey(event["node"], event["dir"]), preferred)
        right = wait_ms(place, len(preferred), longest_ms)
        if waits != right:
            yield self._anomaly(
                f"n{event['node']} stands {waits} ms after the end of epoch {event['ep']}"
                f" ({label(event)}), and should after {right} ms: the order is"
                f" {', '.join(map(str, preferred))}",
                event,
                epoch=event["ep"],
                wait_ms=waits,
            )


def _place(own: VoterKey, preferred: Sequence[VoterKey]) -> int | None:
    return next((place for place, key in enumerate(preferred) if key.fits(own)), None)


class SuccessorOrder(Invariant):
    """L9: a leader that resigns names the voter first that has fetched furthest from it.

    It goes by the last Fetch of each voter that it accepted, and names voters last that have not
    fetched in its epoch.
    """

    name: ClassVar[str] = "L9"
    meaning: ClassVar[Meaning] = Patience.meaning
    listens: ClassVar[tuple[str, ...]] = ("elected", "fetch_rx", "role", "rpc_ok")

    def __init__(self) -> None:
        super().__init__()
        self._now: dict[int, _Fetched] = {}  # by leader
        self._then: dict[tuple[int, int], _Fetched] = {}  # when that leader of that epoch resigned

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Note who has fetched how far; compare the list with it where a voter is told of it."""
        kind, node = event["t"], event["node"]
        if kind == "elected":
            self._now[node] = _Fetched()
        elif kind == "fetch_rx":
            if event["res"] == "ok" and node in self._now:
                self._now[node].take(event)
        elif kind == "role":
            last = None if event["to"] == "leader" else self._now.pop(node, None)
            if last is not None and event["to"] == "resigned" and world.here.known:
                self._then[node, event["ep"]] = last
        elif event["api"] == END:
            fetched = self._then.get((event["peer"], event["req_ep"]))
            preferred = keys_of(event.get("preferred"))
            if fetched is not None and preferred:
                return self._judge(event, preferred, fetched)
        return ()

    def _judge(self, event: Event, preferred: VoterKeys, fetched: _Fetched) -> Iterator[Anomaly]:
        self.checked += 1
        for one, other in pairwise(preferred):
            near, far = fetched.end(one), fetched.end(other)
            if near < far and self._once((event["peer"], event["req_ep"])):
                yield self._anomaly(
                    f"n{event['peer']} named {one} before {other} as its successor in epoch"
                    f" {event['req_ep']} ({label(event)}), which had fetched"
                    f" {'nothing' if near < 0 else near} and {far} records",
                    event,
                    epoch=event["ep"],
                )


class OrderlyEnd(Invariant):
    """L9: a leader that is stopped in good order resigns before it ends.

    A lone voter has no successor; and a leader that is no voter any more may just end.
    """

    name: ClassVar[str] = "L9"
    meaning: ClassVar[Meaning] = Patience.meaning
    listens: ClassVar[tuple[str, ...]] = ("stop",)
    uses: ClassVar[tuple[str, ...]] = ("role", "elected", "voters")

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Look whether it still led when it ended."""
        replica, voters = world.here, world.here.sets.in_force
        if not replica.known or len(voters) == 1 or not holds(voters, replica.key):
            return ()
        self.checked += 1
        if replica.leads is None:
            return ()
        return [
            self._anomaly(
                f"n{event['node']} was stopped in good order while it led epoch {replica.leads}"
                f" ({label(event)}), and never resigned: its voters stand only when they miss it",
                event,
                epoch=replica.leads,
            )
        ]


class _Fetched:
    """How far each replica has fetched from a leader: the offset of its last Fetch."""

    def __init__(self) -> None:
        self._ends: dict[int, dict[str | None, int]] = {}  # by node and directory, the last last

    def take(self, event: Event) -> None:
        """Note a Fetch that was accepted."""
        ends = self._ends.setdefault(event["from"], {})
        directory = event.get("from_dir")
        ends.pop(directory, None)
        ends[directory] = event["off"]

    def end(self, key: VoterKey) -> int:
        """Give the offset up to which a voter has fetched; -1: it has not."""
        ends = self._ends.get(key.node, {})
        fitting = [ends[each] for each in ends if key.fits(VoterKey(key.node, each))]
        return fitting[-1] if fitting else -1
