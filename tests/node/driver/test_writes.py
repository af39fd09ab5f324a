"""What becomes of client operations: committed, refused, abandoned; in which order; reads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from node.core import effects as fx
from node.driver.apis.serving import NOTHING_WRITTEN, OUTCOME_UNKNOWN
from node.driver.held import HeldRead
from node.wire.api import ApiKey
from tests.support.nodes.driver import (
    NO_TIMEOUT,
    Client,
    Outcome,
    Running,
    in_loop,
    lone_voter,
    part,
    until,
    voter_of_two,
)

NOT_CONTROLLER = 41
TOPIC_ALREADY_EXISTS = 36
TOPIC = 2


async def settle(running: Running) -> None:
    """Let everything happen that needs no other node."""
    steps = -1
    while (
        steps != running.node.pump.counters.steps
        or running.node.pump._inputs
        or running.node.pump._outbox
    ):
        steps = running.node.pump.counters.steps
        await asyncio.sleep(0.002)


@in_loop
async def test_a_write_is_done_only_when_a_majority_has_it(tmp_path: Path) -> None:
    async with voter_of_two(tmp_path) as (running, _):
        await running.lead_over()
        outcome = running.write("t")
        await settle(running)
        assert outcome.said == []
        end = running.node.replica.log_end_offset
        assert running.node.storage.log.flushed_offset == end
        running.fetch(end)
        await until(lambda: outcome.said, "the write was settled")
        assert outcome.said == ["done"]
        ack = next(e for e in running.events if e["t"] == "ack" and e["api"] == "Test")
        assert ack["off"] == end - 1
        assert ack["hwm"] == end


@in_loop
async def test_leadership_lost_after_the_append_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    async with voter_of_two(tmp_path) as (running, _):
        await running.lead_over()
        outcome = running.write("t")
        await settle(running)
        running.depose()
        await until(lambda: outcome.said, "the write was settled")
        assert outcome.said == ["abandoned"]
        assert running.kinds().count("renounce") == 1


@in_loop
async def test_leadership_lost_before_the_append_is_a_sure_refusal(tmp_path: Path) -> None:
    async with voter_of_two(tmp_path) as (running, _):
        await running.lead_over()
        end = running.node.replica.log_end_offset
        running.depose()
        outcome = running.write("t")  # the deposition is queued and not yet stepped
        await until(lambda: outcome.said, "the write was settled")
        await settle(running)
        assert outcome.said == ["refused"]
        assert running.node.replica.log_end_offset == end


@in_loop
async def test_what_lingers_when_leadership_is_lost_is_refused_and_never_written(
    tmp_path: Path,
) -> None:
    async with voter_of_two(tmp_path, controller_quorum_append_linger_ms="40") as (running, _):
        await running.lead_over()
        end = running.node.replica.log_end_offset
        outcomes = [running.write("t"), running.write("t")]
        running.depose()
        await until(lambda: all(o.said for o in outcomes), "the writes were settled")
        await until(lambda: not running.node.work._lingering, "the linger was over")
        await settle(running)
        assert [o.said for o in outcomes] == [["refused"], ["refused"]]
        assert running.node.replica.log_end_offset == end


@in_loop
async def test_an_operation_without_records_waits_for_what_it_saw(tmp_path: Path) -> None:
    async with voter_of_two(tmp_path) as (running, _):
        await running.lead_over()
        said: list[str] = []
        first, second = running.write("t"), running.write("t")
        assert second.errors == [TOPIC_ALREADY_EXISTS]
        await settle(running)
        assert (first.said, second.said, said) == ([], [], [])
        running.fetch(running.node.replica.log_end_offset)
        await until(lambda: second.said, "the second was settled")
        assert (first.said, second.said) == (["done"], ["done"])


@in_loop
async def test_an_operation_without_records_is_lost_with_what_it_saw(tmp_path: Path) -> None:
    async with voter_of_two(tmp_path) as (running, _):
        await running.lead_over()
        first, second = running.write("t"), running.write("t")
        await settle(running)
        running.depose()
        await until(lambda: second.said, "the second was settled")
        assert (first.said, second.said) == (["abandoned"], ["abandoned"])


@in_loop
async def test_an_operation_without_records_behind_a_deposition_is_not_acknowledged(
    tmp_path: Path,
) -> None:
    """It saw a record that never came into the log: "exists already" would be a lie."""
    async with voter_of_two(tmp_path) as (running, _):
        await running.lead_over()
        running.depose()
        first, second = running.write("t"), running.write("t")
        assert second.errors == [TOPIC_ALREADY_EXISTS]
        await until(lambda: second.said, "the second was settled")
        assert (first.said, second.said) == (["refused"], ["refused"])


@in_loop
async def test_with_nothing_pending_an_operation_without_records_is_done_at_once(
    tmp_path: Path,
) -> None:
    async with lone_voter(tmp_path) as running:
        first = running.write("t")
        await until(lambda: first.said, "the first was settled")
        second = running.write("t")
        await until(lambda: second.said, "the second was settled")
        assert second.said == ["done"]


@in_loop
async def test_a_refused_proposal_ends_the_leadership(tmp_path: Path) -> None:
    """A leader whose controller gave up must not go on leading (KAFKA-13104)."""
    async with voter_of_two(tmp_path) as (running, _):
        await running.lead_over()
        node, outcome = running.node, Outcome()
        node.work._proposals[77] = outcome.held()
        node.effects.run_one(fx.ProposalRejected(77, None))
        node.pump._schedule_pump()
        await until(lambda: outcome.said, "the write was settled")
        assert outcome.said == ["refused"]
        assert not running.active
        await until(lambda: not node.replica.is_leader, "the leader resigned")


@in_loop
async def test_a_refusal_of_a_leadership_gone_by_does_not_end_the_present_one(
    tmp_path: Path,
) -> None:
    async with lone_voter(tmp_path) as running:
        running.node.effects.run_one(fx.ProposalRejected(12345, None))
        await settle(running)
        assert running.active
        assert running.node.replica.is_leader


@in_loop
async def test_no_op_records_keep_coming_while_active(tmp_path: Path) -> None:
    async with lone_voter(tmp_path, metadata_max_idle_interval_ms="5") as running:
        await until(lambda: running.node.machine.applied > 4, "NoOp records were committed")


@in_loop
async def test_a_barrier_read_waits_for_a_fetch_that_began_after_it(tmp_path: Path) -> None:
    async with voter_of_two(tmp_path) as (running, _):
        await running.lead_over()
        end = running.node.replica.log_end_offset
        said: list[str] = []
        running.node.read(
            HeldRead("Test", lambda: said.append("done"), lambda: said.append("refused"))
        )
        await settle(running)
        assert said == []
        running.fetch(end)  # its reply leaves after the barrier...
        await settle(running)
        running.fetch(end)  # ... so this one began after it
        await until(lambda: said, "the read was settled")
        assert said == ["done"]
        assert next(e for e in running.events if e["t"] == "read")["off"] == end


@in_loop
async def test_a_barrier_read_is_refused_when_leadership_is_lost(tmp_path: Path) -> None:
    async with voter_of_two(tmp_path) as (running, _):
        await running.lead_over()
        said: list[str] = []
        running.node.read(
            HeldRead("Test", lambda: said.append("done"), lambda: said.append("refused"))
        )
        running.depose()
        await until(lambda: said, "the read was settled")
        assert said == ["refused"]


# ------------------------------------------------------------------ the same over sockets


async def create(client: Client, name: str) -> Any:
    version = 7
    topic = part(
        ApiKey.CREATE_TOPICS,
        version,
        "CreatableTopic",
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=(),
        configs=(),
    )
    answer = await client.ask(
        ApiKey.CREATE_TOPICS, version, topics=(topic,), timeout=NO_TIMEOUT, validate_only=False
    )
    return answer.topics[0]


@in_loop
async def test_a_client_hears_whether_anything_was_written(tmp_path: Path) -> None:
    async with voter_of_two(tmp_path) as (running, _), Client.of(running) as client:
        await running.lead_over()
        end = running.node.replica.log_end_offset
        pending = asyncio.create_task(create(client, "t"))
        await until(lambda: running.node.replica.log_end_offset > end, "the write is in the log")
        running.depose()
        row = await pending
        assert (int(row.error_code), row.error_message) == (NOT_CONTROLLER, OUTCOME_UNKNOWN)
        row = await create(client, "t")
        assert (int(row.error_code), row.error_message) == (NOT_CONTROLLER, NOTHING_WRITTEN)


@in_loop
async def test_a_client_reads_behind_the_barrier(tmp_path: Path) -> None:
    async with (
        voter_of_two(tmp_path, read_barrier="true") as (running, _),
        Client.of(running) as client,
    ):
        await running.lead_over()
        resource = part(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            "DescribeConfigsResource",
            resource_type=TOPIC,
            resource_name="t",
            configuration_keys=None,
        )
        pending = asyncio.create_task(
            client.ask(
                ApiKey.DESCRIBE_CONFIGS,
                4,
                resources=(resource,),
                include_synonyms=False,
                include_documentation=False,
            )
        )
        await until(lambda: running.node.work._reads, "the read came in")
        await settle(running)
        assert not pending.done()
        running.depose()
        row = (await pending).results[0]
        assert (int(row.error_code), row.error_message) == (NOT_CONTROLLER, NOTHING_WRITTEN)
