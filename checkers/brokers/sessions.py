"""C12 and C1 from outside: when played brokers were heard of, and when others took their place.

By the log they were fenced (C12), or another incarnation of them was let in (C1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from checkers.brokers.words import HEARTBEATS, WANTS, Word
from checkers.invariants.decisions import GAP_MS, GRACE_MS, SESSION_MS, SESSION_SETTING
from checkers.invariants.local_reads import CommitTimes
from checkers.replay.clocks import clock_of
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch
from harness.verdict import Anomaly

C1, C12 = "C1", "C12"
NOT_CONTROLLER = "not-controller"
MS = 1_000_000
FENCE, UNFENCE = 1, -1
Incarnation = tuple[int, int]  # broker id and epoch


@dataclass(frozen=True, slots=True)
class Service:
    """An incarnation was in service: unfenced at a time, and fenced or replaced at another."""

    who: Incarnation
    begin_ns: int
    end_ns: int | None  # None: to the end of the run
    offset: int | None = None  # of the record that fenced it; None when it was replaced
    heir: int | None = None  # the epoch of the incarnation that replaced it; None when none did


@dataclass(frozen=True, slots=True)
class Reign:
    """A controller worked without a break: it committed something every so often."""

    begin_ns: int
    end_ns: int
    epoch: int = -1  # where it is known

    def overlaps(self, begin_ns: int, end_ns: int) -> bool:
        """Tell whether it has a moment in common with a span."""
        return self.begin_ns <= end_ns and begin_ns <= self.end_ns


class Sessions:
    """Judges the sessions of all played brokers; ``checked`` counts the services looked at.

    ``services`` are the times in which each incarnation was in service, ``claims`` those in which
    each controller was active, and ``unsure`` incarnations of which something may be heard later.
    """

    def __init__(self, run: RunData, said: Sequence[Word], log: Sequence[LogBatch]) -> None:
        self.checked = 0
        self._session_ns = int(run.spec.settings.get(SESSION_SETTING, SESSION_MS)) * MS
        self._late_ns = self._session_ns * 9 // 8 + GRACE_MS * MS
        self._heard: dict[Incarnation, list[Word]] = defaultdict(list)
        for word in said:
            if word.f in HEARTBEATS:
                self._heard[word.broker, word.epoch].append(word)
        self.unsure, self._spoken = _unanswered(run)
        self.services = list(_services(run, log))
        self._reigns = list(_reigns(run))
        self.claims = list(_claims(run))

    def judge(self) -> Iterator[Anomaly]:
        """Services that ended early, those that should have ended, and who followed too soon."""
        for service in self.services:
            heard = self._heard.get(service.who)
            if heard and service.who not in self.unsure:
                self.checked += 1
                yield from self._early(service, heard)
                yield from self._late(service, heard)
                yield from self._followed(service, heard)

    def _early(self, service: Service, heard: Sequence[Word]) -> Iterator[Anomaly]:
        """Fenced in less than a session from when it sent what was answered before."""
        end_ns = service.end_ns
        if end_ns is None or service.offset is None:
            return
        before = [w for w in heard if w.done_ns < end_ns and not w.fenced]
        if not before:
            return
        last = max(before, key=lambda w: w.invoked_ns)
        # A shutdown that was asked for before may come to its end with any heartbeat.
        wanted = any(w.done_ns > last.invoked_ns and (w.f in WANTS or w.shut_down) for w in heard)
        if not wanted and end_ns - last.invoked_ns < self._session_ns:
            yield last.anomaly(
                C12,
                f"was fenced (offset {service.offset}) only"
                f" {(end_ns - last.invoked_ns) / 1e9:.3f} s after it sent this heartbeat; its"
                f" session is {self._session_ns / 1e9:g} s",
            )

    def _followed(self, service: Service, heard: Sequence[Word]) -> Iterator[Anomaly]:
        """Let in less than a session after the incarnation before was heard.

        By the same controller: another one may have heard nothing. That was heard later than it
        was sent, and the next one was let in before this was committed.
        """
        end_ns = service.end_ns
        before = [] if end_ns is None else [w for w in heard if w.done_ns < end_ns]
        if service.heir is None or end_ns is None or not before:
            return
        last = max(before, key=lambda w: w.invoked_ns)
        wanted = any(w.f in WANTS or w.shut_down for w in before)
        active = [each for each in self.claims if each.overlaps(last.invoked_ns, end_ns)]
        if last.fenced or wanted or len(active) != 1 or active[0].begin_ns > last.invoked_ns:
            return
        if end_ns - last.invoked_ns < self._session_ns:
            yield last.anomaly(
                C1,
                f"was followed by an incarnation with epoch {service.heir} only"
                f" {(end_ns - last.invoked_ns) / 1e9:.3f} s after it sent this heartbeat; its"
                f" session is {self._session_ns / 1e9:g} s",
            )

    def _late(self, service: Service, heard: Sequence[Word]) -> Iterator[Anomaly]:
        """In service for longer than a session after the last word, while a controller worked."""
        ends = [service.end_ns] if service.end_ns is not None else []
        spoken = [w for w in heard if not ends or w.invoked_ns < ends[0]]
        if not spoken:
            return
        last = max(spoken, key=lambda w: w.done_ns)
        silent_ns = max(last.done_ns, self._spoken.get(service.who, 0))
        for reign in self._reigns:
            since_ns = max(reign.begin_ns, service.begin_ns, silent_ns)
            until_ns = min([reign.end_ns, *ends])
            if until_ns - since_ns > self._late_ns:
                yield last.anomaly(
                    C12,
                    f"fell silent after that and was not fenced for"
                    f" {(until_ns - since_ns) / 1e9:.3f} s, in which a controller was active; its"
                    f" session is {self._session_ns / 1e9:g} s",
                )
                return


def _unanswered(run: RunData) -> tuple[frozenset[Incarnation], Mapping[Incarnation, int]]:
    """Incarnations of which something said may be heard at any later time, or take effect then.

    And when others were last refused by who was no controller: it may have been one before.
    """
    unsure, refused = set(), dict[Incarnation, int]()
    for interval in run.history.intervals():
        f, end = interval.invocation.f, interval.completion
        if f not in HEARTBEATS or interval.outcome != "info":
            continue
        value = end.value if end is not None else None
        if end is None or not isinstance(value, Mapping) or "epoch" not in value:
            continue
        who = (value["broker"], value["epoch"])
        if end.error == NOT_CONTROLLER and f not in WANTS:
            refused[who] = max(end.time_ns, refused.get(who, 0))
        else:
            unsure.add(who)
    return frozenset(unsure), refused


def _services(run: RunData, log: Sequence[LogBatch]) -> Iterator[Service]:
    """Find each broker's times in service, from unfencing to fencing, by the committed log."""
    told = (event for of_node in run.events.values() for event in of_node)
    commits = (event for event in told if event.get("t") == "hwm")
    times = CommitTimes(commits, clock_of(run))
    begun: dict[Incarnation, int] = {}
    named: dict[Incarnation, object] = {}  # the ids of processes
    for batch in log:
        for place, record in enumerate(() if batch.control else batch.records):
            offset = batch.base + place
            fields = record.get("fields") or {}
            broker, epoch = fields.get("broker_id"), fields.get("broker_epoch")
            at_ns = times.of(offset)
            if broker is None or epoch is None or at_ns is None:
                continue
            match record.get("type"):
                case "RegisterBrokerRecord":
                    named[broker, epoch] = fields.get("incarnation_id")
                    for old in [who for who in begun if who[0] == broker and who[1] != epoch]:
                        known = named.get(old, named[broker, epoch])  # else: not to be told
                        heir = epoch if known != named[broker, epoch] else None
                        yield Service(old, begun.pop(old), at_ns, heir=heir)
                    if fields.get("fenced") is False:  # as the same incarnation of before 3.9
                        begun.setdefault((broker, epoch), at_ns)
                case "BrokerRegistrationChangeRecord":
                    who = (broker, epoch)
                    if fields.get("fenced") == UNFENCE:
                        begun.setdefault(who, at_ns)
                    elif fields.get("fenced") == FENCE and who in begun:
                        yield Service(who, begun.pop(who), at_ns, offset)
                case "UnregisterBrokerRecord":
                    if (broker, epoch) in begun:
                        yield Service((broker, epoch), begun.pop((broker, epoch)), at_ns)
                case _:
                    pass
    for who, since_ns in begun.items():
        yield Service(who, since_ns, None)


