"""The ``.kafka_cleanshutdown`` file: the broker epoch of a process that last stopped in order.

A broker that can show its former epoch lost nothing of what it acknowledged, and stays an eligible
leader. The file is used up by reading: it must not speak for a start that crashes. Source: Kafka's
CleanShutdownFileHandler; KIP-966.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from node.log.disk import Disk, read_file, replace_file

FILE_NAME = ".kafka_cleanshutdown"
_VERSION = 0
_NO_EPOCH = -1
_EPOCH_MAX = 2**63 - 1

log = logging.getLogger(__name__)


class _Content(msgspec.Struct):
    """The content of the file; fields of later versions are skipped."""

    version: int
    broker_epoch: int = msgspec.field(name="brokerEpoch")


def write_clean_shutdown(disk: Disk, log_dir: Path, broker_epoch: int) -> None:
    """Write durably that the process stops in order; the last thing it does with its disk."""
    content = msgspec.json.encode(_Content(_VERSION, broker_epoch))
    replace_file(disk, log_dir / FILE_NAME, content)


def take_previous_epoch(disk: Disk, log_dir: Path) -> int:
    """The epoch of the last clean stop, -1 when there was none; the file is gone for good after.

    What cannot be read is no clean stop.
    """
    path = log_dir / FILE_NAME
    data = read_file(disk, path)
    if data is None:
        return _NO_EPOCH
    disk.unlink(path)
    disk.fsync_dir(log_dir)
    try:
        epoch = msgspec.json.decode(data, type=_Content).broker_epoch
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        log.warning("%s is not what a clean stop leaves, the stop was unclean: %s", path, error)
        return _NO_EPOCH
    return epoch if 0 <= epoch <= _EPOCH_MAX else _NO_EPOCH
