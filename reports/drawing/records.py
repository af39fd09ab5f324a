"""Tells the content of a batch, in the clients' words where it has any."""

from __future__ import annotations

from collections.abc import Mapping

from checkers.committed.effects import appends_of_record, topic_of_record, write_of_record
from checkers.replay.world import Batch
from reports.drawing.scene import Scene
from reports.text import clean


def contents(batch: Batch, offset: int, scene: Scene) -> str:
    """Tell what the batch holds at an offset, as far as a log of the run still has it."""
    for node in scene.nodes:
        found = scene.stored(node).get((batch.base, batch.epoch, batch.h))
        if found is None:
            continue
        if found.control:
            return "control record"
        for record in found.records:
            if record.get("offset", found.base) == offset:
                return _words(record)
    return ""


def _words(record: Mapping[str, object]) -> str:
    write, appends = write_of_record(record), appends_of_record(record)
    topic = topic_of_record(record)
    if write is not None:
        return f"write {clean(write[0], limit=60)} = {clean(write[1], limit=60)}"
    if appends is not None:
        return f"list {clean(appends[0], limit=60)}, {len(appends[1])} long"
    if topic is not None:
        return f"topic {clean(topic[0], limit=80)}"
    return clean(record.get("type", ""), limit=60)
