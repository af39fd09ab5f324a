"""Judges what must equal a node's image: the controller's memory (C16) and the deltas (C9).

Apache Kafka's controllers keep a state of their own beside the image that brokers and snapshots are
made of, and indexes of it; a broker's parts follow the deltas between images. Both are compared
in the nodes, simulated or live, which tell how they differ. Source: ReplicationControlManager and
the other managers of Kafka 4; MetadataDelta.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from checkers.invariants.images import C9
from checkers.replay.invariant import Invariant
from checkers.replay.trace import Event, label
from checkers.replay.world import World
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly


class TrueMemory(Invariant):
    """C16: a controller's memory is its node's image, and each index is of what is there."""

    name: ClassVar[str] = "C16"
    meaning: ClassVar[Meaning] = Meaning(
        name,
        title="a controller's memory equals its image",
        promise=(
            "A controller's memory equals the state that its records add up to. Each of its "
            "indexes lists exactly what that state holds, for example the partitions on a disk."
        ),
        why=(
            "A controller decides by its memory. If an index names a partition that is gone, the "
            "controller fails when it goes through that index, and so does each one after it; if "
            "it lacks one, that partition keeps a leader that is dead."
        ),
        source="ReplicationControlManager; BrokersToIsrs; BrokersToElrs",
    )
    listens: ClassVar[tuple[str, ...]] = ("memory",)
    checker: ClassVar[str] = "observers"

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Tell what differs, each kind of it once per process."""
        del world
        self.checked += 1
        who = f"the controller n{event['node']} has in memory at offset {event['off']}"
        for each in event["wrong"]:
            if self._once((event["node"], event["inc"], each.partition(" ")[0])):
                yield self._anomaly(f"{who} ({label(event)}) {each}", event)


class TrueDeltas(Invariant):
    """C9: the deltas that a node publishes add up to the image that it publishes with them."""

    name: ClassVar[str] = C9.name
    meaning: ClassVar[Meaning] = C9
    listens: ClassVar[tuple[str, ...]] = ("delta",)
    checker: ClassVar[str] = "observers"

    def feed(self, event: Event, world: World) -> Iterator[Anomaly]:
        """Tell what differs, each kind of it once per process."""
        del world
        self.checked += 1
        who = f"whoever follows the deltas of n{event['node']} has at offset {event['off']}"
        for each in event["wrong"]:
            if self._once((event["node"], event["inc"], each.partition(" ")[0])):
                yield self._anomaly(f"{who} ({label(event)}) {each}", event)
