"""The files of a stopped node of either kind, read without touching them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kafka_cluster import Member

from node.broker.committed import CommittedBatch, Provenance
from node.broker.loader import MetadataLoader
from node.broker.snapshot_policy import SnapshotPolicy
from node.core.types import OffsetAndEpoch, VoterSet
from node.log.disk import FileDisk
from node.log.layout import snapshot_of_name
from node.log.snapshots import SnapshotReader
from node.metadata.image import MetadataImage
from node.metadata.records import decode_record

_FAULT = re.compile(r"^\S+ (?:ERROR|FATAL) .*|.*CRITICAL.*|Exception in thread.*", re.MULTILINE)
_NEVER = 1 << 62


@dataclass(frozen=True)
class Snapshot:
    """The content of a snapshot file."""

    id: OffsetAndEpoch
    image: MetadataImage
    voters: VoterSet | None
    kraft_version: int


def read_snapshot(path: Path) -> Snapshot:
    """Read a ``.checkpoint`` of either kind; raises SnapshotError, RecordError."""
    id_ = snapshot_of_name(path.name)
    assert id_ is not None, path
    with SnapshotReader(FileDisk(), path, id_) as reader:
        records = [decode_record(value) for values in reader.values() for value in values]
        image = MetadataImage.from_records(records, id_.offset)
        return Snapshot(id_, image, reader.voters, reader.kraft_version)


def fold(member: Member, until: int) -> MetadataImage:
    """The image of all records below ``until``: of a node's latest snapshot before, and its log."""
    loader = MetadataLoader(
        SnapshotPolicy(max_bytes=_NEVER, max_interval_ms=0), lambda _type, _fields: None
    )
    start = 0
    for path in member.snapshots:
        id_ = snapshot_of_name(path.name)
        if id_ is not None and id_.offset <= until:
            start = id_.offset
            with SnapshotReader(FileDisk(), path, id_) as reader:
                records = [decode_record(value) for values in reader.values() for value in values]
            loader.load_snapshot(Provenance(start - 1, id_.epoch, 0), records)
    batches = [b for b in member.batches() if start <= b.base_offset and b.last_offset < until]
    loader.load_batches([CommittedBatch.of(batch) for batch in batches], now_ms=0)
    return loader.image


def faults(member: Member) -> list[str]:
    """The lines of its logs that tell of an error."""
    return [match[0] for match in _FAULT.finditer(member.said)]
