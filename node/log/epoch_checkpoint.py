"""The ``leader-epoch-checkpoint`` file, in Kafka's text form: version, count, "epoch offset" lines.

Written for Kafka's tools and for logs whose beginning was deleted; recovery rebuilds the cache
from the batches themselves and does not trust this file.
"""

from __future__ import annotations

from pathlib import Path

from node.log.disk import Disk, read_file, replace_file

FILE_NAME = "leader-epoch-checkpoint"
_VERSION = 0
_HEADER_LINES = 2


def write_epoch_checkpoint(
    disk: Disk, directory: Path, entries: tuple[tuple[int, int], ...]
) -> None:
    """Replace the file durably."""
    lines = [str(_VERSION), str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
    replace_file(disk, directory / FILE_NAME, ("\n".join(lines) + "\n").encode())


def read_epoch_checkpoint(disk: Disk, directory: Path) -> tuple[tuple[int, int], ...] | None:
    """The (epoch, start offset) pairs, None when there is no file; raises ValueError."""
    content = read_file(disk, directory / FILE_NAME)
    if content is None:
        return None
    try:
        return decode_epochs(content)
    except ValueError as error:
        raise ValueError(f"{directory / FILE_NAME}: {error}") from error


def decode_epochs(content: bytes) -> tuple[tuple[int, int], ...]:
    """Read the content of the file; raises ValueError."""
    lines = content.decode("ascii", errors="replace").splitlines()
    if len(lines) < _HEADER_LINES or lines[0].strip() != str(_VERSION):
        raise ValueError(f"want version {_VERSION} and a count")
    entries = [tuple(int(word) for word in line.split()) for line in lines[_HEADER_LINES:]]
    if int(lines[1]) != len(entries) or any(len(entry) != _HEADER_LINES for entry in entries):
        raise ValueError(f"want {lines[1]} lines of epoch and offset")
    return tuple((epoch, start) for epoch, start in entries)
