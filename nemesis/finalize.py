"""A feature is raised to a level that all nodes know, while they are of several releases.

That is the last step of an upgrade: from then on no node goes back to a release that does not know
the level, and a fault that would have taken it there lets it stay. Source: KIP-584, KIP-778.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from harness.contracts.abilities import Finalizes
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.registry import nemeses, systems
from harness.spec import RunSpec
from nemesis.common.evidence import installed_releases
from nemesis.common.hosts import has
from nemesis.common.targets import fault_rng

RAISE_S: Final = 5.0  # of tries; whether a last one without an answer is done, nobody knows
_SEEN_S: Final = 10.0  # for all nodes to read of it
_POLL_S: Final = 0.1
# A broker that clients play may have told, when it registered, that it does not know a level.
REFUSED: Final = "invalid-update-version"


@dataclass(frozen=True, slots=True)
class _Undo:
    """The level that was asked for. It is never lowered again."""

    feature: str
    level: int
    done: bool


@nemeses.register("finalize")
class Finalize:
    """Raise metadata.version or kraft.version (UpdateFeatures) to a level that all nodes know.

    Heal waits until all nodes say so; it lowers nothing.

    Params: ``highest``: to the highest of these levels, else to a drawn one.
    """

    family = "lifecycle"

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell why nothing can be raised in a run; None when something can."""
        if not has(Finalizes, systems.get(spec.system)):
            return f"system {spec.system!r} finalises no features"
        return systems.traits(spec.system).of(spec).why_not(Finalizes, spec)

    def available(self, cluster: Cluster) -> str | None:
        """The system must finalise features."""
        if not isinstance(cluster.system, Finalizes):
            return f"system {cluster.system.name!r} finalises no features"
        return None

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw how far."""
        return {"highest": rng.random() < 0.5}  # noqa: PLR2004

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Raise a level, of another feature if one is refused; evidence: answers, and releases."""
        system = cluster.system
        if not isinstance(system, Finalizes):
            return Injection("skipped", reason=self.available(cluster))
        rng, levels = fault_rng(fault), system.raisable()
        failed = Injection("skipped", reason="no feature has a higher level that all nodes know")
        if not levels:
            return failed
        first = rng.choice(sorted(levels))
        evidence: list[Mapping[str, Any]] = []
        for feature in (first, *(name for name in sorted(levels) if name != first)):
            known = levels[feature]
            level = known[-1] if fault.params.get("highest") else rng.choice(known)
            change = await system.finalize(feature, level, timeout_s=RAISE_S)
            evidence.append(
                {
                    "saw": "features",
                    "feature": feature,
                    "level": level,
                    "answer": change.detail,
                    "tries": change.tries,
                    "releases": installed_releases(cluster.system.nodes, cluster),
                }
            )
            undo, seen = _Undo(feature, level, change.done), tuple(evidence)
            if change.done:
                return Injection("installed", tuple(cluster.system.nodes), None, seen, undo)
            reason = f"{feature} was not raised to {level}: {change.detail}"
            failed = Injection("failed", (), reason, seen, undo)
            if not change.detail.startswith(REFUSED):
                break  # nobody answers, so asking for another level would be no better
        return failed

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Wait until all nodes have read of it; evidence: the level that each says."""
        undo, system = injection.undo, cluster.system
        if not isinstance(undo, _Undo) or not isinstance(system, Finalizes):
            raise HarnessError(f"fault {fault.id} left nothing for finalize to heal")
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + (_SEEN_S if undo.done else 0.0)
        while True:
            told = await _told(undo.feature, system, cluster)
            if all(level == undo.level for level in told.values()) or loop.time() >= deadline_s:
                return {"feature": undo.feature, "asked": undo.level, "finalized": told}
            await asyncio.sleep(_POLL_S)


async def _told(feature: str, system: Finalizes, cluster: Cluster) -> dict[str, int | None]:
    """The level that each node says is finalised; None: it does not answer."""
    nodes = cluster.system.nodes
    answers = await asyncio.gather(*map(system.finalized, nodes))
    return {
        node: None if levels is None else levels.get(feature, 0)
        for node, levels in zip(nodes, answers, strict=True)
    }
