"""``until_done`` makes a change of the cluster again and again, as an administrator would."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from harness.contracts.abilities import Change

PAUSE_S: Final = 0.1  # between two tries


async def until_done(attempt: Callable[[], Awaitable[Change]], timeout_s: float) -> Change:
    """Try again until it is done or the time is up; gives the last try, and how many there were."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    tries = 1
    while True:
        change = await attempt()
        if change.done or loop.time() + PAUSE_S >= deadline_s:
            return replace(change, tries=tries)
        tries += 1
        await asyncio.sleep(PAUSE_S)
