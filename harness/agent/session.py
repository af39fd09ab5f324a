"""A session takes orders as JSON lines on stdin and answers on stdout, until nobody is there.

Orders are ``{"id", "do", ...}``; every one is answered by ``{"id", "ok"}`` or ``{"id", "error"}``,
see ``orders``. When stdin closes or falls silent, whoever gave the orders is gone.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from harness.agent import orders
from harness.agent.firewall import Refused

SILENCE_S = 60.0  # until the first order says otherwise
_TICK_S = 0.03
_LINE_MAX = 64 << 20
_SIGNALS = (signal.SIGALRM, signal.SIGTERM, signal.SIGHUP)


class HarnessGone(Exception):  # noqa: N818 - the ordinary end
    """Raised when nobody listens any more."""


class Session:
    """One conversation; orders are methods ``do_...`` of ``commands``."""

    def __init__(
        self,
        commands: object,
        *,
        slow: Collection[str] = (),
        prepare: Callable[[str], None] = lambda _do: None,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        """Listen to nobody yet.

        Args:
            commands: Has the orders.
            slow: Orders that take their time, and nobody else should wait for: in threads.
            prepare: Called in the main thread before a slow order begins.
            tick: Called between orders, often.
        """
        self._commands = commands
        self._slow = slow
        self._prepare = prepare
        self._tick = tick
        self._out = threading.Lock()
        self.silence_s = SILENCE_S
        self.ended = False
        self.number = 0  # of what is done just now

    def serve(self) -> None:
        """Obey until ``ended`` or nobody is there; from then on signals are ignored."""
        for number in _SIGNALS:
            signal.signal(number, _gone)
        try:
            self._listen()
        except (HarnessGone, BrokenPipeError):
            pass
        finally:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)

    def _listen(self) -> None:
        heard = bytearray()  # of a line that has not ended
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            while not self.ended:
                if selector.select(_TICK_S):
                    data = os.read(0, 1 << 20)
                    if not data or len(heard) > _LINE_MAX:
                        raise HarnessGone
                    self.wind_up()
                    heard += data
                    if b"\n" in data:
                        *lines, rest = bytes(heard).split(b"\n")
                        heard = bytearray(rest)
                        for line in lines:
                            self._obey(json.loads(line))
                self._tick()

    def wind_up(self) -> None:
        """The harness is there; let the alarm ring when it is not heard of again."""
        signal.setitimer(signal.ITIMER_REAL, self.silence_s)

    def _obey(self, asked: dict[str, Any]) -> None:
        number, do = asked.pop("id"), asked.pop("do")
        self.number = number
        try:
            work = partial(getattr(self._commands, f"do_{do}"), **asked)
            if do not in self._slow:
                self._answer(number, work)
                return
            self._prepare(do)
        except (Refused, OSError) as error:
            self.say({"id": number, "error": str(error)})
            return
        threading.Thread(target=self._answer, args=(number, work), daemon=True).start()

    def _answer(self, number: int, work: Callable[[], dict[str, Any] | None]) -> None:
        self.say({"id": number, **orders.answer(work)})

    def say(self, message: dict[str, Any]) -> None:
        """Send a message; not only answers."""
        data = memoryview(json.dumps(message).encode() + b"\n")
        with self._out:
            while data:
                data = data[os.write(1, data) :]


def _gone(number: int, frame: object) -> None:  # noqa: ARG001
    raise HarnessGone
