"""Kafka's own controllers as what stands above the raft client: they are Java's, and serve there.

Here only a client is told who leads, which Kafka's server knows beside the controller.
"""

from __future__ import annotations

from typing import Final

from harness.systems.kafka.simulated.process import KafkaProcess
from node.controller.errors import ApiError
from node.driver.apis.call import Call, Inbound
from node.driver.apis.fields import AUTHORIZED_OPERATIONS_OMITTED, fields_of
from node.driver.apis.serving import NO_ID
from node.wire.api import ApiKey

CONTROLLERS: Final = 2  # endpoint type
NATIVE: Final = frozenset(
    {
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ALTER_PARTITION,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    }
)
OF_BROKERS: Final = frozenset({ApiKey.METADATA})  # from their own image
OF_IMAGES: Final = frozenset({ApiKey.DESCRIBE_CONFIGS})  # of brokers and controllers


class Controllers:
    """One node's; see ``StateMachine``.

    Args:
        process: The node's.
        is_shown: Whether it answers reads from its image. It does not beside nodes of ours, whose
            reads wait for a barrier: who asks either is promised the same.
    """

    kind: Final = "controller"
    apis: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER})

    def __init__(self, process: KafkaProcess, *, is_shown: bool) -> None:
        self._process = process
        self._leader: int | None = None
        is_controller = "controller" in process.config.roles
        native = NATIVE if is_controller else OF_BROKERS
        self.native = native | OF_IMAGES if is_shown else native

    def committed(self, end: int, epoch: int, size: int, values: list[bytes]) -> None:
        """Java applies records."""
        raise AssertionError(f"records up to {end} of epoch {epoch}: {size} bytes, {values}")

    def loaded(self, end: int, epoch: int, values: list[bytes]) -> None:
        """Java loads snapshots."""
        raise AssertionError(f"a snapshot {end}-{epoch}: {values}")

    def led_by(self, leader: int | None, epoch: int) -> None:
        """Note who leads."""
        del epoch
        self._leader = leader

    def serve(self, request: Inbound) -> None:
        """Say who leads."""
        call = Call(request)
        call.reply(
            call.struct(
                **fields_of(ApiError.NONE),
                endpoint_type=CONTROLLERS,
                cluster_id=self._process.cluster_id,
                controller_id=NO_ID if self._leader is None else self._leader,
                brokers=(),
                cluster_authorized_operations=AUTHORIZED_OPERATIONS_OMITTED,
            )
        )
