"""The Kafka error codes that controller operations answer with, and the error that carries one."""

from __future__ import annotations

from enum import IntEnum


class ApiError(IntEnum):
    """Kafka's error codes."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_TOPIC_EXCEPTION = 17
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    UNKNOWN_TOPIC_ID = 100


class NotControllerError(Exception):
    """Raised when an inactive controller is asked to write; nothing was done."""


class ControllerError(Exception):
    """Raised when the driver breaks the controller's contract: the node must stop."""


class OperationError(Exception):
    """Raised inside an operation: this resource is refused with a code and a message."""

    def __init__(self, error: ApiError, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
