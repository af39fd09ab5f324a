"""A keeper mends its node whenever whoever gave it orders is gone."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.agent import foreign
from harness.envs.attached.keepers import KeeperHere

SILENCE_S = 30.0


@pytest.fixture
def target(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A process with a pid file and a start command."""
    file = tmp_path / "pid"
    script = f"sleep 600 & echo $! >{file}.new && mv {file}.new {file}"
    made: dict[str, Any] = {"pid_file": str(file), "start": ["sh", "-c", script]}
    foreign.start(made)
    try:
        yield made
    finally:
        pid = foreign.look(made)["pid"]
        if pid is not None:
            subprocess.run(["kill", "-9", str(pid)], check=False)


async def begun(target: dict[str, Any], silence_s: float = SILENCE_S) -> KeeperHere:
    keeper = KeeperHere("node 1")
    await keeper.start()
    seen = await keeper.call("begin", target=target, silence_s=silence_s)
    assert seen["signal"] is None
    return keeper


def until(state: str, target: dict[str, Any], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while foreign.look(target)["state"] != state:
        assert time.monotonic() < deadline, f"never {state}: {foreign.look(target)}"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM])
def test_when_nobody_gives_orders_any_more_the_node_is_mended(
    target: dict[str, Any], number: signal.Signals
) -> None:
    before = foreign.look(target)

    async def hurt_and_vanish() -> None:
        keeper = await begun(target)
        await keeper.call("signal", number=int(number))
        until("T" if number == signal.SIGSTOP else "gone", target)
        await keeper.close()  # hangs up, and says nothing of a mend

    asyncio.run(hurt_and_vanish())
    until("S", target)
    same = foreign.look(target)["pid"] == before["pid"]
    assert same == (number == signal.SIGSTOP)


def test_when_orders_fall_silent_the_node_is_mended(target: dict[str, Any]) -> None:
    async def hurt_and_hang() -> str | None:
        keeper = await begun(target, silence_s=0.3)
        await keeper.call("signal", number=int(signal.SIGSTOP))
        time.sleep(1.0)  # noqa: ASYNC251 - the loop hangs: no beat is sent
        until("S", target)
        await keeper.close()
        return keeper.lost

    asyncio.run(hurt_and_hang())


def test_it_tells_when_the_node_ends_by_itself(target: dict[str, Any]) -> None:
    async def watch() -> list[str]:
        told: list[str] = []
        ended = asyncio.Event()

        def heard(state: Mapping[str, Any]) -> None:
            told.append(str(state["state"]))
            if told[-1] == "gone":
                ended.set()

        keeper = KeeperHere("node 1", heard)
        await keeper.start()
        await keeper.call("begin", target=target, silence_s=SILENCE_S)
        foreign.end(target, signal.SIGKILL)
        async with asyncio.timeout(10):
            await ended.wait()
        await keeper.call("end")
        await keeper.close()
        return told

    asyncio.run(watch())
    assert foreign.look(target)["state"] == "gone"  # not our doing, not ours to mend


def test_another_keeper_undoes_what_a_journal_says_and_only_once(target: dict[str, Any]) -> None:
    who = foreign.look(target)
    foreign.end(target, signal.SIGKILL)
    until("gone", target)

    async def mend() -> dict[str, Any]:
        keeper = KeeperHere("node 1")
        await keeper.start()
        try:
            return await keeper.call("mend", target=target, chain=None, paused=None, ended=who)
        finally:
            await keeper.close()

    assert asyncio.run(mend()) == {"started": True}
    after = foreign.look(target)["pid"]
    assert asyncio.run(mend()) == {"started": False}
    assert foreign.look(target)["pid"] == after
