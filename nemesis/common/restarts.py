"""Starting again what a fault has ended: the heal of all faults that take processes away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from harness.contracts.abilities import Kill
from harness.contracts.nemesis import Cluster
from harness.errors import HarnessError, NodeStartError
from nemesis.common.evidence import await_answer, can_answer

_ANSWER_TIMEOUT_S = 10.0
_START_TIMEOUT_S = 45.0  # less than a heal may take (harness.run.player)


async def restart(pids: Mapping[str, int | None], cluster: Cluster) -> dict[str, Any]:
    """Start those of the nodes that are down; evidence is a new pid that answers.

    A node that does not survive its own start is a finding about the system, which the recovery
    check judges; it must not end the run as a failure of ours.

    Args:
        pids: The nodes, with the pid that each had before.
        cluster: Whose system can start nodes.

    Raises:
        HarnessError: A node could not even be tried.
    """
    system = cluster.system
    if not isinstance(system, Kill):
        raise HarnessError(f"system {system.name!r} cannot restart its nodes")
    down = [n for n in pids if cluster.environment.process(n).state == "gone"]
    starts = (_start(node, system) for node in down)
    results = await asyncio.gather(*starts, return_exceptions=True)
    errors = {n: r for n, r in zip(down, results, strict=True) if r is not None}
    ours = {n: e for n, e in errors.items() if not isinstance(e, NodeStartError)}
    if ours:
        raise HarnessError(f"cannot restart: {ours}")
    seen = await asyncio.gather(*(_back(node, old, cluster) for node, old in pids.items()))
    failed = {node: str(error) for node, error in errors.items()}
    return {"restarted": down, "failed_to_start": failed, "nodes": seen}


async def _start(node: str, system: Kill) -> None:
    """Start a node, and wait until it answers: some answer nobody before there is a quorum.

    Raises:
        NodeStartError: It does not answer by then; its process goes on.
    """
    try:
        async with asyncio.timeout(_START_TIMEOUT_S):
            await system.start(node)
    except TimeoutError:
        raise NodeStartError(
            f"{node} does not answer {_START_TIMEOUT_S:g} s after its start"
        ) from None


async def _back(node: str, old_pid: int | None, cluster: Cluster) -> dict[str, Any]:
    """A node after its restart; one that does not answer now is the recovery check's to judge."""
    timeout_s = _ANSWER_TIMEOUT_S if can_answer(node, cluster) else 0.0
    answer = await await_answer(node, cluster, timeout_s=timeout_s)
    now = cluster.environment.process(node)
    return {**answer, "old_pid": old_pid, "pid": now.pid, "state": now.state}
