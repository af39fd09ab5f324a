"""``levels``: features are given levels and lose them, while brokers die and minima move.

All else is as in ``elr``. Who was eligible before eligible leader replicas (KIP-966) were switched
off may lack messages when they are switched on again (C13).
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from kio.schema.update_features.v1.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.static.primitive import i8, i16

from harness.contracts.abilities import Topics
from harness.contracts.clients import Client, Outcome
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, mix
from harness.history.ops import Op
from harness.kafka.route import Route, cluster_of, deadline_s, no_error, request
from harness.registry import workloads
from harness.spec import RunSpec
from node.metadata.features import ELR_VERSION, GROUP_VERSION, TRANSACTION_VERSION
from node.wire.network import Caller
from workloads.common.abilities import refuse_without
from workloads.common.departures import RATE_HZ
from workloads.common.keys import Keys
from workloads.elr import CHECKERS, SETTINGS, ElrOps, drafts, ops
from workloads.isr import PARTITIONS

LEVELS: Final = 6  # weight, of some 90
HIGHEST: Final = {ELR_VERSION: 1, GROUP_VERSION: 1, TRANSACTION_VERSION: 2}
OFTEN: Final = (ELR_VERSION, ELR_VERSION, ELR_VERSION, GROUP_VERSION, TRANSACTION_VERSION)
UPGRADE, SAFE_DOWNGRADE = 1, 2  # KIP-778


@workloads.register(
    "levels",
    WorkloadTraits(settings=SETTINGS, rate_hz=RATE_HZ, plays_brokers=True, sets_levels=True),
)
def levels(spec: RunSpec) -> Workload:
    """Switch features off and on while brokers die; nobody leads who may lack messages."""
    refuse_without(Topics, spec)

    def level(rng: Random, _: int) -> Draft:
        feature = rng.choice(OFTEN)
        return Draft("level", {"feature": feature, "level": rng.choice((0, HIGHEST[feature]))})

    def client(system: System) -> Client:
        return LevelOps(ops(spec, system), Route(cluster_of(system), ""))

    keys = Keys("p")
    drawn = drafts(keys) | {level: LEVELS}
    return Workload(
        client=client,
        generator=mix(*drawn, weights=tuple(drawn.values())),
        final_generator=keys.on_each_thread(PARTITIONS, lambda key: Draft("describe", key=key)),
        checkers=CHECKERS,
        reads=frozenset({"describe"}),
    )


class LevelOps:
    """Does what ``elr`` does, and gives features levels."""

    def __init__(self, elr: ElrOps, route: Route) -> None:
        self._elr = elr
        self._route = route

    async def open(self, node: str) -> LevelOps:
        """A client that finds the controller by way of ``node``."""
        return LevelOps(await self._elr.open(node), Route(self._route.cluster, node))

    async def close(self) -> None:
        """Drop all connections."""
        self._route.close()
        await self._elr.close()

    async def invoke(self, op: Op) -> Op:
        """Do one op."""
        if op.f != "level":
            return await self._elr.invoke(op)
        asked: dict[str, Any] = op.value
        try:
            await set_level(self._route, asked["feature"], asked["level"])
        except Outcome as outcome:
            return op.with_(type="fail" if outcome.definite else "info", error=outcome.error)
        return op.with_(type="ok")


async def set_level(route: Route, feature: str, level: int) -> None:
    """Give a feature a level, 0 to switch it off; raises Outcome."""
    kind = UPGRADE if level > 0 else SAFE_DOWNGRADE
    update = FeatureUpdateKey(feature=feature, max_version_level=i16(level), upgrade_type=i8(kind))
    wanted = UpdateFeaturesRequest(feature_updates=(update,), validate_only=False)

    async def attempt(connection: Caller) -> None:
        for row in no_error(await request(connection, wanted)).results:
            no_error(row)

    await route.to_change(attempt, deadline_s())
