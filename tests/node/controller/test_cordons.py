"""Brokers whose directories are cordoned get no new replicas (KIP-1066)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from node.controller.errors import ApiError
from node.controller.operations import NewTopic
from node.controller.partition_operations import NewPartitions, Reassignment
from node.metadata.features import IBP_4_2_IV1, IBP_4_3_IV0
from node.metadata.schemas import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from tests.support.nodes.controllers import Cluster

CORDONED = 2
ONE, OTHER = UUID(int=7001), UUID(int=7002)  # its directories


def cluster_of_three(*cordoned: UUID, level: int = IBP_4_3_IV0, by_hand: bool = False) -> Cluster:
    """Brokers 1 to 3, of which 2 has two directories and says that these are cordoned."""
    cluster = Cluster(level=level, cordons_by_number_only=by_hand)
    for broker in (1, CORDONED, 3):
        cluster.start(broker, **({"log_dirs": (ONE, OTHER)} if broker == CORDONED else {}))
    cluster.beat(CORDONED, cordoned_log_dirs=cordoned)
    return cluster


def create(cluster: Cluster, **fields: Any) -> ApiError:
    (reply,) = cluster.do(cluster.controller.create_topics([NewTopic("new", **fields)]))
    return reply.error


def reassign(cluster: Cluster, *replicas: int) -> ApiError:
    wanted = {"t": [Reassignment(0, replicas)]}
    result = cluster.controller.alter_partition_reassignments(wanted)
    return cluster.do(result).topics["t"][0].error


def test_what_a_broker_says_of_cordons_is_written_once() -> None:
    cluster = cluster_of_three(ONE)
    said = cluster.log[-1]
    assert isinstance(said, BrokerRegistrationChangeRecord)
    assert (said.version, said.cordoned_log_dirs) == (3, (ONE,))
    end = len(cluster.log)
    cluster.beat(CORDONED, cordoned_log_dirs=(ONE,))
    cluster.beat(CORDONED, cordoned_log_dirs=None)  # it does not say
    assert len(cluster.log) == end
    cluster.beat(CORDONED, cordoned_log_dirs=())
    assert cluster.broker(CORDONED).cordoned_log_dirs == ()


def test_a_level_that_knows_no_cordons_has_none() -> None:
    cluster = cluster_of_three(ONE, OTHER, level=IBP_4_2_IV1)
    assert cluster.broker(CORDONED).cordoned_log_dirs is None
    assert create(cluster, replication_factor=3) == ApiError.NONE


@pytest.mark.parametrize(
    ("cordoned", "error"),
    [((ONE,), ApiError.NONE), ((ONE, OTHER), ApiError.INVALID_REPLICATION_FACTOR)],
)
def test_a_broker_is_placed_on_while_one_of_its_directories_is_open(
    cordoned: tuple[UUID, ...], error: ApiError
) -> None:
    assert create(cluster_of_three(*cordoned), replication_factor=3) == error


def test_new_partitions_go_to_others() -> None:
    cluster = cluster_of_three(ONE, OTHER)
    assert create(cluster, partitions=20, replication_factor=2) == ApiError.NONE
    for index in range(20):
        assert set(cluster.partition("new", index).replicas) == {1, 3}


@pytest.mark.parametrize(
    ("by_hand", "error"), [(False, ApiError.INVALID_REPLICA_ASSIGNMENT), (True, ApiError.NONE)]
)
def test_replicas_that_are_chosen_by_hand_may_not_be_on_it(
    *, by_hand: bool, error: ApiError
) -> None:
    """KAFKA-20832: Kafka 4.3.1 asks only where it places replicas itself."""
    cluster = cluster_of_three(ONE, OTHER, by_hand=by_hand)
    cluster.topic("t", (1, 3))
    assert create(cluster, assignments={0: (1, CORDONED)}) == error
    more = [NewPartitions("t", 2, [(1, CORDONED)])]
    (reply,) = cluster.do(cluster.controller.create_partitions(more))
    assert reply.error == error
    assert reassign(cluster, 1, CORDONED) == error


def test_a_replica_that_is_there_may_stay_while_others_move() -> None:
    """KIP-1066: only who *places* replicas on such a broker is refused."""
    cluster = cluster_of_three()
    cluster.topic("t", (CORDONED, 1))
    cluster.beat(CORDONED, cordoned_log_dirs=(ONE, OTHER))
    assert reassign(cluster, 1, CORDONED) == ApiError.NONE
    assert cluster.partition().replicas == (1, CORDONED)
    assert reassign(cluster, CORDONED, 3) == ApiError.NONE
    assert reassign(cluster, 1, 3) == ApiError.NONE


def test_it_stays_cordoned_when_it_registers_anew() -> None:
    """KIP-1066: cordons are in the log, so that they are known while the broker is away."""
    cluster = cluster_of_three(ONE, OTHER)
    cluster.beat(CORDONED, want_shut_down=True)
    epoch = cluster.broker(CORDONED).epoch
    cluster.register(CORDONED, log_dirs=(ONE, OTHER), previous_broker_epoch=epoch)
    again = cluster.log[-1]
    assert isinstance(again, RegisterBrokerRecord)
    assert again.cordoned_log_dirs == (ONE, OTHER)
    assert create(cluster, assignments={0: (1, CORDONED)}) == ApiError.INVALID_REPLICA_ASSIGNMENT
