"""Uncommitted changes over a committed image, so that pipelined operations see each other.

Kept per resource and per topic with the write that last touched it: when that write is committed
the entry goes, when leadership is lost everything goes, in O(pending) and without touching the
image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from node.controller.operations import PendingWrite
from node.metadata.image import TOPIC, ConfigResource, MetadataImage


@dataclass(slots=True)
class _Settings:
    """Pending settings of a resource; ``cleared``: the committed ones do not count any more."""

    write: PendingWrite
    cleared: bool = False
    values: dict[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class _Topic:
    """A pending topic: its id, None when it is deleted."""

    write: PendingWrite
    id: UUID | None


@dataclass(slots=True)
class _Touched:
    """What a write put into the overlay."""

    resources: list[ConfigResource] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    ids: list[UUID] = field(default_factory=list)


class Overlay:
    """The speculative state of an active controller."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._settings: dict[ConfigResource, _Settings] = {}
        self._topics: dict[str, _Topic] = {}
        self._names: dict[UUID, tuple[PendingWrite, str | None]] = {}
        self._touched: dict[PendingWrite, _Touched] = {}

    # ------------------------------------------------------------------ read

    def setting(self, resource: ConfigResource, name: str) -> str | None:
        """The value of a setting with all pending writes done; None when not set."""
        pending = self._settings.get(resource)
        if pending is not None:
            if name in pending.values:
                return pending.values[name]
            if pending.cleared:
                return None
        return self._image.config(resource).get(name)

    def topic_id(self, name: str) -> UUID | None:
        """The id of a topic with all pending writes done; None when there is none."""
        pending = self._topics.get(name)
        if pending is not None:
            return pending.id
        topic = self._image.topics.get(name)
        return None if topic is None else topic.id

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a live topic with all pending writes done."""
        pending = self._names.get(topic_id)
        if pending is not None:
            return pending[1]
        topic = self._image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def __len__(self) -> int:
        """How many entries are pending."""
        return len(self._settings) + len(self._topics) + len(self._names)

    # ------------------------------------------------------------------ change

    def put_settings(
        self, write: PendingWrite, resource: ConfigResource, values: Mapping[str, str | None]
    ) -> None:
        """Set (or, with None, remove) settings of a resource."""
        pending = self._settings.get(resource)
        if pending is None:
            pending = self._settings[resource] = _Settings(write)
        pending.write = write
        pending.values.update(values)
        self._note(write).resources.append(resource)

    def put_topic(self, write: PendingWrite, name: str, topic_id: UUID) -> None:
        """Create a topic."""
        self._topics[name] = _Topic(write, topic_id)
        self._names[topic_id] = (write, name)
        touched = self._note(write)
        touched.topics.append(name)
        touched.ids.append(topic_id)

    def remove_topic(self, write: PendingWrite, name: str, topic_id: UUID) -> None:
        """Delete a topic, and its settings with it."""
        self._topics[name] = _Topic(write, None)
        self._names[topic_id] = (write, None)
        self._settings[(TOPIC, name)] = _Settings(write, cleared=True)
        touched = self._note(write)
        touched.topics.append(name)
        touched.ids.append(topic_id)
        touched.resources.append((TOPIC, name))

    def committed(self, write: PendingWrite) -> None:
        """The image has this write now: forget what no later one has changed."""
        touched = self._touched.pop(write, None)
        if touched is None:
            return
        for resource in touched.resources:
            settings = self._settings.get(resource)
            if settings is not None and settings.write is write:
                del self._settings[resource]
        for name in touched.topics:
            topic = self._topics.get(name)
            if topic is not None and topic.write is write:
                del self._topics[name]
        for topic_id in touched.ids:
            entry = self._names.get(topic_id)
            if entry is not None and entry[0] is write:
                del self._names[topic_id]

    def clear(self) -> None:
        """Drop all pending changes. O(pending)."""
        self._settings.clear()
        self._topics.clear()
        self._names.clear()
        self._touched.clear()

    def _note(self, write: PendingWrite) -> _Touched:
        return self._touched.setdefault(write, _Touched())
