"""A log that does not check the CRC of what it reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from crc32c import crc32c

from node.catalogue.scenario import Scenario, fault
from node.driver.parts import NodeParts
from node.log.batch import batch_size
from node.log.disk import Disk
from node.log.file_log import FileLog
from node.log.layout import SEGMENT_SUFFIX, partition_dir
from node.mutants import mutant

_CRC_END = 21  # from here on the CRC covers a batch


class TrustingLog(FileLog):
    """Opens its segments as if each CRC were right."""

    def __init__(self, disk: Disk, directory: Path, *, segment_bytes: int) -> None:
        folder = partition_dir(directory)
        for name in disk.listdir(folder):
            if name.endswith(SEGMENT_SUFFIX):
                _make_right(disk, folder / name)
        super().__init__(disk, directory, segment_bytes=segment_bytes)


def _make_right(disk: Disk, path: Path) -> None:
    """Write the CRC of what is there into each whole batch."""
    file = disk.open(path)
    data, position = file.read(0, file.size()), 0
    while position + _CRC_END <= len(data):
        end = position + batch_size(data, position)
        right = crc32c(data[position + _CRC_END : end]).to_bytes(4, "big")
        if end <= len(data) and data[position + _CRC_END - 4 : position + _CRC_END] != right:
            file.pwrite(position + _CRC_END - 4, right)
        position = end
    file.close()


@mutant(
    "unchecked-crc",
    breaks=("S25", "S7", "S8", "S9", "S20", "C8", "crash"),
    source="KAFKA-14104: the CRC of metadata batches was not checked when they were read",
    scenario=Scenario(seeds=(2, 4), faults=(fault("disk-bit-flip", 2, 0.2, target="follower"),)),
)
def unchecked_crc(parts: NodeParts) -> NodeParts:
    """A node takes the batches on its disk as they are, whatever their CRC says."""
    return replace(parts, log=TrustingLog)
