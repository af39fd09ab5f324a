"""Processes of nodes are followed to their ends; what does not take hold in time is told."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from harness.envs.processes import running as running_module
from harness.envs.processes.running import RunningNodes
from harness.errors import EnvError
from harness.healing.journal import Journal
from harness.processes.child import Child

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
Scenario = Callable[[RunningNodes[Child], Journal, Child], Awaitable[None]]


def play(folder: Path, scenario: Scenario) -> None:
    async def main() -> None:
        journal = Journal.open("r", folder=folder / "state")
        nodes = RunningNodes[Child](journal)
        child = Child(SLEEP, cwd=folder, log=folder / "log", environ=os.environ)
        try:
            await scenario(nodes, journal, child)
        finally:
            child.signal(signal.SIGKILL)
            await child.ended
            journal.close()

    asyncio.run(main())


async def see_off(child: Child) -> str:
    await child.ended
    return child.describe_end()


def test_entries_stay_open_until_it_is_gone_and_what_it_kept_too(tmp_path: Path) -> None:
    async def scenario(nodes: RunningNodes[Child], journal: Journal, child: Child) -> None:
        cleared = asyncio.Event()

        async def slowly(child: Child) -> str:
            await cleared.wait()
            return await see_off(child)

        running = nodes.follow("n1", child, [journal.record("process", node="n1")], slowly)
        await nodes.announce_pause(running, "pause", pid=child.id.pid)
        await nodes.announce_pause(running, "pause", pid=child.id.pid)
        assert [entry.kind for entry in journal.open_entries()] == ["process", "pause"]
        with pytest.raises(EnvError, match=f"n1 runs already: pid {child.id.pid}"):
            await nodes.make_room("n1")
        assert nodes.to_signal("n1") is running
        child.signal(signal.SIGKILL)
        await child.ended
        assert ("n1" in nodes, nodes.how_it_ended("n1")) == (True, None)
        assert len(journal.open_entries()) == 2
        cleared.set()
        await nodes.make_room("n1")
        assert (nodes.get("n1"), nodes.all(), journal.open_entries()) == (None, [], ())
        with pytest.raises(EnvError, match=r"cannot signal n1: pid \d+ .*killed by SIGKILL"):
            nodes.to_signal("n1")

    play(tmp_path, scenario)


def test_a_node_that_never_started_cannot_be_signalled(tmp_path: Path) -> None:
    nodes = RunningNodes[Child](Journal.open("r", folder=tmp_path))
    with pytest.raises(EnvError, match="cannot signal n1: it never started"):
        nodes.to_signal("n1")
    nodes._journal.close()


def test_what_does_not_take_hold_in_time_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_module, "STATE_TIMEOUT_S", 0.05)
    monkeypatch.setattr(running_module, "END_TIMEOUT_S", 0.05)

    async def scenario(nodes: RunningNodes[Child], journal: Journal, child: Child) -> None:
        running = nodes.follow("n1", child, [journal.record("process", node="n1")], see_off)
        with pytest.raises(EnvError, match=r"n1 \(pid .*is in state [RSD] 0.05 s after SIGSTOP"):
            await nodes.reached(running, stopped=True, after="SIGSTOP")
        with pytest.raises(EnvError, match=r"n1 \(pid .*did not die of SIGKILL within 0.05 s"):
            await nodes.ended(running)
        monkeypatch.undo()
        child.signal(signal.SIGSTOP)
        await nodes.reached(running, stopped=True, after="SIGSTOP")
        child.signal(signal.SIGCONT)
        await nodes.reached(running, stopped=False, after="SIGCONT")
        child.signal(signal.SIGKILL)
        await nodes.ended(running)
        assert journal.open_entries() == ()

    play(tmp_path, scenario)


def test_what_it_kept_and_could_not_be_removed_is_told_and_stays_in_the_journal(
    tmp_path: Path,
) -> None:
    async def scenario(nodes: RunningNodes[Child], journal: Journal, child: Child) -> None:
        async def fail(child: Child) -> str:
            await child.ended
            raise EnvError("its container is still there")

        running = nodes.follow("n1", child, [journal.record("process", node="n1")], fail)
        child.signal(signal.SIGKILL)
        with pytest.raises(EnvError, match="its container is still there"):
            await nodes.ended(running)
        assert len(journal.open_entries()) == 1

    play(tmp_path, scenario)
