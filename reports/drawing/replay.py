"""Replays a node's log out of its events. A field of the wrong kind makes an event invisible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from checkers.replay.world import Batch, ReplicaLog
from reports.cluster import Event
from reports.text import integer

DAMAGE = frozenset({"wipe", "old"})


class Change(NamedTuple):
    """After ``event`` the log has ``batch`` at the offset in question (None: nothing there).

    ``how`` is append, cut, restart, snapshot or disk.
    """

    event: Event
    batch: Batch | None
    how: str


def word(event: Event, name: str) -> str:
    """A field of an event that is a word; empty when it is anything else."""
    value = event.get(name)
    return value if isinstance(value, str) else ""


def batch_of(event: Event) -> Batch | None:
    """The batch of an ``append`` event."""
    found = [integer(event.get(name)) for name in ("base", "last", "bep", "h")]
    base, last, epoch, crc = found
    if base is None or last is None or epoch is None or crc is None or last < base:
        return None
    return Batch(base, last, epoch, crc)


def end_of_snapshot(event: Event) -> int | None:
    """Tell where a snapshot that was installed ends."""
    id_: Any = event.get("id")
    if event.get("op") != "install" or not isinstance(id_, list | tuple) or not id_:
        return None
    return integer(id_[0])


def changes_at(events: Iterable[Event], offset: int) -> Iterator[Change]:
    """Tell how what a node has at an offset changed, in order."""
    held: Batch | None = None
    for event in events:
        change = _change(event, held, offset)
        if change is not None:
            held = change.batch
            yield change


def _change(event: Event, held: Batch | None, offset: int) -> Change | None:
    kind = event.get("t")
    if kind == "append" and (batch := batch_of(event)) is not None:
        if batch.base <= offset <= batch.last:
            return Change(event, batch, "append")
        return Change(event, None, "cut") if held and batch.base <= held.last else None
    if held is None:
        return None
    if kind == "trunc" and (to := integer(event.get("to"))) is not None and to <= held.last:
        return Change(event, None, "cut")
    if kind == "start" and (end := integer(event.get("leo"))) is not None and end <= held.last:
        return Change(event, None, "restart")
    if kind == "disk" and word(event, "what") in DAMAGE:
        return Change(event, None, "disk")
    if kind == "snap" and (end := end_of_snapshot(event)) is not None and end > held.last:
        return Change(event, None, "snapshot")
    return None


def log_after(events: Iterable[Event], upto_ns: int) -> ReplicaLog:
    """A node's log as its events up to that time tell of it."""
    log = ReplicaLog()
    for event in events:
        if event["rx_ns"] > upto_ns:
            break
        _replay(log, event)
    return log


def _replay(log: ReplicaLog, event: Event) -> None:
    kind = event.get("t")
    if kind == "append" and (batch := batch_of(event)) is not None:
        log.append(batch)
    elif kind == "trunc" and (to := integer(event.get("to"))) is not None:
        log.truncate(to)
    elif kind == "start" and (end := integer(event.get("leo"))) is not None:
        log.truncate(end)
    elif kind == "snap" and (end := end_of_snapshot(event)) is not None:
        log.install(end)
    elif kind == "disk" and word(event, "what") in DAMAGE:
        log.truncate(0)
