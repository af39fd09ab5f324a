"""The supervisor finds processes by their mark, and kills no others."""

from __future__ import annotations

import os
import subprocess
import sys

from harness.agent.processes import MARK_VARIABLE, kill_marked


def test_only_processes_with_our_mark_are_killed() -> None:
    sleep = [sys.executable, "-c", "input()"]
    mark = f"test/{os.getpid()}/n1"
    ours, other = (
        subprocess.Popen(sleep, stdin=subprocess.PIPE, env={**os.environ, MARK_VARIABLE: text})
        for text in (mark, f"{mark}1")
    )
    with ours, other:
        assert kill_marked(mark) == 1
        assert ours.wait() == -9
        assert kill_marked(mark) == 0
        assert other.poll() is None
        other.kill()
