"""C13: with eligible leader replicas all go by one minimum (KIP-966)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from checkers.invariants.metadata_log import MetadataLog
from node.metadata import schemas as s
from node.metadata.schemas import MetadataRecord
from node.metadata.state import BROKER, TOPIC
from tests.support.traces.brokers import walked

Batch = Sequence[MetadataRecord]
MIN_ISR = "min.insync.replicas"


def level(number: int) -> MetadataRecord:
    return s.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=number)


def minimum(value: str | None, of: str = "", kind: int = BROKER) -> MetadataRecord:
    return s.ConfigRecord(
        version=0, resource_type=kind, resource_name=of, name=MIN_ISR, value=value
    )


VERSION = s.FeatureLevelRecord(name="metadata.version", feature_level=27)
ON: Batch = [level(1), minimum("2")]


def judged(*batches: Batch) -> list[str]:
    found: MetadataLog = walked(*batches)
    return [each.message for each in found.anomalies if "different minima" in each.message]


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        ([ON], None),
        ([ON, [minimum("1")]], None),
        ([ON, [minimum("1", "t", TOPIC)]], None),
        ([[minimum("1", "3")], [*ON, minimum(None, "3")]], None),
        ([[level(0), minimum("1", "3")], [minimum(None)]], None),
        ([ON, [minimum("1", "3")]], "the broker(s) 3 have a min.insync.replicas of their own"),
        (
            [[level(0), minimum("1", "3")], ON],
            "the broker(s) 3 have a min.insync.replicas of their own",
        ),
        ([ON, [minimum(None)]], "the cluster has no min.insync.replicas"),
        ([[level(1)]], None),
        ([[VERSION], [level(1)]], "the cluster has no min.insync.replicas"),
    ],
    ids=(
        "one",
        "another one",
        "a topic's",
        "taken back in the same batch",
        "switched off",
        "a broker's",
        "a broker's from before",
        "taken back",
        "a log begins so",
        "never set",
    ),
)
def test_there_is_one_minimum(batches: list[Batch], told: str | None) -> None:
    found = [message.split(maxsplit=3)[3] for message in judged(*batches)]
    end = ", and leaders may be eligible: leaders and controllers go by different minima"
    assert found == ([] if told is None else [told + end])
