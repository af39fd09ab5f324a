"""Processes that somebody else started: found, paused, ended, and started in their owner's way."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.agent import foreign
from harness.agent.firewall import Refused


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A target with a pid file, whose start command writes it anew."""
    file = tmp_path / "pid"
    script = f"sleep 600 & echo $! >{file}.new && mv {file}.new {file}"
    target: dict[str, Any] = {"pid_file": str(file), "start": ["sh", "-c", script]}
    try:
        yield target
    finally:
        pid = foreign.look(target)["pid"]
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


def test_a_process_is_paused_and_goes_on(sleeper: subprocess.Popen[bytes]) -> None:
    target = {"pid": sleeper.pid}
    who = foreign.look(target)
    assert (who["pid"], who["state"] in "RS") == (sleeper.pid, True)
    foreign.pause(target)
    assert foreign.await_state(target, wanted="stopped", timeout_s=5)["state"] == "T"
    assert foreign.resume(target, who)
    foreign.await_state(target, wanted="running", timeout_s=5)
    assert not foreign.resume(target, who)


def test_another_process_of_the_same_pid_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    target = {"pid": sleeper.pid}
    foreign.pause(target)
    before = {**foreign.look(target), "start": foreign.look(target)["start"] - 1}
    assert not foreign.resume(target, before)
    assert foreign.await_state(target, wanted="stopped", timeout_s=5)["state"] == "T"


def test_what_was_ended_is_started_once_in_its_owner_s_way(restartable: dict[str, Any]) -> None:
    assert foreign.look(restartable)["state"] == "gone"
    os.environ["KRUCIBLE_OF_A_RUN"] = "1"
    try:
        assert foreign.start(restartable)
    finally:
        del os.environ["KRUCIBLE_OF_A_RUN"]
    first = foreign.look(restartable)
    assert b"KRUCIBLE_" not in Path(f"/proc/{first['pid']}/environ").read_bytes()
    assert not foreign.start(restartable)
    foreign.end(restartable, signal.SIGKILL)
    foreign.await_state(restartable, wanted="gone", timeout_s=5)
    assert foreign.start(restartable)
    assert foreign.look(restartable)["pid"] not in (None, first["pid"])


def test_what_cannot_be_done_says_why(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    target = {"pid": sleeper.pid}
    foreign.end(target, signal.SIGKILL)
    sleeper.wait()
    with pytest.raises(Refused, match="nothing says how pid"):
        foreign.start(target)
    with pytest.raises(Refused, match="does not run"):
        foreign.pause(target)
    with pytest.raises(Refused, match="cannot start /nowhere"):
        foreign.start({"pid_file": str(tmp_path / "none"), "start": ["/nowhere"]})


def test_a_unit_is_asked_of_systemctl(
    sleeper: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "systemctl"
    says = f'case "$1" in show) cat {tmp_path}/main;; *) echo "$@" >>{tmp_path}/asked;; esac'
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    (tmp_path / "main").write_text(f"{sleeper.pid}\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    target = {"unit": "kafka"}
    assert foreign.look(target)["pid"] == sleeper.pid
    assert not foreign.start(target)
    foreign.pause(target)
    assert foreign.await_state(target, wanted="stopped", timeout_s=5)["pid"] == sleeper.pid
    (tmp_path / "main").write_text("0\n")
    monkeypatch.setattr(foreign, "_START_S", 0.05)
    with pytest.raises(Refused, match="is not there"):  # this program starts nothing
        foreign.start(target)
    assert (tmp_path / "asked").read_text() == "start kafka\n"
