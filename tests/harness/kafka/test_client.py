"""The Kafka client's outcomes: what may have happened is never said not to have."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness.contracts.clients import Outcome, TopicView
from harness.kafka import client as kafka_client
from harness.kafka import errors as kafka_errors
from harness.kafka import route as kafka_route
from harness.kafka.client import KafkaClient
from node.core.types import Endpoint
from node.driver.apis.serving import NOTHING_WRITTEN, OUTCOME_UNKNOWN
from node.wire.api import ApiKey
from node.wire.connection import CONNECT_TIMEOUT_S, Connection
from node.wire.network import Sockets
from tests.support.live.fake_kafka import (
    ALTER,
    CLUSTER,
    CONFIGS,
    CREATE,
    DELETE,
    TOPICS,
    Answer,
    FakeNode,
    altered,
    configs,
    created,
    deleted,
    drop,
    fake_cluster,
    garbage,
    hang,
    leads,
    metadata_refused,
    no_rows,
    then,
    topic,
)
from tests.support.wire.server import until

NOT_CONTROLLER = kafka_errors.NOT_CONTROLLER
UNKNOWN_TOPIC = kafka_errors.UNKNOWN_TOPIC_OR_PARTITION
EXISTS = kafka_errors.TOPIC_ALREADY_EXISTS
REQUEST_TIMEOUT_S = 0.15
OP_TIMEOUT_S = 0.4
READ_TIMEOUT_S = 0.8

Op = Callable[[KafkaClient], Awaitable[Any]]


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_route, "REQUEST_TIMEOUT_S", REQUEST_TIMEOUT_S)
    monkeypatch.setattr(kafka_route, "OP_TIMEOUT_S", OP_TIMEOUT_S)
    monkeypatch.setattr(kafka_client, "READ_TIMEOUT_S", READ_TIMEOUT_S)


def node(number: int = 1, leader: int = 1) -> FakeNode:
    made = FakeNode(number)
    made.answers(CLUSTER, leads(leader))
    return made


def run(op: Op, *nodes: FakeNode, home: str = "n1", down: int = 0) -> tuple[Any, Outcome | None]:
    """(what the op returned, the outcome it raised); every connection is closed after it."""

    async def main() -> tuple[Any, Outcome | None]:
        async with fake_cluster(*nodes, down=down) as cluster:
            client = await KafkaClient(cluster).open(home)
            try:
                return await op(client), None
            except Outcome as outcome:
                return None, outcome
            finally:
                await client.close()
                await until(lambda: not any(n.connections for n in nodes))

    return asyncio.run(main())


def write(client: KafkaClient) -> Awaitable[None]:
    return client.write("k", 5)


def read(client: KafkaClient) -> Awaitable[int | None]:
    return client.read("k")


def create(client: KafkaClient) -> Awaitable[str]:
    return client.create("t", partitions=2, configs={"retention.ms": "5"})


def delete(client: KafkaClient) -> Awaitable[None]:
    return client.delete("t")


def describe(client: KafkaClient) -> Awaitable[TopicView | None]:
    return client.describe("t")


WRITES: list[tuple[Op, ApiKey, Callable[..., Answer]]] = [
    (write, ALTER, altered),
    (create, CREATE, created),
    (delete, DELETE, deleted),
]
every_write = pytest.mark.parametrize(
    ("op", "api", "answer"), WRITES, ids=["write", "create", "delete"]
)


# --------------------------------------------------------------------------- writes


@every_write
def test_a_write_that_is_answered_is_done(
    op: Op, api: ApiKey, answer: Callable[..., Answer]
) -> None:
    n1 = node()
    n1.answers(api, answer())
    result, outcome = run(op, n1)
    assert outcome is None
    assert result == (f"{7:032x}" if api is CREATE else None)
    assert n1.asked == [CLUSTER, api]


@every_write
def test_a_refusal_that_wrote_nothing_is_tried_again_at_the_new_controller(
    op: Op, api: ApiKey, answer: Callable[..., Answer]
) -> None:
    n1, n2 = node(1), node(2)
    n1.answers(CLUSTER, leads(1), leads(2))
    n1.answers(api, answer(NOT_CONTROLLER, NOTHING_WRITTEN))
    n2.answers(api, answer())
    _, outcome = run(op, n1, n2)
    assert outcome is None
    assert (n1.count(api), n2.count(api)) == (1, 1)


@every_write
def test_a_refusal_that_stays_is_a_definite_failure_in_the_end(
    op: Op, api: ApiKey, answer: Callable[..., Answer]
) -> None:
    n1 = node()
    n1.answers(api, answer(NOT_CONTROLLER, NOTHING_WRITTEN))
    _, outcome = run(op, n1)
    assert outcome is not None
    assert (outcome.error, outcome.definite) == ("not-controller", True)
    assert n1.count(api) > 1


@every_write
@pytest.mark.parametrize("message", [None, OUTCOME_UNKNOWN, "", NOTHING_WRITTEN + "?"])
def test_not_controller_alone_says_nothing(
    op: Op, api: ApiKey, answer: Callable[..., Answer], message: str | None
) -> None:
    n1 = node()
    n1.answers(api, answer(NOT_CONTROLLER, message))
    _, outcome = run(op, n1)
    assert outcome is not None
    assert (outcome.error, outcome.definite) == ("not-controller", False)
    assert n1.count(api) == 1, "a write of unknown outcome must not be sent again"


@every_write
@pytest.mark.parametrize(
    ("code", "definite"),
    [(-1, False), (5, False), (6, False), (7, False), (8, False), (10, False), (40, True)],
)
def test_the_code_decides_and_an_unknown_one_is_indefinite(
    op: Op, api: ApiKey, answer: Callable[..., Answer], code: int, definite: bool
) -> None:
    n1 = node()
    # the words are believed only of the code that they belong to
    n1.answers(api, answer(code, NOTHING_WRITTEN))
    _, outcome = run(op, n1)
    assert outcome is not None
    assert outcome.definite is definite
    assert n1.count(api) == 1


@every_write
@pytest.mark.parametrize(
    ("what", "error"),
    [(hang, "timed-out"), (drop, "disconnected"), (garbage, "bad-answer"), (no_rows, "bad-answer")],
)
def test_what_goes_wrong_after_a_write_left_is_indefinite(
    op: Op, api: ApiKey, answer: Callable[..., Answer], what: Answer, error: str
) -> None:
    n1 = node()
    n1.answers(api, what, answer())
    _, outcome = run(op, n1)
    assert outcome is not None
    assert outcome.error.startswith(error)
    assert not outcome.definite
    assert n1.count(api) == 1, "a write of unknown outcome must not be sent again"


@every_write
@pytest.mark.parametrize(
    ("what", "error"),
    [
        (hang, "no-controller"),
        (drop, "no-controller: disconnected"),
        (garbage, "no-controller: bad-answer"),
        (leads(-1), "no-controller"),
        (leads(99), "no-controller"),
    ],
)
def test_a_write_that_never_began_is_a_definite_failure(
    op: Op, api: ApiKey, answer: Callable[..., Answer], what: Answer, error: str
) -> None:
    n1 = node()
    n1.answers(CLUSTER, what)
    n1.answers(api, answer())
    _, outcome = run(op, n1)
    assert outcome is not None
    assert outcome.definite
    assert outcome.error.startswith(error)
    assert api not in n1.asked


@pytest.mark.parametrize("op", [op for op, *_ in WRITES])
def test_a_home_that_refuses_connections_is_a_definite_failure(op: Op) -> None:
    _, outcome = run(op, down=1)
    assert outcome is not None
    assert (outcome.error, outcome.definite) == ("connect-failed", True)


class RefusedThenSlow(Sockets):
    """Refuses the first connection, and is not done with any other one in time."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = False

    async def connect(
        self,
        endpoint: Endpoint,
        *,
        timeout_s: float = CONNECT_TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> Connection:
        if self.refused:
            await asyncio.sleep(60)
        self.refused = True
        return await super().connect(endpoint, timeout_s=timeout_s, tls=tls)


def test_a_deadline_in_the_middle_of_a_look_says_what_the_last_one_met() -> None:
    async def main() -> Outcome:
        async with fake_cluster(down=1) as cluster:
            slow = RefusedThenSlow()
            there = kafka_route.Cluster(cluster.addresses, cluster.names, slow)
            client = KafkaClient(there, "n1")
            with pytest.raises(Outcome) as caught:
                await client.write("k", 1)
            await client.close()
            assert slow.refused
            return caught.value

    outcome = asyncio.run(main())
    assert (outcome.error, outcome.definite) == ("connect-failed", True)


@every_write
def test_a_controller_that_is_down_is_given_up_for_the_next(
    op: Op, api: ApiKey, answer: Callable[..., Answer]
) -> None:
    n1 = node()
    n1.answers(CLUSTER, leads(2), leads(1))
    n1.answers(api, answer())
    _, outcome = run(op, n1, down=1)
    assert outcome is None


def test_a_connection_that_nobody_answers_on_was_never_used_for_a_write() -> None:
    """A relay accepts for a node that is down."""

    async def main() -> None:
        accepted: list[asyncio.StreamWriter] = []
        silent = await asyncio.start_server(lambda _, w: accepted.append(w), "127.0.0.1", 0)
        async with silent, fake_cluster(node()) as cluster:
            port = silent.sockets[0].getsockname()[1]
            addresses = {"n1": type(cluster.addresses["n1"])("127.0.0.1", port)}
            client = KafkaClient(kafka_route.Cluster(addresses, {1: "n1"}, Sockets()), "n1")
            with pytest.raises(Outcome) as caught:
                await client.write("k", 1)
            await client.close()
        assert accepted
        for writer in accepted:
            writer.close()
        assert caught.value.definite

    asyncio.run(main())


def test_a_created_topic_without_an_id_is_no_answer() -> None:
    n1 = node()
    n1.answers(CREATE, created(id=None))
    _, outcome = run(create, n1)
    assert outcome is not None
    assert not outcome.definite


# --------------------------------------------------------------------------- registers


def test_a_register_without_a_topic_gets_one_once() -> None:
    n1 = node()
    n1.answers(ALTER, altered(UNKNOWN_TOPIC), altered())
    n1.answers(CREATE, created())
    _, outcome = run(write, n1)
    assert outcome is None
    assert [api for api in n1.asked if api is not CLUSTER] == [ALTER, CREATE, ALTER]


def test_a_topic_that_somebody_else_made_meanwhile_is_as_good() -> None:
    n1 = node()
    n1.answers(ALTER, altered(UNKNOWN_TOPIC), altered())
    n1.answers(CREATE, created(EXISTS))
    _, outcome = run(write, n1)
    assert outcome is None


def test_a_topic_that_stays_unknown_is_made_once_only() -> None:
    n1 = node()
    n1.answers(ALTER, altered(UNKNOWN_TOPIC))
    n1.answers(CREATE, created())
    _, outcome = run(write, n1)
    assert outcome is not None
    assert (outcome.error, outcome.definite) == ("unknown-topic", True)
    assert (n1.count(CREATE), n1.count(ALTER)) == (1, 2)


@pytest.mark.parametrize("how", [hang, drop, created(7), created(NOT_CONTROLLER)])
def test_a_write_whose_topic_was_perhaps_made_did_not_happen(how: Answer) -> None:
    n1 = node()
    n1.answers(ALTER, altered(UNKNOWN_TOPIC))
    n1.answers(CREATE, how)
    _, outcome = run(write, n1)
    assert outcome is not None
    assert outcome.definite
    assert outcome.error.startswith("create-topic: ")
    assert n1.count(ALTER) == 1


def test_the_second_try_of_a_write_may_be_indefinite() -> None:
    n1 = node()
    n1.answers(ALTER, altered(UNKNOWN_TOPIC), hang)
    n1.answers(CREATE, created())
    _, outcome = run(write, n1)
    assert outcome is not None
    assert (outcome.error, outcome.definite) == ("timed-out", False)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (configs({"retention.ms": "12"}), 12),
        (configs({"cleanup.policy": "compact"}), None),
        (configs({}), None),
        (configs(code=UNKNOWN_TOPIC), None),
    ],
)
def test_a_read_shows_the_config_that_was_set(answer: Answer, value: int | None) -> None:
    n1 = node()
    n1.answers(CONFIGS, answer)
    assert run(read, n1) == (value, None)
    n1.asked.clear()
    assert run(lambda c: c.read_local("k"), n1) == (value, None)
    assert n1.asked == [CONFIGS], "a local read asks nobody who leads"


