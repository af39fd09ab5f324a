"""What a clean stop leaves for the next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.broker.clean_shutdown import FILE_NAME, take_previous_epoch, write_clean_shutdown
from node.log.disk import read_file, replace_file
from node.log.memory_disk import MemoryDisk

DIR = Path("/log")


def disk_with(content: bytes | None = None) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dirs(DIR)
    if content is not None:
        replace_file(disk, DIR / FILE_NAME, content)
    return disk


def test_the_epoch_of_a_clean_stop_is_known_at_the_next_start_and_only_then() -> None:
    disk = disk_with()
    write_clean_shutdown(disk, DIR, 42)
    assert read_file(disk, DIR / FILE_NAME) == b'{"version":0,"brokerEpoch":42}'  # as Kafka's
    assert take_previous_epoch(disk, DIR) == 42
    assert take_previous_epoch(disk, DIR) == -1


def test_after_an_unclean_stop_no_epoch_is_known() -> None:
    assert take_previous_epoch(disk_with(), DIR) == -1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"version":0}',
        b'{"version":0,"brokerEpoch":null}',
        b'{"version":0,"brokerEpoch":"42"}',
        b'{"version":0,"brokerEpoch":-5}',
        b'{"version":0,"brokerEpoch":9223372036854775808}',
        b'{"version":0,"brokerEpoch":42',
    ],
)
def test_what_no_clean_stop_writes_is_no_clean_stop(content: bytes) -> None:
    disk = disk_with(content)
    assert take_previous_epoch(disk, DIR) == -1
    assert read_file(disk, DIR / FILE_NAME) is None


def test_fields_of_a_later_version_are_skipped() -> None:
    assert take_previous_epoch(disk_with(b'{"version":1,"brokerEpoch":7,"more":[1]}'), DIR) == 7


def test_the_epoch_is_used_up_even_if_the_power_fails_right_after() -> None:
    disk = disk_with()
    write_clean_shutdown(disk, DIR, 42)
    assert take_previous_epoch(disk, DIR) == 42
    disk.crash()
    assert take_previous_epoch(disk, DIR) == -1
