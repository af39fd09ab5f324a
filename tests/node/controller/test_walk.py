"""Random walks of brokers and partitions: invariants C1-C7 and C11 on what was committed.

Writes are pipelined; some are committed, and the rest is lost when the controller renounces.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from node.controller.broker_operations import BrokerHeartbeatRequest
from node.controller.errors import ApiError
from node.controller.operations import ControllerResult, NewTopic, TopicRef
from node.controller.partition_operations import (
    AlterPartitionData,
    AlterPartitionRequest,
    IsrMember,
    Reassignment,
)
from node.metadata.fold import apply_record
from node.metadata.image import MetadataImage, PartitionState
from node.metadata.schemas import (
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tests.support.nodes.controllers import Cluster, registration

BROKERS = st.integers(1, 4)
NAMES = st.sampled_from(["t", "u"])


class Walk(RuleBasedStateMachine):
    """One controller, four brokers, two topics."""

    partitions_per_slice: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(4, partitions_per_slice=self.partitions_per_slice)
        self.cluster.topic("t", (1, 2, 3), (2, 3, 4), min_insync_replicas="2")
        self.epoch = 1
        self.batch_ends = [len(self.cluster.log)]
        self.checked = len(self.cluster.log)
        self.before = MetadataImage()
        for offset, record in enumerate(self.cluster.log):
            apply_record(self.before, record, offset)
        self.epochs = {b.id: b.epoch for b in self.before.brokers.values()}
        self.topic_ids = {topic.id for topic in self.before.topics.values()}
        self.producer_ids = 0

    def write(self, result: ControllerResult[Any]) -> None:
        for entry in result.entries:
            end = self.batch_ends[-1] + entry.count
            self.batch_ends.append(end)
        self.cluster.append(result)

    # ------------------------------------------------------------------ operations

    @rule(broker_id=BROKERS, incarnation=st.integers(1, 3), clean=st.booleans())
    def register(self, broker_id: int, incarnation: int, clean: bool) -> None:
        known = self.cluster.controller.image.brokers.get(broker_id)
        previous = known.epoch if clean and known is not None else -1
        request = registration(broker_id, incarnation=incarnation, previous_broker_epoch=previous)
        self.write(self.cluster.controller.register_broker(request, self.cluster.now_ms))

    @rule(
        broker_id=BROKERS,
        fence=st.booleans(),
        down=st.booleans(),
        behind=st.sampled_from([0, 0, 0, 1, 30]),
    )
    def heartbeat(self, broker_id: int, fence: bool, down: bool, behind: int) -> None:
        known = self.cluster.controller.image.brokers.get(broker_id)
        if known is None:
            return
        controller, now_ms = self.cluster.controller, self.cluster.now_ms
        registered = controller._overlay.broker(broker_id)
        reached = self.cluster.committed - 1 - behind
        controller.contact(broker_id, known.epoch, now_ms)
        result = controller.heartbeat(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=known.epoch,
                current_metadata_offset=reached,
                want_fence=fence,
                want_shut_down=down,
            )
        )
        self.write(result)
        if registered is not None and registered.fenced and not result.reply.is_fenced:  # C6
            assert reached >= known.epoch == registered.epoch
        if result.reply.should_shut_down:  # C7, first half
            assert not controller._overlay.partitions.leads(broker_id)

    @rule(broker_id=BROKERS)
    def come_up(self, broker_id: int) -> None:
        self.commit(99)
        self.heartbeat(broker_id, fence=False, down=False, behind=0)

    @rule(passed_ms=st.sampled_from([500, 4000, 9500]))
    def time_passes(self, passed_ms: int) -> None:
        self.cluster.now_ms += passed_ms
        self.write(self.cluster.controller.expire_sessions(self.cluster.now_ms))

    @rule(broker_id=BROKERS)
    def unregister(self, broker_id: int) -> None:
        self.write(self.cluster.controller.unregister_broker(broker_id))

    @rule(name=NAMES, factor=st.integers(1, 3), minimum=st.integers(1, 3))
    def create(self, name: str, factor: int, minimum: int) -> None:
        configs = {"min.insync.replicas": str(minimum)}
        topic = NewTopic(name, 2, factor, configs=configs)
        self.write(self.cluster.controller.create_topics([topic]))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.write(self.cluster.controller.delete_topics([TopicRef(name)]))

    @rule(name=NAMES, index=st.integers(0, 1), wanted=st.sets(BROKERS), old=st.booleans())
    def alter_partition(self, name: str, index: int, wanted: set[int], old: bool) -> None:
        controller = self.cluster.controller
        overlay = controller._overlay
        topic_id = overlay.topic_id(name)
        if topic_id is None:
            return
        speculative = overlay.partition(topic_id, index)
        committed = controller.image.partition(topic_id, index)
        state = committed if old else speculative
        if state is None or speculative is None or overlay.broker(state.leader) is None:
            return
        brokers = {b.id: b.epoch for b in overlay.brokers()}
        isr = [b for b in state.replicas if b in wanted | {state.leader} and b in brokers]
        data = AlterPartitionData(
            index,
            state.leader_epoch,
            state.partition_epoch,
            tuple([IsrMember(b, brokers[b]) for b in isr]),
        )
        request = AlterPartitionRequest(state.leader, brokers[state.leader], {topic_id: [data]})
        result = controller.alter_partition(request)
        for rows in result.reply.topics.values():  # C5
            if rows[0].error == ApiError.NONE:
                assert state.partition_epoch == speculative.partition_epoch
                assert state.leader_epoch == speculative.leader_epoch
        self.write(result)

    @rule(name=NAMES, index=st.integers(0, 1), replicas=st.none() | st.permutations([1, 2, 3]))
    def reassign(self, name: str, index: int, replicas: list[int] | None) -> None:
        target = None if replicas is None else tuple(replicas[:2])
        wanted = {name: [Reassignment(index, target)]}
        self.write(self.cluster.controller.alter_partition_reassignments(wanted))

    @rule(kind=st.sampled_from([0, 1]))
    def elect(self, kind: int) -> None:
        self.write(self.cluster.controller.elect_leaders(kind, None))

    @rule(broker_id=BROKERS)
    def allocate(self, broker_id: int) -> None:
        broker = self.cluster.controller._overlay.broker(broker_id)
        epoch = -1 if broker is None else broker.epoch
        self.write(self.cluster.controller.allocate_producer_ids(broker_id, epoch))

    @rule()
    def sweep(self) -> None:
        if self.cluster.controller.sweeps:
            self.write(self.cluster.controller.sweep())

    # ------------------------------------------------------------------ commits

    @rule(batches=st.integers(1, 5))
    def commit(self, batches: int) -> None:
        later = [end for end in self.batch_ends if end > self.cluster.committed]
        if later:
            self.cluster.commit(later[min(batches, len(later)) - 1])

    @rule()
    def fail_over(self) -> None:
        """All that is not committed is lost."""
        cluster = self.cluster
        cluster.controller.renounce()
        del cluster.log[cluster.committed :]
        self.batch_ends = [end for end in self.batch_ends if end <= cluster.committed]
        self.epoch += 1
        cluster.controller.claim(self.epoch, cluster.now_ms)
        assert len(cluster.controller._overlay) == 0

    # ------------------------------------------------------------------ invariants

    @invariant()
    def the_overlay_is_what_the_image_will_be(self) -> None:
        ahead = self.before.copy()
        for offset in range(self.checked, len(self.cluster.log)):
            apply_record(ahead, self.cluster.log[offset], offset)
        overlay = self.cluster.controller._overlay
        assert overlay.topic_names() == sorted(ahead.topics)
        assert {b.id: b for b in overlay.brokers()} == ahead.brokers
        assert overlay.next_producer_id() == ahead.next_producer_id
        for topic in ahead.topics.values():
            assert overlay.partition_count(topic.id) == len(topic.partitions)
            reader = overlay.partitions.reader(topic.id)
            assert {index: reader(index) for index in topic.partitions} == topic.partitions
            for index, state in topic.partitions.items():
                assert overlay.partition(topic.id, index) == state
        for broker_id in range(-1, 5):
            mine = overlay.partitions
            assert list(mine.with_isr(broker_id)) == list(ahead.isr_partitions(broker_id))
            assert list(mine.with_elr(broker_id)) == list(ahead.elr_partitions(broker_id))
            led = any(True for _ in ahead.led_partitions(broker_id))
            assert overlay.partitions.leads(broker_id) == led
        assert list(overlay.partitions.leaderless()) == list(ahead.leaderless_partitions())
        assert list(overlay.partitions.imbalanced()) == list(ahead.imbalanced_partitions())

    @invariant()
    def what_is_committed_keeps_the_invariants(self) -> None:
        while self.checked < self.cluster.committed:
            self.check(self.checked)
            self.checked += 1
        assert self.before.digest == self.cluster.controller.image.digest
        if self.cluster.committed in self.batch_ends:
            for topic in self.before.topics.values():
                for state in topic.partitions.values():
                    self.check_partition(state)

    def check(self, offset: int) -> None:
        record = self.cluster.log[offset]
        image = self.before
        match record:
            case RegisterBrokerRecord():  # C1
                known = image.brokers.get(record.broker_id)
                if known is not None and known.incarnation == record.incarnation_id:
                    assert (record.broker_epoch, record.fenced) == (known.epoch, known.fenced)
                else:
                    assert record.broker_epoch == offset > self.epochs.get(record.broker_id, -1)
                    assert record.fenced
                self.epochs[record.broker_id] = record.broker_epoch
            case TopicRecord():  # C11
                assert record.topic_id not in self.topic_ids
                assert record.topic_id is not None
                assert record.name not in image.topics
                self.topic_ids.add(record.topic_id)
            case ProducerIdsRecord():  # C11
                assert record.next_producer_id == self.producer_ids + 1000
                self.producer_ids = record.next_producer_id
            case PartitionChangeRecord():  # C4, C2
                assert record.topic_id is not None
                old = image.partition(record.topic_id, record.partition_id)
                apply_record(image, record, offset)
                new = image.partition(record.topic_id, record.partition_id)
                assert old is not None
                assert new is not None
                assert new.partition_epoch == old.partition_epoch + 1
                assert new.leader_epoch == old.leader_epoch + (record.leader != -2)
                if old.leader != new.leader != -1:
                    assert image.brokers[new.leader].id == new.leader
                for joined in set(new.isr) - set(old.isr):
                    assert not image.brokers[joined].fenced
                    assert not image.brokers[joined].in_controlled_shutdown
                return
            case _:
                pass
        apply_record(image, record, offset)

    def check_partition(self, state: PartitionState) -> None:
        brokers = self.before.brokers
        assert state.leader == -1 or state.leader in state.isr  # C3
        assert set(state.isr) | set(state.eligible_leaders) <= set(state.replicas)
        assert not set(state.isr) & set(state.eligible_leaders)
        if state.leader != -1:  # C2
            assert not brokers[state.leader].fenced
            moves = self.partitions_per_slice is not None  # its partitions, one after the other
            assert moves or not brokers[state.leader].in_controlled_shutdown


class SlowWalk(Walk):
    """The same, and what touches more than one partition takes more than one operation."""

    partitions_per_slice = 1


SlowWalk.TestCase.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
TestSlowWalk = SlowWalk.TestCase
Walk.TestCase.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
TestWalk = Walk.TestCase


def step(walk: Walk, dice: Random) -> None:
    """One random step; brokers come up more often than they go down."""
    broker_id, name, index = dice.randint(1, 4), dice.choice("tu"), dice.randrange(2)
    steps: list[tuple[int, Callable[[], None]]] = [
        (2, lambda: walk.register(broker_id, dice.randint(1, 3), dice.random() < 0.5)),
        (
            3,
            lambda: walk.heartbeat(
                broker_id, dice.random() < 0.5, dice.random() < 0.5, dice.choice([0, 30])
            ),
        ),
        (8, lambda: walk.come_up(broker_id)),
        (1, lambda: walk.time_passes(dice.choice([500, 4000, 9500]))),
        (1, lambda: walk.unregister(broker_id)),
        (2, lambda: walk.create(name, dice.randint(1, 3), dice.randint(1, 3))),
        (1, lambda: walk.delete(name)),
        (
            12,
            lambda: walk.alter_partition(
                name, index, set(dice.sample(range(1, 5), dice.randint(1, 4))), dice.random() < 0.2
            ),
        ),
        (3, lambda: walk.reassign(name, index, dice.choice([None, dice.sample([1, 2, 3, 4], 4)]))),
        (1, lambda: walk.elect(dice.randrange(2))),
        (1, lambda: walk.allocate(broker_id)),
        (6, lambda: walk.commit(dice.randint(1, 5))),
        (4, walk.sweep),
        (1, walk.fail_over),
    ]
    weights, actions = zip(*steps, strict=True)
    dice.choices(actions, weights)[0]()
    walk.the_overlay_is_what_the_image_will_be()
    walk.what_is_committed_keeps_the_invariants()


@pytest.mark.parametrize("kind", [Walk, SlowWalk])
@pytest.mark.parametrize("seed", range(12))
def test_long_walks(seed: int, kind: type[Walk]) -> None:
    """As above, but deep rather than small; all that a cluster does happens on the way."""
    walk, dice = kind(), Random(seed)
    for _ in range(250):
        step(walk, dice)
    walk.commit(99)
    walk.what_is_committed_keeps_the_invariants()
    changes = [r for r in walk.cluster.log if isinstance(r, PartitionChangeRecord)]
    assert any(change.leader >= 0 for change in changes)
    assert any(change.isr for change in changes)
    assert any(change.eligible_leader_replicas for change in changes)


def test_the_same_seed_makes_the_same_log() -> None:
    logs = []
    for _ in range(2):
        walk, dice = Walk(), Random(7)
        for _ in range(120):
            step(walk, dice)
        logs.append(walk.cluster.log)
    assert logs[0] == logs[1]
