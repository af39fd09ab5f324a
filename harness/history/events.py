"""The event collector: copies the nodes' protocol events into the store, stamped on arrival.

A node's own clock may be lying, so each line gets ``rx_ns``, the harness's time when it was read.
Lines are not decoded for that: the stamp is spliced in behind the opening brace. A line that a
kill tore in two is kept as an event of type ``torn`` with its text.

Files are read one after the other, so a follower's event may be here before the one of its leader
that led to it, and arrive in one round while that arrives in the next. Only the nodes' own stamps,
which are of one steady clock, tell what came first. While nodes are read, the file ``COLLECTING``
tells the time on that clock before which nothing is missing. It is gone once all is read: where it
is still there, the harness died, and what is younger is not to be judged
(``harness.store.reading``).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from harness.clock import NS_PER_S, Clock

COLLECTING = "collecting"  # beside the copies, while there is more to read
PERIOD_MS = 25
CHUNK_BYTES = 1 << 20  # read at most so much of one file before the loop gets a turn
LINE_BYTES_MAX = 16 << 20  # a longer line is no event: kept as torn
Tell = Callable[[str, Mapping[str, Any]], None]  # takes a node's name and an event of it
START = b'{"ts":'  # every event of our nodes begins so


@dataclass(slots=True)
class NodeStatus:
    """The last that is known of a node."""

    role: str | None = None
    epoch: int | None = None
    leader: int | None = None
    high_watermark: int | None = None
    up: bool = False  # started, and not stopped in good order since
    events: int = 0


class _Seen(msgspec.Struct, gc=False):
    """The fields of an event that matter for the status."""

    t: str
    ep: int | None = None
    to: Any = None
    leader: int | None = None
    v: int | None = None


class EventCollector:
    """Tails the event files of a running system; ``start``, then ``stop``."""

    def __init__(
        self, sources: Mapping[str, Path], folder: Path, clock: Clock, *, one_host: bool = True
    ) -> None:
        """``one_host``: nodes stamp events by the clock of this loop, and write them to here."""
        self.status = {node: NodeStatus() for node in sources}
        self._tails = [
            _Tail(source, folder / f"{node}.jsonl", self.status[node], clock, node)
            for node, source in sources.items()
        ]
        self._one_host = one_host
        self._mark = folder / COLLECTING
        self._whole: BinaryIO | None = None  # the mark, open
        self._task: asyncio.Task[None] | None = None

    def watch(self, tell: Tell | None) -> None:
        """Tell of each event that is read from now on, node by node; None: of none any more."""
        for tail in self._tails:
            tail.watch = tell

    def start(self) -> None:
        """Begin to collect."""
        self._whole = self._mark.open("wb", buffering=0)
        self._note_whole(0)
        self._task = asyncio.create_task(self._collect(), name="events")

    async def stop(self) -> None:
        """Read what is left and close all files; raises what went wrong on the way.

        Call it once the nodes are stopped: what they write later is not seen.
        """
        try:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait((self._task,))
                if not self._task.cancelled():
                    self._task.result()
            self.drain()
            for tail in self._tails:
                tail.close()
            self._mark.unlink(missing_ok=True)
        finally:
            for tail in self._tails:
                tail.close()
            if self._whole is not None:
                self._whole.close()
                self._whole = None

    def drain(self) -> None:
        """Read everything that is there now."""
        for tail in self._tails:
            while tail.poll():
                pass

    async def _collect(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_ns = int(loop.time() * NS_PER_S) if self._one_host else 0
            for tail in self._tails:
                while tail.poll():  # noqa: ASYNC110 - the sleep gives the loop a turn
                    await asyncio.sleep(0)
            self._note_whole(began_ns)
            await asyncio.sleep(PERIOD_MS / 1000)

    def _note_whole(self, time_ns: int) -> None:
        """Every event with an earlier stamp is copied: each file was read to its end since."""
        assert self._whole is not None  # noqa: S101 - open from start to stop
        self._whole.seek(0)
        self._whole.write(b"%020d\n" % time_ns)  # as long as the last: one write leaves it whole


def collected_until(folder: Path) -> int | None:
    """The stamp before which all events are here; None when collecting ended in good order.

    Raises:
        ValueError: The mark holds no time.
    """
    try:
        return int((folder / COLLECTING).read_bytes())
    except FileNotFoundError:
        return None


def before(events: Iterable[Mapping[str, Any]], until_ns: int) -> Iterator[Mapping[str, Any]]:
    """A node's events, in order, up to the first that is stamped with that time or a later one."""
    for event in events:
        if event.get("ts", 0) >= until_ns:
            return
        yield event


