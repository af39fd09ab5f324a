"""Processes leave in good order (SIGTERM), and are ended the hard way where they are slow to."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Mapping
from typing import Any, Final

from harness.contracts.abilities import Kill
from harness.contracts.nemesis import Cluster
from harness.errors import EnvError, HarnessError
from nemesis.common.hosts import needs_kill

GONE_S: Final = 3.0  # for a process to leave, before the fault is said to be there
LATE_S: Final = 10.0  # more, once it is to be started again
_POLL_S: Final = 0.02
_ENDED: Final = ("gone", "Z")


async def leave(node: str, cluster: Cluster, timeout_s: float) -> dict[str, Any]:
    """Tell a node to leave, and wait a while until it has; what was seen of it."""
    environment, loop = cluster.environment, asyncio.get_running_loop()
    was, began_s = environment.process(node), loop.time()
    error = None
    try:
        await environment.signal(node, signal.SIGTERM)
    except EnvError as refused:
        error = str(refused)
    await _gone([node], cluster, timeout_s)
    now = environment.process(node)
    return {
        "saw": "process",
        "node": node,
        "was": was.detail or f"pid {was.pid}",
        "gone": now.state in _ENDED,
        "detail": now.detail,
        "after_ms": round((loop.time() - began_s) * 1e3),
        "error": error,
    }


async def end_late(pids: Mapping[str, int | None], cluster: Cluster) -> list[str]:
    """Give those that are leaving some more time, then kill them; returns whom."""
    system, environment = cluster.system, cluster.environment
    if not isinstance(system, Kill):
        raise HarnessError(needs_kill(cluster) or "nodes cannot be killed")
    still = [n for n, pid in pids.items() if pid is not None and environment.process(n).pid == pid]
    await _gone(still, cluster, LATE_S)
    late = [n for n in still if environment.process(n).state not in _ENDED]
    unreaped = [n for n in still if environment.process(n).pid == pids[n]]
    await asyncio.gather(*map(system.kill, unreaped))  # what has ended by itself is reaped so
    return late


async def _gone(nodes: Iterable[str], cluster: Cluster, timeout_s: float) -> None:
    """Wait until processes have ended, or the time is up."""
    left = list(nodes)
    try:
        async with asyncio.timeout(timeout_s):
            while any(  # noqa: ASYNC110 - processes tell nobody that they end
                cluster.environment.process(n).state not in _ENDED for n in left
            ):
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        return
