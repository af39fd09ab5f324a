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
    assert who["pid"] == sleeper.pid
    assert who["state"] in "RSD"  # it may wait for the disk while it begins
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


def systemctl(folder: Path, pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program in the place of systemctl, which tells a pid and notes what it is asked."""
    program = folder / "systemctl"
    says = f'case "$1" in show) cat {folder}/main;; *) echo "$@" >>{folder}/asked;; esac'
    program.write_text(f"#!/bin/sh\n{says}\n[ $1 != start ] || [ ! -e {folder}/refuse ]\n")
    program.chmod(0o755)
    (folder / "main").write_text(f"{pid}\n")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_unit_is_asked_of_systemctl(
    sleeper: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl(tmp_path, sleeper.pid, monkeypatch)
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


def test_a_unit_that_systemd_refuses_to_start_is_asked_for_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl(tmp_path, 0, monkeypatch)
    (tmp_path / "refuse").touch()
    with pytest.raises(Refused, match="systemctl start kafka failed"):
        foreign.start({"unit": "kafka"})
    assert (tmp_path / "asked").read_text() == "start kafka\nreset-failed kafka\nstart kafka\n"


def test_a_process_is_gone_once_its_owner_has_started_another(
    sleeper: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl(tmp_path, sleeper.pid, monkeypatch)
    target = {"unit": "kafka"}
    who = foreign.look(target)
    with pytest.raises(Refused, match="is not gone"):
        foreign.await_state(target, wanted="gone", timeout_s=0, who=who)
    (tmp_path / "main").write_text(f"{os.getpid()}\n")
    now = foreign.await_state(target, wanted="gone", timeout_s=0, who=who)
    assert now["pid"] == os.getpid()
