"""Ties ops to the metadata records that they leave in the log; no other place does.

The register workload writes key ``rK`` as config ``retention.ms`` of the topic ``register-rK``;
the topics workload creates topics by name; the list-append workload appends ``N:N`` to a list
config of the topic ``register-list-lK``. A system that maps them otherwise changes this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.history.ops import Op

REGISTER_PREFIX = "register-"
REGISTER_CONFIG = "retention.ms"
LIST_PREFIX = REGISTER_PREFIX + "list-"
ISR_PREFIX = REGISTER_PREFIX + "isr-"
LIST_CONFIG = "follower.replication.throttled.replicas"


def write_of_record(record: Mapping[str, Any]) -> tuple[str, str] | None:
    """(register key, value as text) that a logged record writes; None for any other record."""
    fields = record.get("fields")
    if record.get("type") != "ConfigRecord" or not isinstance(fields, Mapping):
        return None
    topic = str(fields.get("resource_name"))
    if not topic.startswith(REGISTER_PREFIX) or fields.get("name") != REGISTER_CONFIG:
        return None
    return topic.removeprefix(REGISTER_PREFIX), str(fields.get("value"))


def topic_of_record(record: Mapping[str, Any]) -> tuple[str, str] | None:
    """(topic name, topic id as 32 hex digits) that a logged record creates, or None."""
    fields = record.get("fields")
    if record.get("type") != "TopicRecord" or not isinstance(fields, Mapping):
        return None
    return str(fields.get("name")), topic_id(fields.get("topic_id"))


def topic_id(value: object) -> str:
    """A topic id in one form, whether dashes were written or not."""
    return str(value).replace("-", "").lower()


def write_of_op(op: Op) -> tuple[str, str] | None:
    """(register key, value as text) that an op writes, or None."""
    if op.f != "write" or op.key is None or op.value is None:
        return None
    return op.key, str(op.value)


def append_of_op(op: Op) -> tuple[str, int] | None:
    """(list, element) that an op appends, or None."""
    if op.f != "append" or op.key is None or not isinstance(op.value, int):
        return None
    return op.key, op.value


def appends_of_record(record: Mapping[str, Any]) -> tuple[str, tuple[int, ...]] | None:
    """(list, all its elements from a logged record on), or None for any other record."""
    fields = record.get("fields")
    if record.get("type") != "ConfigRecord" or not isinstance(fields, Mapping):
        return None
    topic = str(fields.get("resource_name"))
    if not topic.startswith(LIST_PREFIX) or fields.get("name") != LIST_CONFIG:
        return None
    return topic.removeprefix(LIST_PREFIX), elements_of(fields.get("value"))


def elements_of(setting: object) -> tuple[int, ...]:
    """The elements of a list by its setting, ``1:1,2:2``; None and an empty text hold none."""
    heads = [each.partition(":")[0] for each in str(setting or "").split(",")]
    return tuple(int(head) for head in heads if head.isdecimal())
