"""Ops and histories: JSON both ways, pairing, damaged files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import HistoryFormatError
from harness.history.ops import History, HistoryWriter, Op, op_from_json, read_jsonl


def op(index: int, process: int | str, type_: Any, **fields: Any) -> Op:
    return Op(index, index * 10, process, type_, fields.pop("f", "write"), **fields)


def test_ops_survive_the_way_to_disk_and_back(tmp_path: Path) -> None:
    ops = [
        op(0, 1, "invoke", value=[1, {"a": None}], key="k", node="n1"),
        op(1, "nemesis", "info", f="inject", value={"id": 0}),
        op(2, 1, "info", error="timeout"),
    ]
    path = tmp_path / "h.jsonl"
    writer = HistoryWriter(path)
    for one in ops:
        writer.append(one)
    writer.close()
    writer.close()  # idempotent
    assert list(read_jsonl(path)) == ops
    assert b'"error"' not in path.read_bytes().splitlines()[0]


def test_held_ops_are_written_by_flush(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    writer = HistoryWriter(path)
    writer.hold(op(0, 1, "invoke"))
    assert path.read_bytes() == b""
    writer.flush()
    writer.flush()
    assert path.read_bytes().count(b"\n") == 1
    writer.hold(op(1, 1, "ok"))
    with pytest.raises(TypeError):
        writer.hold(op(2, 1, "ok", value=object()))
    writer.close()
    assert len(read_jsonl(path)) == 2


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(b'{"process":1,"type":"invoke","f":"w"}\n\n{"process":1,"ty')
    assert len(read_jsonl(path)) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]", "want an object, found list"),
        ("{", "not an op"),
        ('{"type":"done"}', "type is 'done'"),
        ('{"type":"ok","process":1.5}', "process is 1.5"),
        ('{"type":"ok","process":true}', "process is True"),
        ('{"type":"ok","process":1}', "f is None"),
        ('{"type":"ok","process":1,"f":"w","time_ns":"now"}', "time_ns is 'now'"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text('{"process":1,"type":"invoke","f":"w"}\n' + line + "\n")
    with pytest.raises(HistoryFormatError, match=message) as error:
        read_jsonl(path)
    assert "h.jsonl:2" in str(error.value)


def test_jepsens_time_is_understood() -> None:
    fields = {"type": "ok", "process": 0, "f": "r", "time": 7, "key": 3}
    assert op_from_json(fields, index=4) == Op(4, 7, 0, "ok", "r", None, "3")


def test_intervals_pair_ops_of_a_process() -> None:
    history = History(
        [
            op(0, 1, "invoke"),
            op(1, 2, "invoke"),
            op(2, "nemesis", "info"),
            op(3, 2, "fail"),
            op(4, 1, "ok"),
            op(5, 2, "invoke"),
        ]
    )
    pairs = [(i.invocation.index, i.outcome) for i in history.intervals()]
    assert pairs == [(0, "ok"), (1, "fail"), (5, "info")]
    assert len(history.clients()) == 5
    assert [o.index for o in history.nemesis()] == [2]
    assert history[1:3] == History([history[1], history[2]])
    assert len({history, History(list(history))}) == 1


def test_impossible_histories_are_refused() -> None:
    with pytest.raises(HistoryFormatError, match="op 1: process 1 invokes 'write' while its op 0"):
        History([op(0, 1, "invoke"), op(1, 1, "invoke")]).intervals()
    with pytest.raises(HistoryFormatError, match="op 0: ok of process 1 has no invocation"):
        History([op(0, 1, "ok")]).intervals()


def test_with_changes_only_what_is_named() -> None:
    one = op(0, 1, "invoke", value=3, key="k", node="n1", error="e")
    assert one.with_() == one
    assert one.with_(type="ok", value=4) == op(0, 1, "ok", value=4, key="k", node="n1", error="e")
    with pytest.raises(TypeError):
        one.with_(colour="red")
