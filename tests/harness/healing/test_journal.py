"""The heal journal as a file: what is on disk when, and what a reader makes of damage."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from harness.errors import EnvError
from harness.healing import heal as heal_module
from harness.healing.heal import heal_all, leftovers, undoes
from harness.healing.journal import Journal, read_journal, state_folder
from harness.registry import environments


def test_an_entry_is_on_disk_before_record_returns(tmp_path: Path) -> None:
    journal = Journal.open("r1", folder=tmp_path)
    entry = journal.record("process", node="n1")
    header, entries = read_journal(journal.path)
    assert header is not None
    assert header["run"] == "r1"
    assert header["harness"]["pid"] == os.getpid()
    assert [(e.kind, e.what, e.undone) for e in entries] == [("process", {"node": "n1"}, False)]
    journal.update(entry, pid=7)
    assert read_journal(journal.path)[1][0].what == {"node": "n1", "pid": 7}
    journal.undone(entry)
    journal.undone(entry)
    assert read_journal(journal.path)[1][0].undone
    assert journal.open_entries() == ()
    journal.close()


def test_the_file_goes_when_nothing_is_left_to_undo(tmp_path: Path) -> None:
    journal = Journal.open("r1", folder=tmp_path)
    journal.undone(journal.record("cut"))
    journal.close()
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_the_file_stays_when_something_is(tmp_path: Path) -> None:
    journal = Journal.open("r1", folder=tmp_path)
    journal.record("cut")
    journal.close()
    assert [p.name for p in tmp_path.iterdir()] == ["r1.jsonl"]


def test_two_runs_of_one_name_are_refused(tmp_path: Path) -> None:
    journal = Journal.open("r1", folder=tmp_path)
    with pytest.raises(EnvError, match=r"'r1' has a heal journal already.*krucible heal"):
        Journal.open("r1", folder=tmp_path)
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvError, match="set KRUCIBLE_STATE"):
        Journal.open("r1", folder=tmp_path / "file" / "state")


def test_where_the_journals_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KRUCIBLE_STATE", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert state_folder() == Path.home() / ".local/state/krucible"
    monkeypatch.setenv("XDG_STATE_HOME", "/x/state")
    assert state_folder() == Path("/x/state/krucible")
    monkeypatch.setenv("KRUCIBLE_STATE", "/y")
    assert state_folder() == Path("/y")


def test_a_torn_last_line_is_as_if_never_written(tmp_path: Path) -> None:
    path = dead(tmp_path, {"entry": 1, "kind": "cut", "what": {}})
    with path.open("a") as file:
        file.write('{"entry": 1, "undo')
    assert [item.kind for item in heal_all(tmp_path)] == ["cut"]
    assert heal_all(tmp_path) == []


def test_an_unreadable_line_does_not_hide_the_others(tmp_path: Path) -> None:
    path = dead(tmp_path)
    with path.open("a") as file:
        file.write('not json\n[1]\n{"kind": "cut"}\n{"entry": 1, "kind": "cut", "what": {}}\n')
    assert [item.kind for item in heal_all(tmp_path)] == ["cut"]


@pytest.mark.parametrize("text", ["", "{", "{}\n", "[]\n", '{"run": "r", "harness": {"pid": 1}}\n'])
def test_a_journal_without_an_owner_is_reported_and_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / "r1.jsonl").write_text(text)
    (report,) = heal_all(tmp_path)
    assert not report.done
    assert "unreadable" in report.action
    assert (tmp_path / "r1.jsonl").exists()


def test_a_journal_of_another_host_is_left_alone(tmp_path: Path) -> None:
    path = dead(tmp_path, {"entry": 1, "kind": "cut", "what": {}}, place="elsewhere/pid:[1]")
    assert heal_all(tmp_path) == []
    assert leftovers(tmp_path) == []
    assert path.exists()


def test_after_a_reboot_the_same_pid_and_start_are_somebody_else(tmp_path: Path) -> None:
    dead(tmp_path, {"entry": 1, "kind": "cut", "what": {}}, alive=True, boot="an earlier one")
    assert [item.action for item in heal_all(tmp_path)] == ["it went with its relay"]


@pytest.fixture
def own_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have kinds of a test's own; those of environments are there before, and afterwards."""
    environments.load_beside("heal")
    monkeypatch.setattr(heal_module, "_UNDO", dict(heal_module._UNDO))


