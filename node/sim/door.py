"""Sees from outside what a simulated process does with the requests that come to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

LEFT_WAITING_NS: Final = 500_000_000


class Door:
    """Sees the requests that come to a process, and tells of two kinds of them.

    ``unanswered``: its client has hung up, ``LEFT_WAITING_NS`` or more after it came, and the
    process answered something else in the later half of that time, so it was at work.
    ``denied``: the answer as a whole says that the process is not the active controller.

    Attributes:
        tell: Takes the type of an event, and its fields; None as long as nobody listens.
    """

    def __init__(self) -> None:
        self.tell: Callable[[str, Mapping[str, Any]], None] | None = None
        self._answered_ns = 0  # when the newest answer left

    def works(self, now_ns: int) -> None:
        """Note that some answer leaves."""
        self._answered_ns = now_ns

    def answers(self, api_key: int, since_ns: int, now_ns: int, answer: object) -> None:
        """Look at how a request is answered, and tell of a denial; encoded answers are not read."""
        error = getattr(answer, "error_code", None)
        if error is ErrorCode.not_controller and self.tell is not None:
            self.tell("denied", {"api": api_key, "ms": (now_ns - since_ns) // 1_000_000})

    def hung_up(self, api_key: int, since_ns: int, now_ns: int) -> None:
        """Tell of a request without an answer whose client hangs up, if the process worked."""
        waited_ns = now_ns - since_ns
        works = self._answered_ns > since_ns + waited_ns // 2
        if waited_ns >= LEFT_WAITING_NS and works and self.tell is not None:
            self.tell("unanswered", {"api": api_key, "ms": waited_ns // 1_000_000})
