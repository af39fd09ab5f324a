"""A child that has ended tells how, to whoever looks first."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from harness.processes.child import Child


def _await_end(child: Child) -> None:
    os.waitid(os.P_PID, child.id.pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("code", [0, 3])
def test_who_sees_it_gone_is_told_how_it_ended(tmp_path: Path, code: int) -> None:
    async def run() -> None:
        argv = [sys.executable, "-c", f"raise SystemExit({code})"]
        child = Child(argv, cwd=tmp_path, log=tmp_path / "log", environ=os.environ)
        # The loop gets no turn from here on: the process is a zombie that nobody has reaped.
        _await_end(child)
        assert child.state == "gone"
        assert child.describe_end() == f"{child.id} ended: exit code {code}"
        assert await child.ended == code

    asyncio.run(run())
