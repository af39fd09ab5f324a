"""Brokers of Apache Kafka with a quorum of our controllers: they come, serve, fail and leave.

The tests tell one story and run in its order.
"""

from __future__ import annotations

import contextlib
import gc
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from harness.systems.kafka.distribution import KafkaDist
from node.log.layout import uuid_from_text
from node.metadata.schemas import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from node.metadata.state import Listener
from tests.support.kafka.cluster import HOST, running
from tests.support.kafka.data import CLIENTS, Client, LibrdClient, PythonClient, address
from tests.support.kafka.data_cluster import SIGTERM_EXIT, Cluster
from tests.support.kafka.quorum_files import fold, log_start, read_snapshot
from tests.support.kafka.quorums import dynamic_quorum, kafka_broker
from tests.support.kafka.tools import CLUSTER, FEATURES, TOPICS, KafkaTools

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    # kafka-python leaves its socket open when a broker refuses its connection.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

CONTROLLERS = {1: "ours", 2: "ours", 3: "ours"}
SESSION = {"broker_session_timeout_ms": "4000"}
BROKER = {
    "broker_session_timeout_ms": "4000",
    "broker_heartbeat_interval_ms": "300",
    "offsets_topic_replication_factor": "2",
    "transaction_state_log_replication_factor": "2",
    # A follower that is dead leaves the ISR before its session ends.
    "replica_lag_time_max_ms": "1000",
}
SMALL_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": "1500",
    "metadata.log.segment.bytes": "4000",
    "metadata.max.retention.bytes": "1",
    "krucible.log.clean.interval.ms": "100",
}


@pytest.fixture(scope="module")
def cluster(kafka: KafkaDist, folder: Path) -> Iterator[Cluster]:
    """Three controllers of ours, two brokers of Kafka, and a third one that is not started."""
    with dynamic_quorum(kafka, folder, CONTROLLERS, None, **SESSION) as quorum:
        brokers = {i: kafka_broker(kafka, folder, i, quorum, **BROKER) for i in (11, 12, 13)}
        with running(brokers.values()):
            for broker in brokers.values():
                broker.format()
            quorum.start_all()
            made = Cluster(quorum, brokers)
            made.start(11, 12)
            yield made


@pytest.fixture(scope="module")
def clients(cluster: Cluster) -> Iterator[dict[str, Client]]:
    """One client of each kind; they begin with the broker that never fails."""
    yield {name: kind(address(cluster.brokers[11])) for name, kind in CLIENTS.items()}
    gc.collect()  # while those warnings are ignored


@pytest.fixture(params=list(CLIENTS))
def client(request: pytest.FixtureRequest, clients: dict[str, Client]) -> Client:
    """A client of each kind in turn."""
    return clients[request.param]


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))


def create(cluster: Cluster, client: Client, topic: str) -> None:
    """A topic of three partitions on two brokers."""
    client.create(topic, partitions=3, replicas=2)
    cluster.quorum.wait_for(lambda: topic in client.topics(), f"{topic} is known")
    cluster.await_in_sync(topic)


def test_brokers_register_with_all_they_have_and_are_unfenced(cluster: Cluster) -> None:
    registrations = cluster.records(RegisterBrokerRecord)
    first: dict[int, int] = {}  # who is not answered in time asks again, and keeps its epoch
    for offset, record in registrations:
        epoch = first.setdefault(record.broker_id, offset)
        member, state = cluster.brokers[record.broker_id], cluster.broker(record.broker_id)
        endpoint = member.endpoint
        assert state.epoch == epoch == record.broker_epoch
        assert state.listeners == (Listener("PLAINTEXT", endpoint.host, endpoint.port, 0),)
        assert state.log_dirs == (uuid_from_text(member.directory_id),)
        assert state.features["metadata.version"][1] == cluster.image().features["metadata.version"]
        assert state.features["transaction.version"] == (0, 2)
        assert state.features["group.version"] == (0, 1)
        assert not state.fenced
        assert not state.in_controlled_shutdown
    assert {*first} == {11, 12}


