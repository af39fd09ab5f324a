"""Snapshots and whole directories go from Kafka's controllers to ours, and back."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from harness.systems.kafka.distribution import KafkaDist
from node.core.types import (
    KRAFT_VERSIONS,
    Listener,
    OffsetAndEpoch,
    ReplicaKey,
    Voter,
    VoterSet,
)
from node.log.layout import partition_dir, segment_base, snapshot_of_name, uuid_from_text
from tests.support.kafka.cluster import KINDS, KafkaMember, Member, OurMember, Quorum, running
from tests.support.kafka.life import constant, kafka_json, nulls
from tests.support.kafka.quorum_files import (
    applied,
    faults,
    fold,
    log_start,
    read_snapshot,
    snapshot_records,
)
from tests.support.kafka.quorum_view import await_observer
from tests.support.kafka.quorum_writes import PATIENT, create_topic, register_broker
from tests.support.kafka.quorums import dynamic_quorum
from tests.support.kafka.tools import KafkaTools

pytestmark = [pytest.mark.interop, pytest.mark.slow]

# Nothing is written but by the test, and a few topics make a snapshot; ours keep only the newest.
OFTEN = {
    **PATIENT,
    "metadata_log_max_record_bytes_between_snapshots": "1500",
    "metadata_max_retention_bytes": "1",
    "metadata_max_idle_interval_ms": "0",
    "krucible_log_clean_interval_ms": "100",
}
NUMBERS = count(1_000)
ATTEMPTS = 5
EPOCHS = "leader-epoch-checkpoint"


@dataclass(frozen=True)
class Joined:
    """A voter of one kind, and a controller of the other kind that has joined it by a snapshot.

    Both are stopped, and have made snapshots of their own since.
    """

    quorum: Quorum
    fetched: Path
    content: bytes
    original: bytes
    log_start: int  # of the one that has joined

    def of_kind(self, kind: str) -> Member:
        """The member of that kind."""
        return self.quorum[self.quorum.of_kind(kind)[0]]


@pytest.fixture(scope="module", params=["ours", "kafka"])
def joined(
    request: pytest.FixtureRequest, kafka: KafkaDist, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Joined]:
    """The voter has made snapshots before the other one starts, with an empty directory."""
    (other,) = set(KINDS) - {request.param}
    folder = tmp_path_factory.mktemp("snapshots")
    with dynamic_quorum(kafka, folder, {1: request.param}, {2: other}, **OFTEN) as quorum:
        leader, joining = quorum.members.values()
        leader.start()
        quorum.await_leader()
        for broker_id in (7, 8):
            register_broker(quorum, broker_id)
        seen: set[Path] = set()

        def has_snapshots() -> bool:
            create_topic(quorum, f"topic-{next(NUMBERS)}", partitions=3, replication_factor=2)
            seen.update(leader.snapshots)
            return len(seen) > 1

        quorum.wait_for(has_snapshots, "two snapshots of the leader")
        if isinstance(leader, OurMember):
            quorum.wait_for(lambda: len(leader.snapshots) == 1, "the older snapshots are gone")
        joining.start()
        await_observer(quorum, 2)
        fetched = joining.snapshots[0]
        original = leader.snapshots[0].parent / fetched.name
        found = fetched, fetched.read_bytes(), original.read_bytes(), log_start(joining)
        make_snapshots_and_stop(quorum)
        yield Joined(quorum, *found)


def let_make_snapshots(quorum: Quorum, members: Collection[Member]) -> None:
    """Write until these have new ones, Kafka no older one than ours, which has only its newest."""
    before = {m.node_id: newest(m) for m in members}

    def made() -> bool:
        create_topic(quorum, f"topic-{next(NUMBERS)}", partitions=3, replication_factor=2)
        kinds = {type(m): newest(m) for m in members}
        return all(newest(m) > before[m.node_id] for m in members) and (
            len(kinds) == 1 or kinds[KafkaMember] >= kinds[OurMember]
        )

    quorum.wait_for(made, "new snapshots of both kinds")
    quorum.write(str(next(NUMBERS)))


def make_snapshots_and_stop(quorum: Quorum) -> None:
    """Have both kinds make snapshots, and Kafka's no older one than ours, when all are stopped.

    One of ours may be made after the last look: from it on our log begins, and says less.
    """
    (theirs,), (ours,) = quorum.of_kind("kafka"), quorum.of_kind("ours")
    for _ in range(ATTEMPTS):
        quorum.start_all()
        quorum.await_leader([1])
        let_make_snapshots(quorum, quorum.live)
        for member in quorum:
            member.stop()
        if newest(quorum[theirs]) >= newest(quorum[ours]):
            return
    raise AssertionError("Kafka's newest snapshot was always older than ours")


def newest(member: Member) -> OffsetAndEpoch:
    """The id of its newest snapshot; that of the bootstrap snapshot when it has made none."""
    found = [snapshot_of_name(path.name) for path in member.snapshots]
    return max([id_ for id_ in found if id_ is not None], default=OffsetAndEpoch(0, 0))


def test_a_controller_without_a_log_fetches_the_snapshot_of_the_other_kind(joined: Joined) -> None:
    id_ = snapshot_of_name(joined.fetched.name)
    assert id_ is not None
    assert joined.content == joined.original
    assert joined.log_start == id_.offset > 0


def test_snapshots_of_either_kind_hold_what_the_log_of_the_other_says(joined: Joined) -> None:
    theirs, ours = joined.of_kind("kafka"), joined.of_kind("ours")
    voter = as_voter(joined.quorum[1])
    for one, other in ((theirs, ours), (ours, theirs)):
        snapshot = read_snapshot(one.snapshots[-1])
        assert snapshot.image.topics
        assert snapshot.image.digest == fold(other, snapshot.id.offset).digest
        assert snapshot.kraft_version == 1
        assert snapshot.voters == VoterSet.of(voter)


def as_voter(member: Member) -> Voter:
    """The entry in the voter set that both kinds make for a member."""
    key = ReplicaKey(member.node_id, uuid_from_text(member.directory_id))
    listeners = (Listener("CONTROLLER", member.endpoint),)
    return Voter(key, member.endpoint, listeners, KRAFT_VERSIONS)


def test_nobody_has_found_a_fault(joined: Joined) -> None:
    assert {m.node_id: faults(m) for m in joined.quorum} == {1: [], 2: []}


def test_kafkas_dump_tool_reads_our_snapshot_as_we_do(joined: Joined, tools: KafkaTools) -> None:
    path = joined.of_kind("ours").snapshots[-1]
    dumped = tools.dump(path)
    assert all(batch.is_valid for batch in dumped)
    told = [record for batch in dumped for record in batch.records]
    header, version, voters, *data, footer = told
    assert [x.type for x in (header, version, voters, footer)] == [
        "SnapshotHeader",
        "KRaftVersion",
        "KRaftVoters",
        "SnapshotFooter",
    ]
    assert [(x.type, x.version, nulls(x.fields)) for x in data] == [
        (constant(type(x).__name__), x.version, kafka_json(x)) for x in snapshot_records(path)
    ]


def test_kafkas_shell_finds_in_our_snapshot_what_was_written(
    joined: Joined, tools: KafkaTools
) -> None:
    path = joined.of_kind("ours").snapshots[-1]
    image = read_snapshot(path).image
    with tools.shell(path) as ask:
        names = ask("ls /image/topics/byName").split()
        assert sorted(names) == sorted(image.topics)
        configs = ask("ls /image/configs").split()
        assert sorted(configs) == sorted(["BROKER", *(f"TOPIC:{name}" for name in names)])
        name = names[0]
        assert ask(f"cat /image/configs/TOPIC:{name}/retention.ms").split() == ["7654321"]
        state = image.topics[name].partitions[2]
        told = ask(f"cat /image/topics/byName/{name}/2")
        assert f"PartitionRegistration(replicas={list(state.replicas)}, directories=[" in told
        assert f"isr={list(state.isr)}, " in told
        assert f"leader={state.leader}, leaderRecoveryState=RECOVERED, leaderEpoch=0, " in told
        broker = ask("cat /image/cluster/brokers/7")
        assert f"BrokerRegistration(id=7, epoch={image.brokers[7].epoch}, " in broker
        assert "fenced=false" in broker


@pytest.mark.parametrize("joined", ["ours"], indirect=True)
def test_a_controller_of_kafka_that_fell_behind_our_log_fetches_a_snapshot(joined: Joined) -> None:
    ours, theirs = joined.quorum[1], joined.quorum[2]
    had = theirs.batches()[-1].last_offset + 1
    ours.start()
    let_make_snapshots(joined.quorum, [ours])
    joined.quorum.wait_for(lambda: len(ours.snapshots) == 1, "our log begins anew")
    (made,) = ours.snapshots
    content = made.read_bytes()
    id_ = newest(ours)
    assert id_.offset > had
    theirs.start()
    await_observer(joined.quorum, 2)
    joined.quorum.write(str(next(NUMBERS)))
    assert (theirs.snapshots[0].parent / made.name).read_bytes() == content
    for member in joined.quorum:
        member.stop()
    assert log_start(theirs) == id_.offset, "its old log is gone"
    assert faults(theirs) == []


def test_each_kind_goes_on_with_the_directory_of_the_other(joined: Joined) -> None:
    """Log, snapshots, quorum-state and meta.properties: all that the other kind has written.

    And then the first kind again, with what the other one has left.
    """
    before = joined.quorum
    for _ in range(2):
        for member in before:
            leave_behind(member)
        quorum = Quorum({m.node_id: of_other_kind(m) for m in before})
        go_on(quorum)
        before = quorum


def go_on(quorum: Quorum) -> None:
    """Check that stopped nodes start with what is there, go on from it, and agree."""
    images = [fold(m, m.batches()[-1].last_offset + 1) for m in quorum]
    with running(quorum):
        make_snapshots_and_stop(quorum)
    (theirs,), (ours,) = quorum.of_kind("kafka"), quorum.of_kind("ours")
    snapshot = read_snapshot(quorum[theirs].snapshots[-1])
    assert snapshot.image.digest == fold(quorum[ours], snapshot.id.offset).digest
    offset, digest = applied(trace_of(quorum[ours]))
    assert digest == fold(quorum[theirs], offset).digest
    for image in images:
        assert image.topics.keys() < snapshot.image.topics.keys()
    assert {m.node_id: faults(m) for m in quorum} == {1: [], 2: []}


def leave_behind(member: Member) -> None:
    """What a node that is killed may leave: Kafka's indexes, and files not deleted yet, or half."""
    folder = partition_dir(member.data)
    segment = min(path for path in folder.iterdir() if segment_base(path.name) is not None)
    for leftover in (".log.deleted", ".index.deleted", ".timeindex.deleted", ".snapshot"):
        shutil.copy(segment, segment.with_suffix(leftover))
    for index in (".index", ".timeindex"):
        if not segment.with_suffix(index).exists():
            segment.with_suffix(index).write_bytes(bytes(8))
    newest = member.snapshots[-1]
    for leftover in (".checkpoint.deleted", ".checkpoint.part"):
        newest.with_name(newest.stem + leftover).write_bytes(newest.read_bytes()[:-10])
    shutil.copy(folder / EPOCHS, folder / f"{EPOCHS}.tmp")


def of_other_kind(member: Member) -> Member:
    """A node of the other kind on a stopped node's directory."""
    kind = OurMember if isinstance(member, KafkaMember) else KafkaMember
    trace = {"krucible.trace.file": str(trace_of(member))} if kind is OurMember else {}
    own = {**member.properties, **trace}
    other = kind(member.node_id, member.endpoint, member.folder, own, member.dist)
    other.configure()
    return other


def trace_of(member: Member) -> Path:
    return member.folder / "trace.jsonl"
