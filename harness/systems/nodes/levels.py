"""Levels of features that a cluster has finalised, or may have: what was asked for, what may be.

A level is asked for once all nodes know it; from then on none may forget it, for nobody can tell
whether a request that had no answer is still carried out. Source: KIP-584.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from harness.contracts.abilities import Change
from harness.errors import EnvError, UsageError
from node.metadata.features import (
    FEATURES,
    IBP_3_7_IV4,
    LATEST_METADATA_VERSION,
    level_name,
    level_of,
)

METADATA_SETTING: Final = "krucible.metadata.version"  # of a new cluster; a name of a level
FIRST: Final = IBP_3_7_IV4  # all controllers register from here on


def first_level(settings: Mapping[str, str], latest: int = LATEST_METADATA_VERSION) -> int:
    """Give the metadata.version that a new cluster is told to have; else the latest."""
    name = settings.get(METADATA_SETTING)
    return latest if name is None else level_of(name)


def check_first_level(settings: Mapping[str, str], latest: int = LATEST_METADATA_VERSION) -> None:
    """Raise UsageError when no cluster begins with the metadata.version that is asked for."""
    told = f"--set {METADATA_SETTING}={settings.get(METADATA_SETTING)}"
    try:
        level = first_level(settings, latest)
    except ValueError as error:
        raise UsageError(f"{told}: {error}; want a level as in 3.9 or 4.0-IV3") from None
    if not FIRST <= level <= latest:
        ends = " to ".join(map(level_name, (FIRST, latest)))
        raise UsageError(f"{told}: want a level from {ends}")


def supported_levels() -> dict[str, int]:
    """The highest level of each feature that a node of ours knows."""
    return {feature.name: feature.highest for feature in FEATURES.values()}


class Levels:
    """The levels of one cluster; ``begin`` are those of its first moment, by feature."""

    def __init__(self, begin: Mapping[str, int]) -> None:
        self._done = dict(begin)
        self._asked = dict(begin)

    def permits(self, known: Mapping[str, int]) -> bool:
        """Tell whether a node may be there that knows features up to these levels."""
        return all(level <= known.get(feature, 0) for feature, level in self._asked.items())

    def raisable(self, known: Iterable[Mapping[str, int]]) -> dict[str, tuple[int, ...]]:
        """The levels above those in force that all nodes know, by feature.

        Args:
            known: The highest level of each feature, of each node.
        """
        nodes = list(known)
        found = {
            feature: tuple(range(level + 1, min(each.get(feature, 0) for each in nodes) + 1))
            for feature, level in self._done.items()
        }
        return {feature: levels for feature, levels in found.items() if levels}

    def ask(self, feature: str, level: int, known: Iterable[Mapping[str, int]]) -> None:
        """A level is about to be asked for; raises EnvError where a node does not know it."""
        if level not in self.raisable(known).get(feature, ()):
            raise EnvError(f"{feature} cannot be raised to {level} now")
        self._asked[feature] = max(level, self._asked[feature])

    def told(self, feature: str, level: int, change: Change) -> None:
        """The answer has come."""
        if change.done:
            self._done[feature] = max(level, self._done[feature])
