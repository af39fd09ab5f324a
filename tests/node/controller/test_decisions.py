"""The controller tells of what it decides about brokers and partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from node.controller.operations import ControllerResult
from node.driver.held import HeldWrite
from tests.support.nodes.controllers import Cluster
from tests.support.nodes.driver import in_loop, lone_voter, until


def only(result: ControllerResult[Any]) -> dict[str, Any]:
    ((type_, fields),) = result.notes
    return {"t": type_, **fields}


def test_an_altered_partition_is_told_as_asked_and_as_it_is_then() -> None:
    cluster = Cluster(3)
    topic_id = cluster.topic("t", (1, 2, 3))
    request = cluster.wants_isr((1, 3))
    asked = {"t": "alter", "broker": 1, "b_ep": request.broker_epoch, "tp": [topic_id.hex, 0]}
    asked |= {"req_lep": 0, "req_pep": 0, "lep": 0, "pep": 1}
    members = [(m.broker_id, m.broker_epoch) for m in request.topics[topic_id][0].new_isr]
    results = [cluster.controller.alter_partition(request) for _ in range(2)]
    assert [only(result) for result in results] == [
        asked | {"req_isr": members, "err": err} for err in (0, 95)
    ]


def test_a_broker_that_is_let_go_is_told_with_what_all_know() -> None:
    cluster = Cluster(3)
    cluster.topic("t", (1, 2))
    cluster.beat(1, want_shut_down=True)
    need = len(cluster.log) - 1
    for broker, known in ((2, need), (3, need + 1)):
        cluster.beat(broker, current_metadata_offset=known)
    result = cluster.controller.heartbeat(cluster.heartbeat(1, want_shut_down=True))
    assert result.reply.should_shut_down
    assert only(result) == {
        "t": "let_go",
        "broker": 1,
        "b_ep": cluster.broker(1).epoch,
        "need": need,
        "was": "controlled shutdown",
        "want_fence": False,
        "leads": False,
        "active": [(2, need), (3, need + 1)],
    }


def test_a_broker_that_leads_nothing_is_let_go_at_once() -> None:
    cluster = Cluster(2)
    result = cluster.controller.heartbeat(cluster.heartbeat(1, want_shut_down=True))
    found = only(result)
    assert (found["was"], found["leads"], found["need"]) == ("unfenced", False, None)


def test_an_expired_session_is_told_with_the_silence() -> None:
    cluster = Cluster(1)
    cluster.controller.contact(1, cluster.broker(1).epoch, 5000)
    assert cluster.controller.expire_sessions(14_000).notes == ()
    fields = {"broker": 1, "b_ep": cluster.broker(1).epoch}
    result = cluster.controller.expire_sessions(14_001)
    assert only(result) == {"t": "expire", **fields, "silent_ms": 9001, "session_ms": 9000}


@in_loop
async def test_a_decision_is_traced_when_it_is_committed(tmp_path: Path) -> None:
    async with lone_voter(tmp_path) as running:
        controller = running.node.controller
        assert controller is not None
        said: list[str] = []
        notes = (("expire", {"broker": 9}),)
        held = [
            HeldWrite("Test", lambda: said.append("done"), *2 * (lambda: None,), notes=each)
            for each in (notes, ())
        ]
        for write in held:
            running.node.propose(controller.no_op().entries, write)
        await until(lambda: len(said) == 2, "both are committed")
        events = running.events
    (expire,) = [event for event in events if event["t"] == "expire"]
    assert (expire["broker"], expire["off"]) == (9, held[0].wait_for)
    (ack,) = [e for e in events if e["t"] == "ack" and e["off"] == held[0].wait_for]
    assert ack["seq"] < expire["seq"]