def test_a_register_that_holds_no_number_is_a_failed_read() -> None:
    n1 = node()
    n1.answers(CONFIGS, configs({"retention.ms": "many"}))
    _, outcome = run(read, n1)
    assert outcome is not None
    assert "many" in outcome.error


def test_a_read_refused_by_the_barrier_goes_on_to_the_new_controller() -> None:
    n1, n2 = node(1), node(2)
    n1.answers(CLUSTER, leads(1), leads(2))
    n1.answers(CONFIGS, configs(code=NOT_CONTROLLER, message=NOTHING_WRITTEN))
    n2.answers(CONFIGS, configs({"retention.ms": "3"}))
    assert run(read, n1, n2) == (3, None)


@pytest.mark.parametrize("op", [read, describe, lambda c: c.read_local("k")])
@pytest.mark.parametrize("how", [hang, drop, no_rows])
def test_a_read_that_gets_no_answer_ends(op: Op, how: Answer) -> None:
    n1 = node()
    for api in (CONFIGS, TOPICS):
        n1.answers(api, how)
    began = asyncio.run(_now())
    _, outcome = run(op, n1)
    assert outcome is not None
    assert asyncio.run(_now()) - began < READ_TIMEOUT_S + 2


async def _now() -> float:
    return asyncio.get_running_loop().time()


