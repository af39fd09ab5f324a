"""Jepsen's EDN histories, and Porcupine's key-value logs, which are EDN too.

One map per line or one vector of maps; ``:process`` an integer or ``:nemesis``, ``:type`` one of
``:invoke :ok :fail :info``, ``:f`` a keyword, ``:value`` anything, ``:key`` or a ``[key value]``
pair as value (Jepsen's independent histories), ``:time`` in nanoseconds, ``:error`` anything.
A value that is a list of micro-ops needs no ``:f``: it is a ``:txn``, as in Elle's histories.
Order is the file's; ``:index`` is not needed.

Source: jepsen.history, jepsen.independent, knossos.model; porcupine's test data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.errors import HistoryFormatError
from harness.history.formats.conventions import Conventions, LoadedHistory
from harness.history.formats.edn import EdnError, EdnSet, read_records
from harness.history.formats.guess import TXN, is_txn, model_of
from harness.history.ops import NEMESIS, History, Op, OpType

_TYPES: dict[str, OpType] = {"invoke": "invoke", "ok": "ok", "fail": "fail", "info": "info"}
_PAIR = 2
_KV_FS = frozenset(("get", "put", "append"))


def read(lines: Iterable[str], *, source: str) -> LoadedHistory:
    """Read an EDN history; ``source`` names the file in messages.

    A history of gets, puts and appends gets the conventions of a string store (initially ""),
    transactions over lists and records of partitions their own model, any other those of Knossos:
    a nil read is always legal, and a failed op did not happen.

    Raises:
        HistoryFormatError: What is not EDN or not an op, with ``path:line``.
    """
    ops: list[Op] = []
    numbers: list[int] = []
    try:
        for number, form in read_records(lines):
            try:
                ops.append(_op(form, index=len(ops)))
            except ValueError as error:
                raise HistoryFormatError(f"{source}:{number}: not an op: {error}") from error
            numbers.append(number)
    except EdnError as error:
        raise HistoryFormatError(f"{source}:{error.line}: not EDN: {error}") from error
    if _independent(ops):
        ops = [_split_key(op) for op in ops]
    return LoadedHistory(History(ops), _conventions(ops), "edn", tuple(numbers))


def _conventions(ops: list[Op]) -> Conventions:
    fs = {op.f for op in ops if op.process != NEMESIS}
    model = model_of(ops)
    if model is not None:
        return Conventions(model=model)
    if fs and fs <= _KV_FS:
        return Conventions(initial="", model="kv-append")
    return Conventions(nil_read="no-constraint")


def _op(form: Any, *, index: int) -> Op:
    if not isinstance(form, dict):
        raise ValueError(f"want a map, found {type(form).__name__} {str(form)[:40]!r}")
    kind = _TYPES.get(str(form.get("type")))
    if kind is None:
        raise ValueError(f":type is {form.get('type')!r}, want :invoke, :ok, :fail or :info")
    process = form.get("process")
    if isinstance(process, bool) or not isinstance(process, int | str):
        raise ValueError(f":process is {process!r}, want an integer or :nemesis")
    value = _plain(form.get("value"))
    f = form.get("f")
    if f is None and is_txn(value):
        f = TXN  # as in Elle's histories
    if not isinstance(f, str):
        raise ValueError(f":f is {f!r}, want a keyword")
    time_ns = form.get("time", form.get("time_ns"))
    if time_ns is None:
        time_ns = index
    if isinstance(time_ns, bool) or not isinstance(time_ns, int):
        raise ValueError(f":time is {time_ns!r}, want nanoseconds")
    key, error, node = form.get("key"), form.get("error"), form.get("node")
    return Op(
        index=index,
        time_ns=time_ns,
        process=str(process) if isinstance(process, str) else process,
        type=kind,
        f=str(f),
        value=value,
        key=None if key is None else str(_plain(key)),
        error=None if error is None else str(_plain(error)),
        node=None if node is None else str(node),
    )


def _plain(value: Any) -> Any:
    """An EDN value as JSON would have it: keywords are strings, sets lists, map keys strings."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, EdnSet):
        return sorted((_plain(item) for item in value), key=repr)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {k if isinstance(k, str) else str(k): _plain(v) for k, v in value.items()}
    return value


def _independent(ops: list[Op]) -> bool:
    """Tell whether values are ``[key value]`` pairs.

    A cas on a plain register has a pair as value too, so what is inside decides: in an
    independent history every read is invoked with ``[key nil]`` and every cas with
    ``[key [old new]]``, and something besides a write must say so.
    """
    told = False
    for op in ops:
        if op.process == NEMESIS or op.type != "invoke":
            continue
        value = op.value
        if op.key is not None or not isinstance(value, list) or len(value) != _PAIR:
            return False
        match op.f:
            case "read" | "get" | "describe":
                if value[1] is not None:
                    return False
                told = True
            case "cas":
                if not isinstance(value[1], list) or len(value[1]) != _PAIR:
                    return False
                told = True
            case _:
                pass
    return told


def _split_key(op: Op) -> Op:
    if op.process == NEMESIS or not isinstance(op.value, list) or len(op.value) != _PAIR:
        return op  # an info completion may carry anything: its key is its invocation's
    return op.with_(key=str(op.value[0]), value=op.value[1])
