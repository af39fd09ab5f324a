"""Controllers before 3.7 answer no DescribeCluster: clients find the active one all the same."""

from __future__ import annotations

import asyncio

import pytest

from harness.contracts.clients import Outcome
from harness.kafka import route as kafka_route
from harness.kafka.client import KafkaClient
from node.core.messages import DescribeQuorumRequest, DescribeQuorumResponse, Error
from node.wire import codec
from node.wire.api import ALL_APIS, ApiKey, table
from node.wire.server import InboundRequest
from tests.support.live.fake_kafka import ALTER, Answer, FakeNode, altered, fake_cluster, hang

QUORUM = ApiKey.DESCRIBE_QUORUM
OLDER = table(api for key, api in ALL_APIS.items() if key != ApiKey.DESCRIBE_CLUSTER)


def told(leader: int | None) -> Answer:
    """Answer DescribeQuorum: `leader` leads; with None, refuse as a controller that does not."""

    def answer(request: InboundRequest) -> None:
        error = Error.NONE if leader is not None else Error.NOT_LEADER_OR_FOLLOWER
        quorum = DescribeQuorumResponse(error, 5, leader or 0, 9)
        request.reply(codec.answer(quorum, request.version, request=DescribeQuorumRequest()))

    return answer


def controller(number: int, leader: int | None) -> FakeNode:
    made = FakeNode(number, apis=OLDER)
    made.answers(QUORUM, told(leader))
    made.answers(ALTER, altered())
    return made


def write(*nodes: FakeNode, down: int = 0) -> None:
    async def main() -> None:
        async with fake_cluster(*nodes, down=down) as cluster:
            client = await KafkaClient(cluster).open("n1")
            try:
                await client.write("k", 5)
            finally:
                await client.close()

    asyncio.run(main())


def test_a_home_that_leads_says_so_itself() -> None:
    n1, n2 = controller(1, leader=1), controller(2, leader=None)
    write(n1, n2)
    assert n1.asked == [QUORUM, ALTER]
    assert not n2.asked


def test_where_the_home_does_not_lead_the_others_are_asked_also_with_one_down() -> None:
    n1, n2, n3 = controller(1, leader=None), controller(2, leader=None), controller(3, leader=3)
    write(n1, n2, n3, down=1)
    assert n3.asked == [QUORUM, ALTER]
    assert ALTER not in n1.asked + n2.asked


def test_without_a_leader_nothing_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_route, "OP_TIMEOUT_S", 0.4)
    with pytest.raises(Outcome, match="no-controller") as caught:
        write(controller(1, leader=None), controller(2, leader=None))
    assert caught.value.definite


def test_a_node_that_never_answers_is_in_nobodys_way_later() -> None:
    """An answer ends the questions to all others; their connections are not used again."""
    n1, n2, n3 = controller(1, leader=None), controller(2, leader=3), controller(3, leader=3)
    n3.answers(QUORUM, hang)

    async def main() -> None:
        async with fake_cluster(n1, n2, n3) as cluster:
            client = await KafkaClient(cluster).open("n1")
            for value in (1, 2):
                await client.write("k", value)
            await client.close()

    asyncio.run(main())
    assert n3.count(ALTER) == 2