# --------------------------------------------------------------------------- topics


def test_a_describe_shows_id_partitions_and_configs_of_one_moment() -> None:
    n1 = node()
    n1.answers(TOPICS, topic(7, partitions=3))
    n1.answers(CONFIGS, configs({"retention.ms": "5"}))
    result, _ = run(describe, n1)
    assert result == TopicView(f"{7:032x}", 3, {"retention.ms": "5"})


def test_a_describe_torn_by_a_new_topic_of_the_name_looks_again() -> None:
    n1 = node()
    n1.answers(TOPICS, topic(7), topic(8, partitions=2))
    n1.answers(CONFIGS, configs({"retention.ms": "8"}))
    result, _ = run(describe, n1)
    assert result == TopicView(f"{8:032x}", 2, {"retention.ms": "8"})
    assert n1.count(TOPICS) == 4


def test_a_describe_torn_by_a_delete_sees_nothing() -> None:
    n1 = node()
    n1.answers(TOPICS, topic(7), topic(code=UNKNOWN_TOPIC))
    n1.answers(CONFIGS, configs(code=UNKNOWN_TOPIC))
    assert run(describe, n1) == (None, None)


def test_a_describe_that_is_torn_for_ever_ends_as_a_failure() -> None:
    n1 = node()
    n1.answers(TOPICS, topic(7))
    n1.answers(CONFIGS, configs(code=UNKNOWN_TOPIC))
    _, outcome = run(describe, n1)
    assert outcome is not None
    assert outcome.error == "timed-out"


