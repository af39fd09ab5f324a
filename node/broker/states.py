"""The states of a broker process, and which may follow which.

Source: Kafka's BrokerState (names and numbers); KIP-500, "Broker States" (the four names that a
cluster sees); KIP-631.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class BrokerState(IntEnum):
    """Kafka's states with Kafka's numbers; 4 and 5 were ZooKeeper's."""

    NOT_RUNNING = 0
    STARTING = 1  # registering, catching up with the metadata
    RECOVERY = 2  # caught up; not yet unfenced
    RUNNING = 3  # has been unfenced
    PENDING_CONTROLLED_SHUTDOWN = 6  # asks the controller to take its leaderships away
    SHUTTING_DOWN = 7


# Every state may end in SHUTTING_DOWN; only one that has work to hand over does so with a request.
TRANSITIONS: Final[Mapping[BrokerState, frozenset[BrokerState]]] = {
    BrokerState.NOT_RUNNING: frozenset({BrokerState.STARTING, BrokerState.SHUTTING_DOWN}),
    BrokerState.STARTING: frozenset({BrokerState.RECOVERY, BrokerState.SHUTTING_DOWN}),
    BrokerState.RECOVERY: frozenset({BrokerState.RUNNING, BrokerState.SHUTTING_DOWN}),
    BrokerState.RUNNING: frozenset(
        {BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN}
    ),
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: frozenset({BrokerState.SHUTTING_DOWN}),
    BrokerState.SHUTTING_DOWN: frozenset(),
}


def kip500_name(state: BrokerState, *, fenced: bool) -> str:
    """KIP-500's name of the state: Offline, Fenced, Online or Stopping.

    ``fenced`` is what the broker knows: the controller said so, or it has lost its session.
    """
    if state is BrokerState.NOT_RUNNING:
        return "Offline"
    if state >= BrokerState.PENDING_CONTROLLED_SHUTDOWN:
        return "Stopping"
    return "Fenced" if fenced or state is not BrokerState.RUNNING else "Online"
