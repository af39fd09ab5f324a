"""Names and places of the files of a node, as Kafka has them, and the form of ids in them."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from uuid import UUID

PARTITION = "__cluster_metadata-0"
SEGMENT_SUFFIX = ".log"
_OFFSET_DIGITS = 20
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
