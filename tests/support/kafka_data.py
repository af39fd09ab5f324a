"""Clients of two kinds, kafka-python and librdkafka, that do the same with a broker's topics."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]
from kafka.admin import (  # type: ignore[import-untyped]
    ConfigResource as PythonResource,
)
from kafka.admin import ConfigResourceType, KafkaAdminClient
from kafka.admin import NewPartitions as PythonPartitions
from kafka_cluster import Member

TIMEOUT_S = 20.0
_TIMEOUT_MS = int(TIMEOUT_S * 1000)
_POLL_S = 0.5

Partitions = dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]]  # leader, replicas, ISR


def address(*brokers: Member) -> str:
    """Where clients of these brokers begin."""
    return ",".join(f"{b.endpoint.host}:{b.endpoint.port}" for b in brokers)


class Client(ABC):
    """What both kinds do; what a broker tells may be a moment old, as it always is in Kafka."""

    def __init__(self, servers: str) -> None:
        self.servers = servers

    @abstractmethod
    def create(self, topic: str, partitions: int = 1, replicas: int = 1) -> None:
        """Create a topic."""

    @abstractmethod
    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic that many partitions."""

    @abstractmethod
    def delete(self, topic: str) -> None:
        """Delete a topic."""

    @abstractmethod
    def topics(self) -> dict[str, Partitions]:
        """All topics that the broker tells."""

    @abstractmethod
    def set(self, topic: str, name: str, value: str) -> None:
        """Set a setting of a topic."""

    @abstractmethod
    def get(self, topic: str, name: str) -> str | None:
        """The value of a setting of a topic; of kafka-python's None unless it is the topic's."""

    @abstractmethod
    def stream(self, topic: str, values: Iterable[bytes], acknowledged: list[bytes]) -> None:
        """Write idempotently what comes, and note what is acknowledged; waits for the last ones."""

    @abstractmethod
    def transact(self, topic: str, committed: Sequence[bytes], aborted: Sequence[bytes]) -> None:
        """Write in two transactions: one that is committed, one that is aborted."""

    @abstractmethod
    def consume(self, topic: str, group: str, count: int) -> list[bytes]:
        """The next values for a member of a group, which then commits its offsets."""

    def produce(self, topic: str, values: Sequence[bytes]) -> None:
        """Write idempotently, and wait until all is acknowledged."""
        acknowledged: list[bytes] = []
        self.stream(topic, values, acknowledged)
        assert sorted(acknowledged) == sorted(values), "not all is acknowledged"

    def close(self) -> None:  # noqa: B027 -- librdkafka's closes itself
        """Nothing is connected any more."""


class PythonClient(Client):
    """kafka-python."""

    def __init__(self, servers: str) -> None:
        super().__init__(servers)
        self.admin = KafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=_TIMEOUT_MS)

    def create(self, topic: str, partitions: int = 1, replicas: int = 1) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": replicas}
        self.admin.create_topics({topic: wanted})

    def grow(self, topic: str, partitions: int) -> None:
        self.admin.create_partitions({topic: PythonPartitions(partitions)})

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])

    def topics(self) -> dict[str, Partitions]:
        return {
            topic["name"]: {
                p["partition_index"]: (
                    p["leader_id"],
                    tuple(p["replica_nodes"]),
                    tuple(p["isr_nodes"]),
                )
                for p in topic["partitions"]
            }
            for topic in self.admin.describe_topics()
        }

    def set(self, topic: str, name: str, value: str) -> None:
        self.admin.alter_configs(
            [PythonResource(ConfigResourceType.TOPIC, topic, configs={name: value})]
        )

    def get(self, topic: str, name: str) -> str | None:
        asked = [PythonResource(ConfigResourceType.TOPIC, topic)]
        found: dict[str, Any] = self.admin.describe_configs(asked)["topic"][topic]
        return found[name]["value"] if name in found else None

    def stream(self, topic: str, values: Iterable[bytes], acknowledged: list[bytes]) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.servers,
            enable_idempotence=True,
            delivery_timeout_ms=_TIMEOUT_MS,
            request_timeout_ms=_TIMEOUT_MS // 2,
        )
        for value in values:
            sent = producer.send(topic, value)
            sent.add_callback(lambda _, value=value: acknowledged.append(value))
        producer.flush(TIMEOUT_S)
        producer.close()

    def transact(self, topic: str, committed: Sequence[bytes], aborted: Sequence[bytes]) -> None:
        producer = KafkaProducer(bootstrap_servers=self.servers, transactional_id=f"{topic}-python")
        producer.init_transactions()
        for values, end in (
            (committed, producer.commit_transaction),
            (aborted, producer.abort_transaction),
        ):
            producer.begin_transaction()
            for value in values:
                producer.send(topic, value)
            producer.flush(TIMEOUT_S)
            end()
        producer.close()

    def consume(self, topic: str, group: str, count: int) -> list[bytes]:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=self.servers,
            group_id=group,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=False,
            consumer_timeout_ms=_TIMEOUT_MS,
        )
        found = [message.value for _, message in zip(range(count), consumer, strict=False)]
        consumer.commit()
        consumer.close()
        return found

    def close(self) -> None:
        self.admin.close()


