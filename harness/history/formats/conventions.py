"""Conventions of history formats: rules without which the same file has two verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from harness.history.ops import History


@dataclass(frozen=True, slots=True)
class Conventions:
    """The rules by which the ops of one history are read.

    ``initial`` is the state before the first op. ``nil_read``: a read that returned nil either
    saw nothing there ("observation") or says nothing at all ("no-constraint", as in Knossos).
    ``failed_cas``: a compare-and-set that failed either was never applied ("did-not-happen",
    Jepsen's rule) or was applied and compared false, so the state differed then ("observation").
    ``equal_times``: neighbouring events with one time stamp are either "concurrent" (intervals
    are closed) or "ordered" as they stand. ``model`` is the model the format is made for.
    """

    initial: Any = None
    nil_read: Literal["observation", "no-constraint"] = "observation"
    failed_cas: Literal["did-not-happen", "observation"] = "did-not-happen"
    equal_times: Literal["concurrent", "ordered"] = "concurrent"
    model: str | None = None


@dataclass(frozen=True, slots=True)
class LoadedHistory:
    """A history and how to read it; ``format`` is the one it was found to have."""

    history: History
    conventions: Conventions
    format: str
    lines: tuple[int, ...] = ()  # of each op by index, for messages; () = not known
