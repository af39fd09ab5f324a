"""The driver runs effects in the order that the consensus core relies on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from node.core import effects as fx
from node.core.inputs import Tick
from node.core.messages import FetchResponse, Response, VoteRequest, VoteResponse
from node.core.types import OffsetAndEpoch, ReplicaKey
from node.driver.pump import NodeFatalError
from tests.support.nodes.driver import (
    FETCHER,
    Outcome,
    Running,
    in_loop,
    lone_voter,
    until,
    voter_of_two,
)


class Diary:
    """Writes down, in order, what a node does to its disk, its trace and the world."""

    def __init__(self, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[str] = []
        node = running.node
        for name, owner, method in (
            ("save", node.storage.elections, "save"),
            ("fsync", node.storage.log, "flush"),
            ("trace out", node.tracer, "flush"),
            ("append", node.storage.log, "append_as_leader"),
        ):
            self._wrap(monkeypatch, name, owner, method)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, name: str, owner: Any, method: str) -> None:
        original = getattr(owner, method)

        def noted(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            self.lines.append(name)  # when it returns, it has happened
            return result

        monkeypatch.setattr(owner, method, noted)

    def index(self, line: str) -> int:
        return self.lines.index(line)


@in_loop
async def test_a_vote_is_on_disk_and_in_the_trace_before_the_reply_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with voter_of_two(tmp_path, controller_quorum_election_timeout_ms="60000") as (
        running,
        _,
    ):
        await until(lambda: running.node.pump.counters.steps or running.kinds(), "the node began")
        diary = Diary(running, monkeypatch)
        seen: list[dict[str, Any]] = []

        def replied(response: Response) -> None:
            assert isinstance(response, VoteResponse)
            assert response.granted
            diary.lines.append("reply")
            seen.extend(running.events)

        running.ask(VoteRequest(ReplicaKey(2), 5, OffsetAndEpoch(0, 0), pre_vote=False), replied)
        await until(lambda: "reply" in diary.lines, "the vote was answered")
        assert diary.index("save") < diary.index("trace out") < diary.index("reply")
        kinds = [e["t"] for e in seen]
        assert kinds.index("qs") < kinds.index("vote")
        assert next(e for e in seen if e["t"] == "vote")["ok"] is True


@in_loop
async def test_followers_get_records_before_the_fsync_and_the_leader_commits_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with voter_of_two(tmp_path) as (running, _):
        await running.lead_over()
        end = running.node.replica.log_end_offset
        diary = Diary(running, monkeypatch)

        def replied(response: Response) -> None:
            assert isinstance(response, FetchResponse)
            assert response.records is not None
            diary.lines.append("fetch reply")
            running.fetch(end + 2, lambda _: diary.lines.append("next fetch reply"))

        running.fetch(end, replied, wait_ms=10_000)
        outcome = running.write("t")
        await until(lambda: outcome.said, "the write was settled")
        assert outcome.said == ["done"]
        assert diary.index("append") < diary.index("fetch reply") < diary.index("fsync")
        commit = next(e for e in running.events if e["t"] == "hwm" and e["v"] == end + 2)
        flush = next(e for e in running.events if e["t"] == "flush" and e["upto"] == end + 2)
        assert flush["seq"] < commit["seq"]
        assert [(id_, upto) for id_, _, upto in commit["acks"]] == [(1, end + 2), (2, end + 2)]


@in_loop
async def test_all_writes_of_one_loop_turn_share_one_fsync(tmp_path: Path) -> None:
    async with lone_voter(tmp_path) as running:
        before = running.node.pump.counters.flushes
        outcomes = [running.write(f"t{i}") for i in range(50)]
        await until(lambda: all(o.said for o in outcomes), "all writes were settled")
        assert all(o.said == ["done"] for o in outcomes)
        assert running.node.pump.counters.flushes == before + 1


@in_loop
async def test_writes_that_linger_share_one_fsync(tmp_path: Path) -> None:
    async with lone_voter(tmp_path, controller_quorum_append_linger_ms="30") as running:
        before = running.node.pump.counters.flushes
        outcomes: list[Outcome] = []
        for i in range(5):
            outcomes.append(running.write(f"t{i}"))
            await asyncio.sleep(0)
        await until(lambda: all(o.said for o in outcomes), "all writes were settled")
        assert running.node.pump.counters.flushes == before + 1


@in_loop
async def test_a_flush_is_told_to_the_core_before_what_queued_up_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or an input in between could truncate the log, and the core be told too much."""
    async with lone_voter(tmp_path) as running:
        node, steps = running.node, []
        step = node.replica.step

        def noted(input_: Any, now_ms: int) -> list[fx.Effect]:
            steps.append(type(input_).__name__)
            return step(input_, now_ms)

        monkeypatch.setattr(node.replica, "step", noted)
        outcome = running.write("t")
        node.later(
            lambda: node.pump.enqueue(Tick())
        )  # leaves with what is released before the fsync
        await until(lambda: outcome.said, "the write was settled")
        assert steps[:3] == ["Propose", "LogFlushed", "Tick"]


