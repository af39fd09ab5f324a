"""What an active controller does unasked: so often, and again at once while there is more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from node.controller.operations import ControllerResult
from node.driver import controller_work
from tests.support.nodes.driver import Running, formatted, free_port, in_loop, settings_of, until


class Job:
    """Stands in for an operation: replies in turn, and notes when it was asked."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.at: list[float] = []

    def __call__(self, *_: Any) -> ControllerResult[Any]:
        self.at.append(asyncio.get_running_loop().time())
        return ControllerResult((), self.replies.pop(0) if self.replies else self.last, None)

    last: Any = None

    @property
    def took_s(self) -> float:
        return self.at[-1] - self.at[0]


@in_loop
@pytest.mark.parametrize(
    ("method", "replies", "last"),
    [
        ("expire_sessions", [1, 2, 3, 4], None),  # each reply is a broker that was fenced
        ("balance_leaders", [1000, 1000, 1000, 1000], 999),
        ("elect_unclean", [1000, 1000, 1000, 1000], 0),
    ],
)
async def test_a_job_with_more_to_do_does_not_wait_for_its_next_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, replies: list[int], last: Any
) -> None:
    interval_ms = 1000
    settings = settings_of(tmp_path, voters={1: free_port()})
    settings["broker.session.timeout.ms"] = str(8 * interval_ms)
    settings["leader.imbalance.check.interval.seconds"] = str(interval_ms // 1000)
    settings["unclean.leader.election.interval.ms"] = str(interval_ms)
    running = Running(formatted(settings))
    job = Job(*replies)
    job.last = last
    monkeypatch.setattr(running.node.controller, method, job)
    await running.start()
    try:
        await running.lead()
        await until(lambda: len(job.at) > len(replies), "all of the job was done")
        assert job.took_s < interval_ms / 1000, "five parts in less than one interval"
        assert running.errors == []
        await asyncio.sleep(10 * controller_work.AGAIN_MS / 1000)
        assert len(job.at) == len(replies) + 1, "with nothing more to do it waits"
    finally:
        await running.stop()


@in_loop
async def test_a_controller_at_rest_does_nothing_unasked(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, voters={1: free_port(), 2: free_port()})
    running = Running(formatted(settings))
    job = Job(1)
    result = running.node.work._operate("Test", job)
    assert result is None
    assert job.at == []
    running.node.close()
