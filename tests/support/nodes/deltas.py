"""Applies a delta to an image: what publishers would have to do to follow by deltas alone."""

from __future__ import annotations

from node.metadata.delta import FLAT_TABLES, NESTED_TABLES, MetadataDelta
from node.metadata.image import MetadataImage


def apply(delta: MetadataDelta, image: MetadataImage) -> None:
    """Do to an image what a delta says; the image must be in the state the delta starts from."""
    for topic in delta.topics:
        if not topic.exists:
            image.drop_topic(image.topics[topic.name])
            continue
        live = image.topics[topic.name] if topic.existed else None
        live = live or image.put_topic(topic.name, topic.id)
        for index, partition in topic.partitions.items():
            live = image.put_partition(live, index, partition.after)
    for table in FLAT_TABLES:
        for key, change in getattr(delta, table).items():
            image.put(table, key, change.after)
    for table in NESTED_TABLES:
        for owner, changes in getattr(delta, table).items():
            for name, change in changes.items():
                image.put_setting(table, owner, name, change.after)
    if delta.next_producer_id is not None:
        image.put_next_producer_id(delta.next_producer_id)
    image.end_offset = delta.end_offset
