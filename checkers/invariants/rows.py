"""Finds the rows of requests and answers, and what they name in the metadata.

Fields are named differently in the APIs, and in their versions; rows are those of ``node.wire``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar
from uuid import UUID

from node.metadata.image import MetadataImage
from node.metadata.state import PartitionState, TopicState

T = TypeVar("T")


def name_of(topic: Any) -> object:
    """Give the name of a topic in a request or an answer, or its id."""
    for field in ("name", "topic", "topic_name", "topic_id"):
        if (found := getattr(topic, field, None)) is not None:
            return found
    return None


def once(rows: Iterable[T], name: Callable[[T], object]) -> Iterator[T]:
    """Skip rows that name one thing twice: the first row changes what the second is judged by."""
    rows = list(rows)
    times = Counter(map(name, rows))
    return (row for row in rows if times[name(row)] == 1)


def partitions(topics: Iterable[Any], rows: str, index: str) -> Iterator[tuple[Any, Any]]:
    """Give the partitions of topics, each with its topic, if they are named once."""
    every = [(topic, part) for topic in topics for part in getattr(topic, rows)]
    return once(every, lambda each: (name_of(each[0]), getattr(each[1], index)))


def topic_of(image: MetadataImage, row: Any) -> TopicState | None:
    """Find the topic that a row names."""
    name = name_of(row)
    return image.topic_by_id(name) if isinstance(name, UUID) else image.topics.get(str(name))


def partition_of(image: MetadataImage, row: Any, index: int) -> PartitionState | None:
    """Find a partition of the topic that a row names."""
    found = topic_of(image, row)
    return None if found is None else found.partitions.get(index)
