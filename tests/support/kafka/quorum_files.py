"""The files of a stopped node of either kind, read without touching them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec

from node.core.types import OffsetAndEpoch, VoterSet
from node.loading.committed import CommittedBatch, Provenance
from node.loading.loader import MetadataLoader
from node.loading.snapshot_policy import SnapshotPolicy
from node.log.disk import FileDisk
from node.log.layout import partition_dir, segment_base, snapshot_of_name
from node.log.snapshots import SnapshotReader
from node.metadata.image import MetadataImage
from node.metadata.records import MetadataRecord, decode_record
from node.metadata.snapshot import image_of_records
from tests.support.kafka.cluster import Member

TOO_EARLY = "Direct-to-controller communication is not supported with the current"
_FAULT = re.compile(r"\S+ (?:ERROR|FATAL) |\S+ \S+ (?:ERROR|CRITICAL) |Exception in thread")
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
    with _open(path) as reader:
        image = image_of_records(_records(reader), reader.id.offset)
        return Snapshot(reader.id, image, reader.voters, reader.kraft_version)


def snapshot_records(path: Path) -> list[MetadataRecord]:
    """The metadata records of a snapshot, as they stand there."""
    with _open(path) as reader:
        return list(_records(reader))


def _open(path: Path) -> SnapshotReader:
    id_ = snapshot_of_name(path.name)
    assert id_ is not None, path
    return SnapshotReader(FileDisk(), path, id_)


def _records(reader: SnapshotReader) -> Iterator[MetadataRecord]:
    return map(decode_record, reader.values())


def fold(member: Member, until: int) -> MetadataImage:
    """The image of all records below ``until``: of a node's latest snapshot before, and its log."""
    loader = MetadataLoader(
        SnapshotPolicy(max_bytes=_NEVER, max_interval_ms=0), lambda _type, _fields: None
    )
    start = 0
    for path in member.snapshots:
        with _open(path) as reader:
            if reader.id.offset <= until:
                start = reader.id.offset
                loader.load_snapshot(Provenance(start - 1, reader.id.epoch, 0), _records(reader))
    batches = [b for b in member.batches() if start <= b.base_offset and b.last_offset < until]
    loader.load_batches([CommittedBatch.of(batch) for batch in batches], now_ms=0)
    return loader.image


def log_start(member: Member) -> int:
    """Where the first segment begins."""
    bases = [segment_base(path.name) for path in partition_dir(member.data).iterdir()]
    return min(base for base in bases if base is not None)


def applied(trace: Path) -> tuple[int, str]:
    """How far a node of ours has come by its trace, exclusive, and the digest of its image."""
    lines = map(msgspec.json.decode, trace.read_bytes().splitlines())
    last = [line for line in lines if line["t"] == "apply"][-1]
    return last["off"], last["st"]


def faults(member: Member) -> list[str]:
    """The lines of its logs that tell of an error.

    Kafka calls it one that its own request came to a node that leads no more, that nobody led for
    five seconds whom it could tell that it is there, that the machine is slow, and that it was
    asked before it had read which metadata.version is finalized; those are none.
    """
    lines = member.said.splitlines()
    return [
        line
        for line, following in pairwise([*lines, ""])
        if _FAULT.match(line)
        and "NotControllerException" not in following
        and TOO_EARLY not in following
        and " EventPerformanceMonitor: " not in line
        and "channel manager timed out before sending the request" not in line
    ]
