"""A real folder within a simulated disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.systems.kafka.simulated.mounted import MountedDisk
from node.log.disk import read_file, replace_file
from node.log.memory_disk import MemoryDisk

AT = Path("/data/__cluster_metadata-0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "__cluster_metadata-0"


def test_what_lies_below_the_place_is_in_the_real_folder_and_nothing_else(folder: Path) -> None:
    memory = MemoryDisk()
    disk = MountedDisk(memory, AT, folder)
    disk.make_dirs(AT)
    replace_file(disk, AT / "quorum-state", b"vote")
    replace_file(disk, Path("/data/meta.properties"), b"meta")
    assert (folder / "quorum-state").read_bytes() == b"vote"
    assert read_file(disk, AT / "quorum-state") == b"vote"
    assert read_file(memory, Path("/data/meta.properties")) == b"meta"
    assert list(memory.sizes()) == [Path("/data/meta.properties")]
    assert disk.listdir(AT) == ["quorum-state"]
    disk.unlink(AT / "quorum-state")
    assert disk.listdir(AT) == []


def test_its_files_can_be_looked_at(folder: Path) -> None:
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"0123456789")
    disk = MountedDisk(MemoryDisk(), AT, folder)
    log = AT / "00000000000000000000.log"
    assert disk.has(log)
    assert disk.sizes() == {log: 10}
    assert disk.peek(log, 2, 3) == b"234"
    assert disk.peek(log, 10, 1) == b""
    assert disk.peek(AT / "no", 0, 1) == b""
    assert not disk.has(AT / "no")


def test_a_folder_that_is_not_there_is_empty(folder: Path) -> None:
    disk = MountedDisk(MemoryDisk(), AT, folder)
    assert disk.listdir(AT) == []
    assert disk.sizes() == {}
