"""Features, activation, producer ids, controllers, placement, and settings tied to features."""

from __future__ import annotations

from collections import Counter
from random import Random
from uuid import UUID

import pytest

from node.controller.broker_operations import ControllerRegistrationRequest
from node.controller.controller import QuorumController
from node.controller.errors import ApiError, OperationError
from node.controller.feature_operations import BootstrapMetadata, FeatureUpdate, UpgradeType
from node.controller.operations import NewTopic, ReplaceResource, TopicRef
from node.controller.placement import StripedReplicaPlacer, UsableBroker
from node.metadata.features import (
    ELR_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    default_features,
)
from node.metadata.image import BROKER, TOPIC
from node.metadata.schemas import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from tests.support.nodes.controllers import Cluster, Quorum, alter, registration

MIN_ISR = "min.insync.replicas"

# --------------------------------------------------------------------------- activation


def test_an_empty_log_begins_with_the_levels_in_a_transaction() -> None:
    """KIP-868, KIP-778; with ELR all of the cluster agrees on one min.insync.replicas (KIP-966)."""
    cluster = Cluster()
    kinds = [type(record) for record in cluster.log]
    assert kinds[0] is BeginTransactionRecord
    assert kinds[-1] is EndTransactionRecord
    first = cluster.log[1]
    assert isinstance(first, FeatureLevelRecord)
    assert (first.name, first.feature_level) == (METADATA_VERSION, 27)
    assert cluster.controller.image.features == default_features()
    setting = cluster.log[-2]
    assert isinstance(setting, ConfigRecord)
    assert (setting.resource_name, setting.name, setting.value) == ("", MIN_ISR, "1")


def test_an_old_metadata_version_knows_no_transactions() -> None:
    quorum = Quorum()
    quorum.do(quorum.controller.activate(BootstrapMetadata({METADATA_VERSION: 12})))
    assert [type(record) for record in quorum.log] == [FeatureLevelRecord]


def test_a_log_with_content_is_left_as_it_is() -> None:
    cluster = Cluster()
    result = cluster.controller.activate(BootstrapMetadata(default_features()))
    assert (result.entries, result.reply) == ((), None)


def test_a_transaction_left_open_is_aborted() -> None:
    cluster = Cluster()
    result = cluster.controller.activate(
        BootstrapMetadata(default_features()), open_transaction=True
    )
    cluster.append(result)
    assert isinstance(cluster.log[-1], AbortTransactionRecord)
    assert "aborted" in (result.reply or "")


# --------------------------------------------------------------------------- UpdateFeatures


def update(cluster: Cluster, feature: str, level: int, kind: int = 1) -> ApiError:
    result = cluster.controller.update_features([FeatureUpdate(feature, level, kind)])
    return cluster.do(result).error