def _reigns(run: RunData) -> Iterator[Reign]:
    """Stretches in which one leader told of a commit again and again."""
    for events in run.events.values():
        begin = last = None
        epoch = None
        for event in events:
            if event.get("t") == "claim" or event.get("t") == "start":
                if begin is not None and last is not None:
                    yield Reign(begin, last)
                begin, epoch = None, event.get("ep")
                last = None
                if event["t"] == "claim":
                    begin = last = event["rx_ns"]
            elif event.get("t") == "hwm" and begin is not None and last is not None:
                if event.get("as") != "leader" or event.get("ep") != epoch:
                    yield Reign(begin, last)
                    begin = last = None
                elif event["rx_ns"] - last > GAP_MS * MS:
                    yield Reign(begin, last)
                    begin = last = event["rx_ns"]
                else:
                    last = event["rx_ns"]
        if begin is not None and last is not None:
            yield Reign(begin, last)


def _claims(run: RunData) -> Iterator[Reign]:
    """Times in which each controller was active, or took itself for it."""
    for events in run.events.values():
        begin_ns: int | None = None
        epoch = -1
        for event in events:
            kind = event.get("t")
            if kind in ("claim", "renounce", "start") and begin_ns is not None:
                yield Reign(begin_ns, event["rx_ns"], epoch)
                begin_ns = None
            if kind == "claim":
                begin_ns, epoch = event["rx_ns"], event["ep"]
        if begin_ns is not None:
            yield Reign(begin_ns, events[-1]["rx_ns"], epoch)