def test_kafkas_tools_find_the_brokers_features_and_topics_that_our_log_has(
    cluster: Cluster, clients: dict[str, Client], tools: KafkaTools, topic: str
) -> None:
    create(cluster, clients["librdkafka"], topic)
    through_broker = ("--bootstrap-server", address(cluster.brokers[11]))
    _, *rows = tools.run(CLUSTER, "list-endpoints", *through_broker).splitlines()
    assert {tuple(row.split()) for row in rows if row} == {
        (str(i), HOST, str(cluster.brokers[i].endpoint.port), "null", "unfenced", "broker")
        for i in (11, 12)
    }
    image = cluster.image()
    lines = tools.run(FEATURES, *through_broker, "describe").splitlines()
    features = dict(line.removeprefix("Feature: ").split("\t", 1) for line in lines)
    registered = dict(image.brokers[11].features)
    assert features.keys() == registered.keys()
    del registered["metadata.version"]  # whose levels have names
    for name, (lowest, highest) in registered.items():
        supported = f"SupportedMinVersion: {lowest}\tSupportedMaxVersion: {highest}\t"
        assert features[name].startswith(supported)
    for name in registered.keys() & image.features.keys():
        assert f"FinalizedVersionLevel: {image.features[name]}\t" in features[name]

    def is_described() -> bool:  # an ISR may shrink while a tool begins, where the host is busy
        told = tools.run(TOPICS, *through_broker, "--describe", "--topic", topic)
        return all(
            f"Partition: {index}\tLeader: {state.leader}\tReplicas: {_ids(state.replicas)}\t"
            f"Isr: {_ids(state.isr)}\t" in told
            for index, state in cluster.image().topics[topic].partitions.items()
        )

    cluster.quorum.wait_for(is_described, "the tool shows the partitions as our log has them")


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def test_topics_are_created_grown_configured_and_deleted(
    cluster: Cluster, client: Client, topic: str
) -> None:
    create(cluster, client, topic)
    wait = cluster.quorum.wait_for

    def agrees() -> bool:
        told = client.topics()[topic].items()
        return {i: (leader, set(isr)) for i, (leader, _, isr) in told} == cluster.replicas(topic)

    wait(agrees, "the broker tells what our log says")
    client.grow(topic, 5)
    wait(lambda: len(client.topics()[topic]) == 5, "the broker knows the new partitions")
    client.set(topic, "retention.ms", "7654321")
    wait(lambda: client.get(topic, "retention.ms") == "7654321", "the broker knows the setting")
    logs = [cluster.brokers[i].data / f"{topic}-{index}" for i in (11, 12) for index in range(5)]
    wait(lambda: all(path.exists() for path in logs), "each partition has a log on both brokers")
    client.delete(topic)
    wait(lambda: topic not in client.topics(), "the broker forgot the topic")
    assert topic not in cluster.image().topics
    wait(lambda: not any(path.exists() for path in logs), "the logs are gone")


def test_a_producer_writes_and_a_group_reads(cluster: Cluster, client: Client, topic: str) -> None:
    create(cluster, client, topic)
    values = [b"%d" % number for number in range(200)]
    client.produce(topic, values)
    assert sorted(client.consume(topic, topic, 200)) == sorted(values)
    client.produce(topic, [b"later"])
    assert client.consume(topic, topic, 1) == [b"later"], "the group has its offsets"


def test_only_what_a_transaction_committed_is_read(
    cluster: Cluster, client: Client, topic: str
) -> None:
    create(cluster, client, topic)
    client.transact(topic, committed=[b"a", b"b"], aborted=[b"x", b"y"])
    client.transact(topic, committed=[b"c"], aborted=[b"z"])
    assert sorted(client.consume(topic, topic, 3)) == [b"a", b"b", b"c"]


