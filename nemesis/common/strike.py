"""Does something to all targets of a fault; within one step where a trigger asks for that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from harness.contracts.nemesis import Fault

T = TypeVar("T")


async def strike(
    fault: Fault, nodes: Sequence[str], hit: Callable[[str], Awaitable[T]]
) -> list[T | BaseException]:
    """Hit all nodes, and tell of each what came of it, an exception among others.

    A fault that goes by time hits them at once, as tasks. One with a trigger hits them one after
    the other without a task, for a task begins only when the step is over that it strikes in.
    """
    if fault.trigger is None:
        return list(await asyncio.gather(*map(hit, nodes), return_exceptions=True))
    results: list[T | BaseException] = []
    for node in nodes:
        try:
            results.append(await hit(node))
        except Exception as error:  # as ``gather`` does: the others are hit all the same
            results.append(error)
    return results
