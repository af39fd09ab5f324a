"""Clients of two kinds, kafka-python and librdkafka, that do the same with a broker's topics."""

from __future__ import annotations

import builtins
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from confluent_kafka import (
    Consumer,
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
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
from kafka.structs import (  # type: ignore[import-untyped]
    TopicPartition as PythonPartition,
)

from tests.support.kafka.cluster import Member

TIMEOUT_S = 20.0
_TIMEOUT_MS = int(TIMEOUT_S * 1000)
_POLL_S = 0.5
_PREFERRED = 0  # the type of an election

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
    def elect(self, topic: str, partitions: int) -> None:
        """Have the preferred replicas, the first ones, lead all partitions of a topic."""

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


class PythonClient(Client):
    """kafka-python. Its admin client is made anew each time: it trips over brokers that left."""

    @contextlib.contextmanager
    def _admin(self) -> Iterator[Any]:
        admin = KafkaAdminClient(bootstrap_servers=self.servers, request_timeout_ms=_TIMEOUT_MS)
        try:
            yield admin
        finally:
            admin.close()

    def create(self, topic: str, partitions: int = 1, replicas: int = 1) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": replicas}
        with self._admin() as admin:
            admin.create_topics({topic: wanted})

    def grow(self, topic: str, partitions: int) -> None:
        with self._admin() as admin:
            admin.create_partitions({topic: PythonPartitions(partitions)})

    def delete(self, topic: str) -> None:
        with self._admin() as admin:
            admin.delete_topics([topic])

    def topics(self) -> dict[str, Partitions]:
        with self._admin() as admin:
            described = admin.describe_topics()
        return {
            topic["name"]: {
                p["partition_index"]: (
                    p["leader_id"],
                    tuple(p["replica_nodes"]),
                    tuple(p["isr_nodes"]),
                )
                for p in topic["partitions"]
            }
            for topic in described
        }

    def set(self, topic: str, name: str, value: str) -> None:
        changed = PythonResource(ConfigResourceType.TOPIC, topic, configs={name: value})
        with self._admin() as admin:
            admin.alter_configs([changed])

    def get(self, topic: str, name: str) -> str | None:
        asked = [PythonResource(ConfigResourceType.TOPIC, topic)]
        with self._admin() as admin:
            found: dict[str, Any] = admin.describe_configs(asked)["topic"][topic]
        return found[name]["value"] if name in found else None

    def elect(self, topic: str, partitions: int) -> None:
        with self._admin() as admin:
            admin.elect_leaders(_PREFERRED, {topic: list(range(partitions))})

    def reassign(self, topic: str, replicas: Sequence[int], partitions: int) -> None:
        """Begin to move all partitions of a topic to these brokers."""
        moved = {PythonPartition(topic, index): list(replicas) for index in range(partitions)}
        with self._admin() as admin:
            errors = admin.alter_partition_reassignments(moved)
        assert errors == dict.fromkeys(moved), errors

    def reassigned(self) -> builtins.set[str]:
        """The topics whose partitions are still on the move."""
        with self._admin() as admin:
            return {partition.topic for partition in admin.list_partition_reassignments()}

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


class LibrdClient(Client):
    """librdkafka, through confluent-kafka. Its admin client is made anew each time, as above."""

    def __init__(self, servers: str) -> None:
        super().__init__(servers)
        self.common: dict[str, str | int | float | bool] = {
            "bootstrap.servers": servers,
            "log_level": 2,
        }

    def _ask(
        self, request: Callable[[AdminClient], dict[Any, Any]], done: int | None = None
    ) -> list[Any]:
        """Ask, and again where librdkafka has dropped the request; ``done`` is what that may get.

        It drops what it has asked of a broker that the next metadata do not name.
        """
        deadline, dropped = time.monotonic() + TIMEOUT_S, False
        while True:
            admin = AdminClient(self.common)  # to be kept until all is answered
            # whom it knows by an address only it forgets, too, once it knows better
            admin.list_topics(timeout=TIMEOUT_S)
            try:
                return [future.result(TIMEOUT_S) for future in request(admin).values()]
            except KafkaException as error:
                code = error.args[0].code()
                if dropped and code == done:
                    return []
                if code != KafkaError._DESTROY_BROKER or time.monotonic() > deadline:
                    raise
                dropped = True

    def brokers(self) -> set[int]:
        """Whom the broker that is asked knows; librdkafka drops requests to one that goes."""
        return set(AdminClient(self.common).list_topics(timeout=TIMEOUT_S).brokers)

    def create(self, topic: str, partitions: int = 1, replicas: int = 1) -> None:
        asked = NewTopic(topic, partitions, replicas)
        self._ask(lambda admin: admin.create_topics([asked]), KafkaError.TOPIC_ALREADY_EXISTS)

    def grow(self, topic: str, partitions: int) -> None:
        self._ask(lambda admin: admin.create_partitions([NewPartitions(topic, partitions)]))

    def delete(self, topic: str) -> None:
        self._ask(lambda admin: admin.delete_topics([topic]))

    def topics(self) -> dict[str, Partitions]:
        return {
            name: {
                p.id: (p.leader, tuple(p.replicas), tuple(p.isrs))
                for p in topic.partitions.values()
            }
            for name, topic in AdminClient(self.common)
            .list_topics(timeout=TIMEOUT_S)
            .topics.items()
        }

    def set(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self._ask(lambda admin: admin.incremental_alter_configs([resource]))

    def get(self, topic: str, name: str) -> str | None:
        asked = [ConfigResource(ConfigResource.Type.TOPIC, topic)]
        (settings,) = self._ask(lambda admin: admin.describe_configs(asked))
        value: str | None = settings[name].value
        return value

    def elect(self, topic: str, partitions: int) -> None:
        wanted = [TopicPartition(topic, index) for index in range(partitions)]
        admin = AdminClient(self.common)
        done = admin.elect_leaders(ElectionType.PREFERRED, wanted).result(TIMEOUT_S)
        errors = {error.code() for error in done.values() if error is not None}
        assert errors <= {KafkaError.ELECTION_NOT_NEEDED}, done

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


CLIENTS: dict[str, type[Client]] = {"kafka-python": PythonClient, "librdkafka": LibrdClient}
