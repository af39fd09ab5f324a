"""Fields that many answers share, and times in requests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode

from node.controller.errors import ApiError

MESSAGE_CHARS_MAX: Final = 1000  # a refusal quotes what was asked, which may fill its own field
# Everything is allowed, for there are no ACLs: bits are Kafka's AclOperation numbers. A topic's:
# read, write, create, delete, alter, describe, describe and alter configs. The cluster's: create,
# cluster action, describe configs, alter configs, idempotent write, alter, describe.
TOPIC_OPERATIONS: Final = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
AUTHORIZED_OPERATIONS_OMITTED: Final = -(2**31)


class Verdict(Protocol):
    """The outcome of a request, or of one resource in it."""

    @property
    def error(self) -> ApiError:
        """Kafka's error code."""
        ...

    @property
    def message(self) -> str | None:
        """The description of the error, for people."""
        ...


def code(error: int) -> Any:
    """An error code as kio wants it."""
    return ErrorCode(int(error))


def error_fields(verdict: Verdict) -> dict[str, Any]:
    """``error_code`` and ``error_message``, the message cut so that it fits any field."""
    return fields_of(verdict.error, verdict.message)


def fields_of(error: int, message: str | None = None) -> dict[str, Any]:
    """``error_code`` and ``error_message``."""
    return {"error_code": code(error), "error_message": cut(message)}


def cut(message: str | None) -> str | None:
    """A message that fits any field."""
    return None if message is None else message[:MESSAGE_CHARS_MAX]


def milliseconds(time: timedelta) -> int:
    """A time field of a request, which kio reads as a timedelta."""
    return time // timedelta(milliseconds=1)