@pytest.mark.parametrize(
    ("feature", "level", "kind", "error"),
    [
        (GROUP_VERSION, 0, UpgradeType.SAFE_DOWNGRADE, ApiError.NONE),
        (GROUP_VERSION, 0, UpgradeType.UPGRADE, ApiError.INVALID_UPDATE_VERSION),
        (GROUP_VERSION, 1, UpgradeType.UPGRADE, ApiError.NONE),
        (GROUP_VERSION, 9, UpgradeType.UPGRADE, ApiError.INVALID_UPDATE_VERSION),
        (GROUP_VERSION, -1, UpgradeType.SAFE_DOWNGRADE, ApiError.INVALID_UPDATE_VERSION),
        (GROUP_VERSION, 1, 9, ApiError.INVALID_UPDATE_VERSION),
        ("no.such", 1, UpgradeType.UPGRADE, ApiError.INVALID_UPDATE_VERSION),
        ("no.such", 0, UpgradeType.SAFE_DOWNGRADE, ApiError.INVALID_UPDATE_VERSION),
        (KRAFT_VERSION, 0, UpgradeType.UPGRADE, ApiError.NONE),
        (KRAFT_VERSION, 2, UpgradeType.UPGRADE, ApiError.INVALID_UPDATE_VERSION),
        (KRAFT_VERSION, 1, UpgradeType.SAFE_DOWNGRADE, ApiError.INVALID_UPDATE_VERSION),
        (METADATA_VERSION, 26, UpgradeType.SAFE_DOWNGRADE, ApiError.NONE),
        (METADATA_VERSION, 26, UpgradeType.UPGRADE, ApiError.INVALID_UPDATE_VERSION),
        (METADATA_VERSION, 20, UpgradeType.SAFE_DOWNGRADE, ApiError.INVALID_UPDATE_VERSION),
        (METADATA_VERSION, 20, UpgradeType.UNSAFE_DOWNGRADE, ApiError.INVALID_UPDATE_VERSION),
        (METADATA_VERSION, 99, UpgradeType.UPGRADE, ApiError.INVALID_UPDATE_VERSION),
    ],
)
def test_which_levels_may_be_finalised(
    feature: str, level: int, kind: int, error: ApiError
) -> None:
    """KIP-584, KIP-778."""
    cluster = Cluster(1)
    before = dict(cluster.controller.image.features)
    assert update(cluster, feature, level, kind) == error
    after = cluster.controller.image.features
    if error is ApiError.NONE:
        assert after.get(feature, 0) == level
    else:
        assert after == before


@pytest.mark.parametrize("kind", [UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE])
def test_kraft_version_goes_up_only_and_is_no_record(kind: UpgradeType) -> None:
    """KIP-853: its record is a control record, which the consensus core writes."""
    cluster = Cluster()
    controller = cluster.controller
    written = len(cluster.log)
    up, down = FeatureUpdate(KRAFT_VERSION, 1), FeatureUpdate(KRAFT_VERSION, 0, kind)
    assert cluster.do(controller.update_features([up], kraft_version=0)).error == ApiError.NONE
    reply = cluster.do(controller.update_features([down], kraft_version=1))
    assert reply.error == ApiError.INVALID_UPDATE_VERSION
    assert "Can't downgrade" in str(reply.message)
    assert len(cluster.log) == written


def test_a_level_that_a_broker_lacks_is_refused() -> None:
    cluster = Cluster(elr=False)
    features = tuple(f for f in registration(1).features if f.name != ELR_VERSION)
    cluster.start(1, features=features)
    assert update(cluster, ELR_VERSION, 1) == ApiError.INVALID_UPDATE_VERSION
    cluster.do(cluster.controller.unregister_broker(1))
    assert update(cluster, ELR_VERSION, 1) == ApiError.NONE


def test_a_level_cannot_do_without_its_metadata_version() -> None:
    """KIP-1022."""
    quorum = Quorum()
    quorum.do(quorum.controller.activate(BootstrapMetadata({METADATA_VERSION: 22})))
    updates = [FeatureUpdate(ELR_VERSION, 1)]
    refused = quorum.do(quorum.controller.update_features(updates))
    assert refused.error == ApiError.INVALID_UPDATE_VERSION
    updates.append(FeatureUpdate(METADATA_VERSION, 23))
    assert quorum.do(quorum.controller.update_features(updates)).error == ApiError.NONE


def test_all_updates_or_none() -> None:
    cluster = Cluster()
    updates = [FeatureUpdate(GROUP_VERSION, 0, 2), FeatureUpdate("no.such", 1)]
    result = cluster.controller.update_features(updates)
    assert (result.entries, result.reply.error) == ((), ApiError.INVALID_UPDATE_VERSION)
    valid = cluster.controller.update_features(updates[:1], validate_only=True)
    assert (valid.entries, valid.reply.error) == ((), ApiError.NONE)
    assert cluster.controller._overlay.feature(GROUP_VERSION) == 1


