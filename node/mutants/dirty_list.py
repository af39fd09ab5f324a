"""A controller that reads what is not committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.controller.controller import QuorumController
from node.controller.operations import ConfigDescription
from node.driver.parts import NodeParts
from node.metadata.image import ConfigResource
from node.mutants import mutant


class DirtyReader(QuorumController):
    """Describes settings with all pending writes done."""

    def describe_configs(
        self, resource: ConfigResource, names: Sequence[str] | None = None
    ) -> ConfigDescription:
        """The settings of a resource as they will be, should all go well."""
        if self.epoch is None:
            return super().describe_configs(resource, names)
        settings = self._overlay.settings(resource)
        wanted = sorted(settings) if names is None else names
        return ConfigDescription(
            *resource, configs={name: settings[name] for name in wanted if name in settings}
        )


@mutant(
    "dirty-list",
    breaks=("S34", "linearizability"),
    source="KAFKA-15048 (listing operations read state that is not committed)",
    scenario=Scenario(
        seeds=(1, 2, 3),
        faults=(
            fault("slow-links", 1, 6, target="all", way="both", delay_ms=50, jitter_ms=50),
            *(fault("kill", 2 + 1.5 * i, 0.3, target="leader") for i in range(3)),
        ),
        rate_hz=100,
        concurrency=10,
    ),
)
def dirty_list(parts: NodeParts) -> NodeParts:
    """Reads at the active controller see writes that are not committed yet."""
    return replace(parts, controller=DirtyReader)