def test_a_describe_refused_half_way_begins_anew_at_the_new_controller() -> None:
    n1, n2 = node(1), node(2)
    n1.answers(CLUSTER, leads(1), leads(2))
    n1.answers(TOPICS, topic(7), metadata_refused)
    n1.answers(CONFIGS, configs({"a": "1"}))
    n2.answers(TOPICS, topic(9))
    n2.answers(CONFIGS, configs({"a": "2"}))
    result, _ = run(describe, n1, n2)
    assert result == TopicView(f"{9:032x}", 1, {"a": "2"})


def test_answers_about_the_name_have_the_words_that_the_checker_knows() -> None:
    n1 = node()
    n1.answers(CREATE, created(EXISTS))
    n1.answers(DELETE, deleted(UNKNOWN_TOPIC))
    for op, word in ((create, "topic-already-exists"), (delete, "unknown-topic")):
        _, outcome = run(op, n1)
        assert outcome is not None
        assert (outcome.error, outcome.definite) == (word, True)


# --------------------------------------------------------------------------- time, connections


def test_no_write_begins_after_its_time() -> None:
    n1 = node()
    n1.answers(ALTER, altered(NOT_CONTROLLER, NOTHING_WRITTEN))

    async def main() -> float:
        async with fake_cluster(n1) as cluster:
            client = KafkaClient(cluster, "n1")
            began = asyncio.get_running_loop().time()
            with pytest.raises(Outcome):
                await client.write("k", 1)
            await client.close()
            return asyncio.get_running_loop().time() - began

    assert asyncio.run(main()) < OP_TIMEOUT_S + REQUEST_TIMEOUT_S + 1


