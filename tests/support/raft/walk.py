"""A long random walk through the schedules of a small quorum, then a check that it recovers.

The same seed gives the same walk. The kinds:

static      voters that never change, all of the log kept
snapshots   static voters; snapshots are made and the log is cleaned
upgrade     the same, and the static voters put themselves into the log, to come and go then
dynamic     voters in the log as well: they come, go, lose their disks, change their listeners
"""

from __future__ import annotations

import dataclasses
from random import Random

from node.core import inputs
from node.core.parts import CoreParts
from node.core.replica import HEALTHY
from node.core.types import Listener, VoterSet
from tests.support.raft.env import Cluster, endpoint, listeners
from tests.support.raft.quorum_invariants import keys


class Walk:
    """One seeded walk; the seed also draws the sizes and how often each thing happens."""

    def __init__(self, seed: int, *, kind: str = "static", core: CoreParts = HEALTHY) -> None:
        self.rng = rng = Random(seed)
        self.voters = rng.choice([1, 2, 3, 3, 3, 4, 5])
        self.observers = rng.choice([0, 0, 1, 2])
        self.cluster = Cluster(
            self.voters,
            self.observers + (1 if kind in ("dynamic", "upgrade") else 0),
            seed=seed,
            core=core,
            fetch_max_bytes=(most := rng.choice([100, 300, 8 << 20])),
            fetch_snapshot_max_bytes=min(most, 1 << 20),
            dynamic=kind == "dynamic",
            upgrading=kind == "upgrade",
        )
        self.weights = {
            "deliver": rng.choice([10, 20, 40]),
            "drop": rng.choice([0, 1, 4]),
            "duplicate": rng.choice([0, 1]),
            "advance": rng.choice([1, 3, 6]),
            "flush": rng.choice([2, 10]),
            "crash": rng.choice([0, 0.2, 1]),
            "propose": 2.0,
            "read": 1.0,
            "resign": 0.05,
            "refuse": 0.5,
            "cut": 0.2,
            "heal": 0.4,
            "calm": 0.1,
            "usurp": rng.choice([0, 0.1]),
        }
        if kind != "static":
            self.weights |= {"freeze": rng.choice([0.5, 2]), "clean": rng.choice([0.3, 2])}
        if kind == "upgrade":
            self.weights["upgrade"] = 0.2
        if kind in ("dynamic", "upgrade"):
            self.weights |= {"add": 1.0, "remove": 0.5, "wipe": rng.choice([0, 0.2]), "move": 0.1}

    def run(self, steps: int) -> None:
        """Take so many random steps; an AssertionError says which invariant broke."""
        names, weights = list(self.weights), list(self.weights.values())
        for name in self.rng.choices(names, weights, k=steps):
            getattr(self, f"_{name}")()

    def recover(self) -> None:
        """Heal everything; one leader must emerge and everybody must catch up with it."""
        cluster = self.cluster
        cluster.cut.clear()
        for i, node in cluster.nodes.items():
            if node.replica is None:
                cluster.start(i)
        cluster.run_for(20_000, slice_ms=20)
        assert len(cluster.leaders) == 1, f"leaders after healing: {cluster.leaders}"
        (leader,) = cluster.leaders
        cluster.propose(leader, 1)
        cluster.run_for(1_000, slice_ms=20)
        floor = len(cluster.invariants.committed)
        read = cluster.read(leader)
        cluster.run_for(1_000, slice_ms=20)
        assert cluster.leaders == [leader], "the leader did not stay"
        end = cluster.nodes[leader].up.log_end_offset
        marks = {i: node.up.high_watermark for i, node in cluster.nodes.items()}
        assert set(marks.values()) == {end}, f"log end {end}, high watermarks {marks}"
        verdict, _, offset = cluster.barriers[read].partition(" ")
        assert verdict == "read", cluster.barriers[read]
        assert floor <= int(offset) <= end, cluster.barriers[read]

    # -------------------------------------------------------------- what can happen

    def _up(self) -> list[int]:
        return [i for i, node in self.cluster.nodes.items() if node.replica is not None]

    def _deliver(self) -> None:
        if self.cluster.wire:
            oldest = self.rng.choice([1, 3, 1_000])
            self.cluster.deliver(self.rng.choice(self.cluster.wire[:oldest]))

    def _drop(self) -> None:
        if self.cluster.wire:
            self.cluster.drop(self.rng.choice(self.cluster.wire))

    def _duplicate(self) -> None:
        if self.cluster.wire:
            self.cluster.deliver(self.rng.choice(self.cluster.wire), again=True)

    def _refuse(self) -> None:
        up = self._up()
        requests = [m for m in self.cluster.wire if m.is_request and m.source in up]
        if requests:
            self.cluster.refuse(self.rng.choice(requests))

    def _advance(self) -> None:
        up = self._up()
        if up:
            ms = self.rng.choice([5, 20, 100, 500, 1_000, 2_500])
            self.cluster.advance(self.rng.choice(up), ms)

    def _flush(self) -> None:
        waiting = [i for i in self._up() if self.cluster.nodes[i].flushes]
        if waiting:
            self.cluster.flush(self.rng.choice(waiting))

    def _crash(self) -> None:
        up = self._up()
        down = [i for i in self.cluster.nodes if i not in up]
        if down and self.rng.random() < 0.7:
            self.cluster.start(self.rng.choice(down))
        elif up:
            node_id = self.rng.choice(up)
            disk = self.cluster.nodes[node_id].disk
            ends = [b.last_offset + 1 for b in disk.batches if b.last_offset >= disk.flushed]
            self.cluster.crash(node_id, keep=self.rng.choice([None, *ends]))

    def _propose(self) -> None:
        if self.cluster.leaders:
            counts = [self.rng.choice([1, 2, 3]) for _ in range(self.rng.choice([1, 1, 3]))]
            self.cluster.propose(self.rng.choice(self.cluster.leaders), *counts)

    def _read(self) -> None:
        if self.cluster.leaders:
            self.cluster.read(self.rng.choice(self.cluster.leaders))

    def _resign(self) -> None:
        if self.cluster.leaders:
            leader = self.rng.choice(self.cluster.leaders)
            self.cluster.step(leader, inputs.Resign(self.cluster.nodes[leader].up.epoch))

    def _cut(self) -> None:
        if len(self.cluster.nodes) > 1:
            one, other = self.rng.sample(list(self.cluster.nodes), 2)
            self.cluster.cut.add((one, other))
            if self.rng.random() < 0.3:
                self.cluster.isolate(one)

    def _heal(self) -> None:
        self.cluster.cut.clear()

    def _usurp(self) -> None:
        """A leader's messages are held, and its clock, while the others elect another."""
        cluster = self.cluster
        if not cluster.leaders:
            return
        old = self.rng.choice(cluster.leaders)
        others = [i for i in self._up() if i != old]
        cluster.propose(old, 1)
        cluster.settle(lambda m: m.source == old)  # the next fetches are on their way
        cluster.run_for(5_000, nodes=others, slice_ms=50)
        for leader in cluster.leaders:
            if leader != old:
                cluster.propose(leader, 1)
        cluster.run_for(200, nodes=others, slice_ms=50)
        cluster.read(old)
        if self.rng.random() < 0.5:
            cluster.cut.clear()
            for message in [m for m in cluster.wire if m.target == old]:
                cluster.deliver(message)

    def _freeze(self) -> None:
        if self._up():
            self.cluster.freeze(self.rng.choice(self._up()))

    def _clean(self) -> None:
        if self._up():
            self.cluster.clean(self.rng.choice(self._up()))

    def _add(self) -> None:
        """A leader is asked for another voter, as a rule when that has had time to catch up."""
        cluster = self.cluster
        if cluster.leaders:
            leader = self.rng.choice(cluster.leaders)
            if self.rng.random() < 0.5:
                self._calm()
            if leader in cluster.leaders:
                cluster.add_voter(leader, self.rng.choice(list(cluster.nodes)))

    def _remove(self) -> None:
        cluster = self.cluster
        if not cluster.leaders:
            return
        leader = self.rng.choice(cluster.leaders)
        voters = cluster.nodes[leader].up.voters
        gone = self.rng.choice(list(voters))
        sets = [voters, voters.without(gone.key.id)]
        if len(voters) > 1 and all(self._is_viable(s, without=gone.key.id) for s in sets):
            cluster.remove_voter(leader, gone.key)

    def _upgrade(self) -> None:
        """As a rule when the voters have had time to tell the leader of themselves."""
        cluster = self.cluster
        if self.rng.random() < 0.5:
            cluster.run_for(7_000, slice_ms=50)
        if cluster.leaders:
            cluster.upgrade(self.rng.choice(cluster.leaders))

    def _wipe(self) -> None:
        """A disk is lost for ever, but never so many that no majority is left.

        And none while somebody goes by static voters, who cannot tell another disk (KAFKA-14077).
        """
        cluster = self.cluster
        static = [node for node in cluster.nodes.values() if not node.disk.voter_sets()]
        if cluster.upgrading and static:
            return
        victim = self.rng.choice(list(cluster.nodes))
        sets = [s for node in cluster.nodes.values() for _, s in node.disk.voter_sets()]
        sets += [s.voters for s in cluster.frozen.values() if s.voters is not None]
        if all(self._is_viable(voters, without=victim) for voters in sets):
            if cluster.nodes[victim].replica is not None:
                cluster.crash(victim)
            cluster.wipe(victim)
            cluster.start(victim)

    def _is_viable(self, voters: VoterSet, without: int) -> bool:
        """Whether a majority of these voters has its disk and may be elected, without that node.

        A leader that appended its own removal and stopped is in nobody's way only while the
        others are a majority of the old set: it has the longest log, and will not stand. So it is
        in Kafka; Raft's thesis (4.2.2) lets such a server stand.
        """
        standing = {
            node.key
            for i, node in self.cluster.nodes.items()
            if i != without and self.cluster.voters_on_disk(i).contains(node.key)
        }
        return len(keys(voters) & standing) >= voters.majority

    def _move(self) -> None:
        """A node starts again with other listeners, of which the voters must hear."""
        cluster = self.cluster
        node_id = self.rng.choice(list(cluster.nodes))
        if cluster.nodes[node_id].replica is not None:
            cluster.crash(node_id)
        more = Listener(f"EXTRA{cluster.count()}", endpoint(node_id))
        node = cluster.nodes[node_id]
        node.config = dataclasses.replace(node.config, listeners=(*listeners(node_id), more))
        cluster.start(node_id)

    def _calm(self) -> None:
        self.cluster.run_for(200, slice_ms=20)
