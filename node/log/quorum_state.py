"""The ``quorum-state`` file: epoch, leader and vote, durable before the node speaks of them.

One JSON line in Kafka's data version 1, or 0 while kraft.version is 0. Epoch and vote are replaced
together and atomically: a crash leaves the old state or the new one, never a mix. What cannot be
read is fatal, because a node that forgets its vote can vote twice (KAFKA-15412).

Source: Kafka's FileQuorumStateStore and QuorumStateData; KIP-595, KIP-853 (directory id).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from node.core.types import ElectionState, ReplicaKey
from node.log.disk import Disk, read_file, replace_file
from node.log.layout import partition_dir, uuid_from_text, uuid_to_text

FILE_NAME = "quorum-state"
DATA_VERSION = 1
_UNKNOWN = -1
_ZERO = UUID(int=0)


class QuorumStateError(Exception):
    """Raised when ``quorum-state`` is there but cannot be trusted; the node must not start."""


class ElectionStateStore:
    """Loads and saves the election state of the node whose log directory this is."""

    def __init__(self, disk: Disk, log_dir: Path) -> None:
        self.path = partition_dir(log_dir) / FILE_NAME
        self._disk = disk
        disk.make_dirs(self.path.parent)

    def load(self) -> ElectionState | None:
        """The saved state, None when nothing was ever saved.

        Raises:
            QuorumStateError: The file is damaged or of an unknown version.
        """
        content = read_file(self._disk, self.path)
        if content is None:
            return None
        try:
            return decode_state(content)
        except (ValueError, KeyError, msgspec.DecodeError) as error:
            detail = f"no field {error}" if isinstance(error, KeyError) else str(error)
            raise QuorumStateError(
                f"cannot use {self.path}: {detail}. A node that forgets its vote could vote twice: "
                "restore the file, or format this node anew and replace it in the quorum"
            ) from error

    def save(
        self, state: ElectionState, *, kraft_version: int = 1, voter_ids: Iterable[int] = ()
    ) -> None:
        """Replace the saved state; when this returns the new one is on disk.

        With ``kraft_version`` 0 it is written in data version 0, as Kafka does: the voters by id
        (nobody reads them), and no directory id of the one voted for.
        """
        encoded = _encode(state) if kraft_version else _encode_v0(state, voter_ids)
        replace_file(self._disk, self.path, encoded)


def _encode_v0(state: ElectionState, voter_ids: Iterable[int]) -> bytes:
    return msgspec.json.encode(
        {
            "clusterId": "",
            "leaderId": _UNKNOWN if state.leader_id is None else state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": _UNKNOWN if state.voted is None else state.voted.id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in voter_ids],
            "data_version": 0,
        }
    )


def _encode(state: ElectionState) -> bytes:
    voted = state.voted
    return msgspec.json.encode(
        {
            "leaderId": _UNKNOWN if state.leader_id is None else state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": _UNKNOWN if voted is None else voted.id,
            "votedDirectoryId": uuid_to_text((voted and voted.directory_id) or _ZERO),
            "data_version": DATA_VERSION,
        }
    )


def decode_state(content: bytes) -> ElectionState:
    """Read the content of the file; raises ValueError, KeyError, msgspec.DecodeError."""
    fields = msgspec.json.decode(content, type=dict[str, Any])
    version = fields["data_version"]
    if version not in (0, DATA_VERSION):
        raise ValueError(f"unknown data_version {version!r}, known are 0 and {DATA_VERSION}")
    epoch = _integer(fields, "leaderEpoch", minimum=0)
    leader = _integer(fields, "leaderId", minimum=_UNKNOWN)
    voted_id = _integer(fields, "votedId", minimum=_UNKNOWN)
    directory = uuid_from_text(_text(fields, "votedDirectoryId")) if version else _ZERO
    if voted_id == _UNKNOWN and directory != _ZERO:
        raise ValueError("votedDirectoryId is set without votedId")
    return ElectionState(
        epoch=epoch,
        leader_id=None if leader == _UNKNOWN else leader,
        voted=None
        if voted_id == _UNKNOWN
        else ReplicaKey(voted_id, None if directory == _ZERO else directory),
    )


def _integer(fields: Mapping[str, Any], name: str, *, minimum: int) -> int:
    value = fields[name]
    if type(value) is not int or value < minimum:
        raise ValueError(f"{name} is {value!r}, want an integer of {minimum} or more")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, want a string")
    return value
