"""The life of a cluster of Kafka, full of events, and Kafka's JSON of the records it leaves."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_type_hints
from uuid import UUID

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from harness.systems.kafka.distribution import STARTED
from node.log.layout import uuid_to_text
from node.metadata.codec import field_names
from node.metadata.schemas import MetadataRecord, Tag
from tests.support.kafka.cluster import Member, Quorum
from tests.support.kafka.tools import CLUSTER, CONFIGS, KafkaTools

TIMEOUT_S = 15
SETTINGS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "broker_session_timeout_ms": "2000",
    "broker_heartbeat_interval_ms": "300",
}


Partitions = dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]]  # leader, replicas, ISR


@dataclass(frozen=True)
class Told:
    """What a broker told its clients."""

    topics: dict[str, Partitions]
    retention_ms: str
    acl_topics: list[str]
    scram_users: list[str]


def live(quorum: Quorum, brokers: list[Member], tools: KafkaTools) -> tuple[Told, int]:
    """Have a cluster write records of as many kinds as it can be made to.

    Returns what the surviving broker told, and the end of the log then.

    Args:
        quorum: One controller of Kafka, not started, with ``SETTINGS``.
        brokers: Two brokers of Kafka, not formatted, with ``SETTINGS``; the second one dies.
        tools: For what no client can do.
    """
    quorum.start_all()
    for broker in brokers:
        broker.format()
        broker.start()
    one, two = brokers
    quorum.wait_for(lambda: STARTED in one.said and STARTED in two.said, "the brokers are up")
    where = f"{one.endpoint.host}:{one.endpoint.port}"
    admin = AdminClient({"bootstrap.servers": where, "log_level": 2})
    topics(admin)
    access(admin)
    producer = Producer({"bootstrap.servers": where, "enable.idempotence": True, "log_level": 2})
    producer.produce("kept", b"value")
    assert producer.flush(TIMEOUT_S) == 0
    quota = ("--add-config", "request_percentage=12.5", "--entity-type", "users")
    tools.run(CONFIGS, "--bootstrap-server", where, "--alter", *quota, "--entity-name", "alice")
    # Not sooner: a broker of 4.1.2 that hears of both at once forgets alice too.
    bob = UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256)
    wait(admin.alter_user_scram_credentials([bob]))
    two.kill()
    quorum.wait_for(lambda: "Fencing broker 12" in quorum[1].said, "the dead broker is fenced")
    tools.run(CLUSTER, "unregister", "--bootstrap-server", where, "--id", str(two.node_id))
    told = quorum.wait_for(lambda: ask(admin, one.node_id), "the broker knows of the dead one")
    end_offset = quorum[1].batches()[-1].last_offset + 1
    one.stop()
    return told, end_offset


def ask(admin: AdminClient, survivor: int) -> Told | None:
    """What the broker tells, None while it believes that another one is in sync."""
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    if any(p.isrs != [survivor] for topic in topics.values() for p in topic.partitions.values()):
        return None
    kept = ConfigResource(ConfigResource.Type.TOPIC, "kept")
    users: Any = admin.describe_user_scram_credentials()
    return Told(
        {name: replicas_of(topic) for name, topic in topics.items()},
        wait(admin.describe_configs([kept]))[0]["retention.ms"].value,
        [acl.name for acl in admin.describe_acls(acl_filter(None)).result(TIMEOUT_S)],
        sorted(users.result(TIMEOUT_S)),
    )


def replicas_of(topic: Any) -> Partitions:
    return {p.id: (p.leader, tuple(p.replicas), tuple(p.isrs)) for p in topic.partitions.values()}


def topics(admin: AdminClient) -> None:
    wait(admin.create_topics([NewTopic("kept", 3, 2), NewTopic("gone", 1, 1)]))
    wait(admin.create_partitions([NewPartitions("kept", 5)]))
    entry = ConfigEntry("retention.ms", "7", incremental_operation=AlterConfigOpType.SET)
    kept = ConfigResource(ConfigResource.Type.TOPIC, "kept", incremental_configs=[entry])
    wait(admin.incremental_alter_configs([kept]))
    wait(admin.delete_topics(["gone"]))


def acl_filter(topic: str | None) -> AclBindingFilter:
    anybody: Any = None  # the annotations of the filter say str, its code takes None
    return AclBindingFilter(
        ResourceType.TOPIC,
        topic or anybody,
        ResourcePatternType.ANY,
        anybody,
        anybody,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def access(admin: AdminClient) -> None:
    def acl(topic: str) -> AclBinding:
        return AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )

    wait(admin.create_acls([acl("kept"), acl("gone")]))
    wait(admin.delete_acls([acl_filter("gone")]))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    wait(
        admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion("alice", info, b"secret"),
                UserScramCredentialUpsertion("bob", info, b"secret"),
            ]
        )
    )


def wait(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(TIMEOUT_S) for future in futures.values()]


# --------------------------------------------------------------------------- Kafka's JSON


def kafka_json(value: Any) -> Any:
    """One of our records, or a value inside one, as Kafka's JSON has it."""
    if isinstance(value, msgspec.Struct):
        return {_camel(name): kafka_json(getattr(value, name)) for name in _present(value)}
    if isinstance(value, tuple):
        return [kafka_json(item) for item in value]
    if isinstance(value, UUID):
        return uuid_to_text(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def _present(value: msgspec.Struct) -> Iterator[str]:
    """The fields that its version has, without the tagged ones that have their default."""
    hints = get_type_hints(type(value), include_extras=True)
    defaults = {field.name: field.default for field in msgspec.structs.fields(type(value))}
    if isinstance(value, MetadataRecord):
        names = field_names(type(value), value.version)
    else:
        names = tuple(defaults)
    for name in names:
        tagged = any(isinstance(mark, Tag) for mark in hints[name].__metadata__)
        if not tagged or getattr(value, name) != defaults[name]:
            yield name


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def constant(name: str) -> str:
    """The constant that Kafka's JSON has for the name of a record: TopicRecord, TOPIC_RECORD."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def nulls(value: Any) -> Any:
    """Kafka's JSON with null for ids of zeros, which we read as None."""
    if isinstance(value, dict):
        return {key: nulls(item) for key, item in value.items()}
    if isinstance(value, list):
        return [nulls(item) for item in value]
    return None if value == "AAAAAAAAAAAAAAAAAAAAAA" else value
