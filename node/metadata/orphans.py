"""Settings of topics that are not there: what Apache Kafka may leave behind in an image.

Our own image has none: ``node.metadata.fold`` takes a topic's settings away with the topic.
"""

from __future__ import annotations

from node.metadata.image import MetadataImage
from node.metadata.state import TOPIC


def drop_orphans(image: MetadataImage) -> list[str]:
    """Take the settings of topics that are not there out of an image; the topics' names, sorted.

    O(resources that have settings).
    """
    orphans = [name for kind, name in image.configs if kind == TOPIC and name not in image.topics]
    for topic in orphans:
        for setting in list(image.config((TOPIC, topic))):
            image.put_setting("configs", (TOPIC, topic), setting, None)
    return sorted(orphans)
