"""Control records: Kafka's bytes, hostile bytes, and what a batch of them tells the quorum."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.messages import KRaftVersion, LeaderChange, Voters
from node.core.types import Endpoint, Listener, ReplicaKey, VersionRange, Voter, VoterSet
from node.log.batch import CorruptBatchError, encode_batch, parse_batch
from node.log.control.records import (
    AnyControl,
    ControlRecordError,
    SnapshotFooter,
    SnapshotHeader,
    control_to_json,
    decode_control,
    encode_control,
)

DIRECTORY = UUID("00112233-4455-6677-8899-aabbccddeeff")
OTHER = UUID(int=7)


def voter(node: int, directory: UUID | None = DIRECTORY, *names: str) -> Voter:
    listeners = tuple(
        Listener(name, Endpoint(f"host-{node}", 9000 + i))
        for i, name in enumerate(names or ("CONTROLLER",))
    )
    return Voter(ReplicaKey(node, directory), listeners[0].endpoint, listeners, VersionRange(0, 1))


ALL: list[AnyControl] = [
    LeaderChange(2, (1, 2, 3), (2, 3)),
    LeaderChange(2, (1, 2), (2,), {1: DIRECTORY, 2: None}),
    LeaderChange(0, (), ()),
    SnapshotHeader(1_700_000_000_123),
    SnapshotFooter(),
    KRaftVersion(0),
    KRaftVersion(1),
    Voters(VoterSet.of(voter(1), voter(2, OTHER, "A", "B"), voter(3, None))),
    Voters(VoterSet.of()),
]

# (type, value) by Kafka's schemas, byte by byte
GOLDEN = [
    (
        LeaderChange(2, (1, 2), (2,)),
        2,
        "0000" + "00000002" + "03" + "00000001" + "00" + "00000002" + "00"
        "02" + "00000002" + "00" + "00",
    ),
    (
        LeaderChange(2, (2,), (2,), {2: DIRECTORY}),
        2,
        "0001" + "00000002" + "02" + "00000002" + DIRECTORY.hex + "00"
        "02" + "00000002" + DIRECTORY.hex + "00" + "00",
    ),
    (SnapshotHeader(0x0102), 3, "0000" + "0000000000000102" + "00"),
    (SnapshotFooter(), 4, "0000" + "00"),
    (KRaftVersion(1), 5, "0000" + "0001" + "00"),
    (
        Voters(VoterSet.of(voter(3))),
        6,
        "0000" + "02" + "00000003" + DIRECTORY.hex + "02" + "0b" + b"CONTROLLER".hex()
        + "07" + b"host-3".hex() + f"{9000:04x}" + "00" + "0000" + "0001" + "00" + "00" + "00",
    ),
]  # fmt: skip


@pytest.mark.parametrize("record", ALL, ids=repr)
def test_every_control_record_survives_the_round_trip(record: AnyControl) -> None:
    assert decode_control(*encode_control(record)) == record


@pytest.mark.parametrize(("record", "kind", "value"), GOLDEN)
def test_the_bytes_are_those_of_kafkas_schemas(record: AnyControl, kind: int, value: str) -> None:
    assert encode_control(record) == (bytes([0, 0, 0, kind]), bytes.fromhex(value))


def test_the_first_listener_is_the_one_to_speak_to() -> None:
    decoded = decode_control(*encode_control(Voters(VoterSet.of(voter(1, DIRECTORY, "A", "B")))))
    assert isinstance(decoded, Voters)
    assert decoded.voters.endpoint(1) == Endpoint("host-1", 9000)


def test_a_type_to_come_is_skipped_and_named() -> None:
    assert decode_control(b"\0\0\0\x63", b"whatever") is None
    assert control_to_json(b"\0\0\0\x63", b"\1") == {
        "type": "Control99",
        "fields": {"value": "01"},
    }
    assert control_to_json(b"\0\0\0\x01", b"\0")["type"] == "CommitMarker"


@pytest.mark.parametrize("key", [None, b"", b"\0", b"\0\0\0", b"\0\0\0\2\0"])
def test_a_key_that_is_none_is_refused(key: bytes | None) -> None:
    with pytest.raises(ControlRecordError, match="want"):
        decode_control(key, b"")


@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6])
@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\0",
        b"\0\x07",
        b"\0\0\1",
        b"\0\0" + b"\xff" * 20,
        b"\0\0" + b"\xff\xff\xff\xff\x0f" * 3,  # lengths of 2^32
    ],
)
def test_malformed_values_are_refused(kind: int, value: bytes | None) -> None:
    with pytest.raises(ControlRecordError):
        decode_control(bytes([0, 0, 0, kind]), value)


@given(st.sampled_from(ALL), st.data())
def test_damage_is_refused_or_read_as_something_else_but_never_worse(
    record: AnyControl, data: st.DataObject
) -> None:
    key, value = encode_control(record)
    damaged = bytearray(value)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(value)))])
    for bad in (bytes(damaged), cut):
        try:
            decode_control(key, bad)
        except ControlRecordError:
            continue


def test_a_voter_twice_or_without_endpoint_is_refused() -> None:
    key, value = encode_control(Voters(VoterSet.of(voter(1), voter(2))))
    twice = value.replace(b"\0\0\0\2", b"\0\0\0\1")
    with pytest.raises(ControlRecordError, match="twice"):
        decode_control(key, twice)
    bare = "0000" + "02" + "00000003" + DIRECTORY.hex + "01" + "0000" + "0001" + "00" + "00" + "00"
    with pytest.raises(ControlRecordError, match="no endpoint"):
        decode_control(key, bytes.fromhex(bare))


@pytest.mark.parametrize(
    "record",
    [
        KRaftVersion(1 << 16),
        SnapshotHeader(1 << 70),
        LeaderChange(1 << 40, (), ()),
        Voters(VoterSet.of(Voter(ReplicaKey(1, DIRECTORY), Endpoint("h", 1)))),
    ],
    ids=repr,
)
def test_what_does_not_fit_the_schema_is_not_written(record: AnyControl) -> None:
    with pytest.raises(ControlRecordError):
        encode_control(record)


def test_a_control_batch_tells_its_records_to_the_quorum() -> None:
    change, version = LeaderChange(1, (1,), (1,), {1: DIRECTORY}), KRaftVersion(1)
    voters = Voters(VoterSet.of(voter(1)))
    records = [
        encode_control(change),
        encode_control(SnapshotHeader(5)),
        (b"\0\0\0\x63", b"to come"),
        encode_control(version),
        encode_control(voters),
    ]
    batch = parse_batch(encode_batch(0, 1, records, control=True, timestamp_ms=5))
    assert batch.is_control
    assert batch.controls == (change, version, voters)


def test_a_data_batch_has_no_control_records() -> None:
    records = [encode_control(KRaftVersion(1))]
    assert parse_batch(encode_batch(0, 1, records, control=False, timestamp_ms=5)).controls == ()


@pytest.mark.parametrize("record", [(None, b"x"), (b"\0\0\0\5", b"\0\0"), (b"\0\0\0\2", None)])
def test_a_control_batch_that_cannot_be_read_is_corrupt(
    record: tuple[bytes | None, bytes | None],
) -> None:
    data = encode_batch(0, 1, [record], control=True, timestamp_ms=5)
    with pytest.raises(CorruptBatchError, match="control batch"):
        parse_batch(data)


def test_leader_change_alone() -> None:
    change = LeaderChange(leader_id=2, voter_ids=(1, 2, 3), granting_ids=(2, 3))
    key, value = encode_control(change)
    assert decode_control(key, value) == change
    assert control_to_json(key, value) == {
        "type": "LeaderChange",
        "fields": {"leader_id": 2, "voter_ids": [1, 2, 3], "granting_ids": [2, 3]},
    }


def test_control_records_for_people() -> None:
    assert control_to_json(*encode_control(LeaderChange(1, (1,), (1,), {1: DIRECTORY}))) == {
        "type": "LeaderChange",
        "fields": {
            "leader_id": 1,
            "voter_ids": [1],
            "granting_ids": [1],
            "directory_ids": {"1": "ABEiM0RVZneImaq7zN3u_w"},
        },
    }
    assert control_to_json(*encode_control(Voters(VoterSet.of(voter(1))))) == {
        "type": "KRaftVoters",
        "fields": {
            "voters": [
                {
                    "id": 1,
                    "directory_id": "ABEiM0RVZneImaq7zN3u_w",
                    "endpoints": ["CONTROLLER://host-1:9000"],
                    "kraft_versions": [0, 1],
                }
            ]
        },
    }
    assert control_to_json(*encode_control(KRaftVersion(1)))["fields"] == {"level": 1}
    assert control_to_json(*encode_control(SnapshotFooter())) == {
        "type": "SnapshotFooter",
        "fields": {},
    }
    assert control_to_json(*encode_control(SnapshotHeader(9)))["fields"] == {
        "last_contained_log_timestamp": 9
    }
