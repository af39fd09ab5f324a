"""The order in which voters stand when a leader has resigned, so that they do not all do at once.

Source: KIP-595 "EndQuorumEpoch"; Kafka 4.1 ``KafkaRaftClient.endEpochElectionBackoff``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from checkers.invariants.patience import Patience
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, label
from checkers.replay.voter_sets import VoterKey, VoterKeys, keys_of
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


def wait_ms(place: int | None, voters: int, longest_ms: int) -> int:
    """Tell how long the voter at a place (0-based) in a list waits; at None = not in the list."""
    if place is None:
        return longest_ms
    if place == 0:
        return 0
    return min(longest_ms, (longest_ms >> (voters - 1)) << (place - 1))


class Succession(Invariant):
    """L9: a voter that is told of the end of a reign waits as its place among the successors says.

    The first stands at once, the others in doubling steps, whoever is not listed last of all.
    """

    name: ClassVar[str] = "L9"
    meaning: ClassVar[Meaning] = Patience.meaning
    listens: ClassVar[tuple[str, ...]] = ("rpc_ok",)

    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Compare how long it waits with how long it should."""
        del world
        if event["api"] != "EndQuorumEpoch":
            return ()
        preferred = keys_of(event.get("preferred"))
        waits, longest = event.get("wait_ms"), event.get("backoff_ms")
        if preferred is None or not isinstance(waits, int) or not isinstance(longest, int):
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
