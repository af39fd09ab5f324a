"""Tests how many bytes of a file a loss of power takes, as the disk in memory counts them."""

from __future__ import annotations

import pytest

from node.log.memory_disk import Inode

SIZE = 4096


@pytest.mark.parametrize("at", [0, 1, 7, 8, SIZE - 1])
def test_a_loss_of_power_counts_the_bytes_from_the_first_that_is_another(at: int) -> None:
    """It is looked for by halves, as a broker's indexes are 10 MB long."""
    inode = Inode(bytearray(SIZE))
    inode.change(at, b"x")
    assert inode.crash(None) == SIZE - at
    assert inode.data == bytes(SIZE)
    inode.change(SIZE, b"y")
    inode.change(0, b"\0")
    assert inode.crash(None) == 1, "what was appended; the other byte was the same"
