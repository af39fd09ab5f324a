"""What passes between Python and Java, packed."""

from __future__ import annotations

import re
from pathlib import Path

from harness.systems.kafka.compiled import SEAM
from harness.systems.kafka.simulated.packed import (
    Kind,
    pack,
    pack_values,
    unpack,
    unpack_batch,
    unpack_values,
)


def test_what_is_packed_is_unpacked() -> None:
    first = pack(Kind.APPEND, 7, -1, 2**40, -3, b"abc")
    second = pack(Kind.WAIT, c=2**63 - 1)
    assert list(unpack(first + second)) == [
        (Kind.APPEND, 7, -1, 2**40, -3, b"abc"),
        (Kind.WAIT, 0, 0, 2**63 - 1, 0, b""),
    ]
    assert list(unpack(b"")) == []


def test_values_are_kept_apart() -> None:
    values = [b"", b"one", b"\0" * 300]
    assert unpack_values(pack_values(values)) == values
    assert unpack_batch(b"\0\0\1\0" + pack_values(values)) == (256, values)


def test_both_sides_have_the_same_kinds() -> None:
    text = (SEAM / Path("krucible/Kinds.java")).read_text()
    java = dict(re.findall(r"byte (\w+) = (\d+);", text))
    assert {name: int(number) for name, number in java.items()} == {k.name: int(k) for k in Kind}
