"""Feature levels: what is asked of the controller and what it answers (UpdateFeatures, 57)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from node.controller.errors import ApiError


class UpgradeType(IntEnum):
    """The directions that a finalised level may go (KIP-584, KIP-778)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The level a feature is to have, 0 = none. ``upgrade_type`` is a number as it came."""

    feature: str
    max_version_level: int
    upgrade_type: int = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class UpdateFeaturesReply:
    """The outcome as a whole: all updates or none. ``results`` names each feature asked for."""

    error: ApiError = ApiError.NONE
    message: str | None = None
    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """The finalised levels as committed; ``epoch`` is the last offset they take in, -1 if none."""

    levels: Mapping[str, int] = field(default_factory=dict)
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class BootstrapMetadata:
    """The beginning of an empty log: feature levels, and broker default settings."""

    features: Mapping[str, int]
    broker_defaults: Mapping[str, str] = field(default_factory=dict)
    source: str = "the binary bootstrap metadata file"
