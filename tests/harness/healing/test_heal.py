"""A harness is killed in the middle of a fault: nothing of it stays, nothing else is touched."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.healing.heal import heal_all, leftovers
from harness.healing.journal import HARNESS_VARIABLE, RUN_VARIABLE, Journal
from harness.processes.procfs import ProcessId, identify, is_alive, send_signal, state_of
from tests.support.live.cluster import echo_cluster, environment_of, eventually
from tests.support.places import SUPPORT

FAKE_HARNESS = SUPPORT / "live" / "fake_harness.py"


def test_heal_all_ends_what_a_killed_harness_left(tmp_path: Path) -> None:
    with harness(tmp_path) as victim:
        kill(victim.watchdog)  # else it would heal, before we can look
        kill(victim.relay)
        kill(victim.harness)
        assert state_of(victim.nodes[2].pid) == "T"
        assert {item.kind for item in leftovers(victim.state)} >= {"process", "pause", "cut"}
        assert all(map(is_alive, victim.nodes)), "looking changes nothing"

        report = heal_all(victim.state)

        assert not any(map(is_alive, victim.nodes))
        assert all(item.done for item in report)
        assert ("pause", "thawed") in {(item.kind, item.action) for item in report}
        killed = {item.what["pid"] for item in report if item.action == "killed"}
        assert killed == {node.pid for node in victim.nodes}
        assert list(victim.state.glob("*.jsonl")) == []
        assert heal_all(victim.state) == []


def test_the_watchdog_heals_when_nobody_else_does(tmp_path: Path) -> None:
    with harness(tmp_path) as victim:
        kill(victim.harness)
        asyncio.run(eventually(lambda: not any(map(is_alive, victim.all)), "all are gone"))
        assert list(victim.state.glob("*.jsonl")) == []
        assert "the harness died" in (tmp_path / "run" / "watchdog.log").read_text()


def test_processes_are_found_by_their_marker_without_any_journal(tmp_path: Path) -> None:
    with harness(tmp_path, "unjournalled") as victim:
        kill(victim.watchdog)
        kill(victim.relay)
        kill(victim.harness)
        assert {item.what["pid"] for item in leftovers(victim.state)} == {
            node.pid for node in victim.nodes
        }
        report = heal_all(victim.state)
        assert {item.kind for item in report} == {"marked process"}
        assert not any(map(is_alive, victim.nodes))


def test_a_live_run_and_its_frozen_node_are_left_alone(tmp_path: Path) -> None:
    with harness(tmp_path) as other:
        assert heal_all(other.state) == []
        assert leftovers(other.state) == []
        assert all(map(is_alive, other.all))
        assert state_of(other.nodes[2].pid) == "T"


def test_a_process_without_the_marker_is_never_signalled(tmp_path: Path) -> None:
    """The journal names a live process that is not ours: a forged or a stale line."""
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        who = identify(bystander.pid)
        assert who is not None
        what = {"pid": who.pid, "start": who.start}
        dead_journal(tmp_path, ("process", what), ("pause", what))
        report = heal_all(tmp_path)
        assert [item.action for item in report] == ["already gone", "already gone"]
        assert bystander.poll() is None
    finally:
        bystander.communicate()


def test_a_recycled_pid_is_never_signalled(tmp_path: Path) -> None:
    """Marker and pid are right, the start time is not: it is another process by now."""
    marked = {RUN_VARIABLE: "dead", HARNESS_VARIABLE: f"{os.getpid()}.{me().start}"}
    other = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, **marked}
    )
    try:
        who = identify(other.pid)
        assert who is not None
        assert not send_signal(ProcessId(who.pid, who.start - 1), signal.SIGKILL)
        dead_journal(tmp_path, ("process", {"pid": who.pid, "start": who.start - 1}))
        assert [item.action for item in heal_all(tmp_path)] == ["already gone"]
        assert other.poll() is None
    finally:
        other.communicate()


def test_setup_heals_what_an_earlier_run_left(tmp_path: Path) -> None:
    with harness(tmp_path / "old") as victim:
        kill(victim.watchdog)
        kill(victim.harness)

        async def scenario() -> None:
            (tmp_path / "new").mkdir()
            (tmp_path / "new" / "state").symlink_to(victim.state)
            (victim.state / "test-run.jsonl").rename(victim.state / "older.jsonl")
            async with echo_cluster(tmp_path / "new") as cluster:
                assert environment_of(cluster).process("n1").pid is not None
                assert not any(map(is_alive, victim.nodes))

        asyncio.run(scenario())


# --------------------------------------------------------------------------- helpers


@dataclass(frozen=True)
class Victim:
    harness: ProcessId
    relay: ProcessId
    watchdog: ProcessId
    nodes: tuple[ProcessId, ...]
    state: Path

    @property
    def all(self) -> tuple[ProcessId, ...]:
        """What the harness has started."""
        return (self.relay, self.watchdog, *self.nodes)


@contextlib.contextmanager
def harness(folder: Path, *arguments: str) -> Iterator[Victim]:
    folder.mkdir(exist_ok=True)
    with subprocess.Popen(
        [sys.executable, str(FAKE_HARNESS), str(folder), *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(FAKE_HARNESS.parent)},
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        pids = json.loads(line)
        victim = Victim(
            known(process.pid),
            known(pids["relay"]),
            known(pids["watchdog"]),
            tuple(known(pid) for pid in pids["nodes"]),
            folder / "state",
        )
        try:
            yield victim
        finally:
            for one in (victim.harness, *victim.all):
                send_signal(one, signal.SIGKILL)


def known(pid: int) -> ProcessId:
    who = identify(pid)
    assert who is not None
    return who


def me() -> ProcessId:
    return known(os.getpid())


def kill(process: ProcessId) -> None:
    assert send_signal(process, signal.SIGKILL)
    asyncio.run(eventually(lambda: not is_alive(process), f"{process} is dead"))


def dead_journal(folder: Path, *entries: tuple[str, dict[str, int]]) -> None:
    """A journal of this host whose harness is dead."""
    journal = Journal.open("dead", folder=folder)
    for kind, what in entries:
        journal.record(kind, **what)
    journal.close()
    text = journal.path.read_text()
    header = json.loads(text.splitlines()[0])
    header["harness"] = {"pid": header["harness"]["pid"], "start": 1}
    journal.path.write_text("\n".join([json.dumps(header), *text.splitlines()[1:]]) + "\n")
