"""Ops and histories: what every process did and saw, in Jepsen's terms.

An op is invoked, then completes as ``ok`` (it happened), ``fail`` (it did not happen) or ``info``
(nobody knows; it may take effect at any later time). A process whose op ended as ``info`` never
acts again. Times are nanoseconds since the start of the run on the harness's monotonic clock.

On disk a history is JSON lines, one op each, in the order of ``index``:
``{"index":0,"time_ns":12,"process":3,"type":"invoke","f":"write","key":"k1","value":7,"node":"n1"}``.
``key``, ``error`` and ``node`` are left out when absent. The process of nemesis ops is the string
``"nemesis"``; their type is always ``info``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import msgspec

from harness.errors import HistoryFormatError

OpType = Literal["invoke", "ok", "fail", "info"]
NEMESIS = "nemesis"
VIOLATION = "violation"  # the op of the nemesis with which a simulation stops: what was broken


class Op(msgspec.Struct, frozen=True, gc=False):  # a quarter of what a frozen dataclass costs
    """One event of a history."""

    index: int
    time_ns: int
    process: int | str
    type: OpType
    f: str
    value: Any = None
    key: str | None = None  # independent sub-history (a register, a topic); None = the only one
    error: str | None = None
    node: str | None = None

    def with_(self, **changes: Any) -> Op:
        """A copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """The op as a JSON object; absent optional fields are left out."""
        out: dict[str, Any] = {
            "index": self.index,
            "time_ns": self.time_ns,
            "process": self.process,
            "type": self.type,
            "f": self.f,
            "value": self.value,
        }
        for name in ("key", "error", "node"):
            field = getattr(self, name)
            if field is not None:
                out[name] = field
        return out


_decode = msgspec.json.Decoder(Op).decode


class Interval(msgspec.Struct, frozen=True, gc=False):
    """An op from its invocation to its completion; ``completion`` is None while still open."""

    invocation: Op
    completion: Op | None

    @property
    def outcome(self) -> OpType:
        """Tell how it ended: ok, fail or info; an op still open at the end is info."""
        return "info" if self.completion is None else self.completion.type


class History(Sequence[Op]):
    """An immutable sequence of ops, sorted by index."""

    def __init__(self, ops: Iterable[Op]) -> None:
        self._ops = tuple(ops)
        self._intervals: tuple[Interval, ...] | None = None  # many checkers ask for them

    @overload
    def __getitem__(self, item: int) -> Op: ...
    @overload
    def __getitem__(self, item: slice) -> History: ...
    def __getitem__(self, item: int | slice) -> Op | History:
        return History(self._ops[item]) if isinstance(item, slice) else self._ops[item]

    def __len__(self) -> int:
        return len(self._ops)

    def __iter__(self) -> Iterator[Op]:
        return iter(self._ops)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self._ops == other._ops

    def __hash__(self) -> int:
        return hash(self._ops)

    def clients(self) -> History:
        """Give only the ops of client processes."""
        return History(op for op in self._ops if op.process != NEMESIS)

    def nemesis(self) -> History:
        """Give only the ops of the nemesis."""
        return History(op for op in self._ops if op.process == NEMESIS)

    @property
    def stopped(self) -> Mapping[str, Any] | None:
        """Tell where a simulation was stopped (``harness.sessions.simulated.Stop``), else None."""
        last = self._ops[-1] if self._ops else None
        if last is None or last.process != NEMESIS or last.f != VIOLATION:
            return None
        return last.value if isinstance(last.value, Mapping) else None

    def intervals(
        self, through: Callable[[Iterable[Op]], Iterable[Op]] = iter
    ) -> Sequence[Interval]:
        """Client ops paired with their completions, in order of invocation. O(n), once.

        ``through`` sees the ops go by the first time, and may raise to stop.

        Raises:
            HistoryFormatError: A completion without an invocation, or a process that invokes
                while its last op is still open.
        """
        if self._intervals is None:
            self._intervals = tuple(_paired(through(self._ops)))
        return self._intervals


