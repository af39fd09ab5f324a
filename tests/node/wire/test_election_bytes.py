"""The answer to ElectLeaders in bytes: those that kio writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from node.wire.api import ApiKey
from node.wire.election_bytes import Row, encode_elect_leaders_response
from node.wire.errors import LocalProtocolError
from node.wire.payloads import api_schema, encode
from node.wire.structs import NO_THROTTLE, build

ERRORS = st.sampled_from([int(code) for code in ErrorCode])
MESSAGES = st.none() | st.text(max_size=3) | st.just("ä" * 400)
ROWS = st.lists(st.tuples(st.integers(0, 2**31 - 1), ERRORS, MESSAGES), max_size=4)
TOPICS = st.dictionaries(st.text(max_size=200), ROWS, max_size=4)


@given(st.integers(0, 2), ERRORS, TOPICS)
def test_the_bytes_are_those_of_kio(version: int, error: int, topics: dict[str, list[Row]]) -> None:
    response = api_schema(ApiKey.ELECT_LEADERS, version).response
    results = [
        build(
            response,
            "ReplicaElectionResult",
            topic=name,
            partition_result=tuple(
                build(
                    response,
                    "PartitionResult",
                    partition_id=partition,
                    error_code=ErrorCode(code),
                    error_message=message,
                )
                for partition, code, message in rows
            ),
        )
        for name, rows in topics.items()
    ]
    want = build(
        response,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode(error),
        replica_election_results=tuple(results),
    )
    assert encode_elect_leaders_response(version, error, topics) == encode(want)


def test_very_many_partitions_are_those_of_kio_too() -> None:
    """Lengths of more than one byte."""
    rows: list[Row] = [(index, 80, None) for index in range(20_000)]
    response = api_schema(ApiKey.ELECT_LEADERS, 2).response
    body = encode_elect_leaders_response(2, 0, {"t": rows})
    part = [
        build(
            response,
            "PartitionResult",
            partition_id=index,
            error_code=ErrorCode(code),
            error_message=message,
        )
        for index, code, message in rows
    ]
    topic = build(response, "ReplicaElectionResult", topic="t", partition_result=tuple(part))
    whole = build(
        response,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode(0),
        replica_election_results=(topic,),
    )
    assert body == encode(whole)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_does_not_fit_is_refused(version: int) -> None:
    with pytest.raises(LocalProtocolError, match="cannot encode an answer to ElectLeaders"):
        encode_elect_leaders_response(version, 0, {"t": [(2**31, 0, None)]})
