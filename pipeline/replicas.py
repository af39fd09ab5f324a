"""Folds each replica's events in their order: what it was, and had, just before each.

It knows of one replica alone; what replicas make of each other is left to the transforms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from checkers.replay.trace import VOTE_LOST, Event, Whole
from pipeline.schemas import TAIL

QUORUM: Final = ("quorum_epoch", "quorum_leader", "quorum_voted", "quorum_voted_dir")
_WHO: Final = ("ord", "replica", "known")
_DISK: Final = ("disk_epoch", "leader", "voted", "voted_dir")
_FATE: Final = ("until", "committed", "committed_in", "committed_ns")
_FIRST: Final = ("first_whom", "first_whose")
# The columns that the fold makes of an event, by its type.
FOLDED: Final[Mapping[str, tuple[str, ...]]] = {
    "start": (*_WHO, *_DISK, *QUORUM, *_FIRST, "end_before", "flushed_before"),
    "qs": (*_WHO, *QUORUM, *_FIRST, "epoch_before"),
    "vote": (*_WHO, *QUORUM, *_FIRST),
    "votereq": (*_WHO, *QUORUM),
    "role": (*_WHO, *_FIRST, "epoch_before"),
    "elected": (*_WHO, "end_before", "start_before", "resumed"),
    "claim": (*_WHO, "leads_before", "began"),
    "trunc": (*_WHO, "end_before", "hwm_before", "leads_before"),
    "snap": (*_WHO, "snapshot_end", "end_before", "leads_before", "active"),
    "hwm": (*_WHO, "end_before", "hwm_before", "began", "held_epoch"),
    "ack": (*_WHO, "hwm_before"),
    "append": (*_WHO, "end_before", "leads_before", "began", "resumed", "opens", *TAIL, *_FATE),
}
_UNTIL = FOLDED["append"].index("until")
_COMMITTED = slice(_UNTIL + 1, _UNTIL + 4)
_NO_TAIL = (None,) * len(TAIL)
_NO_QUORUM = (None,) * len(QUORUM)
_NO_VOTE = (None, None)
Row = tuple[Any, ...] | list[Any]


class _Log:
    """The content of a replica's log, as far as its events tell; None is not known.

    ``held`` are the rows of its batches, with ``lasts`` their last offsets, which rise: what
    begins below the end cuts it. The first ``sure`` of them are known to be committed.
    """

    __slots__ = ("batches", "end", "flushed", "held", "lasts", "start", "sure")

    def __init__(self) -> None:
        self.end: int | None = None
        self.start: int | None = None
        self.flushed: int | None = None
        self.sure = 0
        self.lasts: list[int] = []
        self.batches: list[tuple[int, int, int, int]] = []  # base, last, epoch, crc
        self.held: list[list[Any]] = []

    def cut(self, to: int, at: int) -> None:
        """Drop the batches that end at ``to`` or above it."""
        lasts = self.lasts
        while lasts and lasts[-1] >= to:
            lasts.pop()
            self.batches.pop()
            self.held.pop()[_UNTIL] = at
        self.sure = min(self.sure, len(lasts))

    def cut_flushed(self, to: int, at: int) -> None:
        """Drop the batches from the log, and note what may still be on disk."""
        self.cut(to, at)
        self.flushed = to if self.flushed is None else min(self.flushed, to)


class _Replica:
    """A replica as it is after those of its events that were fed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.highest: int | None = None  # the highest high watermark that it ever exposed
        self.inc: int | None = None
        self.known = True  # its incarnation is told of from a start on, and nothing is missing
        self.log = _Log()
        self.mark: int | None = None  # the highest that this incarnation exposed
        self.leads: int | None = None  # the epoch that this incarnation leads
        self.active = False  # its controller
        self.reigns: dict[int, int] = {}  # where the epochs that it won begin
        self.over: set[int] = set()  # epochs that it led before it was started again
        self.opened: set[int] = set()  # epochs in which it has appended as the leader
        self.exposed: set[int] = set()  # epochs that it won, and exposed a high watermark in
        self.votes: dict[int, tuple[Any, Any]] = {}  # the first one of each epoch
        self.quorum: tuple[Any, ...] = _NO_QUORUM  # what quorum-state says
        self.epoch: int | None = None  # its highest so far

    def restart(self, event: Event, at: int, blind: set[tuple[int, int]]) -> None:
        """Go on in the incarnation that an event is the first of.

        What was known of its disk is forgotten when something is missing since.
        """
        node, inc = event["node"], event["inc"]
        before = self.inc
        if before is not None:
            lost = any(of == node and before < gone < inc for of, gone in blind)
            if lost or not self.known:
                self._forget(at)
                self.quorum = _NO_QUORUM
        self.inc, self.mark, self.leads = inc, None, None
        begins = event["t"] in ("start", "disk") and event["seq"] == 1
        self.known = begins and (node, inc) not in blind

    # ------------------------------------------------------------------ of no row

    def disk(self, event: Event, at: int) -> None:
        self._forget(at)
        self.log.flushed = 0
        if event["what"] in VOTE_LOST:
            self.votes, self.quorum, self.epoch = {}, _NO_QUORUM, None

    def flush(self, event: Event, at: int) -> None:  # noqa: ARG002 - as all of them
        end, upto = self.log.end, event["upto"]
        self.log.flushed = upto if end is None else min(upto, end)

    def lstart(self, event: Event, at: int) -> None:  # noqa: ARG002
        self.log.start = event["v"]

    def apply(self, event: Event, at: int) -> None:
        self._commit(event["off"], event, at)

    def renounce(self, event: Event, at: int) -> None:  # noqa: ARG002
        self.active = False

    # ------------------------------------------------------------------ votes and epochs

    def start(self, event: Event, at: int) -> Row:
        log, end, told = self.log, event["leo"], event["qs"]
        epoch, leader, voted = (_number(told.get(name)) for name in ("ep", "leader", "voted"))
        voted_dir = told.get("voted_dir")
        disk = (epoch, leader, voted, voted_dir)
        first = _NO_VOTE if voted is None else self._voted(epoch, voted, voted_dir)
        row = (at, self.number, self.known, *disk, *self.quorum, *first)
        row += (log.end, log.flushed)
        if log.end is not None and end < log.end:
            log.cut(end, at)
        log.end, log.start, log.flushed = end, event["log_start"], event["flushed"]
        if epoch is not None:
            self.quorum = disk
            if leader == event["node"]:
                self.over.add(epoch)
        self.active = False
        return row

    def qs(self, event: Event, at: int) -> Row:
        epoch, voted, voted_dir = event["ep"], _number(event.get("voted")), event.get("voted_dir")
        first = _NO_VOTE if voted is None else self._voted(epoch, voted, voted_dir)
        row = (at, self.number, self.known, *self.quorum, *first, self.epoch)
        self.quorum = (epoch, _number(event.get("leader")), voted, voted_dir)
        self._reach(epoch)
        return row

    def vote(self, event: Event, at: int) -> Row:
        given = event["ok"] and not event["pre"]
        whom = event["cand"], event.get("cand_dir")
        first = self._voted(event["ep"], *whom) if given else _NO_VOTE
        return (at, self.number, self.known, *self.quorum, *first)

    def votereq(self, event: Event, at: int) -> Row:  # noqa: ARG002
        return (at, self.number, self.known, *self.quorum)

    def role(self, event: Event, at: int) -> Row:
        epoch, to = event["ep"], event["to"]
        for_itself = to == "candidate"
        first = self._voted(epoch, event["node"], event["dir"]) if for_itself else _NO_VOTE
        row = (at, self.number, self.known, *first, self.epoch)
        if to != "leader":
            self.leads = None
        self._reach(epoch)
        return row

    def elected(self, event: Event, at: int) -> Row:
        epoch = event["ep"]
        row = (at, self.number, self.known, self.log.end, self.log.start, epoch in self.over)
        self.leads = epoch
        self.reigns[epoch] = event["es"]
        return row

    def claim(self, event: Event, at: int) -> Row:
        self.active = True
        return (at, self.number, self.known, self.leads, self.reigns.get(event["ep"]))

    def _voted(self, epoch: int | None, whom: Any, whose: Any) -> tuple[Any, Any]:
        """The replica's first vote in that epoch, which may be this one."""
        return _NO_VOTE if epoch is None else self.votes.setdefault(epoch, (whom, whose))

    def _reach(self, epoch: int) -> None:
        self.epoch = epoch if self.epoch is None else max(self.epoch, epoch)

    # ------------------------------------------------------------------ the log

    def append(self, event: Event, at: int) -> Row:
        log, base, last, epoch = self.log, event["base"], event["last"], event["bep"]
        end, leads = log.end, event["src"] == "leader"
        tail: tuple[int | None, ...] = _NO_TAIL
        if end is not None:
            if log.lasts and log.lasts[-1] + 1 == end:
                tail = log.batches[-1]
            if base < end:
                log.cut_flushed(base, at)
        row = [at, self.number, self.known, end, self.leads, self.reigns.get(epoch)]
        row += (leads and epoch in self.over, leads and epoch not in self.opened, *tail)
        row += (None, None, None, None)
        log.lasts.append(last)
        log.batches.append((base, last, epoch, event["h"]))
        log.held.append(row)
        log.end = last + 1
        if leads:
            self.opened.add(epoch)
        return row

    def trunc(self, event: Event, at: int) -> Row:
        row = (at, self.number, self.known, self.log.end, self.mark, self.leads)
        self.log.cut_flushed(event["to"], at)
        self.log.end = event["to"]
        return row

    def snap(self, event: Event, at: int) -> Row | None:
        if event["op"] != "install":
            return None
        end = event["id"][0]
        row = (at, self.number, self.known, end, self.log.end, self.leads, self.active)
        self._forget(at)
        self.log.end = self.log.start = self.log.flushed = end
        self._expose(end)
        return row

    def hwm(self, event: Event, at: int) -> Row:
        mark, epoch = event["v"], event["ep"]
        began = held_epoch = None
        if event["as"] == "leader" and epoch in self.reigns and epoch not in self.exposed:
            self.exposed.add(epoch)
            began, held_epoch = self.reigns[epoch], self._epoch_at(mark - 1)
        row = (at, self.number, self.known, self.log.end, self.mark, began, held_epoch)
        self._expose(mark)
        self._commit(mark, event, at)
        return row

    def ack(self, event: Event, at: int) -> Row:  # noqa: ARG002
        return (at, self.number, self.known, self.mark)

    def _forget(self, at: int) -> None:
        """Begin another log: what this one held is not known any more."""
        for row in self.log.held:
            row[_UNTIL] = at
        self.log = _Log()

    def _expose(self, mark: int) -> None:
        if self.mark is None or mark > self.mark:
            self.mark = mark
            self.highest = mark if self.highest is None else max(self.highest, mark)

    def _epoch_at(self, offset: int) -> int | None:
        """The epoch of the batch that has an offset."""
        place = bisect_left(self.log.lasts, offset)
        if place == len(self.log.lasts) or self.log.batches[place][0] > offset:
            return None
        return self.log.batches[place][2]

    def _commit(self, below: int, event: Event, at: int) -> None:
        """Take for committed what the log holds below an offset."""
        log = self.log
        if not self.known or log.sure == len(log.lasts) or log.lasts[log.sure] >= below:
            return
        told = at, event["ep"], event.get("rx_ns")
        sure = bisect_left(log.lasts, below, log.sure)
        for row in log.held[log.sure : sure]:
            row[_COMMITTED] = told
        log.sure = sure


