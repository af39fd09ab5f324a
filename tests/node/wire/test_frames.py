"""Framing: any split of the stream gives the same frames, and memory follows what really came."""

from __future__ import annotations

import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.errors import RemoteProtocolError
from node.wire.frames import Framer


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(f)) + f for f in frames)


def drain(framer: Framer) -> list[bytes]:
    out = []
    while (frame := framer.next_frame()) is not None:
        out.append(frame)
    return out


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1))
def test_any_split_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    data = framed(*frames)
    framer = Framer()
    got: list[bytes] = []
    position = 0
    while position < len(data):
        size = cuts[position % len(cuts)]
        framer.feed(memoryview(data)[position : position + size])
        position += size
        got += drain(framer)
    assert got == frames
    assert framer.buffered == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_an_impossible_length_is_the_peers_fault(size: int) -> None:
    framer = Framer(limit_bytes=100)
    framer.feed(struct.pack(">i", size))
    with pytest.raises(RemoteProtocolError, match=rf"{size} is not within 0\.\.100"):
        framer.next_frame()


def test_the_limit_itself_is_allowed() -> None:
    framer = Framer(limit_bytes=100)
    framer.feed(framed(b"x" * 100, b""))
    assert drain(framer) == [b"x" * 100, b""]


def test_an_announced_length_reserves_nothing() -> None:
    framer = Framer()
    framer.feed(struct.pack(">i", 16 * 1024 * 1024) + b"abc")
    assert framer.next_frame() is None
    assert sys.getsizeof(framer._buffer) < 1024
    assert framer.describe_partial() == "3 of 16777216 bytes of a frame"


def test_consumed_bytes_do_not_pile_up_in_front_of_a_slow_frame() -> None:
    framer = Framer()
    for _ in range(300):
        framer.feed(framed(b"x" * 1000) + struct.pack(">i", 500))
        assert framer.next_frame() == b"x" * 1000
        assert framer.next_frame() is None
        framer.feed(b"y" * 500)
        framer.feed(struct.pack(">i", 1000)[:2])
        assert framer.next_frame() == b"y" * 500
        assert framer.next_frame() is None
        assert framer.describe_partial() == "2 of 4 bytes of a length"
        framer.feed(struct.pack(">i", 1000)[2:] + b"z" * 1000)
        assert framer.next_frame() == b"z" * 1000
    assert sys.getsizeof(framer._buffer) < 200_000
