"""An operation that fails unexpectedly: the controller gives up, the node and the quorum go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from node.controller.errors import ControllerError
from node.driver.apis.serving import FAULT, OUTCOME_UNKNOWN
from node.wire.api import ApiKey
from tests.support.nodes.driver import NO_TIMEOUT, Client, Running, in_loop, lone_voter, part, until

NONE, UNKNOWN_SERVER_ERROR = 0, -1


async def create(client: Client, name: str) -> Any:
    topic = part(
        ApiKey.CREATE_TOPICS,
        7,
        "CreatableTopic",
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=(),
        configs=(),
    )
    answer = await client.ask(
        ApiKey.CREATE_TOPICS, 7, topics=(topic,), timeout=NO_TIMEOUT, validate_only=False
    )
    return answer.topics[0]


def breaks(running: Running, method: str, error: Exception) -> list[str]:
    """Let the next call of a controller's operation fail; the list tells that it has."""
    controller = running.node.controller
    assert controller is not None
    owner: Any = controller.long if hasattr(controller.long, method) else controller
    done: list[str] = []

    def fail(*_: Any, **__: Any) -> Any:
        done.append(method)
        delattr(owner, method)
        raise error

    setattr(owner, method, fail)
    return done


@in_loop
async def test_a_request_that_breaks_the_controller_ends_its_reign_only(tmp_path: Path) -> None:
    async with lone_voter(tmp_path) as running, Client.of(running) as client:
        node = running.node
        assert int((await create(client, "before")).error_code) == NONE
        epoch = node.replica.epoch
        pending = running.write("pending")  # worked out before, settled when the reign ends
        breaks(running, "create_topics", KeyError("no such thing"))
        row = await create(client, "breaks")
        assert (int(row.error_code), row.error_message) == (UNKNOWN_SERVER_ERROR, FAULT)
        assert pending.said in (["done"], ["abandoned"], ["refused"])
        await until(lambda: running.active and node.replica.epoch > epoch, "it leads again")
        assert int((await create(client, "after")).error_code) == NONE
        assert set(node.machine.image.topics) - {"pending"} == {"before", "after"}
        assert running.errors == []
        reign = [e["t"] for e in running.events if e["t"] in ("claim", "renounce")]
        assert reign == ["claim", "renounce", "claim"]


@in_loop
async def test_a_job_that_breaks_ends_the_reign(tmp_path: Path) -> None:
    async with lone_voter(tmp_path, metadata_max_idle_interval_ms="20") as running:
        epoch = running.node.replica.epoch
        done = breaks(running, "expire_sessions", ValueError("no such thing"))
        await until(lambda: done, "the job ran")
        await until(lambda: running.active and running.node.replica.epoch > epoch, "leads again")
        end = running.node.machine.applied
        await until(lambda: running.node.machine.applied > end, "NoOp records go on")
        assert running.errors == []


@in_loop
async def test_what_was_queued_before_the_fault_is_refused_and_never_written(
    tmp_path: Path,
) -> None:
    async with lone_voter(tmp_path, controller_quorum_append_linger_ms="0") as running:
        node, epoch = running.node, running.node.replica.epoch
        queued = running.write("queued")  # not stepped when the reign ends
        node.fault("Test", ValueError("no such thing"))
        await until(lambda: running.active and node.replica.epoch > epoch, "it leads again")
        assert queued.said == ["refused"]
        assert "queued" not in node.machine.image.topics
        assert running.errors == []


@in_loop
async def test_a_broken_contract_is_still_fatal(tmp_path: Path) -> None:
    async with lone_voter(tmp_path, metadata_max_idle_interval_ms="20") as running:
        breaks(running, "expire_sessions", ControllerError("records are of no pending write"))
        await until(lambda: running.errors, "the node has stopped")
        assert [type(error) for error in running.errors] == [ControllerError]


def test_the_two_refusals_cannot_be_confused() -> None:
    """A client may rely on the words: one says that nothing was written, the other cannot know."""
    assert "nothing was written" in FAULT
    assert "nothing was written" not in OUTCOME_UNKNOWN