_Step = Callable[[_Replica, Event, int], Row | None]
_STEPS: Final[Mapping[str, _Step]] = {
    name: getattr(_Replica, name)
    for name in (*FOLDED, "disk", "flush", "lstart", "apply", "renounce")
}


class Folded(NamedTuple):
    """The result of the fold of a run.

    ``rows``: by type its events, and for each the values of the columns that ``FOLDED`` names.
    ``exposed``: by node the highest high watermark that it ever told of, exclusive.
    """

    rows: Mapping[str, tuple[list[Event], list[Row]]]
    exposed: Mapping[int, int]


def fold(trace: Whole) -> Folded:
    """Fold all events into their replicas, in the one order of all. O(n)."""
    found: dict[str, tuple[list[Event], list[Row]]] = {kind: ([], []) for kind in FOLDED}
    replicas: dict[tuple[int, str], _Replica] = {}
    steps, blind = _STEPS, trace.intake.blind
    for at, event in enumerate(trace.events):
        kind = event["t"]
        step = steps.get(kind)
        if step is None:
            continue
        name = event["node"], event["dir"]
        replica = replicas.get(name)
        if replica is None:
            replica = replicas[name] = _Replica(len(replicas))
        if event["inc"] != replica.inc:
            replica.restart(event, at, blind)
        row = step(replica, event, at)
        if row is not None:
            events, rows = found[kind]
            events.append(event)
            rows.append(row)
    exposed: dict[int, int] = {}
    for (node, _), replica in replicas.items():
        if replica.highest is not None:
            exposed[node] = max(replica.highest, exposed.get(node, 0))
    return Folded({kind: each for kind, each in found.items() if each[0]}, exposed)


def _number(value: object) -> int | None:
    return value if type(value) is int else None
