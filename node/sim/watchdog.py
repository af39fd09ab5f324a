"""Ends a callback of a simulation that never comes back: a loop without end in a node, say.

No time passes in such a callback, so nothing in the simulation can end it. It goes by a timer of
the operating system, in CPU time, which a busy host does not make run faster. What runs outside of
Python (a method of Java that never returns) cannot be ended so: Kafka's classes have a watchdog of
their own, in Java.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

CALL_CPU_S_MAX: Final = 60.0  # no callback of a healthy run takes a tenth of it


class CallNeverEndsError(KeyboardInterrupt):
    """Raised in the middle of a callback; as a KeyboardInterrupt no task and no node keeps it."""


@contextmanager
def watched(calls: Callable[[], int], limit_s: float = CALL_CPU_S_MAX) -> Iterator[None]:
    """Raise CallNeverEndsError in whatever runs in this thread when no call ends for so long.

    It is raised after half the limit or more. Outside of the main thread, to which alone signals
    come, and where somebody else has set such a timer, nothing is watched.

    Args:
        calls: Gives how many calls have begun so far.
        limit_s: CPU seconds of the whole process.
    """
    is_taken = signal.getitimer(signal.ITIMER_VIRTUAL) != (0.0, 0.0)
    if threading.current_thread() is not threading.main_thread() or is_taken:
        yield
        return
    seen = calls()

    def tick(_: int, frame: FrameType | None) -> None:
        nonlocal seen
        before, seen = seen, calls()
        if seen == before:
            raise CallNeverEndsError(
                f"a call has taken {limit_s / 2:g} s of CPU time or more, and is at {_place(frame)}"
            )

    handled_before = signal.signal(signal.SIGVTALRM, tick)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s / 2, limit_s / 2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handled_before)


def _place(frame: FrameType | None) -> str:
    """Name a place in the code as people look for it."""
    if frame is None:
        return "an unknown place"
    path = Path(frame.f_code.co_filename)
    return f"{'/'.join(path.parts[-3:])}:{frame.f_lineno}, in {frame.f_code.co_name}"
