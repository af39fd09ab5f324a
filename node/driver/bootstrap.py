"""Loads the first records of a cluster, which formatting has put beside the log.

Source: KIP-778; Kafka's BootstrapDirectory and BootstrapMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard

from node.controller.feature_operations import BootstrapMetadata
from node.log.disk import Disk
from node.log.snapshots import BOOTSTRAP_FILE, read_bootstrap_metadata, write_bootstrap_metadata
from node.metadata.features import default_features
from node.metadata.records import decode_record, encode_record
from node.metadata.schemas import ConfigRecord, FeatureLevelRecord, MetadataRecord

BROKER = 4
_EVERY_BROKER = ""


def save_bootstrap(disk: Disk, log_dir: Path, features: Mapping[str, int]) -> None:
    """Write the feature levels of a new cluster into a directory being formatted."""
    records = [
        FeatureLevelRecord(name=name, feature_level=level) for name, level in features.items()
    ]
    write_bootstrap_metadata(disk, log_dir, [encode_record(record) for record in records])


def load_bootstrap(disk: Disk, log_dir: Path) -> BootstrapMetadata:
    """Load what formatting has written, or the defaults; raises SnapshotError."""
    values = read_bootstrap_metadata(disk, log_dir)
    if values is None:
        return BootstrapMetadata(default_features(), source="the default bootstrap")
    features: dict[str, int] = {}
    defaults: dict[str, str] = {}
    for value in values:
        record = decode_record(value)
        if isinstance(record, FeatureLevelRecord):
            features[record.name] = record.feature_level
        elif _is_broker_default(record):
            defaults[record.name] = record.value or ""
    return BootstrapMetadata(features, defaults, source=f"{log_dir / BOOTSTRAP_FILE}")


def _is_broker_default(record: MetadataRecord) -> TypeGuard[ConfigRecord]:
    return (
        isinstance(record, ConfigRecord)
        and (record.resource_type, record.resource_name) == (BROKER, _EVERY_BROKER)
        and record.value is not None
    )
