"""Partitions as the clients of one listener should see them. Source: Kafka's KRaftMetadataCache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from node.driver.apis.serving import Serving
from node.metadata.image import NO_LEADER, PartitionState

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)


@dataclass(frozen=True, slots=True)
class View:
    """A partition as the clients of one listener should see it."""

    leader: int
    offline: tuple[int, ...] = ()  # replicas that cannot be used there
    unreachable: frozenset[int] = frozenset()  # the same, whatever their disks are like
    cares: bool = False  # whether brokers register at all here

    @classmethod
    def of(cls, serving: Serving, state: PartitionState) -> View:
        """Look at the replicas' registrations; without any the partition is taken as it is."""
        brokers = serving.node.machine.image.brokers
        if serving.is_controller or not brokers:
            return cls(state.leader)
        reached = {
            id_: broker
            for id_ in {*state.replicas, state.leader}
            if (broker := brokers.get(id_)) is not None and serving.listener_of(broker) is not None
        }
        unreachable = frozenset(
            id_ for id_ in state.replicas if id_ not in reached or reached[id_].fenced
        )
        offline = [
            id_
            for position, id_ in enumerate(state.replicas)
            if id_ in unreachable
            or not _has_directory(reached[id_].log_dirs, state.directories, position)
        ]
        leader = state.leader if state.leader in reached else NO_LEADER
        return cls(leader, tuple(offline), unreachable, cares=True)


def _has_directory(
    online: tuple[UUID | None, ...], directories: tuple[UUID | None, ...], position: int
) -> bool:
    """Tell whether the directory of a replica is online; it counts as online when not told.

    Source: KIP-858, Kafka's DirectoryId.isOnline (reserved ids are below 100).
    """
    if not online or position >= len(directories):
        return True
    directory = directories[position]
    if directory is None or directory.int == 1:  # not told
        return True
    return directory in online
