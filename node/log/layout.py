"""Names and places of the files of a node, as Kafka has them, and the form of ids in them."""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path
from uuid import UUID

from node.core.types import OffsetAndEpoch

PARTITION = "__cluster_metadata-0"
SEGMENT_SUFFIX = ".log"
SNAPSHOT_SUFFIX = ".checkpoint"
PARTIAL_SUFFIX = ".checkpoint.part"
DELETED_SUFFIX = ".checkpoint.deleted"
BOOTSTRAP_SNAPSHOT = OffsetAndEpoch(0, 0)  # made by format, never replicated
_SNAPSHOT_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_LEFTOVER_NAME = re.compile(r"[0-9]{20}-[0-9]{10}.*\.checkpoint\.(?:part|deleted)")
_OFFSET_DIGITS = 20
_EPOCH_DIGITS = 10
_UUID_BYTES = 16


def partition_dir(log_dir: Path) -> Path:
    """The folder of the metadata partition inside a log directory."""
    return log_dir / PARTITION


def segment_name(base_offset: int) -> str:
    """File name of the segment that starts at ``base_offset``."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{SEGMENT_SUFFIX}"


def segment_base(name: str) -> int | None:
    """Base offset in a segment's file name, None when it is not the name of a segment."""
    stem, dot, suffix = name.rpartition(".")
    if dot + suffix != SEGMENT_SUFFIX or len(stem) != _OFFSET_DIGITS:
        return None
    return int(stem) if stem.isascii() and stem.isdecimal() else None


def snapshot_name(snapshot: OffsetAndEpoch) -> str:
    """File name of a complete snapshot."""
    return f"{_snapshot_stem(snapshot)}{SNAPSHOT_SUFFIX}"


def partial_name(snapshot: OffsetAndEpoch, unique: str) -> str:
    """File name of a snapshot being written; ``unique`` tells two of one id apart."""
    return f"{_snapshot_stem(snapshot)}-{unique}{PARTIAL_SUFFIX}"


def deleted_name(snapshot: OffsetAndEpoch) -> str:
    """File name of a snapshot on its way out."""
    return f"{_snapshot_stem(snapshot)}{DELETED_SUFFIX}"


def snapshot_of_name(name: str) -> OffsetAndEpoch | None:
    """Id in a complete snapshot's file name, None when it is not the name of one."""
    match = _SNAPSHOT_NAME.fullmatch(name)
    return match and OffsetAndEpoch(int(match[1]), int(match[2]))


def is_leftover(name: str) -> bool:
    """Tell whether the file is a snapshot that was never finished, or was being deleted."""
    return _LEFTOVER_NAME.fullmatch(name) is not None


def _snapshot_stem(snapshot: OffsetAndEpoch) -> str:
    return f"{snapshot.offset:0{_OFFSET_DIGITS}d}-{snapshot.epoch:0{_EPOCH_DIGITS}d}"


def uuid_to_text(value: UUID) -> str:
    """Kafka's text form of an id: base64url of the 16 bytes, without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_from_text(text: str) -> UUID:
    """Read Kafka's text form of an id; raises ValueError."""
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not a base64url id: {error}") from error
    if len(raw) != _UUID_BYTES:
        raise ValueError(f"{text!r} holds {len(raw)} bytes, an id has {_UUID_BYTES}")
    return UUID(bytes=raw)