def test_elr_comes_with_one_minimum_for_the_whole_cluster() -> None:
    """KIP-966: settings of single brokers would disagree."""
    cluster = Cluster(elr=False)
    one = alter(MIN_ISR, 0, "3", resource="1", kind=BROKER)
    cluster.do(cluster.controller.alter_configs([one]))
    assert update(cluster, ELR_VERSION, 1) == ApiError.NONE
    image = cluster.controller.image
    assert image.config((BROKER, "1")) == {}
    assert image.config((BROKER, ""))[MIN_ISR] == "1"


@pytest.mark.parametrize(("resource", "op"), [("1", 0), ("", 1)])
def test_with_elr_that_minimum_stays_one(resource: str, op: int) -> None:
    cluster = Cluster(1)
    change = alter(MIN_ISR, op, "2" if op == 0 else None, resource=resource, kind=BROKER)
    (reply,) = cluster.controller.alter_configs([change]).reply
    assert reply.error == ApiError.INVALID_CONFIG


def test_a_broker_whose_settings_change_is_registered_and_its_values_are_looked_at_first() -> None:
    cluster = Cluster(1)
    for value, error in (("4", ApiError.BROKER_ID_NOT_REGISTERED), ("x", ApiError.INVALID_CONFIG)):
        change = alter("num.io.threads", 0, value, resource="99", kind=BROKER)
        (reply,) = cluster.controller.alter_configs([change]).reply
        assert reply.error == error


def test_finalised_features_have_an_epoch() -> None:
    cluster = Cluster()
    found = cluster.controller.finalized_features()
    assert (found.levels, found.epoch) == (default_features(), len(cluster.log) - 1)


# --------------------------------------------------------------------------- AlterConfigs (33)


def test_replaced_settings_are_all_that_a_resource_has() -> None:
    cluster = Cluster(1)
    cluster.topic("t", (1,), retention_ms="1", segment_ms="2")
    wanted = ReplaceResource(TOPIC, "t", {"retention.ms": "5", "flush.ms": "7"})
    cluster.do(cluster.controller.replace_configs([wanted]))
    assert cluster.controller.image.config((TOPIC, "t")) == {"retention.ms": "5", "flush.ms": "7"}
    nothing = cluster.controller.replace_configs([wanted])
    assert nothing.entries == ()


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (ReplaceResource(TOPIC, "no", {}), ApiError.UNKNOWN_TOPIC_OR_PARTITION),
        (ReplaceResource(TOPIC, "t", {"retention.ms": None}), ApiError.INVALID_REQUEST),
        (ReplaceResource(TOPIC, "t", {"retention.ms": "x"}), ApiError.INVALID_CONFIG),
        # which would take the minimum away that eligible leaders go by (KIP-966)
        (ReplaceResource(BROKER, "", {"num.io.threads": "3"}), ApiError.INVALID_CONFIG),
    ],
)
def test_refused_replacements(wanted: ReplaceResource, error: ApiError) -> None:
    cluster = Cluster(1)
    cluster.topic("t", (1,))
    assert cluster.controller.replace_configs([wanted]).reply[0].error == error


# --------------------------------------------------------------------------- producer ids


def test_blocks_of_producer_ids_are_disjoint_even_uncommitted() -> None:
    """KIP-730; invariant C11."""
    cluster = Cluster(2)
    epochs = {b: cluster.broker(b).epoch for b in (1, 2)}
    replies = [cluster.controller.allocate_producer_ids(b, epochs[b]).reply for b in (1, 2, 1)]
    starts = [(r.producer_id_start, r.producer_id_len) for r in replies]
    assert starts == [(0, 1000), (1000, 1000), (2000, 1000)]
    stale = cluster.controller.allocate_producer_ids(1, epochs[1] + 1).reply
    assert (stale.error, stale.producer_id_len) == (ApiError.STALE_BROKER_EPOCH, 0)


# --------------------------------------------------------------------------- controllers, cluster


