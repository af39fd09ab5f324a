"""The fold of a replica's events against what its columns mean, looked up event by event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.replay.trace import VOTE_LOST, Whole
from pipeline.replicas import FOLDED, fold
from pipeline.schemas import TAIL

Event = dict[str, Any]
Row = dict[str, Any]
SET = ("start", "flush", "snap", "disk")  # what says how much is on disk

_small = st.integers(0, 4)
_epochs = st.integers(1, 2)
_who = st.one_of(st.none(), st.integers(1, 2))
_KINDS: Mapping[str, st.SearchStrategy[dict[str, Any]]] = {
    "append": st.fixed_dictionaries(
        {"base": _small, "bep": _epochs, "h": _small, "src": st.sampled_from(("leader", "fetch"))}
    ),
    "trunc": st.fixed_dictionaries({"to": _small}),
    "flush": st.fixed_dictionaries({"upto": _small}),
    "lstart": st.fixed_dictionaries({"v": _small}),
    "snap": st.fixed_dictionaries(
        {"op": st.sampled_from(("install", "write")), "id": st.tuples(_small, _epochs).map(list)}
    ),
    "hwm": st.fixed_dictionaries({"v": _small, "as": st.sampled_from(("leader", "follower"))}),
    "apply": st.fixed_dictionaries({"off": _small, "n": _small}),
    "ack": st.fixed_dictionaries({"off": _small}),
    "elected": st.fixed_dictionaries({"es": _small}),
    "role": st.fixed_dictionaries({"to": st.sampled_from(("leader", "follower", "candidate"))}),
    "claim": st.fixed_dictionaries({"applied": _small}),
    "renounce": st.fixed_dictionaries({"applied": _small}),
    "disk": st.fixed_dictionaries({"what": st.sampled_from(("wipe", "vote", "truncate"))}),
    "qs": st.fixed_dictionaries({"leader": _who, "voted": _who, "voted_dir": st.none()}),
    "vote": st.fixed_dictionaries(
        {"pre": st.booleans(), "ok": st.booleans(), "cand": st.integers(1, 2)}
    ),
    "votereq": st.fixed_dictionaries({"pre": st.booleans()}),
    "start": st.fixed_dictionaries({"leo": _small, "flushed": _small, "log_start": _small}),
    "fetch_tx": st.fixed_dictionaries({"off": _small}),
}
_LOGS = {"cl_ep": 0, "cl_leo": 0, "my_ep": 0, "my_leo": 0}


@st.composite
def _events(draw: st.DrawFn) -> list[Event]:
    """What one replica tells: mostly from a start on, now and then with an event missing."""
    events: list[Event] = []
    inc = seq = 1
    few = draw(st.lists(st.sampled_from(sorted(_KINDS)), min_size=2, max_size=5))
    kinds = st.sampled_from(["start", "append", *few])
    for kind in draw(st.lists(kinds, min_size=draw(st.integers(1, 25)), max_size=30)):
        if draw(st.integers(0, 15)) == 0:
            inc, seq = inc + 1, 2  # a start that is missing
        fields = dict(draw(_KINDS[kind]))
        if kind == "start":
            inc, seq = inc + bool(events), 1
            quorum = draw(_KINDS["qs"])
            fields |= {"qs": {"ep": draw(_epochs), **quorum}, "voters": []}
        elif kind == "append":
            fields["last"] = fields["base"] + draw(st.integers(0, 2))
        elif kind == "vote":
            fields |= _LOGS
        events.append(
            {"ts": len(events), "rx_ns": 10 * len(events), "seq": seq, "node": 1, "dir": "d"}
            | {"inc": inc, "ep": draw(_epochs), "t": kind, **fields}
        )
        seq += 1 + (draw(st.integers(0, 15)) == 0)
    return events


def _folded(trace: Whole) -> dict[int, Row]:
    """The fold's columns of each event by its place, with the event's type."""
    return {
        row[0]: dict(zip(FOLDED[kind], row, strict=True)) | {"type": kind}
        for kind, (_, rows) in fold(trace).rows.items()
        for row in rows
    }


class _Naive:
    """The same columns by their meaning: each looks at all events anew."""

    def __init__(self, trace: Whole) -> None:
        blind = {inc for _, inc in trace.intake.blind}
        kept = {*FOLDED, "disk", "flush", "lstart", "apply", "renounce"}
        told = list(enumerate(trace.events))
        self.all = [(at, e) for at, e in told if e["t"] in kept]
        firsts: dict[int, Event] = {}
        for _, event in self.all:
            firsts.setdefault(event["inc"], event)
        self.unknown = {
            inc
            for inc, first in firsts.items()
            if inc in blind or first["seq"] != 1 or first["t"] not in ("start", "disk")
        }
        self.gone = blind | self.unknown
        self.incs = sorted(firsts)

    def era(self, event: Event) -> int:
        """How often something may have happened to the disk that nobody told of."""
        return sum(inc < event["inc"] for inc in self.gone if inc >= self.incs[0])

    def log(self, at: int, event: Event) -> tuple[int, int]:
        return self.era(event), sum(e["t"] == "disk" for a, e in self.all if a <= at)

    def life(self, at: int) -> int:
        lost = (e for a, e in self.all if a <= at and e["t"] == "disk")
        return sum(e["what"] in VOTE_LOST for e in lost)

    def before(self, at: int, *kinds: str) -> Iterator[tuple[int, Event]]:
        """The newest first."""
        return ((a, e) for a, e in reversed(self.all) if a < at and e["t"] in kinds)

    def same_log(self, at: int, *kinds: str) -> Iterator[tuple[int, Event]]:
        log = self.log(at, self.event(at))
        found = self.before(at, *kinds)
        return ((a, e) for a, e in found if self.log(a, e) == log and _is_of_log(e))

    def event(self, at: int) -> Event:
        return next(e for a, e in self.all if a == at)

    # ------------------------------------------------------------------ columns

    def end_before(self, at: int) -> int | None:
        for _, e in self.same_log(at, "start", "append", "trunc", "snap"):
            return _end(e)
        return None

    def start_before(self, at: int) -> int | None:
        for _, e in self.same_log(at, "start", "lstart", "snap"):
            field = {"start": "log_start", "lstart": "v"}.get(e["t"])
            return int(e["id"][0] if field is None else e[field])
        return None

    def cut(self, at: int) -> int | None:
        """Where an event cuts the log; -1: nothing of it is left."""
        event, end = self.event(at), self.end_before(at)
        kind = event["t"]
        if kind == "disk" or (kind == "snap" and _is_of_log(event)):
            return -1
        earlier = [(a, e) for a, e in self.all if a < at]
        if earlier and self.era(earlier[-1][1]) != self.era(event):
            return -1
        if kind == "trunc":
            return int(event["to"])
        lowest = {"append": event.get("base"), "start": event.get("leo")}.get(kind)
        return lowest if lowest is not None and end is not None and lowest < end else None

    def flushed_before(self, at: int) -> int | None:
        cuts: list[int] = []
        for a, e in self.same_log(at, *SET, "trunc", "append"):
            if e["t"] in SET:
                return min([self._flushed(a, e), *cuts])
            cut = self.cut(a)
            if cut is not None and cut >= 0:
                cuts.append(cut)
        return min(cuts) if cuts else None

    def _flushed(self, at: int, event: Event) -> int:
        if event["t"] == "flush":
            end = self.end_before(at)
            return int(event["upto"]) if end is None else min(event["upto"], end)
        if event["t"] == "snap":
            return int(event["id"][0])
        return int(event["flushed"]) if event["t"] == "start" else 0

    def hwm_before(self, at: int) -> int | None:
        inc = self.event(at)["inc"]
        of_inc = (e for _, e in self.before(at, "hwm", "snap") if e["inc"] == inc and _is_of_log(e))
        return max((e["v"] if e["t"] == "hwm" else e["id"][0] for e in of_inc), default=None)

    def leads_before(self, at: int) -> int | None:
        inc = self.event(at)["inc"]
        for _, e in self.before(at, "elected", "role"):
            if e["inc"] == inc and not (e["t"] == "role" and e["to"] == "leader"):
                return int(e["ep"]) if e["t"] == "elected" else None
        return None

    def reign(self, at: int, epoch: int) -> int | None:
        """Where an epoch begins that the replica has won before."""
        return next((e["es"] for _, e in self.before(at, "elected") if e["ep"] == epoch), None)

    def began(self, at: int) -> int | None:
        event = self.event(at)
        reign = self.reign(at, event["bep"] if event["t"] == "append" else event["ep"])
        return reign if event["t"] != "hwm" or self._is_first_mark(at) else None

    def _is_first_mark(self, at: int) -> bool:
        event = self.event(at)
        return (
            event["as"] == "leader"
            and self.reign(at, event["ep"]) is not None
            and not any(
                e["as"] == "leader"
                and e["ep"] == event["ep"]
                and self.reign(a, e["ep"]) is not None
                for a, e in self.before(at, "hwm")
            )
        )

    def held_epoch(self, at: int) -> int | None:
        offset = self.event(at)["v"] - 1
        if not self._is_first_mark(at):
            return None
        return next((e["bep"] for _, e in self.held(at) if e["base"] <= offset <= e["last"]), None)

    def held(self, at: int) -> list[tuple[int, Event]]:
        """The batches in the log just before an event."""
        every = self.before(at, "append")
        return [(a, e) for a, e in every if (self.until(a) or at) >= at]

    def until(self, at: int) -> int | None:
        last = self.event(at)["last"]
        for later, _ in self.all:
            cut = self.cut(later)
            if later > at and cut is not None and cut <= last:
                return later
        return None

    def tail(self, at: int) -> tuple[int | None, ...]:
        end = self.end_before(at)
        for _, e in self.held(at):
            if e["last"] + 1 == end:
                return e["base"], e["last"], e["bep"], e["h"]
        return (None,) * len(TAIL)

    def fate(self, at: int) -> tuple[int | None, ...]:
        """When, in which epoch and at what time a batch was taken for committed."""
        event, until = self.event(at), self.until(at)
        log = self.log(at, event)
        for later, e in self.all:
            mark = e["v"] if e["t"] == "hwm" else e["off"] if e["t"] == "apply" else -1
            lives = later > at and (until is None or later < until) and self.log(later, e) == log
            if lives and mark > event["last"] and e["inc"] not in self.unknown:
                return later, e["ep"], e["rx_ns"]
        return None, None, None

    def quorum(self, at: int) -> tuple[Any, ...]:
        now = self.era(self.event(at)), self.life(at)
        for a, e in self.before(at, "start", "qs"):
            if (self.era(e), self.life(a)) == now:
                of, epoch = (e["qs"], e["qs"]["ep"]) if e["t"] == "start" else (e, e["ep"])
                return epoch, of["leader"], of["voted"], of["voted_dir"]
        return None, None, None, None

    def first(self, at: int) -> tuple[Any, Any]:
        """Of an event that is a vote: the first one of its epoch and life."""
        own = _vote(self.event(at))
        if own is None:
            return None, None
        of_life = (_vote(e) for a, e in self.all if a <= at and self.life(a) == self.life(at))
        return next(vote[1:] for vote in of_life if vote is not None and vote[0] == own[0])

    def epoch_before(self, at: int) -> int | None:
        life = self.life(at)
        told = (e["ep"] for a, e in self.before(at, "qs", "role") if self.life(a) == life)
        return max(told, default=None)

    def resumed(self, at: int) -> bool:
        event = self.event(at)
        if event["t"] == "append" and event["src"] != "leader":
            return False
        epoch = event["bep"] if event["t"] == "append" else event["ep"]
        starts = (e["qs"] for _, e in self.before(at, "start"))
        return any(e["ep"] == epoch and e["leader"] == event["node"] for e in starts)

    def opens(self, at: int) -> bool:
        event = self.event(at)
        earlier = (e for _, e in self.before(at, "append") if e["src"] == "leader")
        return event["src"] == "leader" and all(e["bep"] != event["bep"] for e in earlier)

    def active(self, at: int) -> bool:
        return next((bool(e["t"] == "claim") for _, e in self.before(at, *TURNS)), False)


TURNS = ("claim", "renounce", "start")


def _vote(event: Event) -> tuple[int, int, Any] | None:
    """(epoch, whom, whose) of an event that is a vote."""
    if event["t"] == "vote" and event["ok"] and not event["pre"]:
        return event["ep"], event["cand"], None
    if event["t"] == "role" and event["to"] == "candidate":
        return event["ep"], event["node"], event["dir"]
    told = event.get("qs", event)
    if event["t"] not in ("start", "qs") or told["voted"] is None:
        return None
    return told["ep"], told["voted"], told["voted_dir"]


def _is_of_log(event: Event) -> bool:
    return bool(event["t"] != "snap" or event["op"] == "install")


def _end(event: Event) -> int:
    field = {"start": "leo", "trunc": "to"}.get(event["t"])
    if event["t"] == "snap":
        return int(event["id"][0])
    return int(event["last"] + 1 if field is None else event[field])


def _expected(naive: _Naive, at: int, column: str, row: Row) -> Any:
    """What a column of an event should say."""
    for names, look in (
        (("quorum_epoch", "quorum_leader", "quorum_voted", "quorum_voted_dir"), naive.quorum),
        (("first_whom", "first_whose"), naive.first),
        (("committed", "committed_in", "committed_ns"), naive.fate),
        (TAIL, naive.tail),
    ):
        if column in names:
            return look(at)[names.index(column)]
    event = naive.event(at)
    if column == "known":
        return event["inc"] not in naive.unknown
    if row["type"] == "start" and column in ("disk_epoch", "leader", "voted", "voted_dir"):
        return event["qs"]["ep" if column == "disk_epoch" else column]
    if column == "snapshot_end":
        return event["id"][0]
    return {"ord": at, "replica": 0, "type": event["t"]}.get(column) or (
        getattr(naive, column)(at) if hasattr(naive, column) else row[column]
    )


@given(_events())
@settings(max_examples=250, deadline=None)
def test_each_column_is_what_a_look_at_all_other_events_says(events: list[Event]) -> None:
    trace = Whole.of({"n1": events})
    naive = _Naive(trace)
    folded = _folded(trace)
    told = {at for at, e in naive.all if e["t"] in FOLDED and _is_of_log(e)}
    assert set(folded) == told
    for at, row in folded.items():
        for column, value in row.items():
            assert value == _expected(naive, at, column, row), (column, naive.event(at))


def test_only_the_first_mark_of_a_reign_is_told_apart() -> None:
    marks: list[Event] = [{"t": "hwm", "v": v, "as": "leader"} for v in (3, 4)]
    common = {"node": 1, "dir": "d", "inc": 1, "ep": 1}
    events = [
        {"ts": n, "seq": n + 1, **common, **each}
        for n, each in enumerate([{"t": "elected", "es": 2}, *marks])
    ]
    rows = fold(Whole.of({"n1": events})).rows["hwm"][1]
    began = FOLDED["hwm"].index("began")
    assert [row[began] for row in rows] == [2, None]