@in_loop
async def test_nothing_is_stepped_before_the_start_is_traced(tmp_path: Path) -> None:
    async with voter_of_two(tmp_path) as (running, _):
        assert running.node.pump.counters.steps == 0
        running.node.pump.enqueue(Tick())
        await until(lambda: running.node.pump.counters.steps, "the input was stepped")
    assert running.kinds()[0] == "start"
    assert running.kinds()[-1] == "stop"


@in_loop
async def test_a_flush_wanted_at_the_start_needs_no_timer(tmp_path: Path) -> None:
    async with lone_voter(tmp_path, controller_quorum_fetch_timeout_ms="100000") as running:
        assert running.node.replica.flushed_offset >= 1
        assert running.kinds()[:2] == ["start", "role"]


@in_loop
async def test_an_error_in_the_pump_stops_the_node_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with lone_voter(tmp_path) as running:
        node = running.node
        boom = OSError(5, "Input/output error")

        def broken() -> int:
            raise boom

        with monkeypatch.context() as patch:
            patch.setattr(node.storage.log, "flush", broken)
            outcome = running.write("t")
            await until(lambda: running.errors, "the error was reported")
        assert running.errors == [boom]
        assert "fatal: OSError: [Errno 5] Input/output error" in caplog.text
        steps = node.pump.counters.steps
        node.pump.enqueue(Tick())
        running.fetch(0)
        for _ in range(5):
            await asyncio.sleep(0)
        assert node.pump.counters.steps == steps
        assert outcome.said == []


@in_loop
async def test_a_fatal_effect_stops_the_node_and_nothing_after_it_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lone_voter(tmp_path) as running:
        node, sent = running.node, []
        node.effects._replies[99] = lambda *_: sent.append("reply")
        reply = fx.Reply(99, VoteResponse(0, 1, None, granted=True))  # type: ignore[arg-type]
        monkeypatch.setattr(node.replica, "step", lambda *_: [reply, fx.Fatal("no"), reply])
        node.pump.enqueue(Tick())
        await until(lambda: running.errors, "the error was reported")
        assert [type(e) for e in running.errors] == [NodeFatalError]
        assert str(running.errors[0]) == "no"
        assert sent == []


@in_loop
async def test_a_lost_trace_stops_the_node(tmp_path: Path) -> None:
    async with lone_voter(tmp_path) as running:
        good, running.node.tracer._fd = running.node.tracer._fd, -1  # type: ignore[attr-defined]
        outcome = running.write("t")
        await until(lambda: running.errors, "the error was reported")
        assert outcome.said == []
        running.node.tracer._fd = good  # type: ignore[attr-defined]


@in_loop
async def test_a_worker_for_a_peer_that_dies_stops_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with voter_of_two(tmp_path) as (running, _):

        def broken(*_: Any) -> int:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr("node.wire.network.codec.version_for", broken)
        await until(lambda: running.errors, "the error was reported")
        assert [type(e) for e in running.errors] == [ZeroDivisionError]


@in_loop
async def test_a_leader_that_shuts_down_tells_the_others_and_does_not_wait_longer(
    tmp_path: Path,
) -> None:
    async with voter_of_two(tmp_path) as (running, fake):
        await running.lead_over()
        epoch = running.node.replica.epoch
        fake.seen.clear()
        async with asyncio.timeout(5):
            await running.node.shutdown(60.0)
        assert [(type(r).__name__, r.epoch) for r in fake.seen] == [  # type: ignore[union-attr]
            ("EndQuorumEpochRequest", epoch)
        ]
        assert not running.active


@in_loop
async def test_a_flush_without_fsync_still_counts(tmp_path: Path) -> None:
    async with lone_voter(tmp_path, krucible_fsync="false") as running:
        outcome = running.write("t")
        await until(lambda: outcome.said, "the write was settled")
        log = running.node.storage.log
        assert log.flushed_offset == log.end_offset


@in_loop
async def test_requests_of_a_connection_are_numbered_for_the_barrier(tmp_path: Path) -> None:
    """The core is told the number of the connection that a request came by."""
    async with voter_of_two(tmp_path) as (running, _):
        await running.lead_over()
        voter = running.node.replica._state.role.progress.voters[2]  # type: ignore[union-attr]
        assert voter.replied is not None
        assert voter.replied[0] == FETCHER