def _paired(ops: Iterable[Op]) -> Iterator[Interval]:
    open_: dict[int | str, int] = {}
    pairs: list[tuple[Op, Op | None]] = []
    for op in ops:
        if op.process == NEMESIS:
            continue
        if op.type == "invoke":
            if op.process in open_:
                raise HistoryFormatError(
                    f"op {op.index}: process {op.process!r} invokes {op.f!r} while its op "
                    f"{pairs[open_[op.process]][0].index} is still open"
                )
            open_[op.process] = len(pairs)
            pairs.append((op, None))
        else:
            at = open_.pop(op.process, None)
            if at is None:
                raise HistoryFormatError(
                    f"op {op.index}: {op.type} of process {op.process!r} has no invocation"
                )
            pairs[at] = (pairs[at][0], op)
    return (Interval(invocation, completion) for invocation, completion in pairs)


class HistoryWriter:
    """Streams ops to a file as they happen; after SIGKILL at most what was not flushed is lost."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._encoder = msgspec.json.Encoder()
        self._lines: list[bytes] = []

    def append(self, op: Op) -> None:
        """Hand one op, and all that are held back, to the kernel."""
        self.hold(op)
        self.flush()

    def hold(self, op: Op) -> None:
        """Encode one op and keep it until ``flush``; raises TypeError when it is not JSON."""
        self._lines.append(self._encoder.encode(op.to_json()))

    def flush(self) -> None:
        """Hand all ops held back to the kernel, in one write where it takes them."""
        if not self._lines:
            return
        self._lines.append(b"")
        view = memoryview(b"\n".join(self._lines))
        self._lines.clear()
        while view:  # the kernel may take a part
            view = view[self._file.write(view) :]

    def close(self) -> None:
        """Flush and close the file; idempotent."""
        if not self._file.closed:
            try:
                self.flush()
            finally:
                self._file.close()


def op_from_json(fields: dict[str, Any], *, index: int) -> Op:
    """Build an op from a JSON object; raises ValueError that names the field at fault."""
    kind = fields.get("type")
    if kind not in ("invoke", "ok", "fail", "info"):
        raise ValueError(f"type is {kind!r}, want invoke, ok, fail or info")
    process = fields.get("process")
    if isinstance(process, bool) or not isinstance(process, int | str):
        raise ValueError(f"process is {process!r}, want an integer or 'nemesis'")
    f = fields.get("f")
    if not isinstance(f, str):
        raise ValueError(f"f is {f!r}, want a string")
    time_ns = fields.get("time_ns", fields.get("time", index))
    if isinstance(time_ns, bool) or not isinstance(time_ns, int):
        raise ValueError(f"time_ns is {time_ns!r}, want an integer")
    key = fields.get("key")
    error = fields.get("error")
    node = fields.get("node")
    return Op(
        index=index,
        time_ns=time_ns,
        process=process,
        type=kind,
        f=f,
        value=fields.get("value"),
        key=None if key is None else str(key),
        error=None if error is None else str(error),
        node=None if node is None else str(node),
    )


def stream_jsonl(
    path: Path, skip: Callable[[HistoryFormatError], object] | None = None
) -> Iterator[Op]:
    """The ops of a JSON-lines history, one by one; a torn last line is dropped.

    Args:
        path: The file; its last line is torn when it has no newline.
        skip: Is told of each line that is not an op, in the place of an exception.

    Raises:
        HistoryFormatError: A line that is not an op, with its number.
    """
    index = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return  # torn by a kill
            try:
                op = _decode(line)
                if op.index != index:
                    op = op.with_(index=index)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if not line.strip():
                    continue
                try:
                    op = _slowly(line, index)
                except (ValueError, msgspec.DecodeError) as error:
                    told = HistoryFormatError(f"{path}:{number}: not an op: {error}")
                    if skip is None:
                        raise told from error
                    skip(told)
                    continue
            yield op
            index += 1


def _slowly(line: bytes, index: int) -> Op:
    """An op of a line in no good order; raises ValueError that says what is wrong with it."""
    fields = msgspec.json.decode(line)
    if not isinstance(fields, dict):
        raise ValueError(f"want an object, found {type(fields).__name__}")
    return op_from_json(fields, index=index)


def read_jsonl(path: Path) -> History:
    """Read a whole JSON-lines history; see ``stream_jsonl``."""
    return History(stream_jsonl(path))
