"""Settings of topics that are not there go, and nothing else does."""

from __future__ import annotations

from node.metadata import schemas as s
from node.metadata.image import MetadataImage
from node.metadata.orphans import drop_orphans
from node.metadata.snapshot import image_of_records
from node.metadata.state import BROKER, TOPIC
from tests.support.nodes.metadata_streams import TOPIC_IDS


def setting(kind: int, owner: str, name: str) -> s.ConfigRecord:
    return s.ConfigRecord(resource_type=kind, resource_name=owner, name=name, value="1")


KEPT = (
    s.TopicRecord(name="a", topic_id=TOPIC_IDS[0]),
    setting(TOPIC, "a", "retention.ms"),
    setting(BROKER, "", "retention.ms"),
    setting(BROKER, "c", "retention.ms"),
)


def test_only_settings_of_topics_that_are_not_there_go() -> None:
    orphans = [setting(TOPIC, name, key) for name in ("c", "b") for key in ("k", "l")]
    image, rest = image_of_records([*KEPT, *orphans], 9), image_of_records(KEPT, 9)
    assert image.digest != rest.digest
    assert drop_orphans(image) == ["b", "c"]
    assert (image, image.digest) == (rest, rest.digest)


def test_nothing_goes_where_no_setting_is_left() -> None:
    image, same = image_of_records(KEPT, 9), image_of_records(KEPT, 9)
    assert drop_orphans(image) == drop_orphans(MetadataImage()) == []
    assert (image, image.digest) == (same, same.digest)