@contextlib.contextmanager
def all_writing(cluster: Cluster, clients: dict[str, Client], topic: str) -> Iterator[list[str]]:
    """Each kind of client writes to a topic of its own meanwhile, and loses nothing."""
    topics = {name: f"{topic}-{name}" for name in clients}
    for name, client in clients.items():
        create(cluster, client, topics[name])
    with contextlib.ExitStack() as stack:
        for name, client in clients.items():
            stack.enter_context(cluster.writing(client, topics[name]))
        yield list(topics.values())


def test_a_kill_of_our_leader_loses_no_value_and_no_broker(
    cluster: Cluster, clients: dict[str, Client], topic: str
) -> None:
    before = {i: cluster.broker(i) for i in (11, 12)}
    with all_writing(cluster, clients, topic):
        view = cluster.quorum.await_leader()
        cluster.quorum[view.leader_id].kill()
        cluster.quorum.await_leader(after_epoch=view.epoch)
        for client in clients.values():
            create(cluster, client, f"{topic}-after-{type(client).__name__}")
    assert {i: cluster.broker(i) for i in (11, 12)} == before, "with the same epochs, unfenced"
    cluster.quorum.start_all()
    cluster.quorum.await_replicated()


def test_a_killed_broker_is_fenced_what_it_led_goes_on_and_it_comes_back(
    cluster: Cluster, clients: dict[str, Client], topic: str
) -> None:
    before = cluster.broker(12)
    with all_writing(cluster, clients, topic) as topics:
        cluster.brokers[12].kill()
        cluster.quorum.wait_for(lambda: cluster.broker(12).fenced, "the broker is fenced")
        for each in topics:
            cluster.await_replicas(each, leaders={11}, isr={11})
        shrunk = {each: cluster.partition_epochs(each) for each in topics}
        cluster.start(12)
        for each in topics:
            cluster.await_replicas(each, leaders={11}, isr={11, 12})
    after = cluster.broker(12)
    assert after.epoch > before.epoch
    assert after.incarnation != before.incarnation
    assert not after.fenced
    for each in topics:
        assert all(n > shrunk[each][i] for i, n in cluster.partition_epochs(each).items())
    assert "Shrinking ISR from" in cluster.brokers[11].said, "the leader itself told us"
    assert "ISR updated to 11,12" in cluster.brokers[11].said


def test_a_broker_that_stops_hands_over_first_and_comes_back(
    cluster: Cluster, clients: dict[str, Client], topic: str
) -> None:
    before, since = cluster.broker(12), cluster.image().end_offset
    with all_writing(cluster, clients, topic) as topics:
        for each in topics:  # who is slow to begin falls out, and cannot take over
            cluster.await_in_sync(each)
        assert cluster.brokers[12].stop() == SIGTERM_EXIT
        for each in topics:
            cluster.await_replicas(each, leaders={11}, isr={11})
    told = cluster.brokers[12].said
    assert "The controller has asked us to exit controlled shutdown" in told
    changes = cluster.records(BrokerRegistrationChangeRecord, since)
    (begin, begun), (end, ended) = [each for each in changes if each[1].broker_id == 12]
    assert (begun.fenced, begun.in_controlled_shutdown) == (0, 1)
    assert (ended.fenced, ended.in_controlled_shutdown) == (1, 0)
    image = fold(cluster.brokers[11], end)
    assert image.led_count(12) == 0, "before it was fenced"
    assert not list(image.isr_partitions(12))
    assert cluster.broker(12).epoch == before.epoch
    cluster.start(12)
    assert begin < end < cluster.broker(12).epoch
    for client, each in zip(clients.values(), topics, strict=True):
        cluster.await_replicas(each, leaders={11}, isr={11, 12})
        client.elect(each, partitions=3)
        first = {i: p.replicas[0] for i, p in cluster.image().topics[each].partitions.items()}
        assert {i: leader for i, (leader, _) in cluster.replicas(each).items()} == first
        assert 12 in first.values(), "it leads again"


