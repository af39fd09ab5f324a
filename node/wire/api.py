"""Which APIs we speak, in which versions, and which listener serves them.

Version ranges are those of Kafka 4.1 where our code knows them. Controllers serve the admin APIs
too (KIP-919); Metadata is served by brokers only; the quorum's own RPCs by controllers only.
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
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DESCRIBE_CONFIGS = 32
    INCREMENTAL_ALTER_CONFIGS = 44
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
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


def _table(*rows: tuple[ApiKey, int, int]) -> ApiTable:
    return {int(key): ApiRange(int(key), low, high) for key, low, high in sorted(rows)}


_ADMIN: Final = (
    (ApiKey.API_VERSIONS, 0, 4),
    (ApiKey.CREATE_TOPICS, 2, 7),
    (ApiKey.DELETE_TOPICS, 1, 6),
    (ApiKey.DESCRIBE_CONFIGS, 1, 4),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    (ApiKey.DESCRIBE_QUORUM, 0, 2),
    (ApiKey.DESCRIBE_CLUSTER, 0, 2),
)

CONTROLLER_APIS: Final = _table(
    *_ADMIN,
    (ApiKey.FETCH, 12, 18),  # 12 is the first with the epochs that replication needs
    (ApiKey.VOTE, 0, 2),
    (ApiKey.BEGIN_QUORUM_EPOCH, 0, 1),
    (ApiKey.END_QUORUM_EPOCH, 0, 1),
    (ApiKey.FETCH_SNAPSHOT, 0, 1),
    (ApiKey.ADD_RAFT_VOTER, 0, 1),
    (ApiKey.REMOVE_RAFT_VOTER, 0, 0),
    (ApiKey.UPDATE_RAFT_VOTER, 0, 0),
)
BROKER_APIS: Final = _table(*_ADMIN, (ApiKey.METADATA, 0, 13))
ALL_APIS: Final[ApiTable] = dict(sorted({**BROKER_APIS, **CONTROLLER_APIS}.items()))


def apis_of(roles: Iterable[str]) -> ApiTable:
    """What the listener of a node with these roles ("controller", "broker") serves.

    Raises:
        ValueError: A role has another name, or there is none.
    """
    tables = {"controller": CONTROLLER_APIS, "broker": BROKER_APIS}
    wanted = set(roles)
    if not wanted or not wanted <= tables.keys():
        raise ValueError(f"roles {sorted(wanted)}: want controller, broker or both")
    return dict(sorted({k: v for role in wanted for k, v in tables[role].items()}.items()))
