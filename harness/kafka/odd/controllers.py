"""Requests of brokers and tools to a controller from which odd ones are made.

As they are, most are refused, because they are of what is not there, or only validated; those of
registrations are done. No fault draws them, as checks of brokers would have to know of them.

Source: KIP-500, KIP-631 and KIP-919 (brokers and controllers), KIP-339, KIP-546, KIP-554 (settings,
quotas, passwords), KIP-455 (reassignments), KIP-584 (features).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kio.static.primitive import f64, i32Timedelta

from harness.kafka.odd.bases import DIRECTORY, ID, NOWHERE, Base, Make, View
from harness.kafka.odd.changes import LEAST, MOST
from node.wire.api import ApiKey
from node.wire.api_versions import Negotiated
from node.wire.payloads import api_schema, spoken_versions
from node.wire.structs import build

INCARNATION: Final = UUID(int=78 << 64 | 78)
NOBODY: Final = "odd-requests"  # of topics, users, groups that are not there
GROUP: Final = 32  # a type of resources with settings
TIMEOUT: Final = i32Timedelta.parse(timedelta(seconds=1))
FEATURES: Final = (  # whatever a cluster may have raised
    ("metadata.version", 1, 40),
    *((f"{name}.version", 0, 9) for name in ("kraft", "transaction", "group", "share", "streams")),
    ("eligible.leader.replicas.version", 0, 9),
)

Fill = Callable[[type, View], Any]


def _built(key: ApiKey, fill: Fill) -> Make:
    """Have a request built, in the highest version that both sides speak."""

    def make(view: View, peer: Negotiated | None) -> Any:
        version = spoken_versions(key).max_version if peer is None else peer.version(key)
        return fill(api_schema(key, version).request, view)

    return make


def _create_topics(payload: type, _: View) -> Any:
    setting = build(payload, "CreatableTopicConfig", name="retention.ms", value="1000")
    topic = build(
        payload,
        "CreatableTopic",
        name=NOBODY,
        num_partitions=1,
        replication_factor=1,
        assignments=(),
        configs=(setting,),
    )
    return build(payload, topics=(topic,), timeout=TIMEOUT, validate_only=True)


def _create_assigned(payload: type, _: View) -> Any:
    assigned = build(payload, "CreatableReplicaAssignment", partition_index=0, broker_ids=(ID,))
    topic = build(
        payload,
        "CreatableTopic",
        name=NOBODY,
        num_partitions=-1,
        replication_factor=-1,
        assignments=(assigned,),
        configs=(),
    )
    return build(payload, topics=(topic,), timeout=TIMEOUT, validate_only=True)


def _delete_topics(payload: type, _: View) -> Any:
    topic = build(payload, "DeleteTopicState", name=NOBODY, topic_id=None)
    return build(payload, topics=(topic,), timeout=TIMEOUT)


def _create_partitions(payload: type, _: View) -> Any:
    assigned = build(payload, "CreatePartitionsAssignment", broker_ids=(ID,))
    topic = build(payload, "CreatePartitionsTopic", name=NOBODY, count=2, assignments=(assigned,))
    return build(payload, topics=(topic,), timeout=TIMEOUT, validate_only=True)


def _reassign(payload: type, _: View) -> Any:
    part = build(payload, "ReassignablePartition", partition_index=0, replicas=(ID,))
    topic = build(payload, "ReassignableTopic", name=NOBODY, partitions=(part,))
    return build(payload, timeout=TIMEOUT, allow_replication_factor_change=True, topics=(topic,))


def _elect(payload: type, _: View) -> Any:
    topic = build(payload, "TopicPartitions", topic=NOBODY, partitions=(0,))
    return build(payload, election_type=0, topic_partitions=(topic,), timeout=TIMEOUT)


def _settings(payload: type, _: View) -> Any:
    name, value = "consumer.session.timeout.ms", "45000"
    setting = build(payload, "AlterableConfig", name=name, config_operation=0, value=value)
    resource = build(
        payload,
        "AlterConfigsResource",
        resource_type=GROUP,
        resource_name=NOBODY,
        configs=(setting,),
    )
    return build(payload, resources=(resource,), validate_only=True)


def _quotas(payload: type, _: View) -> Any:
    entity = build(payload, "EntityData", entity_type="user", entity_name=NOBODY)
    quota = build(payload, "OpData", key="producer_byte_rate", value=f64(1000.0), remove=False)
    entry = build(payload, "EntryData", entity=(entity,), ops=(quota,))
    return build(payload, entries=(entry,), validate_only=True)


def _passwords(payload: type, _: View) -> Any:
    gone = build(payload, "ScramCredentialDeletion", name=NOBODY, mechanism=1)
    return build(payload, deletions=(gone,), upsertions=())


def _features(payload: type, _: View) -> Any:
    update = build(
        payload, "FeatureUpdateKey", feature="kraft.version", max_version_level=1, upgrade_type=1
    )
    return build(payload, timeout=TIMEOUT, feature_updates=(update,), validate_only=True)


def _directories(payload: type, _: View) -> Any:
    part = build(payload, "PartitionData", partition_index=0)
    topic = build(payload, "TopicData", topic_id=DIRECTORY, partitions=(part,))
    place = build(payload, "DirectoryData", id_=DIRECTORY, topics=(topic,))
    return build(payload, broker_id=ID, broker_epoch=0, directories=(place,))


def _heartbeat(payload: type, _: View) -> Any:
    return build(
        payload,
        broker_id=ID,
        broker_epoch=0,
        current_metadata_offset=0,
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(),
        cordoned_log_dirs=None,
    )


def _of_node(payload: type) -> dict[str, Any]:
    """Give what registrations of brokers and of controllers have in common."""
    place = {"host": NOWHERE.host, "port": NOWHERE.port, "security_protocol": 0}
    return {
        "incarnation_id": INCARNATION,
        "listeners": (build(payload, "Listener", name="PLAINTEXT", **place),),
        "features": tuple(
            build(
                payload, "Feature", name=name, min_supported_version=low, max_supported_version=up
            )
            for name, low, up in FEATURES
        ),
    }


def _register_broker(payload: type, view: View) -> Any:
    return build(
        payload,
        broker_id=ID,
        cluster_id=view.cluster_id,
        rack=NOBODY,
        is_migrating_zk_broker=False,
        log_dirs=(DIRECTORY,),
        previous_broker_epoch=-1,
        **_of_node(payload),
    )


def _register_controller(payload: type, _: View) -> Any:
    return build(payload, controller_id=ID, zk_migration_ready=False, **_of_node(payload))


_VALIDATED: Final = ("validate_only",)
OF_CONTROLLERS: Final[Mapping[str, Base]] = {
    "CreateTopics": Base(_built(ApiKey.CREATE_TOPICS, _create_topics), but=_VALIDATED),
    "CreateTopics-assigned": Base(_built(ApiKey.CREATE_TOPICS, _create_assigned), but=_VALIDATED),
    "DeleteTopics": Base(_built(ApiKey.DELETE_TOPICS, _delete_topics)),
    "CreatePartitions": Base(_built(ApiKey.CREATE_PARTITIONS, _create_partitions), but=_VALIDATED),
    "AlterPartitionReassignments": Base(_built(ApiKey.ALTER_PARTITION_REASSIGNMENTS, _reassign)),
    "ElectLeaders": Base(_built(ApiKey.ELECT_LEADERS, _elect)),
    "IncrementalAlterConfigs": Base(
        _built(ApiKey.INCREMENTAL_ALTER_CONFIGS, _settings), but=_VALIDATED
    ),
    "AlterConfigs": Base(_built(ApiKey.ALTER_CONFIGS, _settings), but=_VALIDATED),
    "AlterClientQuotas": Base(_built(ApiKey.ALTER_CLIENT_QUOTAS, _quotas), but=_VALIDATED),
    "AlterUserScramCredentials": Base(_built(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, _passwords)),
    "UpdateFeatures": Base(_built(ApiKey.UPDATE_FEATURES, _features), but=_VALIDATED),
    "AssignReplicasToDirs": Base(_built(ApiKey.ASSIGN_REPLICAS_TO_DIRS, _directories)),
    "AllocateProducerIds": Base(
        _built(ApiKey.ALLOCATE_PRODUCER_IDS, lambda p, _: build(p, broker_id=ID, broker_epoch=0))
    ),
    "UnregisterBroker": Base(
        _built(ApiKey.UNREGISTER_BROKER, lambda p, _: build(p, broker_id=ID)),
        only={"broker_id": ("-1", MOST, LEAST)},
    ),
    "BrokerHeartbeat": Base(_built(ApiKey.BROKER_HEARTBEAT, _heartbeat)),
    "BrokerRegistration": Base(  # Kafka registers a broker -1, and then no other on its disk
        _built(ApiKey.BROKER_REGISTRATION, _register_broker), but=("broker_id",)
    ),
    "ControllerRegistration": Base(_built(ApiKey.CONTROLLER_REGISTRATION, _register_controller)),
}
