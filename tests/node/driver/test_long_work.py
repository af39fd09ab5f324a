"""While a large operation is worked out a node answers, and other operations wait for its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from node.controller.slices import STEPS_PER_SLICE
from node.driver.apis import serving
from node.driver.apis.serving import NOTHING_WRITTEN
from node.driver.long_work import LongWork
from node.wire.api import ApiKey
from node.wire.errors import LocalProtocolError
from node.wire.payloads import encode
from tests.support.nodes.driver import (
    NO_TIMEOUT,
    Client,
    in_loop,
    lone_voter,
    part,
    until,
    voter_of_two,
)

NOT_CONTROLLER = 41
LARGE = 8 * STEPS_PER_SLICE


class Soon:
    """Calls what it is given when it is told to."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.said: list[Any] = []
        self.work = LongWork(self.calls.append)

    def turn(self) -> None:
        calls, self.calls[:] = list(self.calls), []
        for call in calls:
            call()

    def begin(self, name: str, slices: int, error: Exception | None = None) -> None:
        def work() -> Generator[None, None, str]:
            for n in range(slices - 1):
                self.said.append(f"{name}{n}")
                yield
            if error is not None:
                raise error
            return name

        self.work.begin(
            work(),
            lambda done, _: self.said.append(done),
            self.said.append,
            lambda: self.said.append(f"no {name}"),
        )


def test_one_slice_in_a_turn_and_others_after_the_last_in_their_order() -> None:
    soon = Soon()
    soon.begin("a", 3)
    soon.work.when_free(lambda: soon.begin("b", 2))
    soon.work.when_free(lambda: soon.said.append("c"))
    assert soon.said == ["a0"]
    soon.turn()
    assert soon.said == ["a0", "a1"]
    soon.turn()
    assert soon.said == ["a0", "a1", "a", "b0"]
    soon.turn()
    assert soon.said == ["a0", "a1", "a", "b0", "b", "c"]
    soon.turn()
    assert len(soon.said) == 6


def test_what_is_small_is_done_at_once() -> None:
    soon = Soon()
    soon.begin("a", 1)
    soon.work.when_free(lambda: soon.said.append("b"))
    assert (soon.said, soon.calls) == (["a", "b"], [])


def test_an_error_in_any_slice_is_told_and_others_go_on() -> None:
    soon = Soon()
    error = ValueError("in the second")
    soon.begin("a", 2, error)
    soon.work.when_free(lambda: soon.said.append("b"))
    soon.turn()
    assert soon.said == ["a0", error, "b"]


def test_what_is_given_up_says_so_and_goes_on_no_more() -> None:
    soon = Soon()
    soon.begin("a", 3)
    soon.work.when_free(lambda: soon.said.append("b"))
    soon.work.give_up()
    soon.work.give_up()
    soon.turn()
    assert soon.said == ["a0", "no a", "b"]


def new_topic(name: str, partitions: int) -> Any:
    return part(
        ApiKey.CREATE_TOPICS,
        7,
        "CreatableTopic",
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        assignments=(),
        configs=(),
    )


async def create(client: Client, name: str, partitions: int) -> Any:
    answer = await client.ask(
        ApiKey.CREATE_TOPICS,
        7,
        topics=(new_topic(name, partitions),),
        timeout=NO_TIMEOUT,
        validate_only=False,
    )
    return answer.topics[0]


@in_loop
async def test_a_quorum_is_answered_at_once_and_a_write_after_the_large_one(tmp_path: Path) -> None:
    async with lone_voter(tmp_path) as voter, Client.of(voter) as large, Client.of(voter) as small:
        ended: list[str] = []
        controller = voter.node.controller
        assert controller is not None

        async def told(name: str, work: Any) -> Any:
            answer = await work
            ended.append(name)
            return answer

        first = asyncio.ensure_future(told("large", create(large, "large", LARGE)))
        await until(lambda: controller._busy, "the large one is under way")
        second = asyncio.ensure_future(told("small", create(small, "small", 1)))
        async with Client.of(voter) as other:
            answer = await other.ask(
                ApiKey.DESCRIBE_CLUSTER,
                1,
                endpoint_type=2,
                include_cluster_authorized_operations=False,
            )
        assert not int(answer.error_code)
        assert ended == []
        assert controller._busy
        assert not int((await first).error_code)
        assert not int((await second).error_code)
        assert not voter.errors
        appended = [e["last"] - e["base"] + 1 for e in voter.events if e["t"] == "append"]
        assert appended[-2:] == [LARGE + 1, 2]
        topics = voter.node.machine.image.topics
        assert [len(topics[name].partitions) for name in ("large", "small")] == [LARGE, 1]


@in_loop
async def test_leadership_lost_while_it_is_worked_out_is_a_sure_refusal(tmp_path: Path) -> None:
    async with voter_of_two(tmp_path) as (running, _), Client.of(running) as client:
        await running.lead_over()
        controller = running.node.controller
        assert controller is not None
        answer = asyncio.ensure_future(create(client, "large", LARGE))
        await until(lambda: controller._busy, "it is under way")
        running.depose()
        row = await answer
        assert (int(row.error_code), row.error_message) == (NOT_CONTROLLER, NOTHING_WRITTEN)
        assert not controller.active
        assert not controller._busy
        assert controller.speculative == 0
        assert not running.errors


@pytest.mark.parametrize("fails_at", [0, LARGE // 2])
@in_loop
async def test_a_controller_that_fails_in_a_later_slice_gives_up(
    tmp_path: Path, fails_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lone_voter(tmp_path) as voter, Client.of(voter) as client:
        controller = voter.node.controller
        assert controller is not None
        replay, calls = controller._overlay.replay, [0]

        def failing(*arguments: Any) -> None:
            calls[0] += 1
            if calls[0] > fails_at:
                raise RuntimeError("nobody thought of this")
            replay(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(controller._overlay, "replay", failing)
            row = await create(client, "large", LARGE)
        assert int(row.error_code) == -1
        assert "nothing was written" in row.error_message
        await voter.lead()
        assert not int((await create(client, "large", 2)).error_code)


@in_loop
async def test_a_large_answer_is_made_beside_other_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others_were_answered = threading.Event()

    def patient(entity: Any) -> bytes:
        if entity.topics[0].name == "large":
            assert others_were_answered.wait(30), "the loop stood still while it was encoded"
        return encode(entity)

    monkeypatch.setattr(serving, "to_bytes", patient)
    async with lone_voter(tmp_path) as voter, Client.of(voter) as large, Client.of(voter) as small:
        first = asyncio.ensure_future(create(large, "large", LARGE))
        await until(lambda: "large" in voter.node.machine.image.topics, "it is committed")
        assert not int((await create(small, "small", 1)).error_code)
        assert not first.done()
        others_were_answered.set()
        assert not int((await first).error_code)


@in_loop
async def test_what_goes_wrong_aside_is_told() -> None:
    told: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    wrong = LocalProtocolError("does not fit")

    def fail() -> bytes:
        raise wrong

    LongWork(lambda _: None).aside(fail, told.set_result, told.set_result)
    assert await told is wrong
