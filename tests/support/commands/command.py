"""Runs of the command line inside the test's process: exit code and both streams."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from krucible.app import main


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON value it must be, on one line."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """Standard error as the one line of a mistake; nothing else was said."""
        assert self.err.startswith("krucible: "), self.err
        assert self.err.count("\n") == 1, self.err
        assert not self.out, self.out
        return self.err.removeprefix("krucible: ").strip()


def krucible(*args: object) -> Ended:
    """Run the command line with these arguments."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as exit_,
    ):
        main([str(arg) for arg in args])
    code = exit_.value.code
    assert isinstance(code, int)
    return Ended(code, out.getvalue(), err.getvalue())


def write_history(path: Path, *ops: tuple[int, str, str, Any]) -> Path:
    """A JSON-lines history of (process, type, f, value)."""
    lines = [
        json.dumps({"index": i, "time_ns": i, "process": p, "type": t, "f": f, "value": v})
        for i, (p, t, f, v) in enumerate(ops)
    ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


GOOD = ((0, "invoke", "write", 1), (0, "ok", "write", 1), (1, "invoke", "read", None))
GOOD_END = (*GOOD, (1, "ok", "read", 1))
BAD_END = (*GOOD, (1, "ok", "read", 2))
