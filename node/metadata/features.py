"""Features and their levels: what a cluster has agreed on, and what each level allows.

``metadata.version`` decides which records, and which versions of them, may be written. Levels and
names are those of Kafka's MetadataVersion and Feature; the defaults are those of a cluster that
Kafka 4.1 formats. Source: KIP-584, KIP-778, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"  # lives in a control record of the log, never in the image
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
ELR_VERSION = "eligible.leader.replicas.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"

IBP_3_3_IV3 = 7
IBP_3_4_IV0 = 8
IBP_3_5_IV0 = 9
IBP_3_5_IV1 = 10
IBP_3_5_IV2 = 11
IBP_3_6_IV0 = 12
IBP_3_6_IV1 = 13
IBP_3_6_IV2 = 14
IBP_3_7_IV0 = 15
IBP_3_7_IV1 = 16
IBP_3_7_IV2 = 17
IBP_3_7_IV3 = 18
IBP_3_7_IV4 = 19
IBP_3_8_IV0 = 20
IBP_3_9_IV0 = 21
IBP_4_0_IV0 = 22
IBP_4_0_IV1 = 23
IBP_4_0_IV2 = 24
IBP_4_0_IV3 = 25
IBP_4_1_IV0 = 26
IBP_4_1_IV1 = 27
IBP_4_2_IV0 = 28
IBP_4_2_IV1 = 29
IBP_4_3_IV0 = 30
IBP_4_4_IV0 = 31
IBP_4_4_IV1 = 32
IBP_4_4_IV2 = 33
LOWEST_METADATA_VERSION = IBP_3_3_IV3
LATEST_METADATA_VERSION = IBP_4_1_IV1  # of Kafka 4.1, for production

# The level's name, and whether it changed the records: a downgrade across such a level loses some.
_LEVELS: Mapping[int, tuple[str, bool]] = {
    7: ("3.3-IV3", True),
    8: ("3.4-IV0", True),
    9: ("3.5-IV0", False),
    10: ("3.5-IV1", False),
    11: ("3.5-IV2", True),
    12: ("3.6-IV0", False),
    13: ("3.6-IV1", True),
    14: ("3.6-IV2", True),
    15: ("3.7-IV0", True),
    16: ("3.7-IV1", False),
    17: ("3.7-IV2", True),
    18: ("3.7-IV3", False),
    19: ("3.7-IV4", False),
    20: ("3.8-IV0", False),
    21: ("3.9-IV0", False),
    22: ("4.0-IV0", False),
    23: ("4.0-IV1", True),
    24: ("4.0-IV2", False),
    25: ("4.0-IV3", False),
    26: ("4.1-IV0", False),
    27: ("4.1-IV1", False),
    28: ("4.2-IV0", False),
    29: ("4.2-IV1", False),
    30: ("4.3-IV0", True),
    31: ("4.4-IV0", False),
    32: ("4.4-IV1", True),
    33: ("4.4-IV2", True),
}


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature, the levels a node of ours supports, and when a new cluster gets which.

    ``since``: the metadata.version from which a new cluster has each level above 0;
    ``needs``: the metadata.version that a level cannot do without.
    """

    name: str
    lowest: int
    highest: int
    since: Mapping[int, int] = field(default_factory=dict)
    needs: Mapping[int, int] = field(default_factory=dict)

    def default_level(self, metadata_version: int) -> int:
        """The level of a cluster that is formatted with that metadata.version."""
        return max([lv for lv, mv in self.since.items() if mv <= metadata_version], default=0)