def test_brokers_do_not_mind_that_all_controllers_restart_one_by_one(
    cluster: Cluster, clients: dict[str, Client], topic: str
) -> None:
    """From here on they make snapshots, and remove what those hold from their logs."""
    before = {i: cluster.broker(i) for i in (11, 12)}
    with all_writing(cluster, clients, topic):
        for member in cluster.quorum:
            assert member.stop() == 0
            member.properties |= SMALL_LOG
            member.configure()
            member.start()
            cluster.quorum.await_replicated()
    assert {i: cluster.broker(i) for i in (11, 12)} == before


def test_brokers_without_a_log_catch_up_by_snapshots_of_ours(
    cluster: Cluster, clients: dict[str, Client], topic: str
) -> None:
    for number in range(40):
        clients["librdkafka"].create(f"{topic}-{number}")
    controllers = list(cluster.quorum)
    cluster.quorum.wait_for(
        lambda: all(log_start(member) > 0 for member in controllers), "our logs begin later"
    )
    epoch = cluster.broker(12).epoch
    cluster.brokers[12].stop()
    shutil.rmtree(cluster.brokers[12].data)
    cluster.brokers[12].format()
    cluster.start(12, 13)
    for broker_id in (12, 13):
        broker = cluster.brokers[broker_id]
        snapshot = read_snapshot(broker.snapshots[0])
        assert log_start(broker) == snapshot.id.offset > 0
        assert snapshot.image.digest == fold(cluster.brokers[11], snapshot.id.offset).digest
    assert cluster.broker(12).epoch > epoch
    assert cluster.broker(12).log_dirs == (uuid_from_text(cluster.brokers[12].directory_id),)
    cluster.quorum.wait_for(
        lambda: cluster.directories(12) == {uuid_from_text(cluster.brokers[12].directory_id)},
        "our image has all replicas in the new directory",
    )
    newcomer = LibrdClient(address(cluster.brokers[13]))
    cluster.quorum.wait_for(
        lambda: newcomer.brokers() == {11, 12, 13}, "the newcomer knows all brokers"
    )
    newcomer.create(f"{topic}-new", partitions=3, replicas=3)
    cluster.await_replicas(f"{topic}-new", leaders={11, 12, 13}, isr={11, 12, 13})
    newcomer.produce(f"{topic}-new", [b"value"])
    assert newcomer.consume(f"{topic}-new", topic, 1) == [b"value"]


def test_replicas_move_to_a_new_broker_while_they_are_written_to(
    cluster: Cluster, clients: dict[str, Client], topic: str
) -> None:
    mover = PythonClient(address(cluster.brokers[11]))
    with all_writing(cluster, clients, topic) as topics:
        on_disk = [path for each in topics for path in cluster.brokers[11].data.glob(f"{each}-?")]
        assert on_disk
        for each in topics:
            mover.reassign(each, (13, 12), partitions=3)
        for each in topics:
            cluster.await_replicas(each, leaders={12, 13}, isr={12, 13})
    assert not mover.reassigned()
    for each in topics:
        for state in cluster.image().topics[each].partitions.values():
            assert (state.replicas, state.adding, state.removing) == ((13, 12), (), ())
    cluster.quorum.wait_for(
        lambda: not any(path.exists() for path in on_disk), "the old broker has removed them"
    )


def test_nobody_has_found_a_fault(cluster: Cluster) -> None:
    assert cluster.faults() == {}


def test_controllers_and_brokers_have_the_same_image_in_the_end(cluster: Cluster) -> None:
    for controller in cluster.quorum:
        assert controller.stop() == 0
    for member in (*cluster.quorum, *cluster.brokers.values()):
        end = min(each.batches()[-1].last_offset + 1 for each in (member, cluster.keeper))
        assert fold(member, end).digest == fold(cluster.keeper, end).digest
