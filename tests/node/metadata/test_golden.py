"""Our bytes are Kafka's: records as Kafka's own serialiser wrote them, and the same ones by us."""

from __future__ import annotations

from uuid import UUID

import msgspec
import pytest

from node.metadata import schemas as s
from node.metadata.records import RecordError, decode_record, encode_record
from tests.support.places import TESTDATA

GOLDEN = TESTDATA / "metadata" / "kafka_records.txt"
A, B = UUID(int=1 << 64 | 2), UUID(int=3 << 64 | 4)


# By kind and version: what that version brought, and what it is in those before.
LATE: dict[type[s.MetadataRecord], dict[int, dict[str, object]]] = {
    s.RegisterBrokerRecord: {
        1: {"in_controlled_shutdown": False},
        2: {"is_migrating_zk_broker": False},
        3: {"log_dirs": ()},
        4: {"cordoned_log_dirs": None},
    },
    s.PartitionRecord: {
        1: {"directories": ()},
        2: {"eligible_leader_replicas": None, "last_known_elr": None},
    },
    s.PartitionChangeRecord: {
        1: {"directories": None},
        2: {"eligible_leader_replicas": None, "last_known_elr": None},
    },
    s.BrokerRegistrationChangeRecord: {
        1: {"in_controlled_shutdown": 0},
        2: {"log_dirs": ()},
        3: {"cordoned_log_dirs": None},
    },
}


def versions(last: s.MetadataRecord) -> list[s.MetadataRecord]:
    """A record in all its versions, each without what only later ones have."""
    found = []
    for version in range(type(last).HIGHEST + 1):
        absent: dict[str, object] = {}
        for since, names in LATE[type(last)].items():
            absent |= names if since > version else {}
        found.append(msgspec.structs.replace(last, version=version, **absent))
    return found


RECORDS: list[s.MetadataRecord] = [
    *versions(
        s.RegisterBrokerRecord(
            broker_id=5,
            is_migrating_zk_broker=True,
            incarnation_id=A,
            broker_epoch=9,
            end_points=(s.BrokerEndpoint(name="SSL", host="h", port=40000, security_protocol=1),),
            features=(
                s.BrokerFeature(name="f", min_supported_version=1, max_supported_version=27),
            ),
            rack="r",
            fenced=False,
            in_controlled_shutdown=True,
            log_dirs=(A, B),
            cordoned_log_dirs=(B,),
        )
    ),
    s.UnregisterBrokerRecord(broker_id=5, broker_epoch=9),
    *versions(
        s.PartitionRecord(
            partition_id=1,
            topic_id=A,
            replicas=(1, 2),
            isr=(1,),
            adding_replicas=(2,),
            leader=1,
            leader_recovery_state=1,
            leader_epoch=3,
            partition_epoch=4,
            directories=(A, None),
            eligible_leader_replicas=(2,),
            last_known_elr=(),
        )
    ),
    *versions(
        s.PartitionChangeRecord(
            partition_id=1,
            topic_id=A,
            isr=(2,),
            leader=2,
            replicas=(2, 3),
            removing_replicas=(),
            adding_replicas=(3,),
            leader_recovery_state=0,
            directories=(A, B),
            eligible_leader_replicas=(1,),
            last_known_elr=(3,),
        )
    ),
    s.FenceBrokerRecord(id=1, epoch=2),
    s.UnfenceBrokerRecord(id=1, epoch=2),
    s.RemoveTopicRecord(topic_id=A),
    s.DelegationTokenRecord(
        owner="User:a",
        requester="User:b",
        renewers=("User:c",),
        issue_timestamp=1,
        max_timestamp=2,
        expiration_timestamp=3,
        token_id="t",
    ),
    s.UserScramCredentialRecord(
        name="u", mechanism=1, salt=b"\1\2", stored_key=b"\3", server_key=b"", iterations=4096
    ),
    s.ClientQuotaRecord(
        entity=(
            s.EntityData(entity_type="user", entity_name=None),
            s.EntityData(entity_type="client-id", entity_name="c"),
        ),
        key="k",
        value=1.5,
        remove=False,
    ),
    s.ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=1000),
    *versions(
        s.BrokerRegistrationChangeRecord(
            broker_id=1,
            broker_epoch=2,
            fenced=-1,
            in_controlled_shutdown=1,
            log_dirs=(A,),
            cordoned_log_dirs=(),
        )
    ),
    s.AccessControlEntryRecord(
        id=A,
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=4,
        permission_type=3,
    ),
    s.RemoveAccessControlEntryRecord(id=A),
    s.ZkMigrationStateRecord(zk_migration_state=2),
    s.RemoveUserScramCredentialRecord(name="u", mechanism=2),
    s.BeginTransactionRecord(name="bootstrap"),
    s.BeginTransactionRecord(),
    s.EndTransactionRecord(),
    s.AbortTransactionRecord(reason="why"),
    s.RemoveDelegationTokenRecord(token_id="t"),
    s.RegisterControllerRecord(
        controller_id=3,
        incarnation_id=B,
        zk_migration_ready=False,
        end_points=(s.BrokerEndpoint(name="C", host="h", port=9093, security_protocol=0),),
        features=(s.BrokerFeature(name="f", min_supported_version=0, max_supported_version=1),),
    ),
    s.ClearElrRecord(topic_name="t"),
    s.UnregisterControllerRecord(controller_id=3001),
]
LINES = [line.split() for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    ("line", "record"),
    list(zip(LINES, RECORDS, strict=True)),
    ids=[f"{name}-v{version}-{at}" for at, (name, version, _) in enumerate(LINES)],
)
def test_a_record_is_written_and_read_as_kafka_writes_it(
    line: list[str], record: s.MetadataRecord
) -> None:
    name, version, value = line
    assert (type(record).__name__, record.version) == (name, int(version))
    assert encode_record(record).hex() == value
    assert decode_record(bytes.fromhex(value)) == record


def test_every_version_of_every_record_is_among_them() -> None:
    seen = {(type(record), record.version) for record in RECORDS}
    kinds = {(cls, version) for cls in s.ALL_RECORDS for version in range(cls.HIGHEST + 1)}
    # these are so simple that test_metadata_records has them by hand
    assert kinds - seen == {
        (cls, 0) for cls in (s.TopicRecord, s.ConfigRecord, s.FeatureLevelRecord, s.NoOpRecord)
    }
    assert len(seen) + 1 == len(LINES)  # one of them twice: with and without its tagged field


@pytest.mark.parametrize("kind", LATE, ids=lambda kind: kind.__name__)
def test_a_field_that_a_version_lacks_is_not_lost_in_silence(kind: type[s.MetadataRecord]) -> None:
    last = next(r for r in RECORDS if type(r) is kind and r.version == kind.HIGHEST)
    for since, names in LATE[kind].items():
        for name in names:
            others = {n: v for late in LATE[kind].values() for n, v in late.items() if n != name}
            record = msgspec.structs.replace(last, version=since - 1, **others)
            with pytest.raises(RecordError, match=f"{name} cannot be written in version"):
                encode_record(record)
