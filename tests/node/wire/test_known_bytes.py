"""Bytes that Apache Kafka 4.1.1's own classes read and wrote again without a change."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from node.core.messages import (
    AddVoterRequest,
    Error,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from node.core.types import Endpoint, Listener, OffsetAndEpoch, ReplicaKey, VersionRange
from node.wire import codec
from tests.support.wire.entities import body_of

LEADER = Endpoint("h", 9)
LISTENERS = (Listener("CONTROLLER", Endpoint("h", 9093)), Listener("SSL", Endpoint("h", 9094)))
VOTER = ReplicaKey(4, UUID(int=0x1234567890ABCDEF1234567890ABCDEF))
SNAPSHOT = FetchSnapshotRequest(VOTER, 3, OffsetAndEpoch(10, 2), 5, 1024, "cid")
CHUNK = FetchSnapshotResponse(Error.NONE, 3, 1, LEADER, OffsetAndEpoch(10, 2), 100, 5, data=b"xyz")
MISSING = FetchSnapshotResponse(Error.SNAPSHOT_NOT_FOUND, 3, 1, LEADER)
ADD = AddVoterRequest(VOTER, LISTENERS, 500, "cid")
REMOVE = RemoveVoterRequest(VOTER, "cid")
UPDATE = UpdateVoterRequest(VOTER, 3, LISTENERS, VersionRange(0, 1), "cid")
CHANGED = VoterChangeResponse(Error.VOTER_NOT_FOUND, 3, 1, LEADER, "no")
OFFER = FetchResponse(Error.NONE, 3, 1, 7, 0, LEADER, snapshot=OffsetAndEpoch(10, 2))

REQUESTS = (FetchSnapshotRequest, AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest)
KNOWN = [
    (
        SNAPSHOT,
        0,
        (
            "000000040000040002135f5f636c75737465725f6d65746164617461020000000000000003000000"
            "000000000a00000002000000000000000005000001000404636964"
        ),
    ),
    (
        CHUNK,
        0,
        (
            "00000000000002135f5f636c75737465725f6d657461646174610200000000000000000000000000"
            "0a0000000200000000000000006400000000000000050478797a0100090000000100000003000000"
        ),
    ),
    (
        MISSING,
        0,
        (
            "00000000000002135f5f636c75737465725f6d657461646174610200000000006200000000000000"
            "00000000000000000000000000000000000000000000010100090000000100000003000000"
        ),
    ),
    (
        SNAPSHOT,
        1,
        (
            "000000040000040002135f5f636c75737465725f6d65746164617461020000000000000003000000"
            "000000000a000000020000000000000000050100101234567890abcdef1234567890abcdef000100"
            "0404636964"
        ),
    ),
    (
        CHUNK,
        1,
        (
            "00000000000002135f5f636c75737465725f6d657461646174610200000000000000000000000000"
            "0a0000000200000000000000006400000000000000050478797a0100090000000100000003000001"
            "000a02000000010268000900"
        ),
    ),
    (
        MISSING,
        1,
        (
            "00000000000002135f5f636c75737465725f6d657461646174610200000000006200000000000000"
            "00000000000000000000000000000000000000000000010100090000000100000003000001000a02"
            "000000010268000900"
        ),
    ),
    (
        ADD,
        0,
        (
            "04636964000001f4000000041234567890abcdef1234567890abcdef030b434f4e54524f4c4c4552"
            "02682385000453534c026823860000"
        ),
    ),
    (REMOVE, 0, "04636964000000041234567890abcdef1234567890abcdef00"),
    (
        UPDATE,
        0,
        (
            "0463696400000003000000041234567890abcdef1234567890abcdef030b434f4e54524f4c4c4552"
            "02682385000453534c0268238600000000010000"
        ),
    ),
    ((CHANGED, ADD), 0, "00000000007f036e6f00"),
    ((CHANGED, REMOVE), 0, "00000000007f036e6f00"),
    ((CHANGED, UPDATE), 0, "00000000007f01000f000000010000000302680000000900"),
    (
        OFFER,
        12,
        (
            "0000000000000000000002135f5f636c75737465725f6d6574616461746102000000000000000000"
            "0000000007ffffffffffffffff000000000000000001ffffffff0102010900000001000000030002"
            "0d000000000000000a00000002000000"
        ),
    ),
    (
        OFFER,
        17,
        (
            "00000000000000000000020000000000000000000000000000000102000000000000000000000000"
            "0007ffffffffffffffff000000000000000001ffffffff01020109000000010000000300020d0000"
            "00000000000a00000002000001000d02000000010268000000090000"
        ),
    ),
]


@pytest.mark.parametrize(("message", "version", "want"), KNOWN)
def test_messages_have_kafkas_bytes(message: Any, version: int, want: str) -> None:
    message, request = message if isinstance(message, tuple) else (message, None)
    if isinstance(message, REQUESTS):
        body = codec.encode_request(message, version).body
    else:
        body = body_of(codec.answer(message, version, getattr(message, "data", b""), request))
    assert body.hex() == want
