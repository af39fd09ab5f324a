"""A node that counts the bytes since its snapshot anew with each role."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.core import effects as fx
from node.driver.effects import Effects
from node.driver.parts import NodeParts
from node.mutants import mutant


class ForgetfulEffects(Effects):
    """Forgets how much was written since its last snapshot when its role changes."""

    def run_one(self, effect: fx.Effect) -> None:
        """Run an effect, and forget."""
        super().run_one(effect)
        if isinstance(effect, fx.Trace) and effect.type == "role":
            self.snapshots.policy.loaded()


@mutant(
    "reset-byte-counter",
    breaks=("L11",),
    source="KAFKA-14300: the bytes since the last snapshot were counted anew after a resignation",
    scenario=Scenario(
        time_limit_s=20.0,
        rate_hz=40.0,
        faults=tuple(fault("partition-isolate-leader", 1 + 3 * i, 2) for i in range(6)),
        settings={"metadata.log.max.record.bytes.between.snapshots": "12000"},
    ),
)
def reset_byte_counter(parts: NodeParts) -> NodeParts:
    """Each new role forgets the bytes since the last snapshot, so that none is ever due."""
    return replace(parts, effects=ForgetfulEffects)