def test_controllers_register() -> None:
    """KIP-919."""
    cluster = Cluster(1)
    endpoint = BrokerEndpoint(name="CONTROLLER", host="c", port=9, security_protocol=0)
    request = ControllerRegistrationRequest(
        controller_id=7, incarnation_id=UUID(int=1), listeners=(endpoint,)
    )
    assert cluster.do(cluster.controller.register_controller(request)).error == ApiError.NONE
    (listener,) = cluster.controller.image.controllers[7].listeners
    assert (listener.name, listener.host, listener.port) == ("CONTROLLER", "c", 9)
    refused = Quorum().controller.register_controller(request).reply
    assert refused.error == ApiError.UNSUPPORTED_VERSION


# --------------------------------------------------------------------------- placement


def test_replicas_go_over_racks_and_brokers_in_turn() -> None:
    """KIP-36, StripedReplicaPlacer: one replica per rack while there are racks."""
    brokers = [UsableBroker(i, rack=f"r{i % 3}") for i in range(9)]
    placer = StripedReplicaPlacer(brokers, Random(3))
    rows = [placer.place(3) for _ in range(9)]
    for row in rows:
        assert {broker % 3 for broker in row} == {0, 1, 2}
    counts = Counter(broker for row in rows for broker in row)
    assert counts == dict.fromkeys(range(9), 3), "spread evenly"


def test_fenced_brokers_serve_only_when_there_are_not_enough_others() -> None:
    brokers = [UsableBroker(1), UsableBroker(2), UsableBroker(3, fenced=True)]
    placer = StripedReplicaPlacer(brokers, Random(1))
    assert all(set(placer.place(2)) == {1, 2} for _ in range(6))
    wide = [placer.place(3) for _ in range(6)]
    assert all(set(row) == {1, 2, 3} and row[0] != 3 for row in wide)


@pytest.mark.parametrize("brokers", [[], [UsableBroker(1, fenced=True)], [UsableBroker(1)] * 2])
def test_what_cannot_be_placed_is_refused(brokers: list[UsableBroker]) -> None:
    with pytest.raises(OperationError) as refusal:
        StripedReplicaPlacer(brokers, Random(1)).place(1 if len(brokers) == 1 else 3)
    assert refusal.value.error == ApiError.INVALID_REPLICATION_FACTOR


def test_without_the_explicit_setting_partitions_need_registered_brokers() -> None:
    controller = QuorumController(rng=Random(1))
    controller.claim(1, 0)
    (reply,) = controller.create_topics([NewTopic("t")]).reply
    assert reply.error == ApiError.INVALID_REPLICATION_FACTOR


def test_registered_brokers_go_before_the_static_ones() -> None:
    quorum = Quorum(broker_ids=(7, 8), cluster_id="c")
    features = registration(1).features
    register = registration(1, features=features)
    quorum.do(quorum.controller.activate(BootstrapMetadata(default_features())))
    quorum.do(quorum.controller.register_broker(register, 0))
    (reply,) = quorum.controller.create_topics([NewTopic("t")]).reply
    assert reply.error == ApiError.INVALID_REPLICATION_FACTOR, "the one that there is is fenced"


@pytest.mark.parametrize("committed", [False, True])
def test_names_that_metrics_cannot_tell_apart_are_refused(committed: bool) -> None:
    cluster = Cluster(1)
    created = cluster.controller.create_topics([NewTopic("a.b"), NewTopic("a_b")])
    if committed:
        cluster.do(created)
    assert [r.error for r in created.reply] == [ApiError.NONE, ApiError.INVALID_TOPIC_EXCEPTION]
    (again,) = cluster.controller.create_topics([NewTopic("a_b")]).reply
    assert "collides with existing topic: a.b" in (again.message or "")
    cluster.controller.delete_topics([TopicRef("a.b")])
    assert cluster.controller.create_topics([NewTopic("a_b")]).reply[0].error == ApiError.NONE
