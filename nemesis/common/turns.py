"""A fault that finds its target in another one's hands waits for its turn.

Only on real hosts: a simulated run has the next seed for what was skipped, a live one is all there
is, and what was never installed leaves its verdict open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.spec import SIM

TURN_S = 12.0
_POLL_S = 0.25

N = TypeVar("N", bound=Any)
Inject = Callable[[N, Fault, Cluster], Coroutine[Any, Any, Injection]]


def is_live(cluster: Cluster) -> bool:
    """Tell whether time is real, and a fault that was skipped does not come again by itself."""
    return cluster.environment.name != SIM


def in_turn(inject: Inject[N]) -> Callable[..., Coroutine[Any, Any, Injection]]:
    """Decorate ``inject``: what it skips though it is available is tried again for a while."""

    @wraps(inject)
    async def patient(self: N, fault: Fault, cluster: Cluster) -> Injection:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + (TURN_S if is_live(cluster) else 0.0)
        while True:
            injection = await inject(self, fault, cluster)
            if injection.outcome != "skipped" or self.available(cluster) is not None:
                return injection
            if loop.time() >= deadline_s:
                return injection
            await asyncio.sleep(_POLL_S)

    return patient
