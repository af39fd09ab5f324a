"""The APIs that we speak, their versions, and the listeners that serve them.

Version ranges are those of Kafka 4.1 where our code knows them. What a listener serves is a table
of its own: those here hold what the quorum and the first admin requests need, and whoever has a
handler for more adds its rows (``table``). Controllers serve the admin APIs too (KIP-919); Metadata
is served by brokers only; the quorum's own RPCs by controllers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class ApiKey(IntEnum):
    """Kafka's numbers of the APIs that we serve or call."""

    FETCH = 1
    METADATA = 3
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    INIT_PRODUCER_ID = 22
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    ALTER_CLIENT_QUOTAS = 49
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    ALLOCATE_PRODUCER_IDS = 67
    CONTROLLER_REGISTRATION = 70
    ASSIGN_REPLICAS_TO_DIRS = 73
    DESCRIBE_TOPIC_PARTITIONS = 75
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82


@dataclass(frozen=True, slots=True)
class ApiRange:
    """Versions of one API, both ends included."""

    key: int
    min_version: int
    max_version: int

    def __contains__(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


ApiTable = Mapping[int, ApiRange]


def table(*apis: ApiRange | Iterable[ApiRange]) -> ApiTable:
    """A table of those rows, by key; of two for one key the later counts."""
    rows: dict[int, ApiRange] = {}
    for api in apis:
        rows |= {row.key: row for row in ((api,) if isinstance(api, ApiRange) else api)}
    return dict(sorted(rows.items()))


def _range(key: ApiKey, low: int, high: int) -> ApiRange:
    return ApiRange(int(key), low, high)


# Whatever we can read and write; to be here is not to be served.
ALL_APIS: Final = table(
    _range(ApiKey.FETCH, 12, 18),  # 12 is the first with the epochs that replication needs
    _range(ApiKey.METADATA, 0, 13),
    _range(ApiKey.SASL_HANDSHAKE, 0, 1),
    _range(ApiKey.API_VERSIONS, 0, 4),
    _range(ApiKey.CREATE_TOPICS, 2, 7),
    _range(ApiKey.DELETE_TOPICS, 1, 6),
    _range(ApiKey.INIT_PRODUCER_ID, 0, 5),  # 6 is unstable in Kafka
    _range(ApiKey.DESCRIBE_ACLS, 1, 3),
    _range(ApiKey.CREATE_ACLS, 1, 3),
    _range(ApiKey.DELETE_ACLS, 1, 3),
    _range(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    _range(ApiKey.ALTER_CONFIGS, 0, 2),
    _range(ApiKey.SASL_AUTHENTICATE, 0, 2),
    _range(ApiKey.CREATE_PARTITIONS, 0, 3),
    _range(ApiKey.CREATE_DELEGATION_TOKEN, 3, 3),
    _range(ApiKey.RENEW_DELEGATION_TOKEN, 2, 2),
    _range(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, 2),
    _range(ApiKey.ELECT_LEADERS, 0, 2),
    _range(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    _range(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1),
    _range(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0),
    _range(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1),
    _range(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0),
    _range(ApiKey.VOTE, 0, 2),
    _range(ApiKey.BEGIN_QUORUM_EPOCH, 0, 1),
    _range(ApiKey.END_QUORUM_EPOCH, 0, 1),
    _range(ApiKey.DESCRIBE_QUORUM, 0, 2),
    _range(ApiKey.ALTER_PARTITION, 2, 3),
    _range(ApiKey.UPDATE_FEATURES, 0, 2),
    _range(ApiKey.ENVELOPE, 0, 0),
    _range(ApiKey.FETCH_SNAPSHOT, 0, 1),
    _range(ApiKey.DESCRIBE_CLUSTER, 0, 2),
    _range(ApiKey.BROKER_REGISTRATION, 0, 4),
    _range(ApiKey.BROKER_HEARTBEAT, 0, 2),
    _range(ApiKey.UNREGISTER_BROKER, 0, 0),
    _range(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0),
    _range(ApiKey.CONTROLLER_REGISTRATION, 0, 0),
    _range(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, 0),
    _range(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
    _range(ApiKey.ADD_RAFT_VOTER, 0, 1),
    _range(ApiKey.REMOVE_RAFT_VOTER, 0, 0),
    _range(ApiKey.UPDATE_RAFT_VOTER, 0, 0),
)


def apis(keys: Iterable[int]) -> ApiTable:
    """Give the table of these APIs, in the versions that we speak."""
    return table(ALL_APIS[key] for key in keys)


_ADMIN: Final = (
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.DESCRIBE_CLUSTER,
)
CONTROLLER_APIS: Final = apis(
    (
        *_ADMIN,
        ApiKey.FETCH,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UPDATE_RAFT_VOTER,
    )
)
BROKER_APIS: Final = apis((*_ADMIN, ApiKey.METADATA))


def apis_of(roles: Iterable[str]) -> ApiTable:
    """Give the APIs that the listener of a node with these roles serves.

    Raises:
        ValueError: A role has another name, or there is none.
    """
    tables = {"controller": CONTROLLER_APIS, "broker": BROKER_APIS}
    wanted = set(roles)
    if not wanted or not wanted <= tables.keys():
        raise ValueError(f"roles {sorted(wanted)}: want controller, broker or both")
    return table(*(tables[role].values() for role in wanted))
