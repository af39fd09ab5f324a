"""The errors of a connection, by whose fault they are."""

from __future__ import annotations


class WireError(Exception):
    """Base of everything that this package raises about a connection."""


# The split is h11's. A *remote* protocol error is the peer's fault: its bytes break the protocol,
# the connection is of no more use and is closed, and nothing else happens. A *local* protocol
# error is ours: the caller asked for something the protocol does not allow (a value out of range,
# a second request while one is in flight); nothing was sent and the connection is as it was.
class RemoteProtocolError(WireError):
    """Raised when the peer's bytes break the protocol; the connection must be closed."""


class LocalProtocolError(WireError):
    """Raised when our side asks for something that the protocol forbids; nothing was sent."""


class ValidationFailure(WireError):  # noqa: N818 - an answer to give, not a broken connection
    """Raised when a well-formed request is not one for us: answer it with the Kafka error code."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class ConnectFailed(WireError):  # noqa: N818 - reads as what happened
    """Raised when no connection came about: refused, unreachable, no route, too slow."""


class RequestTimedOut(WireError):  # noqa: N818
    """Raised when no answer came in time; the connection is closed, the outcome unknown."""


class Disconnected(WireError):  # noqa: N818
    """Raised when the connection ended before the answer; the outcome is unknown."""


class UnsupportedVersionError(WireError):
    """Raised when the two sides share no version of an API; nothing was sent."""
