"""The names that topics may have. Source: Kafka's Topic.validate."""

from __future__ import annotations

import re

from node.controller.errors import ApiError, OperationError

_MAX_NAME = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: str) -> None:
    """Check a topic's name; raises OperationError(INVALID_TOPIC_EXCEPTION)."""
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > _MAX_NAME:
        problem = f"the length of '{name}' is longer than the max allowed length {_MAX_NAME}"
    elif not _NAME.fullmatch(name):
        problem = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    if problem is not None:
        raise OperationError(ApiError.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
