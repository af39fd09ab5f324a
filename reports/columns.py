"""Ops as the page carries them: blocks of columns, deflated, so that a million of them fit.

A block holds up to ``BLOCK_ROWS`` ops. Each column is a list of unsigned integers, written plane
by plane: the lowest byte of every row, then the next one, as many planes as its largest value
needs. All planes of a block, column after column, are one raw deflate stream in base64 (RFC 1951,
RFC 4648). The texts of its values are a second stream, a JSON list, which the page reads only when
somebody wants to see a value.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence

from reports.model import Block
from reports.op_table import OPEN, OpTable

BLOCK_ROWS = 65_536
NAMES = ("t", "i", "c", "d", "o", "p", "f", "k", "n", "e", "v", "r")
_TEXT = 3  # the tag of a value that is a text, in its lowest two bits
_LEVEL = 6


def blocks(table: OpTable, *, rows: int | None = None) -> list[Block]:
    """The table in blocks.

    ``t`` is the start in µs and ``i`` the index, each less that of the row before (also across
    blocks; ``i`` may fall and is zigzag: 0, -1, 1, -2 ...); ``c`` the completion's index less the
    invocation's, zigzag; ``d`` the duration in µs plus 1, 0 while open; ``o`` the outcome; ``p``
    the process, ``f``, ``k`` (key), ``n`` (node) and ``e`` (error) places in the lists of the
    head; ``v`` and ``r`` (result) codes as in ``op_table.Values``, whose texts are the block's.
    """
    rows = rows or BLOCK_ROWS
    return [_block(table, at, min(at + rows, len(table))) for at in range(0, len(table), rows)]


def _block(table: OpTable, first: int, stop: int) -> Block:
    here = slice(first, stop)
    start, end, index, ended = table.start[here], table.end[here], table.index[here], table.ended
    before_us = table.start[first - 1] // 1000 if first else 0
    before_index = table.index[first - 1] if first else 0
    start_us = [at // 1000 for at in start]
    values, results, texts = _local(table, here)
    columns: tuple[Iterable[int], ...] = (
        _differences(start_us, before_us),
        map(_zigzag, _differences(index, before_index)),
        (
            0 if done == OPEN else _zigzag(done - begun)
            for done, begun in zip(ended[here], index, strict=True)
        ),
        (
            0 if at == OPEN else max(0, at // 1000 - begun) + 1
            for at, begun in zip(end, start_us, strict=True)
        ),
        *(table.outcome[here], table.process[here], table.f[here], table.key[here]),
        *(table.node[here], table.error[here], values, results),
    )
    planes = [pack(column) for column in columns]
    encoded = json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode()
    return Block(
        rows=stop - first,
        planes=tuple(count for count, _ in planes),
        columns=squeeze(b"".join(data for _, data in planes)),
        texts=squeeze(encoded) if texts else "",
    )


def _local(table: OpTable, here: slice) -> tuple[list[int], list[int], list[str]]:
    """Codes of values and results with the places of their texts within the block."""
    places: dict[int, int] = {}
    columns = [
        [
            code if code & 3 != _TEXT else places.setdefault(code >> 2, len(places)) << 2 | _TEXT
            for code in column[here]
        ]
        for column in (table.value, table.result)
    ]
    return columns[0], columns[1], [table.values.texts[at] for at in places]


def _differences(values: Sequence[int], before: int) -> Iterable[int]:
    for value in values:
        yield value - before
        before = value


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def pack(values: Iterable[int]) -> tuple[int, bytes]:
    """Unsigned integers below 2**53 as byte planes; how many planes, and they."""
    packed = array("Q", values)
    count = (max(packed, default=0).bit_length() + 7) // 8
    if sys.byteorder == "big":
        packed.byteswap()
    raw = packed.tobytes()
    return count, b"".join(raw[plane::8] for plane in range(count))


def squeeze(data: bytes) -> str:
    """A raw deflate stream in base64."""
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return base64.b64encode(deflate.compress(data) + deflate.flush()).decode()
