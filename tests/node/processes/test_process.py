"""Real node processes: orderly ends, loud deaths, and what survives a kill."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from node.log.batch import decode_records, iter_batches
from node.metadata.records import decode_record
from node.metadata.schemas import TopicRecord
from node.wire.api import ApiKey
from node.wire.connection import Connection
from node.wire.errors import WireError
from tests.support.nodes.driver import NO_TIMEOUT, Client, in_loop, part
from tests.support.nodes.process import EXIT_FATAL, NodeProcess, node_process

pytestmark = pytest.mark.slow

NOT_CONTROLLER = 41


async def create(node: NodeProcess, *names: str) -> None:
    """Create topics, one acknowledged after the other; a new leader may still be replaying."""
    connection = await Connection.open(node.endpoint)
    client = Client(connection)
    try:
        for name in names:
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
            code = NOT_CONTROLLER
            while code == NOT_CONTROLLER:
                answer = await client.ask(
                    ApiKey.CREATE_TOPICS,
                    7,
                    topics=(topic,),
                    timeout=NO_TIMEOUT,
                    validate_only=False,
                )
                code = int(answer.topics[0].error_code)
            assert code == 0
    finally:
        connection.close()
        await connection.wait_closed()


def end_of(node: NodeProcess, topic: str) -> int:
    """Where in the first segment the batch ends that creates a topic."""
    position = 0
    for batch in iter_batches(node.segment.read_bytes()):
        position += len(batch.data)
        if not batch.is_control:
            records = [decode_record(value or b"") for _, _, value in decode_records(batch)]
            if any(isinstance(r, TopicRecord) and r.name == topic for r in records):
                return position
    raise AssertionError(f"no batch creates {topic}")


async def topics(node: NodeProcess) -> list[str]:
    """All topics that the node has committed."""
    connection = await Connection.open(node.endpoint)
    try:
        answer = await Client(connection).ask(
            ApiKey.METADATA,
            12,
            topics=None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        assert int(answer.topics[0].error_code if answer.topics else 0) == 0
        return sorted(topic.name for topic in answer.topics)
    finally:
        connection.close()
        await connection.wait_closed()


@in_loop
async def test_everything_acknowledged_survives_kills_and_a_torn_tail(tmp_path: Path) -> None:
    """A kill, a half-written batch, a flipped byte, cut bytes: only what was torn may go."""
    async with node_process(tmp_path, read_barrier="true") as node:
        await node.start()
        await create(node, "a", "b")
        await node.kill()

        whole = node.segment.read_bytes()
        node.segment.write_bytes(whole + b"\x00" * 7 + b"garbage")
        await node.start()
        await create(node, "c")
        assert await topics(node) == ["a", "b", "c"]
        assert "14 bytes lost: " in node.log
        await node.kill()

        await node.start()
        await create(node, "d")
        await node.kill()
        data = bytearray(node.segment.read_bytes())
        data[end_of(node, "d") - 1] ^= 0x40  # its batch's checksum does not fit any more
        node.segment.write_bytes(data)
        await node.start()
        await create(node, "e")
        assert await topics(node) == ["a", "b", "c", "e"]
        assert "CRC" in node.log
        await node.kill()

        with node.segment.open("rb+") as segment:
            segment.truncate(end_of(node, "c") - 3)
        await node.start()
        await create(node, "f")
        assert await topics(node) == ["a", "b", "f"]
        epochs = [e["ep"] for e in node.events if e["t"] == "elected"]
        assert epochs == sorted(set(epochs)), "a killed leader never leads the same epoch again"
        assert len(epochs) == 5


@in_loop
async def test_sigterm_is_an_orderly_end(tmp_path: Path) -> None:
    async with node_process(tmp_path) as node:
        await node.start()
        await create(node, "a")
        assert await node.signal(signal.SIGTERM) == 0
        assert "node 1 stopped in good order" in node.log
        kinds = [e["t"] for e in node.events]
        assert kinds[0] == "start"
        assert kinds[-1] == "stop"
        assert kinds.index("renounce") < kinds.index("stop")


@in_loop
async def test_a_fatal_error_ends_the_process_loudly(tmp_path: Path) -> None:
    """No trace, no node: it must not live on without a part of itself (KAFKA-14644)."""
    async with node_process(tmp_path, krucible_trace_file="/dev/full") as node:
        try:
            await node.start()
        except AssertionError:
            assert node.process is not None
        assert await node.ended() == EXIT_FATAL
        assert "CRITICAL" in node.log
        assert "[Errno 28] No space left on device" in node.log
        with pytest.raises(WireError):
            await Connection.open(node.endpoint)


@in_loop
async def test_a_damaged_quorum_state_refuses_the_start(tmp_path: Path) -> None:
    async with node_process(tmp_path) as node:
        await node.start()
        await create(node, "a")
        await node.kill()
        state = node.segment.with_name("quorum-state")
        state.write_bytes(state.read_bytes()[:-5])
        done = node.command("run")
        assert done.returncode == 254
        assert done.stderr.startswith(f"krucible-node: cannot use {state}: ")
        assert "could vote twice" in done.stderr
        assert "Traceback" not in done.stdout + done.stderr
