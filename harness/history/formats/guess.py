"""Guesses from its ops what a history is of: transactions over lists, or records of partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.history.ops import NEMESIS, Op

TXN = "txn"
_LIST_APPEND = frozenset(("append", "read", TXN))
_KAFKA = frozenset(("send", "poll", TXN, "assign", "subscribe", "crash", "debug-topic-partitions"))
_MOPS = {"append": "list-append", "r": "list-append", "send": "kafka", "poll": "kafka"}


def model_of(ops: Iterable[Op]) -> str | None:
    """``list-append`` or ``kafka`` when the ops are of these; None when they may be of anything."""
    clients = [op for op in ops if op.process != NEMESIS]
    fs = {op.f for op in clients}
    if TXN in fs or fs & {"send", "poll"}:
        named = {_MOPS.get(mop, "") for op in clients if op.f != "crash" for mop in _mops(op.value)}
        if named == {"list-append"} and fs <= _LIST_APPEND:
            return "list-append"
        return "kafka" if named == {"kafka"} and fs <= _KAFKA else None
    if fs == {"append", "read"} and _reads_lists(clients):
        return "list-append"
    return None


def is_txn(value: Any) -> bool:
    """Tell whether a value is a list of micro-ops; Elle's histories have no ``:f`` beside it."""
    return bool(_mops(value))


def _mops(value: Any) -> set[str]:
    """The names of the micro-ops in a value: strings that stand first in its lists."""
    if not isinstance(value, list):
        return set()
    return {mop[0] for mop in value if isinstance(mop, list) and mop and isinstance(mop[0], str)}


def _reads_lists(clients: list[Op]) -> bool:
    seen = [op.value for op in clients if op.f == "read" and op.type == "ok"]
    return all(value is None or isinstance(value, list) for value in seen) and any(
        isinstance(value, list) for value in seen
    )
