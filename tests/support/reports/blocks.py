"""Reads a report's ops back, as its script does: the other side of `reports.columns`."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

COLUMNS = ("t", "i", "c", "d", "o", "p", "f", "k", "n", "e", "v", "r")


def data_of(source: str) -> dict[str, Any]:
    """The JSON that a page carries for its script."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', source, re.S)
    assert match is not None
    found: dict[str, Any] = json.loads(match.group(1))
    return found


def stream(source: str, name: str) -> bytes:
    """One of its streams, inflated."""
    match = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', source)
    assert match is not None, name
    text = match.group(1)
    return zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS) if text else b"[]"


def unpack(data: bytes, rows: int, planes: list[int]) -> list[list[int]]:
    """Columns of byte planes as integers."""
    out, at = [], 0
    for count in planes:
        chunk = [data[at + k * rows : at + (k + 1) * rows] for k in range(count)]
        at += count * rows
        out.append([sum(chunk[k][row] << 8 * k for k in range(count)) for row in range(rows)])
    assert at == len(data)
    return out


def ops_of(source: str) -> list[dict[str, Any]]:
    """All ops of a page: times in us, ``end`` None while open, values as their JSON."""
    head = data_of(source)["ops"]
    out: list[dict[str, Any]] = []
    start = index = 0
    for number, block in enumerate(head["blocks"]):
        texts = json.loads(stream(source, f"texts-{number}"))
        columns = unpack(stream(source, f"ops-{number}"), block["n"], block["w"])
        for values in zip(*columns, strict=True):
            row = dict(zip(COLUMNS, values, strict=True))
            start += row["t"]
            index += _signed(row["i"])
            value = _value(row["v"], texts)
            out.append(
                {
                    "index": index,
                    "ended": index + _signed(row["c"]) if row["d"] else None,
                    "start": start,
                    "end": start + row["d"] - 1 if row["d"] else None,
                    "outcome": ("ok", "fail", "info")[row["o"]],
                    "process": head["processes"][row["p"]],
                    "f": head["texts"][row["f"]],
                    "key": head["texts"][row["k"]],
                    "node": head["texts"][row["n"]],
                    "error": head["texts"][row["e"]],
                    "value": value,
                    "result": value if row["r"] == 2 else _value(row["r"], texts),
                }
            )
    assert len(out) == head["n"]
    return out


def _signed(number: int) -> int:
    return -(number + 1) // 2 if number % 2 else number // 2


def _value(code: int, texts: list[str]) -> str:
    if code == 0:
        return ""
    return str(code >> 2) if code & 3 == 1 else texts[code >> 2]