@pytest.mark.usefixtures("own_kinds")
def test_other_kinds_bring_their_own_undo(tmp_path: Path) -> None:
    done: list[tuple[str, Mapping[str, Any]]] = []

    @undoes("firewall")
    def undo(run: str, what: Mapping[str, Any]) -> str:
        done.append((run, what))
        if what["chain"] == "stuck":
            raise EnvError("iptables says no")
        return "chain removed"

    path = dead(
        tmp_path,
        {"entry": 1, "kind": "firewall", "what": {"chain": "ours"}},
        {"entry": 2, "kind": "firewall", "what": {"chain": "stuck"}},
        {"entry": 3, "kind": "hologram", "what": {}},
    )
    report = {item.kind + str(item.what.get("chain", "")): item for item in heal_all(tmp_path)}
    assert done == [("dead", {"chain": "stuck"}), ("dead", {"chain": "ours"})], "last first"
    assert report["firewallours"].action == "chain removed"
    assert report["firewallours"].done
    assert (report["firewallstuck"].action, report["firewallstuck"].done) == (
        "iptables says no",
        False,
    )
    assert "does not know how to undo" in report["hologram"].action
    assert path.exists(), "kept for the next try"


@pytest.mark.usefixtures("own_kinds")
def test_of_two_heals_at_once_one_waits_for_the_other(tmp_path: Path) -> None:
    began, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    @undoes("slow thing")
    def _undo(run: str, what: Mapping[str, Any]) -> str:
        began.set()
        assert go_on.wait(10)
        done.append(f"{run} {what['name']}")
        return "removed"

    dead(tmp_path, {"entry": 1, "kind": "slow thing", "what": {"name": "n1"}})
    with ThreadPoolExecutor() as pool:
        first = pool.submit(heal_all, tmp_path)
        assert began.wait(10)
        second = pool.submit(heal_all, tmp_path)
        assert not wait([second], timeout=0.2).done, "it waits"
        go_on.set()
        assert [item.action for item in first.result()] == ["removed"]
        assert second.result() == []
    assert done == ["dead n1"]


def test_only_one_run_can_be_healed(tmp_path: Path) -> None:
    dead(tmp_path, {"entry": 1, "kind": "cut", "what": {}})
    assert heal_all(tmp_path, only_run="another") == []
    assert len(heal_all(tmp_path, only_run="dead")) == 1


def test_a_folder_that_is_not_there_is_nothing_to_heal(tmp_path: Path) -> None:
    assert heal_all(tmp_path / "none", only_run="r") == []


def dead(folder: Path, *lines: dict[str, Any], alive: bool = False, **changes: str) -> Path:
    """A journal whose harness is dead, unless ``alive``."""
    journal = Journal.open("dead", folder=folder)
    header = json.loads(journal.path.read_text())
    journal.close()
    if not alive:
        header["harness"]["start"] = 1
    path = folder / "dead.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in ({**header, **changes}, *lines)))
    return path


def test_an_announcement_that_is_cancelled_leaves_nothing_to_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between "about to be installed" and the installation itself."""
    journal = Journal.open("r1", folder=tmp_path)
    begun, go_on = threading.Event(), threading.Event()
    record = journal.record

    def slow(kind: str, **what: Any) -> int:
        entry = record(kind, **what)
        begun.set()
        assert go_on.wait(10)
        return entry

    async def cancelled() -> None:
        task = asyncio.create_task(journal.announce("process", node="n1"))
        assert await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    monkeypatch.setattr(journal, "record", slow)
    asyncio.run(cancelled())
    assert journal.open_entries() == ()
    journal.close()
    assert list(tmp_path.iterdir()) == []
