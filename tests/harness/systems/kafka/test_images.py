"""Images in the events of live nodes: digests are put in the place of records."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from harness.systems.kafka.images import digest_images
from harness.systems.kafka.simulated.packed import pack_values
from node.metadata.image import MetadataImage
from node.metadata.records import encode_record
from node.metadata.schemas import ConfigRecord, MetadataRecord, TopicRecord
from node.metadata.snapshot import image_of_records
from node.metadata.state import TOPIC

TOPIC_ID = UUID(int=7)
RECORDS: tuple[MetadataRecord, ...] = (
    TopicRecord(version=0, name="t", topic_id=TOPIC_ID),
    ConfigRecord(version=0, resource_type=TOPIC, resource_name="t", name="k", value="v"),
)
ORPHAN = ConfigRecord(version=0, resource_type=TOPIC, resource_name="gone", name="k", value="v")


def packed(*records: MetadataRecord) -> str:
    """Give what a live node writes of an image."""
    values = pack_values(map(encode_record, records))
    return base64.b64encode(zlib.compress(values)).decode()


def image(told: str) -> dict[str, Any]:
    return {"rx_ns": 9, "ts": 3, "seq": 2, "node": 1, "t": "image", "off": 5, "records": told}


def of(*records: MetadataRecord) -> MetadataImage:
    return image_of_records(records, 5)


def digested(path: Path, *events: dict[str, Any] | str) -> list[dict[str, Any] | str]:
    """Tell what becomes of events; texts are lines that are torn."""
    lines = [
        each if isinstance(each, str) else json.dumps(each, separators=(",", ":"))
        for each in events
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    digest_images(path)
    found = path.read_text().splitlines()
    return [json.loads(line) if line.endswith("}") else line for line in found]


def test_an_image_is_told_by_its_digest_and_all_else_stays(tmp_path: Path) -> None:
    before = {"ts": 1, "seq": 1, "node": 1, "t": "delta", "off": 5, "wrong": []}
    torn = '{"ts":4,"seq":3,"node":1,"t":"image","rec'
    found = digested(tmp_path / "n1.jsonl", before, image(packed(*RECORDS)), torn)
    told = image("")
    del told["records"]
    state = of(*RECORDS)
    assert found == [
        before,
        {**told, "digest": state.digest, "settings": state.topic_settings()},
        torn,
    ]
    assert digested(tmp_path / "n1.jsonl", *found) == found, "once is enough"


def test_settings_of_topics_that_are_gone_are_told_of_apart(tmp_path: Path) -> None:
    (found,) = digested(tmp_path / "n1.jsonl", image(packed(*RECORDS, ORPHAN)))
    assert isinstance(found, dict)
    assert found["digest"] == of(*RECORDS, ORPHAN).digest
    assert found["orphans"] == ["gone"]
    assert found["bare"] == of(*RECORDS).digest


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("no Base64", "base64|padding"),
        (base64.b64encode(b"not deflated").decode(), "decompress"),
        (base64.b64encode(zlib.compress(pack_values([b"\x01\x7f\x7f"]))).decode(), "record"),
    ],
)
def test_an_image_that_cannot_be_read_has_no_digest_and_says_why(
    told: str, why: str, tmp_path: Path
) -> None:
    (found,) = digested(tmp_path / "n1.jsonl", image(told))
    assert isinstance(found, dict)
    assert "digest" not in found
    assert any(each in found["unreadable"].lower() for each in why.split("|")), found


def test_a_node_without_events_has_none(tmp_path: Path) -> None:
    digest_images(tmp_path / "n1.jsonl")
    assert not list(tmp_path.iterdir())
