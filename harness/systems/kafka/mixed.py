"""Nodes of ours among Kafka's in one simulated quorum, as the settings of a run say.

``krucible.system.n2=kraft``: n2 is a node of ours. Voters and observers may be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from harness import seeds
from harness.errors import UsageError
from harness.spec import RunSpec
from harness.systems.kafka.releases import VERSION, is_of_releases
from harness.systems.kraft.plugin import check_settings
from harness.verdict import Known

SYSTEM: Final = "krucible.system"
OURS: Final = "kraft"
_NODE: Final = re.compile(r"n[1-9]\d*")


# The same state in other batches, and in another order of records.
OF_MIXTURES: Final = tuple(
    Known("S22", told, "docs/kafka.md, nodes of ours among Kafka's")
    for told in (" has sha ", " has size ")
)


def is_of_mixture(setting: str) -> bool:
    """Tell whether a setting says what a node is made of."""
    return setting.startswith(f"{SYSTEM}.")


def nodes_of_ours(settings: Mapping[str, str]) -> frozenset[str]:
    """Give the names of the nodes that are ours."""
    return frozenset(name.removeprefix(f"{SYSTEM}.") for name in settings if is_of_mixture(name))


def check_mixture(settings: Mapping[str, str]) -> None:
    """Raise UsageError where no nodes of ours can be made of the settings."""
    for node in sorted(nodes_of_ours(settings)):
        key = f"{SYSTEM}.{node}"
        if not _NODE.fullmatch(node):
            raise UsageError(f"--set {key}: want the name of a node, as in {SYSTEM}.n2")
        if settings[key] != OURS:
            raise UsageError(f"--set {key}={settings[key]}: want {OURS}; all others are Kafka's")
        if f"{VERSION}.{node}" in settings:
            raise UsageError(f"--set {VERSION}.{node}: {node} is a node of ours; leave it out")
    if nodes_of_ours(settings):
        check_settings(for_ours(settings))


def for_ours(settings: Mapping[str, str]) -> dict[str, str]:
    """Give those settings that a node of ours is told."""
    return {k: v for k, v in settings.items() if not is_of_releases(k) and not is_of_mixture(k)}


def own_settings(spec: RunSpec, index: int, host: str) -> dict[str, str]:
    """Give the settings of a node of ours beside those of any node."""
    return {
        "krucible.source.host": host,
        "krucible.seed": str(seeds.split(spec.seed, "node", index, *spec.lucky())),
        "read.barrier": "true",
        "krucible.brokers": "",
    }
