"""A controller that appends to lists as they are in committed metadata."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario
from node.controller.controller import QuorumController
from node.controller.overlay.state import Overlay
from node.driver.parts import NodeParts
from node.metadata.state import ConfigResource
from node.mutants import mutant


class ForgetfulOverlay(Overlay):
    """Looks settings up where they are committed."""

    def setting(self, resource: ConfigResource, name: str) -> str | None:
        """The value without what is pending."""
        return self.image.config(resource).get(name)


class ForgetfulController(QuorumController):
    """Works on such an overlay."""

    overlay_type = ForgetfulOverlay


@mutant(
    "lost-append",
    breaks=("S17", "S34"),
    source="KIP-339 (two APPENDs to one list at a time: one is written over the other)",
    scenario=Scenario(
        workload="list-append",
        rate_hz=60,
        concurrency=5,
        time_limit_s=3,
        settings={"controller.quorum.append.linger.ms": "25"},
    ),
)
def lost_append(parts: NodeParts) -> NodeParts:
    """An APPEND works on the committed list, whatever else is about to be."""
    return replace(parts, controller=ForgetfulController)