def test_a_cancelled_op_closes_its_connection_so_no_late_answer_is_taken_for_another() -> None:
    n1 = node()
    n1.answers(ALTER, hang)
    n1.answers(CONFIGS, configs({"retention.ms": "4"}))

    async def main() -> None:
        async with fake_cluster(n1) as cluster:
            client = KafkaClient(cluster, "n1")
            task = asyncio.create_task(client.write("k", 1))
            await until(lambda: n1.count(ALTER))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: n1.connections == 0)
            assert await client.read("k") == 4
            await client.close()
            await until(lambda: n1.connections == 0)

    asyncio.run(main())


def test_clients_opened_from_one_prototype_share_nothing() -> None:
    n1 = node()
    n1.answers(CONFIGS, configs({"retention.ms": "4"}))

    async def main() -> None:
        async with fake_cluster(n1) as cluster:
            prototype = KafkaClient(cluster)
            one, two = await prototype.open("n1"), await prototype.open("n1")
            await asyncio.gather(one.read("k"), two.read("k"))
            assert n1.connections == 2
            await one.close()
            await one.close()
            assert await two.read("k") == 4
            await two.close()

    asyncio.run(main())


def test_a_peer_that_dies_between_two_ops_is_reconnected_to() -> None:
    n1 = node()
    n1.answers(CONFIGS, configs({"retention.ms": "1"}), drop, configs({"retention.ms": "2"}))

    async def main() -> None:
        async with fake_cluster(n1) as cluster:
            client = KafkaClient(cluster, "n1")
            assert await client.read("k") == 1
            with pytest.raises(Outcome):
                await client.read("k")
            assert await client.read("k") == 2
            await client.close()

    asyncio.run(main())


def test_a_controller_that_moves_while_a_write_waits_for_it_is_indefinite() -> None:
    """The old one dies with the write in hand; asking the new one would write twice."""
    n1, n2 = node(1, leader=2), node(2)
    n2.answers(ALTER, then(lambda: n1.answers(CLUSTER, leads(1)), drop))
    n1.answers(ALTER, altered())
    _, outcome = run(write, n1, n2)
    assert outcome is not None
    assert not outcome.definite
    assert n1.count(ALTER) == 0
