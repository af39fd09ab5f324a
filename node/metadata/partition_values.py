"""Partitions as records of a snapshot, and as their bytes: of a snapshot they are nearly all.

``PartitionValues`` writes the usual ones by hand, some five times as fast as by their records, and
the others by them: the bytes are the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from uuid import UUID

from node.metadata.codec import pack_id, pack_ids, pack_ints
from node.metadata.records import RecordError, encode_record, head
from node.metadata.schemas import PartitionRecord
from node.metadata.state import PartitionState, TopicState

_DIRECTORIES = 1  # the version that brought them
_ELR = 2  # the version that brought eligible leaders
_KNOWN_MAX = 1 << 16  # sets of brokers or directories whose bytes are kept at a time
_INT32 = struct.Struct(">i")
_LEADER = struct.Struct(">iii")  # leader, leader epoch, partition epoch
_NO_TAGS = b"\0"


def partition_record(
    topic_id: UUID, index: int, state: PartitionState, version: int
) -> PartitionRecord:
    """One partition in full, in that version or in the one that its state needs."""
    elr = state.eligible_leaders or state.last_known_leaders
    needed = _ELR if elr else _DIRECTORIES if state.directories else 0
    return PartitionRecord(
        version=max(version, needed),
        partition_id=index,
        topic_id=topic_id,
        replicas=state.replicas,
        isr=state.isr,
        removing_replicas=state.removing,
        adding_replicas=state.adding,
        leader=state.leader,
        leader_recovery_state=state.recovery,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        directories=state.directories,
        eligible_leader_replicas=state.eligible_leaders or None,
        last_known_elr=state.last_known_leaders or None,
    )


class PartitionValues:
    """Writes partitions as ``encode_record`` writes their records; ``version`` is the lowest."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._plain = head(PartitionRecord, version)
        self._with_directories = head(PartitionRecord, max(version, _DIRECTORIES))
        self._brokers = _Brokers()
        # By the identity of the tuple, which is kept with its bytes: ids of directories hash
        # slowly, and those of equal bytes are mostly one object.
        self._directories: dict[int, tuple[object, bytes]] = {}

    def values(self, topic: TopicState, indexes: Iterable[int]) -> list[bytes]:
        """The values of some partitions of a topic; raises RecordError."""
        try:
            return self._values(topic, indexes)
        except struct.error as error:
            raise RecordError(f"a partition of {topic.name} cannot be written: {error}") from error

    def _values(self, topic: TopicState, indexes: Iterable[int]) -> list[bytes]:
        self._forget_some()
        partitions, brokers, known = topic.partitions, self._brokers, self._directories
        topic_id, number, leader = pack_id(topic.id), _INT32.pack, _LEADER.pack
        with_directories, join = self._with_directories, b"".join
        found: list[bytes] = []
        for index in indexes:
            state = partitions[index]
            directories = state.directories
            if state.recovery or state.eligible_leaders or state.last_known_leaders:
                record = partition_record(topic.id, index, state, self._version)
                found.append(encode_record(record))
                continue
            if directories:
                begin = with_directories
                entry = known.get(id(directories))
                if entry is None:
                    entry = known[id(directories)] = directories, pack_ids(directories)
                end = entry[1]
            else:
                begin = self._plain
                end = pack_ids(()) if self._version else b""
            found.append(
                join(
                    (
                        begin,
                        number(index),
                        topic_id,
                        brokers[state.replicas],
                        brokers[state.isr],
                        brokers[state.removing],
                        brokers[state.adding],
                        leader(state.leader, state.leader_epoch, state.partition_epoch),
                        end,
                        _NO_TAGS,
                    )
                )
            )
        return found

    def _forget_some(self) -> None:
        for known in (self._brokers, self._directories):
            if len(known) > _KNOWN_MAX:
                known.clear()


class _Brokers(dict[tuple[int, ...], bytes]):
    """The bytes of sets of brokers, packed when first asked for."""

    def __missing__(self, ids: tuple[int, ...]) -> bytes:
        packed = self[ids] = pack_ints(ids)
        return packed
