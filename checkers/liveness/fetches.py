"""L13: a Fetch that a living leader has accepted is answered in time, and followed by the next.

Who has its one Fetch at a leader that says nothing hears of no other leader either. Nodes tell of
the fetches that they send and of those that they accept, so an answer shows by what the fetcher
does next. Who got records by it asks for more at once: only a failure is a reason for a pause.
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


def unanswered_fetches(history: History, events: Events) -> tuple[int, list[Anomaly]]:
    """Fetches that were accepted and then neither answered nor given up, in calm stretches.

    Only where both nodes lived on beyond the time in which an answer was due.

    Returns:
        How many fetches were looked at, and the first of each node that was not answered.
    """
    calm = Calm.of(history, NO_HARM)
    lives: dict[_Process, _Life] = defaultdict(_Life)
    accepted: dict[tuple[int, int, int], list[Event]] = defaultdict(list)
    heard_ns: dict[_Process, int] = {}  # last of all
    asked: list[list[Event]] = []  # by node
    for of_node in events.values():
        heard_ns.update((_process(event), event["rx_ns"]) for event in _last_words(of_node))
        asked.append(own := [])
        for event in of_node:
            kind = event["t"]
            if kind in _MOVES:
                lives[_process(event)].moves_ns.append(event["rx_ns"])
                if kind == "fetch_tx":
                    own.append(event)
            elif kind == "fetch_rx" and event["res"] == "ok" and event.get("from") is not None:
                accepted[event["from"], event["node"], event["off"]].append(event)
    checked, found = 0, list[Anomaly]()
    for own in asked:
        for sent in own:
            sent_ns = sent["rx_ns"]
            if not calm.covers(sent_ns, sent_ns + WAIT_NS):  # as most of a run under faults
                continue
            if lives[_process(sent)].moves_within(sent_ns, sent_ns + WAIT_NS):  # as most
                checked += (sent["node"], sent.get("to"), sent["off"]) in accepted
                continue
            taken = _taken(sent, accepted)
            if taken is None:
                continue
            due_ns = taken["rx_ns"] + WAIT_NS + SLACK_NS
            lived = heard_ns[_process(sent)] > due_ns and heard_ns[_process(taken)] > due_ns
            if not lived or not calm.covers(sent_ns, due_ns):
                continue
            checked += 1
            if not lives[_process(sent)].moves_within(sent_ns, due_ns):
                found.append(_silence(sent, taken, due_ns))
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


def _silence(sent: Event, taken: Event, due_ns: int) -> Anomaly:
    return Anomaly(
        "L13",
        f"n{taken['node']} accepted a Fetch of n{sent['node']} at offset {sent['off']}, and"
        f" {(due_ns - taken['rx_ns']) / 1e9:g} s later n{sent['node']} still waits for the answer",
        events=(dict(sent), dict(taken)),
        time_ns=due_ns,
    )
