"""An operation of the controller that is worked out in slices, and those that wait for its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from node.controller.slices import Slices

T = TypeVar("T")


@dataclass(slots=True)
class _UnderWay:
    slices: Slices[Any]
    done: Callable[[Any, int], None]
    failed: Callable[[Exception], None]
    given_up: Callable[[], None]
    turns: int = 0


class LongWork:
    """A queue that runs one operation at a time; a small one is done within the call.

    ``soon`` calls what it is given after a look at the sockets.
    """

    def __init__(self, soon: Callable[[Callable[[], None]], None]) -> None:
        self.soon = soon
        self._under_way: _UnderWay | None = None
        self._waiting: deque[Callable[[], None]] = deque()

    def when_free(self, work: Callable[[], None]) -> None:
        """Call ``work`` now, or when what is under way has ended, behind all who wait already."""
        if self._under_way is None:
            work()
        else:
            self._waiting.append(work)

    def begin(
        self,
        slices: Slices[T],
        done: Callable[[T, int], None],
        failed: Callable[[Exception], None],
        given_up: Callable[[], None],
    ) -> None:
        """Do the first slice now and the others later; exactly one of the three is called then.

        ``done`` takes the outcome and the number of slices, ``failed`` what the slices raise. Call
        it when free.
        """
        self._under_way = _UnderWay(slices, done, failed, given_up)
        self._go_on()

    def give_up(self) -> None:
        """Leave what is under way as it is, and let those who wait have their turn. Idempotent."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.slices.close()
            under_way.given_up()
            self._let_others()

    def aside(
        self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        """Do in a thread what cannot be sliced and touches nothing that changes; then tell.

        The loop goes on meanwhile. In a simulation it is done at once.
        """

        def tell(future: asyncio.Future[T]) -> None:
            error = future.exception()
            if error is None:
                done(future.result())
            elif isinstance(error, Exception):
                failed(error)
            else:
                raise error

        asyncio.get_running_loop().run_in_executor(None, work).add_done_callback(tell)

    def _go_on(self) -> None:
        under_way = self._under_way
        if under_way is None:
            return  # it was given up
        under_way.turns += 1
        try:
            next(under_way.slices)
        except StopIteration as end:
            self._under_way = None
            under_way.done(end.value, under_way.turns)
            self._let_others()
        except Exception as error:
            self._under_way = None
            under_way.failed(error)
            self._let_others()
        else:
            self.soon(self._go_on)

    def _let_others(self) -> None:
        while self._waiting and self._under_way is None:
            self._waiting.popleft()()
