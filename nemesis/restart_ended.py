"""Starts again what has ended by itself, as the service manager of a host does.

A node that ends is a finding: what it printed is judged all the same. But where nobody starts it
again, a second one leaves no quorum, and the rest of a long run tests nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from harness.contracts.abilities import Kill
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.registry import nemeses
from harness.spec import SIM, RunSpec
from nemesis.common import claims
from nemesis.common.hosts import PROCESS
from nemesis.common.restarts import restart
from nemesis.common.targets import permitted

_POLL_S: Final = 0.5
_AFTER_MS: Final = (1_000, 5_000, 15_000)
_PAUSE_MAX_S: Final = 60.0


@dataclass(slots=True)
class _Watch:
    """The task that looks after the nodes, and what it has started."""

    nodes: Sequence[str]
    restarts: list[dict[str, Any]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


@nemeses.register("restart-ended")
class RestartEnded:
    """Start nodes again that ended by themselves, for the whole run; no fault, but its opposite.

    It leaves a node alone while another fault holds the node's process. Params: ``after_ms``, how
    long a node stays down; the pause doubles each time that the node ends again, up to a minute.
    """

    family = "service"
    named_only = True  # what ends a node of ours is to be seen at once
    lasting = True

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell that a simulation is judged when a node ends; None where time is real."""
        return "a simulated run is over when a node ends" if spec.env == SIM else None

    def available(self, cluster: Cluster) -> str | None:
        """The system must be able to start its nodes."""
        if isinstance(cluster.system, Kill):
            return None
        return f"system {cluster.system.name!r} cannot start its nodes again"

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw how long a node stays down."""
        return {"after_ms": rng.choice(_AFTER_MS)}

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Begin to look after all nodes; evidence: which."""
        if (reason := self.available(cluster)) is not None:
            return Injection("skipped", reason=reason)
        nodes, forbidden = permitted(fault, cluster, cluster.system.nodes)
        if not nodes:
            return Injection("skipped", reason=forbidden)
        watch = _Watch(nodes)
        after_s = int(fault.params.get("after_ms", _AFTER_MS[0])) / 1e3
        work = _look_after(watch, fault, cluster, after_s)
        watch.task = asyncio.create_task(work, name=f"restart-ended-{fault.id}")
        return Injection(
            "installed", tuple(nodes), None, ({"saw": "watch", "nodes": list(nodes)},), watch
        )

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Look after them no more, once those are back that are down; evidence: each restart."""
        watch = injection.undo
        if not isinstance(watch, _Watch) or watch.task is None:
            raise HarnessError(f"fault {fault.id} left nothing to heal")
        if watch.task.done():
            watch.task.result()  # raises what ended it
        watch.task.cancel()
        await asyncio.wait((watch.task,))
        down = [node for node in watch.nodes if cluster.environment.process(node).has_ended]
        await asyncio.gather(*(_start(node, watch, fault, cluster) for node in down))
        return {"restarts": list(watch.restarts)}


async def _look_after(watch: _Watch, fault: Fault, cluster: Cluster, after_s: float) -> None:
    """Start what has been down for long enough; raises HarnessError where nothing can be tried."""
    loop = asyncio.get_running_loop()
    due_s: dict[str, float] = {}
    pauses_s: dict[str, float] = {}
    while True:
        await asyncio.sleep(_POLL_S)
        down = [n for n in watch.nodes if cluster.environment.process(n).has_ended]
        ours = [node for node in down if _is_ours(node, fault, cluster)]
        now_s = loop.time()
        due_s = {n: due_s.get(n, now_s + pauses_s.get(n, after_s)) for n in ours}
        due = [node for node, at_s in due_s.items() if at_s <= now_s]
        for node in due:
            del due_s[node]
            pauses_s[node] = min(2 * pauses_s.get(node, after_s), _PAUSE_MAX_S)
        await asyncio.gather(*(_start(node, watch, fault, cluster) for node in due))


def _is_ours(node: str, fault: Fault, cluster: Cluster) -> bool:
    """Tell whether no other fault has the node's process; of a bad disk it may end again."""
    return claims.is_free(cluster, fault.id, (PROCESS, node))


async def _start(node: str, watch: _Watch, fault: Fault, cluster: Cluster) -> None:
    before, held = cluster.environment.process(node), [(PROCESS, node)]
    if not claims.claim_free(cluster, fault.id, held):
        return
    try:
        seen = await restart({node: before.pid}, cluster)
    finally:
        claims.release(cluster, fault.id, held)
    watch.restarts.append({"node": node, "was": before.detail, **seen})
