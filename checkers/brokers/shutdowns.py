"""A broker that wants to stop is let go once all others know who leads instead: C7 and L10.

They know it at the offset of the change that took its leaderships. Before each broker in service
has told an offset that is no less it must wait (C7). Whatever is written later has nothing to do
with it: then its next heartbeat ends the wait (L10). Judged from outside, by what played brokers
said and were told. Source: KIP-631; BrokerHeartbeatManager; KAFKA-14292.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from checkers.brokers.sessions import FENCE, MS, Incarnation, Reign, Service
from checkers.brokers.words import HEARTBEATS, STOP, Word
from harness.contracts.evidence import LogBatch
from harness.verdict import Anomaly

C7, L10 = "C7", "L10"
SHUTTING_DOWN = 1  # as a change of a registration says it
OVER = frozenset({"RegisterBrokerRecord", "UnregisterBrokerRecord"})  # for an incarnation
SLACK_MS = 1000  # between a change in a controller's memory and its commit


@dataclass(slots=True)
class _Stop:
    """An incarnation that begins to stop: what must be known, and whether it leads after that."""

    epoch: int  # of the reign
    need: int
    is_clear: bool = True  # it has led nothing since, and began once


def kept_waiting(
    said: Sequence[Word],
    services: Sequence[Service],
    claims: Sequence[Reign],
    unsure: frozenset[Incarnation],
    log: Sequence[LogBatch],
) -> tuple[int, list[Anomaly]]:
    """Find heartbeats that were told to wait when all was known that the wait is for.

    Args:
        said: What brokers said, and what they were answered.
        services: When each incarnation was in service.
        claims: When each controller was active.
        unsure: Incarnations of which something may be heard at another time than it was said.
        log: The committed log. One that begins with a snapshot does not say who leads.

    Returns:
        How many heartbeats were looked at, and what was found.
    """
    checked, found = 0, list[Anomaly]()
    beats = [word for word in said if word.f in HEARTBEATS]
    for who, stop, own in _certain_stops(log, beats, unsure):
        first = next((w for w in own if w.f == STOP), None)
        if first is None or first.fenced or first.shut_down:
            continue
        for word in own:
            if word.invoked_ns <= first.done_ns:
                continue
            if word.fenced or word.shut_down:
                break
            if not _is_of_one_reign(first, word, stop.epoch, claims):
                break
            if word.f == "fence" or not _serves(who, first, word, services):
                continue
            others = _others(who, word, services)
            if others & unsure or not all(_knows(w, stop.need, word, beats) for w in others):
                continue
            checked += 1
            if not found or found[-1].ops[0] != first.ops[0]:
                found += _judge(first, word, stop.need)
    return checked, found


def let_go_early(
    said: Sequence[Word],
    services: Sequence[Service],
    claims: Sequence[Reign],
    unsure: frozenset[Incarnation],
    log: Sequence[LogBatch],
) -> tuple[int, list[Anomaly]]:
    """Find brokers that were let go though another one in service could not know of it yet.

    Only where no session can have ended meanwhile: who is fenced for its silence may go.

    Args:
        said: What brokers said, and what they were answered.
        services: When each incarnation was in service.
        claims: When each controller was active.
        unsure: Incarnations of which something may be heard at another time than it was said.
        log: The committed log.

    Returns:
        How many brokers that were let go were looked at, and what was found.
    """
    checked, found = 0, list[Anomaly]()
    beats = [word for word in said if word.f in HEARTBEATS]
    stopping = {(w.broker, w.epoch) for w in beats if w.f == STOP}
    for who, stop, own in _certain_stops(log, beats, unsure):
        waits = [w for w in own if w.f == STOP and not w.fenced and not w.shut_down]
        first = waits[0] if waits else None
        last = next((w for w in own if first and w.invoked_ns > first.done_ns and w.fenced), None)
        if first is None or last is None or not last.shut_down:
            continue
        if not _is_of_one_reign(first, last, stop.epoch, claims):
            continue
        if not _ends_by(who, last, services):
            continue
        others = _serving_on(first, last, services) - stopping - unsure - {who}
        checked += 1
        for other in sorted(others):
            its = [w for w in beats if (w.broker, w.epoch) == other and w.invoked_ns < last.done_ns]
            if its and all(w.offset < stop.need for w in its):
                newest = max(its, key=lambda w: w.offset)
                found.append(
                    last.anomaly(
                        C7,
                        f"was let go though broker {other[0]}, which was in service, had told that"
                        f" it knows offset {newest.offset} at the most (op {newest.ops[0]}), and"
                        f" the shutdown is on record at {stop.need}",
                        first,
                        newest,
                    )
                )
                break
    return checked, found


def let_go_unasked(
    said: Sequence[Word], asked: Mapping[Incarnation | None, int]
) -> tuple[int, list[Anomaly]]:
    """Find brokers that were told to stop though they had never asked for it.

    Args:
        said: What brokers said, and what they were answered.
        asked: Since when an incarnation may have asked, in ns; None: since when anybody may have.

    Returns:
        How many heartbeats of such brokers were looked at, and what was found.
    """
    anybody_ns = asked.get(None, inf)
    unasked = [
        word
        for word in said
        if word.f in HEARTBEATS
        and word.done_ns < min(asked.get((word.broker, word.epoch), inf), anybody_ns)
    ]
    found = [
        word.anomaly(C7, f"was told to stop by the answer to {word.f!r}, and had not asked for it")
        for word in unasked
        if word.shut_down
    ]
    return len(unasked), found


def _ends_by(who: Incarnation, last: Word, services: Sequence[Service]) -> bool:
    """Tell whether a broker was in service until that answer let it go."""
    return any(
        each.who == who
        and each.end_ns is not None
        and last.invoked_ns <= each.end_ns <= last.done_ns + SLACK_MS * MS
        for each in services
    )


def _serving_on(first: Word, last: Word, services: Sequence[Service]) -> frozenset[Incarnation]:
    """Give who was surely in service from the first word until after the last was answered."""
    return frozenset(
        each.who
        for each in services
        if each.begin_ns < first.invoked_ns
        and (each.end_ns is None or each.end_ns > last.done_ns + SLACK_MS * MS)
    )


def _judge(first: Word, word: Word, need: int) -> Iterator[Anomaly]:
    yield word.anomaly(
        L10,
        f"wants to stop since op {first.ops[0]}, and was told to wait, though all brokers in"
        f" service had told that they know offset {need}, at which it has lost what it led",
        first,
    )


def _is_of_one_reign(first: Word, word: Word, epoch: int, claims: Sequence[Reign]) -> bool:
    """Tell whether one controller heard all, and began the stop."""
    active = [each for each in claims if each.overlaps(first.invoked_ns, word.done_ns)]
    return (
        len(active) == 1 and active[0].epoch == epoch and (active[0].begin_ns <= first.invoked_ns)
    )


def _serves(who: Incarnation, first: Word, word: Word, services: Sequence[Service]) -> bool:
    """Tell whether a broker was in service all the time."""
    return any(
        each.who == who
        and each.begin_ns <= first.invoked_ns
        and (each.end_ns is None or each.end_ns > word.done_ns)
        for each in services
    )


def _others(who: Incarnation, word: Word, services: Sequence[Service]) -> frozenset[Incarnation]:
    """Give who else may have been in service then."""
    return frozenset(
        each.who
        for each in services
        if each.who[0] != who[0]
        and each.begin_ns <= word.done_ns + SLACK_MS * MS
        and (each.end_ns is None or each.end_ns >= word.invoked_ns)
    )


def _knows(other: Incarnation, need: int, word: Word, beats: Sequence[Word]) -> bool:
    """Tell whether the last that a controller heard of a broker before a heartbeat was enough."""
    its = [w for w in beats if w.broker == other[0] and w.invoked_ns < word.done_ns]
    enough = [
        w
        for w in its
        if w.epoch == other[1] and not w.fenced and w.offset >= need and w.done_ns < word.invoked_ns
    ]
    if not enough:
        return False
    last = max(enough, key=lambda w: w.invoked_ns)
    return all(w.offset >= need for w in its if w.done_ns >= last.invoked_ns)


def _certain_stops(
    log: Sequence[LogBatch], beats: Sequence[Word], unsure: frozenset[Incarnation]
) -> Iterator[tuple[Incarnation, _Stop, list[Word]]]:
    """Give who began to stop, once and for all, with its heartbeats in their order."""
    for who, stop in _stops(log).items():
        if stop.is_clear and who not in unsure:
            own = [word for word in beats if (word.broker, word.epoch) == who]
            yield who, stop, sorted(own, key=lambda word: word.invoked_ns)


def _stops(log: Sequence[LogBatch]) -> Mapping[Incarnation, _Stop]:
    """List who began to stop, by the log."""
    stops: dict[Incarnation, _Stop] = {}
    if not log or log[0].base != 0:
        return stops
    leaders: dict[tuple[object, object], object] = {}
    stopping: dict[int, Incarnation] = {}
    for batch in log:
        for record in () if batch.control else batch.records:
            kind, fields = record.get("type"), record.get("fields") or {}
            _note_leader(str(kind), fields, leaders)
            broker, epoch = fields.get("broker_id"), fields.get("broker_epoch")
            if not isinstance(broker, int) or not isinstance(epoch, int):
                continue
            if kind in OVER or fields.get("fenced") == FENCE:
                before = stopping.pop(broker, None)
                if before == (broker, epoch) and kind in OVER:  # Kafka forgets that it stops
                    stops[before].is_clear = False
            elif fields.get("in_controlled_shutdown") == SHUTTING_DOWN:
                who = stopping[broker] = broker, epoch
                stops[who] = _Stop(batch.epoch, batch.last, is_clear=who not in stops)
        leading = set(leaders.values())
        for who in stopping.values():
            stops[who].is_clear &= who[0] not in leading
    return stops


def _note_leader(
    kind: str, fields: Mapping[str, object], leaders: dict[tuple[object, object], object]
) -> None:
    """Note who leads a partition by a record."""
    if kind == "RemoveTopicRecord":
        for place in [each for each in leaders if each[0] == fields.get("topic_id")]:
            del leaders[place]
    leader = fields.get("leader")
    if kind in ("PartitionRecord", "PartitionChangeRecord") and isinstance(leader, int):
        leaders[fields.get("topic_id"), fields.get("partition_id")] = leader
