"""Metadata with very many partitions, written straight into nodes' directories.

``build`` makes it once as a file, a snapshot or a log; ``place`` gives it to a node, as a hard link
where the file is never written to, else as a copy. Nobody has to create a million partitions over
the wire: the bytes are those that the nodes themselves would have written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from random import Random
from uuid import UUID

from node.core.types import OffsetAndEpoch
from node.log.batch import encode_batch
from node.log.disk import FileDisk
from node.log.layout import partition_dir, segment_name, snapshot_name
from node.log.meta_properties import random_id
from node.log.snapshot_files import Place, SnapshotWriter
from node.metadata.features import default_features
from node.metadata.records import encode_record
from node.metadata.schemas import (
    BrokerEndpoint,
    BrokerFeature,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

BROKERS = tuple(range(101, 131))  # replicas live on these; none of them is a process
REGISTERED = tuple(range(101, 111))  # those of a cluster that knows its brokers
WIDE_TOPIC = "wide"  # of so many partitions, a tenth of all, that have one replica each
WIDE_SHARE = 10
REPLICAS = 3
PARTITIONS_PER_TOPIC = 1_000
RECORDS_PER_BATCH = 1_000
EPOCH = 1
TIMESTAMP_MS = 1_700_000_000_000


def records(partitions: int) -> Iterator[MetadataRecord]:
    """Feature levels, then topics of up to PARTITIONS_PER_TOPIC partitions, all of them led.

    Replicas are placed at random, each broker has one log directory, and every partition has had
    some leaders: few of them are equal.
    """
    for name, level in default_features().items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    rng = Random(partitions)
    directory_of = {broker: random_id(rng) for broker in BROKERS}
    for topic, first in enumerate(range(0, partitions, PARTITIONS_PER_TOPIC)):
        topic_id = random_id(rng)
        yield TopicRecord(name=f"t-{topic}", topic_id=topic_id)
        for index in range(min(PARTITIONS_PER_TOPIC, partitions - first)):
            replicas = tuple(rng.sample(BROKERS, REPLICAS))
            leader_epoch = rng.randrange(20)
            yield PartitionRecord(
                version=1,
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=leader_epoch,
                partition_epoch=leader_epoch + rng.randrange(20),
                directories=tuple([directory_of[broker] for broker in replicas]),
            )


def with_brokers(partitions: int) -> Iterator[MetadataRecord]:
    """As ``records`` with ten registered brokers in service, three replicas on each partition.

    A tenth of the partitions is one topic, WIDE_TOPIC, without copies: what a dead broker had of
    it is led by nobody until the broker is back.
    """
    for name, level in default_features().items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for epoch, broker in enumerate(REGISTERED, 1):
        yield RegisterBrokerRecord(
            version=3,
            broker_id=broker,
            incarnation_id=UUID(int=broker),
            rack=None,
            broker_epoch=epoch,
            end_points=(
                BrokerEndpoint(
                    name="PLAINTEXT", host="127.0.0.9", port=9000 + broker, security_protocol=0
                ),
            ),
            features=tuple(
                [
                    BrokerFeature(name=name, min_supported_version=0, max_supported_version=highest)
                    for name, highest in sorted(default_features().items())
                ]
            ),
            fenced=False,
            log_dirs=(directory_of(broker),),
        )
    rng = Random(partitions)
    wide = partitions // WIDE_SHARE
    yield from _topic(rng, WIDE_TOPIC, wide, 1)
    for topic, first in enumerate(range(0, partitions - wide, PARTITIONS_PER_TOPIC)):
        count = min(PARTITIONS_PER_TOPIC, partitions - wide - first)
        yield from _topic(rng, f"t-{topic}", count, REPLICAS)


def directory_of(broker: int) -> UUID:
    """The one log directory of a registered broker."""
    return UUID(int=broker << 64)


def _topic(rng: Random, name: str, partitions: int, copies: int) -> Iterator[MetadataRecord]:
    topic_id = random_id(rng)
    yield TopicRecord(name=name, topic_id=topic_id)
    for index in range(partitions):
        replicas = tuple(rng.sample(REGISTERED, copies))
        yield PartitionRecord(
            version=1,
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=tuple([directory_of(broker) for broker in replicas]),
        )


def changes(partitions: int) -> Iterator[MetadataRecord]:
    """One change of each partition, to the ISR it has: a log that has seen some life."""
    topic_id = None
    for record in records(partitions):
        if isinstance(record, TopicRecord):
            topic_id = record.topic_id
        elif isinstance(record, PartitionRecord):
            yield PartitionChangeRecord(
                version=0, partition_id=record.partition_id, topic_id=topic_id, isr=record.isr
            )


def build_snapshot(
    folder: Path, partitions: int, make: Callable[[int], Iterator[MetadataRecord]] = records
) -> Path:
    """A snapshot at the offset after that many records; returns the file."""
    count = sum(1 for _ in make(partitions))
    snapshot = OffsetAndEpoch(count, EPOCH)
    writer = SnapshotWriter(
        Place(FileDisk(), folder), snapshot, last_contained_log_timestamp_ms=TIMESTAMP_MS
    )
    writer.append(encode_record(record) for record in make(partitions))
    writer.freeze()
    return folder / snapshot_name(snapshot)


def build_log(folder: Path, partitions: int, *, changed: int = 0) -> Path:
    """The first segment of a log of the same records, each partition changed so many times."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / segment_name(0)
    streams = (records(partitions), *(changes(partitions) for _ in range(changed)))
    values = ((None, encode_record(record)) for record in chain(*streams))
    offset = 0
    with path.open("wb") as file:
        while batch := list(islice(values, RECORDS_PER_BATCH)):
            data = encode_batch(offset, EPOCH, batch, control=False, timestamp_ms=TIMESTAMP_MS)
            file.write(data)
            offset += len(batch)
    return path


def place(source: Path, log_dir: Path) -> None:
    """Put a built file into a formatted log directory."""
    target = partition_dir(log_dir)
    target.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".log":  # nodes go on writing to it
        shutil.copy(source, target / source.name)
    else:
        os.link(source, target / source.name)
