"""L13: a Fetch that a living leader has accepted is answered in time, and followed by the next.

Who has its one Fetch at a leader that says nothing hears of no other leader either. Nodes tell of
the fetches that they send and of those that they accept, so an answer shows by what the fetcher
does next. It waits for records only while the leader has none: once there are some it is answered
at once. Who got records by it asks for more at once: only a failure is a reason for a pause.
Source: KAFKA-10677; KIP-227 (``max.wait``); KIP-595 (Fetch).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from checkers.liveness.calm import CRASHES, Calm
from checkers.replay.trace import ARRIVED, Event
from harness.history.ops import History
from harness.verdict import Anomaly

WAIT_NS: Final = 500_000_000  # of every node's Fetch; no setting of ours changes it
SLACK_NS: Final = 300_000_000  # of two messages, a flush and what a node does first
PROMPT_NS: Final = 100_000_000  # the same, where there are records
PAUSE_NS: Final = 10_000_000  # half of a backoff: who makes a pause makes one of 20 ms at least
APPENDS_MIN: Final = 20  # of which more than half are followed by a pause
NO_HARM: Final = CRASHES | {"membership"}  # families that leave links, clocks and disks alone
# What a node does that waits for no answer any more: it asks again, or its role has ended the wait.
_MOVES: Final = frozenset({"fetch_tx", "role", "start", "stop", "snap"})


Events = Mapping[str, Sequence[Event]]
_Process = tuple[int, int]  # node and incarnation
_process: Callable[[Event], _Process] = itemgetter("node", "inc")


@dataclass(slots=True)
class _Life:
    """One process: when it did something that ends a wait."""

    moves_ns: list[int] = field(default_factory=list)

    def moves_within(self, after_ns: int, until_ns: int) -> bool:
        place = bisect_right(self.moves_ns, after_ns)
        return place < len(self.moves_ns) and self.moves_ns[place] <= until_ns


@dataclass(slots=True)
class _Records:
    """Tells when a leader appended each offset in one epoch."""

    lasts: list[int] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)

    def had_ns(self, offset: int) -> int | None:
        """Give the time from which on it had a record at an offset; None: it never had."""
        place = bisect_left(self.lasts, offset)
        return self.times_ns[place] if place < len(self.lasts) else None


@dataclass(slots=True)
class _Told:
    """Gathers the events of all nodes that tell how fetches went."""

    lives: dict[_Process, _Life] = field(default_factory=lambda: defaultdict(_Life))
    accepted: dict[tuple[int, int, int], list[Event]] = field(
        default_factory=lambda: defaultdict(list)
    )  # by fetcher, leader and offset
    records: dict[tuple[_Process, int], _Records] = field(
        default_factory=lambda: defaultdict(_Records)
    )  # by leader and epoch
    heard_ns: dict[_Process, int] = field(default_factory=dict)  # last of all
    asked: list[list[Event]] = field(default_factory=list)  # by node

    @classmethod
    def of(cls, events: Events) -> _Told:
        """Look for it in all events."""
        told = cls()
        for of_node in events.values():
            told.heard_ns.update((_process(last), last["rx_ns"]) for last in _last_words(of_node))
            told.asked.append([event for event in of_node if told._takes(event)])
        return told

    def _takes(self, event: Event) -> bool:
        """Note an event; say whether it is a Fetch that its node sends."""
        kind: str = event["t"]
        if kind in _MOVES:
            self.lives[_process(event)].moves_ns.append(event["rx_ns"])
        elif kind == "fetch_rx" and event["res"] == "ok" and event.get("from") is not None:
            self.accepted[event["from"], event["node"], event["off"]].append(event)
        elif kind == "append" and event["src"] == "leader":
            records = self.records[_process(event), event["ep"]]
            records.lasts.append(event["last"])
            records.times_ns.append(event["rx_ns"])
        return kind == "fetch_tx"

    def due_ns(self, taken: Event) -> tuple[int, str]:
        """Give the time by which an accepted Fetch must have been answered, and why by then."""
        records = self.records.get((_process(taken), taken["ep"]))
        wait_ns = taken["rx_ns"] + WAIT_NS + SLACK_NS
        had_ns = None if records is None else records.had_ns(taken["off"])
        if had_ns is None or had_ns + PROMPT_NS >= wait_ns:
            return wait_ns, "its time is up"
        return max(had_ns, taken["rx_ns"]) + PROMPT_NS, "there are records for it"


def unanswered_fetches(history: History, events: Events) -> tuple[int, list[Anomaly]]:
    """Fetches that were accepted and not answered when it was due, in calm stretches.

    Only where both nodes lived on beyond the time in which an answer was due.

    Returns:
        How many fetches were looked at, and the first of each node that was not answered.
    """
    calm = Calm.of(history, NO_HARM)
    told = _Told.of(events)
    checked, found = 0, list[Anomaly]()
    for own in told.asked:
        for sent in own:
            sent_ns, life = sent["rx_ns"], told.lives[_process(sent)]
            if not calm.covers(sent_ns, sent_ns + PROMPT_NS):  # as most of a run under faults
                continue
            if life.moves_within(sent_ns, sent_ns + PROMPT_NS):  # as most
                checked += (sent["node"], sent.get("to"), sent["off"]) in told.accepted
                continue
            taken = _taken(sent, told.accepted)
            if taken is None:
                continue
            due_ns, why = told.due_ns(taken)
            lived = min(told.heard_ns[_process(each)] for each in (sent, taken)) > due_ns
            if not lived or not calm.covers(sent_ns, due_ns):
                continue
            checked += 1
            if not life.moves_within(sent_ns, due_ns):
                found.append(_silence(sent, taken, due_ns, why))
                break
    return checked, found


def hesitating(history: History, events: Events) -> tuple[int, list[Anomaly]]:
    """Followers that make a pause before they ask for more, though they got records.

    Only in calm stretches, where a log is as fast as ever, and of processes that lived on.

    Returns:
        How many appends were looked at, and an anomaly for each process that mostly hesitated.
    """
    calm = Calm.of(history, NO_HARM)
    checked, found = 0, list[Anomaly]()
    for node, of_node in events.items():
        heard_ns = {_process(event): event["rx_ns"] for event in _last_words(of_node)}
        lives: dict[_Process, _Life] = defaultdict(_Life)
        got: dict[_Process, list[Event]] = defaultdict(list)
        for event in of_node:
            if event["t"] in _MOVES:
                lives[_process(event)].moves_ns.append(event["rx_ns"])
            elif event["t"] == "append" and event["src"] == "follower":
                got[_process(event)].append(event)
        for process, appends in got.items():
            looked = [
                each
                for each in appends
                if each["rx_ns"] + PAUSE_NS < heard_ns[process]
                and calm.covers(each["rx_ns"], each["rx_ns"] + PAUSE_NS)
            ]
            late = [
                each
                for each in looked
                if not lives[process].moves_within(each["rx_ns"] - 1, each["rx_ns"] + PAUSE_NS)
            ]
            checked += len(looked)
            if len(looked) >= APPENDS_MIN and 2 * len(late) > len(looked):
                found.append(_hesitation(node, late, len(looked)))
    return checked, found


def _hesitation(node: str, late: Sequence[Event], looked: int) -> Anomaly:
    return Anomaly(
        "L13",
        f"{node} appended what it had fetched {looked} times, and {len(late)} times it did not ask"
        f" for more within {PAUSE_NS / 1e6:g} ms, though nothing had failed",
        events=(dict(late[0]),),
        time_ns=late[0]["rx_ns"],
    )


def _last_words(of_node: Sequence[Event]) -> Iterable[Event]:
    """The last event of each process of a node."""
    return {event["inc"]: event for event in of_node}.values()


def _taken(sent: Event, accepted: Mapping[tuple[int, int, int], Sequence[Event]]) -> Event | None:
    """The event that tells that a Fetch was accepted where it was sent to, if it soon was."""
    if sent.get("to") is None:
        return None
    each = accepted.get((sent["node"], sent["to"], sent["off"]), ())
    place = bisect_left(each, sent["rx_ns"], key=ARRIVED)
    if place == len(each) or each[place]["rx_ns"] > sent["rx_ns"] + SLACK_NS:
        return None
    return each[place]


def _silence(sent: Event, taken: Event, due_ns: int, why: str) -> Anomaly:
    return Anomaly(
        "L13",
        f"n{taken['node']} accepted a Fetch of n{sent['node']} at offset {sent['off']}, and"
        f" {(due_ns - taken['rx_ns']) / 1e9:g} s later n{sent['node']} still waits for the"
        f" answer, though {why}",
        events=(dict(sent), dict(taken)),
        time_ns=due_ns,
    )
