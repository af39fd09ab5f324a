"""FetchSnapshot's answer straight to bytes: a chunk may be megabytes and is copied once.

The bytes are the same as kio's (a test compares them).
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final

from node.core.messages import FetchSnapshotResponse
from node.core.types import Endpoint
from node.wire.errors import LocalProtocolError
from node.wire.fetch_bytes import compact_string
from node.wire.quorum.parts import METADATA_PARTITION, METADATA_TOPIC, is_top_level, or_unknown
from node.wire.quorum.snapshot import NO_SNAPSHOT
from node.wire.shape import varint

_FIRST_WITH_ENDPOINTS: Final = 1

_ONE: Final = b"\x02"  # the length of a compact array with one element
_NO_ELEMENTS: Final = b"\x01"
_NO_TAGS: Final = b"\x00"

_RESPONSE: Final = Struct(">ih")  # throttle, error
# partition, error; snapshot end offset, epoch, no tags; size, position
_PARTITION: Final = Struct(">ihqibqq")
_LEADER: Final = Struct(">bbbiib")  # one tagged field: 0, of 9 bytes: leader, epoch, no tags
_NODE_ID: Final = Struct(">i")
_PORT: Final = Struct(">H")
_TOPIC: Final = _ONE + compact_string(METADATA_TOPIC) + _ONE


def encode_snapshot_response(
    response: FetchSnapshotResponse, version: int, records: bytes
) -> bytes:
    """The body of a snapshot fetch's answer in version 0 or 1.

    Raises:
        LocalProtocolError: A value does not fit its field.
    """
    error = int(response.error)
    try:
        if is_top_level(response.error):
            return _RESPONSE.pack(0, error) + _NO_ELEMENTS + _NO_TAGS
        return b"".join(
            (
                _RESPONSE.pack(0, 0),
                _TOPIC,
                _PARTITION.pack(
                    METADATA_PARTITION,
                    error,
                    *(response.snapshot or NO_SNAPSHOT),
                    0,
                    response.size,
                    response.position,
                ),
                varint(len(records) + 1),
                records,
                _LEADER.pack(1, 0, 9, or_unknown(response.leader_id), response.epoch, 0),
                _NO_TAGS,  # of the topic
                _tail(version, response.leader_id, response.leader_endpoint),
            )
        )
    except struct_error as error_:
        raise LocalProtocolError(f"cannot encode {response!r:.500}: {error_}") from error_


def _tail(version: int, leader_id: int | None, endpoint: Endpoint | None) -> bytes:
    """The response's tagged fields: where the leader is."""
    if version < _FIRST_WITH_ENDPOINTS or leader_id is None or endpoint is None:
        return _NO_TAGS
    node = b"".join(
        (
            _ONE,
            _NODE_ID.pack(leader_id),
            compact_string(endpoint.host),
            _PORT.pack(endpoint.port),
            _NO_TAGS,
        )
    )
    return b"\x01\x00" + varint(len(node)) + node