FEATURES: Mapping[str, Feature] = MappingProxyType(
    {
        feature.name: feature
        for feature in (
            Feature(METADATA_VERSION, LOWEST_METADATA_VERSION, LATEST_METADATA_VERSION),
            Feature(KRAFT_VERSION, 0, 1, {1: IBP_3_9_IV0}),
            Feature(TRANSACTION_VERSION, 0, 2, {1: IBP_4_0_IV2, 2: IBP_4_0_IV2}),
            Feature(GROUP_VERSION, 0, 1, {1: IBP_4_0_IV0}),
            Feature(ELR_VERSION, 0, 1, {1: IBP_4_1_IV0}, {1: IBP_4_0_IV1}),
            Feature(SHARE_VERSION, 0, 1, {1: IBP_4_2_IV0, 2: IBP_4_4_IV0}),
            Feature(STREAMS_VERSION, 0, 0, {1: IBP_4_2_IV1}),
        )
    }
)
# The highest level of each that any release of Kafka here has.
HIGHEST_OF_KAFKA: Mapping[str, int] = MappingProxyType(
    {
        **{feature.name: feature.highest for feature in FEATURES.values()},
        METADATA_VERSION: IBP_4_4_IV2,
        SHARE_VERSION: 2,
        STREAMS_VERSION: 1,
    }
)


def default_features(metadata_version: int = LATEST_METADATA_VERSION) -> dict[str, int]:
    """The finalised levels of a new cluster, by name, without those that are 0 and kraft.version.

    That one is no record of the image: see ``Feature.default_level`` for its level.
    """
    levels = {METADATA_VERSION: metadata_version}
    for feature in FEATURES.values():
        level = feature.default_level(metadata_version)
        if level and feature.name != KRAFT_VERSION:
            levels[feature.name] = level
    return levels


def metadata_version(features: Mapping[str, int]) -> int:
    """The level of metadata.version among finalised features; the lowest one when it is not."""
    return features.get(METADATA_VERSION, LOWEST_METADATA_VERSION)


def level_name(level: int) -> str:
    """Kafka's name of a metadata.version, such as "4.1-IV1"; raises ValueError."""
    if level not in _LEVELS:
        raise ValueError(f"metadata.version {level} is not known: {min(_LEVELS)}..{max(_LEVELS)}")
    return _LEVELS[level][0]


def level_of(name: str) -> int:
    """The metadata.version of a name such as "4.1-IV1" or of a release such as "4.1", its last.

    Raises:
        ValueError: There is none of that name.
    """
    found = [lv for lv, (known, _) in _LEVELS.items() if name in (known, known.split("-", 1)[0])]
    if not found:
        raise ValueError(f"metadata.version {name!r} is not known")
    return max(found)


def records_differ(one: int, other: int) -> bool:
    """Tell whether two levels of metadata.version differ in their records or fields."""
    low, high = sorted((one, other))
    return any(differs for level, (_, differs) in _LEVELS.items() if low < level <= high)


# --------------------------------------------------------------------------- versions of records


def elr_supported(level: int) -> bool:
    """Tell whether records may name eligible leader replicas (KIP-966)."""
    return level >= IBP_4_0_IV1


def directories_supported(level: int) -> bool:
    """Tell whether records may name log directories (KIP-858)."""
    return level >= IBP_3_7_IV2


def cordons_supported(level: int) -> bool:
    """Tell whether records may say which log directories are cordoned (KIP-1066)."""
    return level >= IBP_4_3_IV0


def transactions_supported(level: int) -> bool:
    """Tell whether metadata transactions may be written (KIP-868)."""
    return level >= IBP_3_6_IV1


def controller_registration_supported(level: int) -> bool:
    """Tell whether controllers may register (KIP-919)."""
    return level >= IBP_3_7_IV0


def register_broker_version(level: int) -> int:
    """The version of RegisterBrokerRecord to write."""
    if cordons_supported(level):
        return 4
    if directories_supported(level):
        return 3
    return 2 if level >= IBP_3_4_IV0 else 1


def broker_change_version(level: int) -> int:
    """The version of BrokerRegistrationChangeRecord to write."""
    if cordons_supported(level):
        return 3
    return 2 if directories_supported(level) else 1


def partition_version(level: int) -> int:
    """The version of PartitionRecord and PartitionChangeRecord to write."""
    if elr_supported(level):
        return 2
    return 1 if directories_supported(level) else 0
