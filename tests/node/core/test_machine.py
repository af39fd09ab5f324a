"""Hypothesis drives a quorum in memory and shrinks any schedule that breaks an invariant.

The invariants are those of Kafka's ``RaftEventSimulationTest`` (SingleLeader, MonotonicEpoch,
MajorityReachedHighWatermark, MonotonicHighWatermark, ConsistentCommittedData, SnapshotAtLogStart)
and ours (one vote, durability before every promise, the read barrier, the voters in force);
``raft_invariants`` checks them after each effect. ``HYPOTHESIS_PROFILE=nightly`` looks for longer.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from node.core import inputs
from tests.support.raft.env import Cluster, Node

PICK = st.integers(0, 1_000)


class Quorum(RuleBasedStateMachine):
    """Up to five voters and an observer; every choice is Hypothesis's."""

    cluster: Cluster

    @initialize(voters=st.sampled_from([3, 1, 2, 4, 5]), observers=st.integers(0, 1))
    def begin(self, voters: int, observers: int) -> None:
        self.cluster = Cluster(voters, observers, fetch_max_bytes=300, fetch_snapshot_max_bytes=300)

    def _nodes(self, *, up: bool) -> list[int]:
        return [i for i, n in self.cluster.nodes.items() if (n.replica is not None) == up]

    def _node(self, pick: int) -> Node | None:
        ids = self._nodes(up=True)
        return self.cluster.nodes[ids[pick % len(ids)]] if ids else None

    @precondition(lambda self: self.cluster.wire)
    @rule(pick=PICK)
    def deliver(self, pick: int) -> None:
        self.cluster.deliver(self.cluster.wire[pick % len(self.cluster.wire)])

    @precondition(lambda self: self.cluster.wire)
    @rule(pick=PICK)
    def drop(self, pick: int) -> None:
        self.cluster.drop(self.cluster.wire[pick % len(self.cluster.wire)])

    @precondition(lambda self: self.cluster.wire)
    @rule(pick=PICK)
    def duplicate(self, pick: int) -> None:
        self.cluster.deliver(self.cluster.wire[pick % len(self.cluster.wire)], again=True)

    @rule(among=st.sets(st.integers(1, 6), min_size=2))
    def settle(self, among: set[int]) -> None:
        self.cluster.settle(lambda m: {m.source, m.target} <= among)

    @rule(pick=PICK)
    def expire_timer(self, pick: int) -> None:
        node = self._node(pick)
        if node is not None and (deadline_ms := node.up.next_deadline_ms()) is not None:
            self.cluster.advance(node.key.id, max(0, deadline_ms - node.now_ms))

    @rule(pick=PICK, ms=st.sampled_from([2_500, 1_200, 100]))
    def let_time_pass(self, pick: int, ms: int) -> None:
        node = self._node(pick)
        if node is not None:
            self.cluster.advance(node.key.id, ms)

    @rule(pick=PICK, ms=st.integers(1, 10_000))
    def set_clock_back(self, pick: int, ms: int) -> None:
        node = self._node(pick)
        if node is not None:
            node.pending = {p: (c, due - ms) for p, (c, due) in node.pending.items()}
            node.now_ms -= ms
            self.cluster.step(node.key.id, inputs.Tick())

    @rule(pick=PICK)
    def flush(self, pick: int) -> None:
        waiting = [i for i in self._nodes(up=True) if self.cluster.nodes[i].flushes]
        if waiting:
            self.cluster.flush(waiting[pick % len(waiting)])

    @rule(pick=PICK)
    def crash_losing_unflushed(self, pick: int) -> None:
        node = self._node(pick)
        if node is not None:
            self.cluster.crash(node.key.id)

    @rule(pick=PICK)
    def restart(self, pick: int) -> None:
        down = self._nodes(up=False)
        if down:
            self.cluster.start(down[pick % len(down)])

    @precondition(lambda self: self.cluster.leaders)
    @rule(pick=PICK, counts=st.lists(st.integers(1, 3), min_size=1, max_size=3))
    def propose(self, pick: int, counts: list[int]) -> None:
        leaders = self.cluster.leaders
        self.cluster.propose(leaders[pick % len(leaders)], *counts)

    @precondition(lambda self: self.cluster.leaders)
    @rule(pick=PICK)
    def read(self, pick: int) -> None:
        leaders = self.cluster.leaders
        self.cluster.read(leaders[pick % len(leaders)])

    @precondition(lambda self: self.cluster.leaders)
    @rule(pick=PICK)
    def resign(self, pick: int) -> None:
        leaders = self.cluster.leaders
        leader = leaders[pick % len(leaders)]
        self.cluster.step(leader, inputs.Resign(self.cluster.nodes[leader].up.epoch))

    @rule()
    def calm(self) -> None:
        self.cluster.run_for(3_000, slice_ms=100)

    @invariant()
    def observers_never_stand(self) -> None:
        for i, node in self.cluster.nodes.items():
            if node.replica is not None and not node.replica.is_voter:
                assert node.replica.role not in ("prospective", "candidate"), (i, node.replica.role)

    @invariant()
    def nobody_is_due_in_the_past(self) -> None:
        for node in self.cluster.nodes.values():
            deadline_ms = None if node.replica is None else node.replica.next_deadline_ms()
            assert deadline_ms is None or deadline_ms >= node.now_ms, (deadline_ms, node.now_ms)


class DynamicQuorum(Quorum):
    """Voters come, go and lose their disks; snapshots are made, and the log is cleaned."""

    @initialize(voters=st.sampled_from([3, 1, 2, 4]), observers=st.integers(1, 2))
    def begin(self, voters: int, observers: int) -> None:
        self.cluster = Cluster(
            voters, observers, fetch_max_bytes=300, fetch_snapshot_max_bytes=300, dynamic=True
        )

    @rule(pick=PICK)
    def make_a_snapshot(self, pick: int) -> None:
        node = self._node(pick)
        if node is not None:
            self.cluster.freeze(node.key.id)

    @rule(pick=PICK)
    def clean_the_log(self, pick: int) -> None:
        node = self._node(pick)
        if node is not None:
            self.cluster.clean(node.key.id)

    @precondition(lambda self: self.cluster.leaders)
    @rule(pick=PICK, who=PICK)
    def add_a_voter(self, pick: int, who: int) -> None:
        leaders, nodes = self.cluster.leaders, list(self.cluster.nodes)
        self.cluster.add_voter(leaders[pick % len(leaders)], nodes[who % len(nodes)])

    @precondition(lambda self: self.cluster.leaders)
    @rule(pick=PICK, who=PICK)
    def remove_a_voter(self, pick: int, who: int) -> None:
        leaders = self.cluster.leaders
        leader = leaders[pick % len(leaders)]
        voters = list(self.cluster.voters_of(leader))
        self.cluster.remove_voter(leader, voters[who % len(voters)].key)

    @rule(pick=PICK)
    def replace_the_disk(self, pick: int) -> None:
        down = self._nodes(up=False)
        if down:
            self.cluster.wipe(down[pick % len(down)])


TestQuorum = Quorum.TestCase
TestDynamicQuorum = DynamicQuorum.TestCase
