"""Links that bring packets twice, or damaged: the receiver's kernel notices, and nodes must not.

TCP drops what comes twice, and what its checksum does not fit, which is then sent again: late. So
only the time that things take changes, and what the nodes' kernels count.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from harness.contracts.environment import Probe
from harness.contracts.hosts import Shape
from harness.registry import nemeses
from nemesis.packets import BadLinks


@nemeses.register("duplicating-links")
class DuplicatingLinks(BadLinks):
    """Deliver some packets twice."""

    of_packets = True

    def draw(self, rng: Random) -> Mapping[str, Any]:
        """Draw the share."""
        return {"duplicate": rng.choice((0.1, 0.3, 0.6))}

    def shape(self, params: Mapping[str, Any]) -> Shape:
        """Duplicating."""
        return Shape(duplicate=float(params.get("duplicate", 0.3)))

    def shows(self, before: Mapping[str, Any], after: Mapping[str, Any], probe: Probe) -> bool:
        """Tell whether something came twice, by the peer's word or the queue's count."""
        return probe.doubled > 0 or _more("duplicated", before, after)


@nemeses.register("corrupting-links")
class CorruptingLinks(BadLinks):
    """Flip a bit in some packets; the receiver drops them, and TCP sends them again."""

    of_packets = True

    def draw(self, rng: Random) -> Mapping[str, Any]:
        """Draw the share."""
        return {"corrupt": rng.choice((0.05, 0.1, 0.3))}

    def shape(self, params: Mapping[str, Any]) -> Shape:
        """Corrupting."""
        return Shape(corrupt=float(params.get("corrupt", 0.1)))

    def shows(self, before: Mapping[str, Any], after: Mapping[str, Any], probe: Probe) -> bool:
        """Tell whether something had to be sent again, or the queue counted it."""
        return probe.resent > 0 or _more("corrupted", before, after)


def _more(count: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return bool(after.get(count, 0) > before.get(count, 0))