class LibrdClient(Client):
    """librdkafka, through confluent-kafka."""

    def __init__(self, servers: str) -> None:
        super().__init__(servers)
        self.common: dict[str, str | int | float | bool] = {
            "bootstrap.servers": servers,
            "log_level": 2,
        }
        self.admin = AdminClient(self.common)

    def create(self, topic: str, partitions: int = 1, replicas: int = 1) -> None:
        _wait(self.admin.create_topics([NewTopic(topic, partitions, replicas)]))

    def grow(self, topic: str, partitions: int) -> None:
        _wait(self.admin.create_partitions([NewPartitions(topic, partitions)]))

    def delete(self, topic: str) -> None:
        _wait(self.admin.delete_topics([topic]))

    def topics(self) -> dict[str, Partitions]:
        return {
            name: {
                p.id: (p.leader, tuple(p.replicas), tuple(p.isrs))
                for p in topic.partitions.values()
            }
            for name, topic in self.admin.list_topics(timeout=TIMEOUT_S).topics.items()
        }

    def set(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        _wait(self.admin.incremental_alter_configs([resource]))

    def get(self, topic: str, name: str) -> str | None:
        asked = [ConfigResource(ConfigResource.Type.TOPIC, topic)]
        (settings,) = _wait(self.admin.describe_configs(asked))
        value: str | None = settings[name].value
        return value

    def stream(self, topic: str, values: Iterable[bytes], acknowledged: list[bytes]) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": _TIMEOUT_MS}
        producer = Producer({**self.common, **settings})

        def note(error: Any, message: Any) -> None:
            if error is None:
                acknowledged.append(message.value())

        for value in values:
            producer.produce(topic, value, on_delivery=note)
            producer.poll(0)
        producer.flush(TIMEOUT_S)

    def transact(self, topic: str, committed: Sequence[bytes], aborted: Sequence[bytes]) -> None:
        producer = Producer({**self.common, "transactional.id": f"{topic}-librdkafka"})
        producer.init_transactions(TIMEOUT_S)
        for values, end in (
            (committed, producer.commit_transaction),
            (aborted, producer.abort_transaction),
        ):
            producer.begin_transaction()
            for value in values:
                producer.produce(topic, value)
            producer.flush(TIMEOUT_S)
            end(TIMEOUT_S)

    def consume(self, topic: str, group: str, count: int) -> list[bytes]:
        consumer = Consumer(
            {
                **self.common,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        found: list[bytes] = []
        ends: list[TopicPartition] = []
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(found) < count and time.monotonic() < deadline_s:
            for message in consumer.consume(count - len(found), _POLL_S):
                assert message.error() is None, message.error()
                found.append(message.value() or b"")
        ends = consumer.position(consumer.assignment())
        consumer.commit(offsets=[end for end in ends if end.offset >= 0], asynchronous=False)
        consumer.close()
        return found


def _wait(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(TIMEOUT_S) for future in futures.values()]


CLIENTS: dict[str, type[Client]] = {"kafka-python": PythonClient, "librdkafka": LibrdClient}
