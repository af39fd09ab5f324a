"""The watchdog goes when it is dismissed, and a run that lost it is told so."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from harness.errors import EnvError
from harness.healing.journal import Journal
from harness.healing.watchdog import HANG_VARIABLE, Watchdog, silence_s
from harness.processes.procfs import environment_of, identify, is_alive
from tests.support.live.cluster import eventually


def play(folder: Path, scenario: Callable[[Watchdog, Journal], Awaitable[None]]) -> None:
    async def main() -> None:
        journal = Journal.open("watched", folder=folder / "state")
        watchdog = Watchdog(journal, folder / "watchdog.log")
        await watchdog.start({**os.environ, **journal.environ()})
        try:
            await scenario(watchdog, journal)
        finally:
            await watchdog.stop()
            left = journal.open_entries()
            journal.close()
        assert left == ()

    asyncio.run(main())


def test_it_is_in_the_journal_while_it_watches_and_goes_when_dismissed(tmp_path: Path) -> None:
    async def scenario(watchdog: Watchdog, journal: Journal) -> None:
        who = identify(watchdog.pid or 0)
        assert who is not None
        (entry,) = journal.open_entries()
        assert entry.what == {"node": "watchdog", "pid": who.pid, "start": who.start}
        assert environment_of(who.pid).items() >= journal.environ().items()
        await watchdog.stop()
        assert not is_alive(who)
        assert watchdog.pid is None
        assert (tmp_path / "watchdog.log").read_text() == "", "nobody died"

    play(tmp_path, scenario)


def test_a_run_that_lost_its_watchdog_is_told_at_its_end(tmp_path: Path) -> None:
    async def scenario(watchdog: Watchdog, journal: Journal) -> None:
        process = watchdog._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        await eventually(lambda: process.returncode is not None, "it is gone")
        with pytest.raises(EnvError, match="ended before the run did, with exit code -9; its log"):
            await watchdog.stop()
        assert journal.open_entries() == ()

    play(tmp_path, scenario)


def test_how_long_a_harness_may_be_silent_is_said_by_a_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(HANG_VARIABLE, raising=False)
    assert silence_s(30.0) == 30.0
    monkeypatch.setenv(HANG_VARIABLE, "2.5")
    assert silence_s(30.0) == 2.5
