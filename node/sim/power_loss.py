"""Tells in the trace what a loss of power in this very instant would leave on a simulated disk.

Two events come of it, which no node tells of itself. ``left`` is of a file that is replaced as a
whole, whenever it changes: each content that a restart might read. ``durable`` is of the log, just
before the node claims anything of it. Whoever judges holds the node's claims against them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final

import msgspec

from node.core.types import OffsetAndEpoch
from node.log import epoch_checkpoint, meta_properties, quorum_state
from node.log.batch import decode_records
from node.log.control.records import SnapshotHeader, decode_control
from node.log.layout import PARTITION, segment_base, snapshot_of_name
from node.log.memory_disk import MemoryDisk
from node.log.snapshot_format import SnapshotError, iter_snapshot, snapshot_values
from node.log.snapshots import BOOTSTRAP_FILE
from node.sim.durable_log import DurableLog

CLAIMS: Final = frozenset({"flush", "fetch_tx"})  # of the log, by a node
LEFT, DURABLE = "left", "durable"

Tell = Callable[[str, Mapping[str, Any]], None]  # takes the type of an event, and its fields
Read = Callable[[str, bytes], dict[str, Any]]  # takes the name of a file that is replaced


class _Kind(Enum):
    WHOLE = "a file that is replaced as a whole"
    SEGMENT = "a segment of the log"
    OTHER = "a file that no restart reads, or a folder"


class PowerLoss:
    """Looks at the disk of a host for the process that begins there.

    Args:
        disk: The disk; its ``changed`` is to be this object's.
        tell: Takes the events.
        read: Reads a file that is replaced as a whole; ``read_undated`` for Kafka's nodes.
    """

    def __init__(self, disk: MemoryDisk, tell: Tell, read: Read | None = None) -> None:
        self._disk = disk
        self._tell = tell
        self._read_whole = read_whole if read is None else read
        self._kinds: dict[Path, _Kind] = {}
        self._folders: set[Path] = set()
        self._told: dict[Path, tuple[list[Any], bool]] = {}
        self._last_read: tuple[str, bytes, Any] = "", b"", None
        self._log = DurableLog(disk)
        self._log_changed = True  # since the last claim
        for path in disk.contents():
            if self._kind(path) is _Kind.WHOLE:
                self._file(path)

    def changed(self, path: Path) -> None:
        """Hear of a change of a file, or of a folder whose names have become durable."""
        kind = self._kind(path)
        if kind is _Kind.SEGMENT:
            if self._log.changed(path):
                self._log_changed = True
        elif kind is _Kind.WHOLE:
            self._file(path)
        elif path in self._folders:
            self._settled(path)

    def claimed(self) -> None:
        """Tell what is left of the log now, unless that was told and has not changed."""
        if self._log_changed:
            self._log_changed = False
            fields = self._log.look()
            if fields is not None:
                self._tell(DURABLE, fields)

    def _settled(self, folder: Path) -> None:
        self._log_changed = True
        for path, (may, _) in list(self._told.items()):
            if len(may) > 1 and path.parent == folder:
                self._file(path)

    def _kind(self, path: Path) -> _Kind:
        kind = self._kinds.get(path)
        if kind is None:
            kind = self._kinds[path] = _kind_of(path)
            if kind is not _Kind.OTHER:
                self._folders.add(path.parent)
        return kind

    def _file(self, path: Path) -> None:
        possible = self._disk.possible(path)
        may: list[Any] = []
        for content in possible.contents:
            value = None if content is None else self._read(path.name, content)
            if value not in may:
                may.append(value)
        if self._told.get(path) != (may, possible.torn):
            self._told[path] = may, possible.torn
            self._tell(LEFT, {"file": path.name, "may": may, "torn": possible.torn})

    def _read(self, name: str, content: bytes) -> dict[str, Any]:
        """Read a file as a restart would; the same content twice in a row is read once."""
        if self._last_read[:2] != (name, content):
            self._last_read = name, content, self._read_whole(name, content)
        found: dict[str, Any] = self._last_read[2]
        return found


def _kind_of(path: Path) -> _Kind:
    name = path.name
    if path.parent.name == PARTITION and segment_base(name) is not None:
        return _Kind.SEGMENT
    if name in _READERS or snapshot_of_name(name) is not None:
        return _Kind.WHOLE
    return _Kind.OTHER


def read_whole(name: str, content: bytes) -> dict[str, Any]:
    """The values in a file as an object; ``bad`` says why no restart could read it."""
    try:
        snapshot = snapshot_of_name(name)
        return _READERS[name](content) if snapshot is None else _snapshot(name, content)
    except (ValueError, KeyError, msgspec.DecodeError, SnapshotError) as error:
        return {"bad": str(error)}


def read_undated(name: str, content: bytes) -> dict[str, Any]:
    """Do as ``read_whole``; the hash of a snapshot is of what it says, and not of when.

    Kafka writes its present time into the batches and the header of a snapshot, and quotas in the
    order of a hash map.
    """
    found = read_whole(name, content)
    snapshot = snapshot_of_name(name)
    if snapshot is None or "bad" in found:
        return found
    return found | {"sha": _said(snapshot, content)}


def _said(snapshot: OffsetAndEpoch, content: bytes) -> str:
    """SHA-256 of the values of all records but the header, sorted: see ``TraceRaft.digest``."""
    said = []
    for batch in iter_snapshot(snapshot, lambda at, size: content[at : at + size], len(content)):
        for _, key, value in decode_records(batch):
            if not (batch.is_control and isinstance(decode_control(key, value), SnapshotHeader)):
                said.append(value or b"")
    return hashlib.sha256(b"".join(sorted(said))).hexdigest()


def _quorum_state(content: bytes) -> dict[str, Any]:
    """The fields of a ``qs`` event."""
    state = quorum_state.decode_state(content)
    voted = state.voted
    directory = None if voted is None or voted.directory_id is None else voted.directory_id.hex
    return {
        "ep": state.epoch,
        "leader": state.leader_id,
        "voted": None if voted is None else voted.id,
        "voted_dir": directory,
    }


def _meta(content: bytes) -> dict[str, Any]:
    meta = meta_properties.decode_properties(content)
    return {"cluster": meta.cluster_id, "node": meta.node_id, "dir": meta.directory_id.hex}


def _epochs(content: bytes) -> dict[str, Any]:
    return {"epochs": epoch_checkpoint.decode_epochs(content)}


def _snapshot(name: str, content: bytes) -> dict[str, Any]:
    """The fields of a ``snap`` event; raises SnapshotError for one that is not whole."""
    snapshot = snapshot_of_name(name)
    assert snapshot is not None  # noqa: S101 - by its kind
    for batch in iter_snapshot(snapshot, lambda at, size: content[at : at + size], len(content)):
        snapshot_values(snapshot, batch)
    return {"size": len(content), "sha": hashlib.sha256(content).hexdigest()}


def _bytes(content: bytes) -> dict[str, Any]:
    return {"size": len(content), "sha": hashlib.sha256(content).hexdigest()}


_READERS: Mapping[str, Callable[[bytes], dict[str, Any]]] = {
    quorum_state.FILE_NAME: _quorum_state,
    meta_properties.FILE_NAME: _meta,
    epoch_checkpoint.FILE_NAME: _epochs,
    BOOTSTRAP_FILE: _bytes,
}