class _Tail:
    """One file on its way into the store."""

    def __init__(
        self, source: Path, target: Path, status: NodeStatus, clock: Clock, node: str
    ) -> None:
        self.watch: Tell | None = None
        self._node = node
        self._source = source
        self._target = target
        self._status = status
        self._clock = clock
        self._in: BinaryIO | None = None
        self._out: BinaryIO | None = None
        self._rest = b""  # of a line whose end has not come
        self._decoder = msgspec.json.Decoder(_Seen)

    def poll(self) -> bool:
        """Copy what is new, up to a chunk; True when there may be more."""
        if self._in is None:
            try:
                self._in = self._source.open("rb", buffering=0)
            except FileNotFoundError:
                return False
        data = self._in.read(CHUNK_BYTES)
        if not data:
            return self._replaced()
        lines, newline, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest
        if newline:
            self._copy(lines + newline)
        elif len(rest) > LINE_BYTES_MAX:
            self._rest = b""
            self._copy(rest + b"\n")
        return True

    def close(self) -> None:
        """Write down a line that never ended, and close both files."""
        self._end_line()
        for file in (self._in, self._out):
            if file is not None:
                file.close()
        self._in = self._out = None

    def _replaced(self) -> bool:
        """At a file's end, begin anew if another took its place or it was cut; tell whether so."""
        assert self._in is not None  # noqa: S101 - only called with an open file
        try:
            there = self._source.stat()
        except FileNotFoundError:
            return False  # the last of it is read; another one may come
        here = os.fstat(self._in.fileno())
        if here.st_ino == there.st_ino and there.st_size >= self._in.tell():
            return False
        self._end_line()
        self._in.close()
        self._in = None
        return True

    def _end_line(self) -> None:
        """Write down a line that will never end."""
        if self._rest:
            self._copy(self._rest + b"\n")
            self._rest = b""

    def _copy(self, lines: bytes) -> None:
        """Write whole lines to the store, stamped now."""
        stamp = b'{"rx_ns":%d,' % self._clock.now_ns()
        count = lines.count(b"\n")
        whole = lines.count(b"}\n" + START) + lines.startswith(START) + lines.endswith(b"}\n")
        if whole == count + 1 and lines.count(START) == count:  # nothing is torn
            stamped = lines.replace(START, stamp + START[1:])
        else:
            stamped = b"".join(_stamp(line, stamp) for line in lines.split(b"\n") if line)
        if self._out is None:
            self._out = self._target.open("ab", buffering=0)
        view = memoryview(stamped)
        while view:
            view = view[self._out.write(view) :]
        self._status.events += count
        self._note(lines)
        if self.watch is not None:
            for line in filter(None, lines.split(b"\n")):
                self._tell(self.watch, line)

    def _tell(self, watch: Tell, line: bytes) -> None:
        try:
            event = msgspec.json.decode(line)
        except msgspec.DecodeError:
            return  # torn; it is copied as it is
        if isinstance(event, dict):
            watch(self._node, event)

    def _note(self, lines: bytes) -> None:
        """Keep what the status wants; of many high watermarks only the last is decoded."""
        mark: bytes | None = None
        for line in lines.split(b"\n"):
            if b'"t":"hwm"' in line:
                mark = line
            elif _TELLING.search(line):
                self._note_line(line)
        if mark is not None:
            self._note_line(mark)

    def _note_line(self, line: bytes) -> None:
        try:
            seen = self._decoder.decode(line)
        except msgspec.DecodeError:
            return  # copied as it is; whoever reads the store says so
        status = self._status
        if seen.ep is not None:
            status.epoch = seen.ep
        match seen.t:
            case "hwm":
                status.high_watermark = seen.v
            case "role":
                status.role = seen.to if isinstance(seen.to, str) else status.role
                status.leader = seen.leader
            case "start":
                status.up, status.role = True, None
            case "stop":
                status.up = False
            case _:
                pass


_TELLING = re.compile(rb'"t":"(?:role|start|stop|elected)"')


def _stamp(line: bytes, stamp: bytes) -> bytes:
    """The line with its stamp; what a kill left before it becomes an event of its own."""
    start = line.rfind(START)
    if start > 0:
        return _torn(line[:start], stamp) + _stamp(line[start:], stamp)
    if line.startswith(b"{") and line.endswith(b"}") and len(line) > len("{}"):
        return stamp + line[1:] + b"\n"
    return _torn(line, stamp)


def _torn(line: bytes, stamp: bytes) -> bytes:
    return (
        stamp + b'"t":"torn","raw":' + msgspec.json.encode(line.decode("utf-8", "replace")) + b"}\n"
    )
