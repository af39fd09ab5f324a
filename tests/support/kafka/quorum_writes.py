"""What an admin writes through controllers alone: brokers that are only registered, and topics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from node.driver.membership import supported_features
from node.wire.errors import WireError
from node.wire.payloads import api_schema
from node.wire.structs import build
from tests.support.kafka.calls import call
from tests.support.kafka.cluster import CLUSTER_ID, HOST, Quorum
from tests.support.kafka.quorum_view import voters
from tests.support.kafka.tools import KafkaTools, Through

# A broker that says nothing more is not to be fenced while a test runs.
PATIENT = {"broker_session_timeout_ms": "600000"}

_BROKER_REGISTRATION = (62, 4)
_BROKER_HEARTBEAT = (63, 1)
_CREATE_TOPICS = (19, 7)
_TOPIC_ALREADY_EXISTS = 36
_NO_OFFSET = -1


def register_broker(quorum: Quorum, broker_id: int) -> None:
    """Register a broker that does not exist with the leader, and have it unfenced."""
    request = api_schema(*_BROKER_REGISTRATION).request
    listener = build(request, "Listener", name="PLAINTEXT", host=HOST, port=9, security_protocol=0)
    features = tuple(
        build(
            request,
            "Feature",
            name=each.name,
            min_supported_version=each.min_supported_version,
            max_supported_version=each.max_supported_version,
        )
        for each in supported_features()
    )
    answer = call(
        quorum[quorum.await_leader().leader_id].endpoint,
        *_BROKER_REGISTRATION,
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=UUID(int=(1 << 64) + broker_id),
        listeners=(listener,),
        features=features,
        rack=None,
        is_migrating_zk_broker=False,
        log_dirs=(UUID(int=(2 << 64) + broker_id),),
        previous_broker_epoch=_NO_OFFSET,
    )
    assert int(answer.error_code) == 0, answer

    def unfenced() -> bool:
        leader = quorum.await_leader()
        beat = call(
            quorum[leader.leader_id].endpoint,
            *_BROKER_HEARTBEAT,
            broker_id=broker_id,
            broker_epoch=answer.broker_epoch,
            current_metadata_offset=leader.high_watermark,
            want_fence=False,
            want_shut_down=False,
        )
        assert int(beat.error_code) == 0, beat
        return not beat.is_fenced

    quorum.wait_for(unfenced, f"broker {broker_id} is not fenced any more")


def create_topic(quorum: Quorum, name: str, partitions: int, replication_factor: int) -> None:
    """Create a topic through the leader, whoever that is by then."""
    request = api_schema(*_CREATE_TOPICS).request
    config: Any = build(request, "CreatableTopicConfig", name="retention.ms", value="7654321")
    topic = build(
        request,
        "CreatableTopic",
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=(),
        configs=(config,),
    )

    def created() -> bool:
        leader = quorum[quorum.await_leader().leader_id]
        try:
            answer = call(
                leader.endpoint,
                *_CREATE_TOPICS,
                topics=(topic,),
                timeout=timedelta(seconds=5),
                validate_only=False,
            )
        except WireError:
            return False
        code = int(answer.topics[0].error_code)
        assert code in (0, 41, _TOPIC_ALREADY_EXISTS), answer
        return code != 41

    quorum.wait_for(created, f"topic {name} is created")


def remove_voter(
    quorum: Quorum, tools: KafkaTools, node_id: int, asked: str | Through | None = None
) -> None:
    """Remove a voter by Kafka's tool, and wait until the leader tells so.

    A leader of Kafka's ends where a removed voter answers its BeginQuorumEpoch ("A removed voter's
    answer ends the leader" in docs/findings.md), and it asks once a second: so the voter is
    killed first, and started again.
    """
    leader = quorum.await_leader().leader_id
    rests = node_id != leader and leader in quorum.of_kind("kafka") and quorum[node_id].alive
    if rests:
        quorum[node_id].kill()
    tools.remove_controller(asked or quorum.addresses, node_id, quorum[node_id].directory_id)
    quorum.wait_for(lambda: node_id not in voters(quorum), f"{node_id} is no voter any more")
    if rests:
        quorum[node_id].start()
