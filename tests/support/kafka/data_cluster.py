"""A quorum of any kind with brokers of Kafka on it, and what its log says of them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from harness.systems.kafka.distribution import STARTED
from node.loading.committed import CommittedBatch
from node.metadata.image import MetadataImage
from node.metadata.schemas import MetadataRecord
from node.metadata.state import BrokerState
from tests.support.kafka.cluster import Member, Quorum
from tests.support.kafka.data import TIMEOUT_S, Client
from tests.support.kafka.quorum_files import faults, fold

SIGTERM_EXIT = 128 + 15  # what a JVM says that has ended in good order after a SIGTERM
_START_S = 60.0  # JVMs, on a machine that may be busy
_PACE_S = 0.005
_ENOUGH = 20  # acknowledged values that show that writing goes on

# What brokers of Kafka call an error in good order, whoever the controller is.
_NO_FAULT = re.compile(
    # each partition that a topic gets after its creation
    r"Expected partition \S+ with topic id \S+ to exist, but it was missing"
    # a broker without a log acts on the snapshot, which knows it by the epoch that it had before
    r"|AssignmentsManager: .* assignments failed; .* STALE_BROKER_EPOCH\. Retrying"
    # a coordinator's partition is led by another broker before it is loaded, as on a busy machine
    r"|CoordinatorRuntime: .* Failed to load metadata from .*\bNotLeaderOrFollowerException"
)

R = TypeVar("R", bound=MetadataRecord)


@dataclass
class Flow:
    """Values that a client writes for as long as a test wants."""

    sent: int = 0
    acknowledged: list[bytes] = field(default_factory=list)
    ends: threading.Event = field(default_factory=threading.Event)

    def __iter__(self) -> Iterator[bytes]:
        while not self.ends.wait(_PACE_S):
            yield b"%d" % self.sent
            self.sent += 1


@dataclass(frozen=True)
class Cluster:
    """Controllers, and brokers of Kafka that they are in charge of.

    The first broker is not to fail: it keeps the whole log, of which controllers remove the old
    part while others read it.
    """

    quorum: Quorum
    brokers: dict[int, Member]

    @property
    def keeper(self) -> Member:
        """The first broker."""
        return next(iter(self.brokers.values()))

    def start(self, *broker_ids: int) -> None:
        """Start brokers and wait until they serve."""
        brokers = [self.brokers[broker_id] for broker_id in broker_ids]
        before = [broker.said.count(STARTED) for broker in brokers]
        for broker in brokers:
            broker.start()
        self.quorum.wait_for(
            lambda: all(b.said.count(STARTED) > n for b, n in zip(brokers, before, strict=True)),
            f"brokers {broker_ids} have started",
            _START_S,
        )

    def await_log(self) -> int:
        """Wait until the first broker has all that is committed by now; the end of that."""
        target = self.quorum.await_leader().high_watermark
        self.quorum.wait_for(
            lambda: self.keeper.batches()[-1].last_offset + 1 >= target,
            f"broker {self.keeper.node_id} has the log up to {target}",
        )
        return target

    def image(self) -> MetadataImage:
        """What our controllers have committed."""
        return fold(self.keeper, self.await_log())

    def broker(self, broker_id: int) -> BrokerState:
        """The registration of a broker."""
        return self.image().brokers[broker_id]

    def replicas(self, topic: str) -> dict[int, tuple[int, set[int]]]:
        """Leader and ISR of each partition of a topic."""
        partitions = self.image().topics[topic].partitions
        return {index: (each.leader, set(each.isr)) for index, each in partitions.items()}

    def await_replicas(self, topic: str, leaders: set[int], isr: set[int]) -> None:
        """Wait until all partitions have that ISR, and leaders among those."""
        self.quorum.wait_for(
            lambda: all(
                leader in leaders and found == isr
                for leader, found in self.replicas(topic).values()
            ),
            f"{topic} has leaders among {leaders} and the ISR {isr}",
        )

    def await_in_sync(self, topic: str) -> None:
        """Wait until all replicas of a topic are in sync."""
        self.quorum.wait_for(
            lambda: all(
                set(each.isr) == set(each.replicas)
                for each in self.image().topics[topic].partitions.values()
            ),
            f"{topic} is in sync",
        )

    def partition_epochs(self, topic: str) -> dict[int, int]:
        """How often each partition of a topic has changed."""
        partitions = self.image().topics[topic].partitions
        return {index: each.partition_epoch for index, each in partitions.items()}

    def directories(self, broker_id: int) -> set[UUID | None]:
        """Where a broker has its replicas."""
        return {
            directory
            for topic in self.image().topics.values()
            for each in topic.partitions.values()
            for replica, directory in zip(each.replicas, each.directories, strict=True)
            if replica == broker_id
        }

    def records(self, kind: type[R], since: int = 0) -> list[tuple[int, R]]:
        """The committed records of a kind, and their offsets."""
        end = self.await_log()
        return [
            (offset, record)
            for batch in self.keeper.batches()
            if batch.last_offset < end
            for offset, record in CommittedBatch.of(batch).records
            if isinstance(record, kind) and offset >= since
        ]

    @contextmanager
    def writing(self, client: Client, topic: str) -> Iterator[Flow]:
        """A client writes to a topic all the while, and still does at the end.

        All is acknowledged then, and nothing of it is lost or there twice.
        """
        flow = Flow()
        with ThreadPoolExecutor(1) as threads:
            done: Future[None] = threads.submit(client.stream, topic, flow, flow.acknowledged)
            try:
                self.await_more(flow)
                yield flow
                self.await_more(flow)
            finally:
                flow.ends.set()
            done.result(2 * TIMEOUT_S)
        assert len(flow.acknowledged) == flow.sent, "some were never acknowledged"
        found = client.consume(topic, f"readers-of-{topic}", flow.sent)
        assert len(set(found)) == len(found), "values are there twice"
        assert set(found) == set(flow.acknowledged), "acknowledged values are lost"

    def await_more(self, flow: Flow) -> None:
        """Wait until more is acknowledged."""
        wanted = len(flow.acknowledged) + _ENOUGH
        self.quorum.wait_for(lambda: len(flow.acknowledged) >= wanted, "writing goes on")

    def faults(self) -> dict[int, list[str]]:
        """What controllers and brokers call an error."""
        members = [*self.quorum, *self.brokers.values()]
        found = {m.node_id: [x for x in faults(m) if not _NO_FAULT.search(x)] for m in members}
        return {node_id: lines for node_id, lines in found.items() if lines}
