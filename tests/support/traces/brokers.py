"""Brokers in traces, and the committed log of a small cluster that has some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from checkers.committed.reference import Reference
from checkers.invariants.metadata_log import MetadataLog
from checkers.monitor.content import Content
from harness.contracts.evidence import LogBatch
from node.metadata import schemas as s
from node.metadata.records import to_json
from node.metadata.schemas import MetadataRecord
from tests.support.traces.traces import MS, Event, Trace, healthy

TOPIC_ID, OTHER_ID = UUID(int=7), UUID(int=8)
ONE, TWO = UUID(int=101), UUID(int=102)  # incarnations


def in_service(make: Callable[[], Trace] = lambda: healthy(3, 2)) -> Trace:
    """Node 4 registers at offset 2, catches up, is unfenced and stays so; both learn of states."""
    trace = make()
    trace.emit(4, "reg", b_ep=2, inc_id=ONE.hex, prev=-1, err=0)
    heartbeat(trace, off=1, caught_up=False, fenced=True, want_fence=True)
    for _ in range(4):
        heartbeat(trace)
    for node in (4, 5):
        partition(trace, node)
        partition(trace, node, pep=1, isr=[4])
        partition(trace, node, pep=2, isr=[4, 5])
        partition(trace, node, pep=3, isr=[5], leader=5, lep=1, elr=[4])
    return trace


def heartbeat(trace: Trace, after_ms: int = 300, **changes: Any) -> Event:
    trace.now_ns += after_ms * MS
    fields: dict[str, Any] = {"b_ep": 2, "off": 5, "want_fence": False, "want_shut_down": False}
    fields |= {"err": 0, "caught_up": True, "fenced": False, "shut_down": False}
    return trace.emit(4, "hb", **(fields | changes))


def partition(trace: Trace, node: int, **changes: Any) -> Event:
    fields: dict[str, Any] = {"tp": [TOPIC_ID.hex, 0], "replicas": [4, 5], "isr": [4, 5]}
    fields |= {"elr": [], "leader": 4, "lep": 0, "pep": 0}
    return trace.emit(node, "isr", **(fields | changes))


def register(broker: int, epoch: int, incarnation: UUID = ONE, **changes: Any) -> MetadataRecord:
    fields: dict[str, Any] = {"end_points": (), "features": (), "rack": None}
    fields |= {"version": 1, "broker_epoch": epoch, "incarnation_id": incarnation}
    return s.RegisterBrokerRecord(broker_id=broker, **(fields | changes))


def change_broker(broker: int, epoch: int, **changes: Any) -> MetadataRecord:
    fields: dict[str, Any] = {"version": 1, "broker_epoch": epoch}
    return s.BrokerRegistrationChangeRecord(broker_id=broker, **(fields | changes))


def create(name: str = "t", id_: UUID = TOPIC_ID, **changes: Any) -> list[MetadataRecord]:
    fields: dict[str, Any] = {"replicas": (1, 2), "isr": (1, 2), "leader": 1, "partition_id": 0}
    fields |= {"leader_epoch": 0, "partition_epoch": 0} | changes
    return [
        s.TopicRecord(version=0, name=name, topic_id=id_),
        s.PartitionRecord(version=2, topic_id=id_, **fields),
    ]


def change(**changes: Any) -> list[MetadataRecord]:
    return [
        s.PartitionChangeRecord(version=2, partition_id=0, topic_id=TOPIC_ID, **changes),
    ]


def config(name: str, value: str) -> MetadataRecord:
    return s.ConfigRecord(version=0, resource_type=2, resource_name="t", name=name, value=value)


def log_of(batches: Sequence[Sequence[MetadataRecord]], base: int = 0) -> tuple[LogBatch, ...]:
    log = []
    for records in batches:
        numbered = tuple({"offset": base + i, **to_json(r)} for i, r in enumerate(records))
        log.append(LogBatch(base, base + len(records) - 1, 1, base + 1, False, numbered))
        base += len(records)
    return tuple(log)


# Brokers 1 and 2 register at offsets 0 and 1, are unfenced, and get a topic.
BEGIN: list[list[MetadataRecord]] = [
    [register(1, 0)],
    [register(2, 1)],
    [change_broker(1, 0, fenced=-1)],
    [change_broker(2, 1, fenced=-1)],
    create(),
]  # six offsets


def content_after(
    batches: Sequence[Sequence[MetadataRecord]], epochs: Sequence[int] = ()
) -> tuple[Content, list[LogBatch]]:
    """Take in BEGIN and these batches, each of its epoch; give what was learnt, and the log."""
    log = list(log_of([*BEGIN, *batches]))
    for place, epoch in enumerate(epochs, len(BEGIN)):
        log[place] = replace(log[place], epoch=epoch)
    content = Content()
    for batch in log:
        content.batch(batch)
    content.finish()
    return content, log


def walked(*batches: Sequence[MetadataRecord], events: Sequence[Event] = ()) -> MetadataLog:
    return MetadataLog(Reference(log_of([*BEGIN, *batches])), 99, events)


def told(node: int, kind: str, **fields: Any) -> Event:
    return {"t": kind, "node": node, "seq": 1, "err": 0, **fields}
