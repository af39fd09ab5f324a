"""The event trace: one JSON line an event, numbered, in the kernel's hands after a flush."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from node.trace import NoTrace, Tracer, TraceWriter


def writer(path: Path, clock: list[int] | None = None) -> TraceWriter:
    times = iter(clock or range(100, 10_000))
    return TraceWriter(
        path, node=3, directory_id="ab" * 16, incarnation=77, clock_ns=lambda: next(times)
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_an_event_has_the_common_fields_and_its_own(tmp_path: Path) -> None:
    trace = writer(tmp_path / "t", [5])
    trace.emit("hwm", 9, {"v": 4, "as": "leader", "acks": {"1": None}, "voters": [1]})
    trace.close()
    assert lines(tmp_path / "t") == [
        {"ts": 5, "seq": 1, "node": 3, "dir": "ab" * 16, "inc": 77, "ep": 9, "t": "hwm"}
        | {"v": 4, "as": "leader", "acks": {"1": None}, "voters": [1]}
    ]


def test_events_are_numbered_from_one_without_a_gap(tmp_path: Path) -> None:
    trace = writer(tmp_path / "t")
    for flush in (3, 0, 2):
        for _ in range(flush):
            trace.emit("flush", 1, {"upto": 0})
        trace.flush()
    trace.close()
    seen = lines(tmp_path / "t")
    assert [e["seq"] for e in seen] == [1, 2, 3, 4, 5]
    assert [e["ts"] for e in seen] == [100, 101, 102, 103, 104]


def test_nothing_is_in_the_file_before_the_flush_and_all_after_it(tmp_path: Path) -> None:
    trace = writer(tmp_path / "t")
    trace.emit("stop", 1, {"why": "x"})
    assert (tmp_path / "t").read_bytes() == b""
    trace.flush()
    assert (tmp_path / "t").read_bytes().endswith(b'"why":"x"}\n')
    trace.flush()
    assert len(lines(tmp_path / "t")) == 1
    trace.close()


def test_a_new_incarnation_appends_to_the_file(tmp_path: Path) -> None:
    for _ in range(2):
        trace = writer(tmp_path / "t")
        trace.emit("start", 0, {})
        trace.close()
    assert [e["seq"] for e in lines(tmp_path / "t")] == [1, 1]


def test_a_short_write_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr("node.trace.os.write", lambda fd, data: write(fd, bytes(data)[:7]))
    trace = writer(tmp_path / "t")
    trace.emit("stop", 1, {"why": "a long reason, longer than seven bytes"})
    trace.close()
    assert len(lines(tmp_path / "t")) == 1


def test_a_full_disk_is_an_error_of_the_flush() -> None:
    trace = writer(Path("/dev/full"))
    trace.emit("stop", 1, {})
    with pytest.raises(OSError) as caught:  # noqa: PT011 - judged by its errno
        trace.flush()
    assert caught.value.errno == errno.ENOSPC
    trace.close()


def test_a_file_that_cannot_be_opened_is_an_error_of_the_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        writer(tmp_path / "no" / "t")


def test_what_is_not_json_is_refused_at_once(tmp_path: Path) -> None:
    trace = writer(tmp_path / "t")
    with pytest.raises(TypeError):
        trace.emit("stop", 1, {"why": object()})
    trace.close()


def test_without_a_file_events_cost_nothing_and_go_nowhere() -> None:
    trace: Tracer = NoTrace()
    trace.emit("stop", 1, {"why": object()})
    trace.flush()
    trace.close()
