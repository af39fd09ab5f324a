"""Raw trace events made safe to judge: required fields, nothing missing, one total order.

An invariant may index an event's required fields without fear, because ``Intake`` lets no event
through that lacks one. Whatever is wrong with a trace becomes a sentence in ``Intake.gaps``: it
makes a verdict UNKNOWN, and never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain, islice, product
from operator import itemgetter, le
from typing import Any, NamedTuple

Event = Mapping[str, Any]

GAPS_KEPT_MAX = 50
TORN = "torn"
AGENT = "agent"
_PLACE, _TIME = itemgetter("inc", "seq"), itemgetter("ts")
ARRIVED: Callable[[Event], int] = itemgetter("rx_ns")  # in that order nodes tell
VOTE_LOST = frozenset({"wipe", "vote"})  # damage to a disk that takes epoch and vote with it

_Kinds = tuple[type, ...]
_INT: _Kinds = (int,)
_BOOL: _Kinds = (bool,)
_STR: _Kinds = (str,)
_LIST: _Kinds = (list, tuple)
_PAIR: _Kinds = (tuple, list)  # an offset and an epoch: looked into, unlike all others
# The order matters to ``Intake.admit_all``.
_COMMON = {"ts": _INT, "seq": _INT, "node": _INT, "dir": _STR, "inc": _INT, "t": _STR}
_EPOCH = {"ep": _INT}
_LOGS = {"cl_ep": _INT, "cl_leo": _INT, "my_ep": _INT, "my_leo": _INT}
_EPOCHS = {"lep": _INT, "pep": _INT}
_MEMBERS = {"replicas": _LIST, "isr": _LIST, "elr": _LIST}
# What the invariants read, by type; fields that may be null or absent are not listed.
REQUIRED: dict[str, dict[str, _Kinds]] = {
    "start": {"leo": _INT, "log_start": _INT, "flushed": _INT, "qs": (dict,), "voters": _LIST},
    "disk": {"what": _STR},  # of the host: damage that no node has done
    "agent": {"missing": _LIST},
    # of a simulated host: what a loss of power would leave of a file, and of the log
    "left": {"file": _STR, "may": _LIST, "torn": _BOOL},
    "durable": {"begin": _INT, "upto": _INT, "from": _INT, "batches": _LIST, "back": _LIST},
    # of a simulated host: a request whose client has hung up, and one that was answered with
    # NOT_CONTROLLER; ms since it came
    "unanswered": {"api": _INT, "ms": _INT},
    "denied": {"api": _INT, "ms": _INT},
    "role": {"to": _STR} | _EPOCH,
    "qs": _EPOCH,
    "votereq": {"pre": _BOOL} | _EPOCH,
    "vote": {"pre": _BOOL, "ok": _BOOL, "cand": _INT, **_LOGS} | _EPOCH,
    "elected": {"es": _INT} | _EPOCH,
    "quorum": {"ok": _BOOL, "heard": _LIST} | _EPOCH,
    "append": {"base": _INT, "last": _INT, "bep": _INT, "h": _INT, "src": _STR} | _EPOCH,
    "flush": {"upto": _INT},
    "trunc": {"to": _INT},
    "hwm": {"v": _INT, "as": _STR} | _EPOCH,
    "fetch_tx": {"off": _INT},
    "fetch_rx": {"res": _STR} | _EPOCH,
    "snap": {"op": _STR, "id": _PAIR} | _EPOCH,
    "lstart": {"v": _INT},
    "voters": {"set": _LIST} | _EPOCH,
    "apply": {"off": _INT, "n": _INT} | _EPOCH,
    "claim": {"applied": _INT} | _EPOCH,
    "renounce": {"applied": _INT} | _EPOCH,
    "rpc_err": {"api": _STR, "code": _INT} | _EPOCH,
    "rpc_ok": {"api": _STR} | _EPOCH,
    "ack": {"off": _INT},
    "reg": {"b_ep": _INT} | _EPOCH,
    "creg": {"inc_id": _STR, "ms": _INT} | _EPOCH,
    "hb": {"b_ep": _INT} | _EPOCH,
    "isr": {"tp": _LIST, "leader": _INT, **_EPOCHS, **_MEMBERS},
    "image": {"off": _INT, "digest": _STR},
    "memory": {"off": _INT, "wrong": _LIST},
    "answered": {"api": _INT, "ver": _INT, "off": _INT, "n": _INT, "req": _STR, "res": _STR}
    | _EPOCH,
    "delta": {"off": _INT, "wrong": _LIST},
    "alter": {"broker": _INT, "b_ep": _INT, "tp": _LIST, "req_lep": _INT, "req_pep": _INT}
    | {"req_isr": _LIST, "err": _INT, "off": _INT}
    | _EPOCH,
    "contact": {"broker": _INT, "b_ep": _INT} | _EPOCH,
    "let_go": {"broker": _INT, "b_ep": _INT, "was": _STR, "active": _LIST, "off": _INT} | _EPOCH,
    "expire": {"broker": _INT, "b_ep": _INT, "silent_ms": _INT, "session_ms": _INT} | _EPOCH,
}
# An event of these types changes what a replica has or has told: without it the rest is guesswork.
_STATE_TYPES = frozenset(
    {"start", "qs", "vote", "append", "flush", "trunc", "hwm", "snap", "lstart", "voters"}
    | {"left", "durable"}
)
# Without these nothing is known of a log: others only leave those undecided who listen to them.
_LOG_TYPES = _STATE_TYPES - {"qs", "vote", "left", "durable"}


class ReplicaId(NamedTuple):
    """A replica as the invariants count them: node id and the directory id of its disk."""

    node: int
    directory: str

    def __str__(self) -> str:
        return f"n{self.node}"


def replica_of(event: Event) -> ReplicaId:
    """Tell who wrote the event."""
    return ReplicaId(event["node"], event["dir"])


def label(event: Event) -> str:
    """Tell how a sentence names an event: node and sequence number."""
    return f"n{event.get('node', '?')} seq {event.get('seq', '?')}"


def merged(events: Mapping[str, Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
    """All events in one order: by time over nodes, by (incarnation, seq) within one. O(n log n).

    Time is ``ts``, one clock for all nodes of a host. Within a node the written order wins even
    where its times do not agree with it: no event is earlier than those that it follows.
    """
    every: list[dict[str, Any]] = []
    times: list[int] = []
    for _, of_node in sorted(events.items()):
        ordered = _in_order(of_node)
        every += ordered
        times += islice(accumulate(_times(ordered), max, initial=0), 1, None)
    return [every[place] for place in sorted(range(len(every)), key=times.__getitem__)]


def _in_order(of_node: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of a node as it wrote them; mostly they are in that order."""
    events = list(of_node)
    try:
        places = list(map(_PLACE, events))
    except KeyError:
        return sorted(events, key=_within_node)
    whole = set(map(type, chain.from_iterable(places))) <= {int}
    if whole and all(map(le, places, islice(places, 1, None))):
        return events
    return sorted(events, key=_within_node)


def _within_node(event: dict[str, Any]) -> tuple[int, int]:
    return _number(event.get("inc")), _number(event.get("seq"))


def _times(events: Sequence[Event]) -> list[int]:
    """Tell when each event happened, as it says; 0 where it does not."""
    try:
        times = list(map(_TIME, events))
    except KeyError:
        times = []
    if set(map(type, times)) == {int}:
        return times
    return [_number(event.get("ts")) for event in events]


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


class Intake:
    """Lets whole events through in the order given, and notes what is missing.

    ``blind`` holds the incarnations of which an event that matters was lost: what they had on
    disk is not known any more, so nothing may be concluded from it. ``untold`` has the types of
    events of which a node said that it cannot tell them.
    """

    def __init__(self) -> None:
        self.gaps: list[str] = []
        self.gaps_total = 0
        self.blind: set[tuple[int, int]] = set()
        self.untold: set[str] = set()
        self._next_seq: dict[tuple[int, int], int] = {}
        self._newest_stream: dict[int, tuple[int, int]] = {}  # by node

    def admit(self, event: Event) -> bool:
        """Tell whether the event is whole and new; what it lacks is noted otherwise."""
        type_ = event.get("t")
        if type_ == TORN:
            return False  # a kill tore this line: what it tells of never became visible
        if type(type_) is not str:
            return self._refuse(event)
        shape = _SHAPES.get(type_, _ANY_SHAPE)
        try:
            is_whole = tuple(map(type, shape.fields(event))) in shape.kinds
        except KeyError:
            is_whole = False
        if not is_whole or (shape.pairs and not shape.has_pairs(event)):
            return self._refuse(event)
        stream, seq = (event["node"], event["inc"]), event["seq"]
        if seq == self._next_seq.get(stream) and stream == self._newest_stream.get(stream[0]):
            self._next_seq[stream] = seq + 1
            return True
        return self._in_sequence(event, stream)

    def admit_all(self, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Admit events one by one, as ``admit`` does; return those that are let through."""
        admitted: list[dict[str, Any]] = []
        shapes, next_seq, newest = _SHAPES, self._next_seq, self._newest_stream
        for event in events:
            kind: Any = event.get("t")
            try:
                shape = shapes.get(kind, _ANY_SHAPE)
                found = shape.fields(event)
            except (KeyError, TypeError):
                found, shape = (), _ANY_SHAPE  # ``admit`` says what it lacks
            if tuple(map(type, found)) in shape.kinds and not shape.pairs and kind != TORN:
                seq, node = found[1], found[2]
                stream = node, found[4]
                if seq == next_seq.get(stream) and stream == newest.get(node):
                    next_seq[stream] = seq + 1
                    admitted.append(event)
                    continue
            if self.admit(event):
                admitted.append(event)
        return admitted

    def note_untold(self, events: Iterable[Event]) -> None:
        """Note what the agents of nodes said that they cannot tell: an ``agent`` event each."""
        for event in events:
            missing = [each for each in event["missing"] if isinstance(each, str)]
            if missing:
                self._note(
                    f"n{event['node']} does not tell of {', '.join(missing)}: a hook of its agent"
                    f" did not take hold ({label(event)})"
                )
                self.untold.update(missing)
            if not _LOG_TYPES.isdisjoint(missing):
                self.blind.add((event["node"], event["inc"]))

    def _refuse(self, event: Event) -> bool:
        """Note what an event lacks."""
        lack = _lacking(event, _COMMON)
        if lack is not None:
            self._note(f"event {label(event)} lacks field {lack}")
            return False
        stream = event["node"], event["inc"]
        if not self._in_sequence(event, stream):
            return False
        lack = _lacking(event, REQUIRED.get(event["t"], {}))
        self._note(f"event {label(event)} lacks field {lack}")
        if event["t"] in _STATE_TYPES:
            self.blind.add(stream)
        return False

    def _in_sequence(self, event: Event, stream: tuple[int, int]) -> bool:
        node, incarnation = stream
        seq, wanted = event["seq"], self._next_seq.get(stream, 1)
        newest = self._newest_stream.get(node, stream)
        if seq < wanted or incarnation < newest[1]:
            return False  # seen before: a trace copied twice
        if seq > wanted:
            self._note(f"events n{node} seq {wanted} to {seq - 1} are missing")
            self.blind.add(stream)
        self._next_seq[stream] = seq + 1
        self._newest_stream[node] = stream
        return True

    def _note(self, sentence: str) -> None:
        self.gaps_total += 1
        if len(self.gaps) < GAPS_KEPT_MAX:
            self.gaps.append(sentence)


class Whole(NamedTuple):
    """The whole events of a finished trace in their order; ``intake`` knows what it lacks."""

    events: list[dict[str, Any]]
    intake: Intake

    @classmethod
    def of(cls, events: Mapping[str, Iterable[dict[str, Any]]]) -> Whole:
        """Put the events of all nodes in order."""
        intake = Intake()
        admitted = intake.admit_all(merged(events))
        intake.note_untold([event for event in admitted if event["t"] == AGENT])
        return cls(admitted, intake)


def _lacking(event: Event, required: Mapping[str, _Kinds]) -> str | None:
    """The first required field that is absent or of another type; True is no number."""
    for field, kinds in required.items():
        value = event.get(field)
        if type(value) not in kinds or (kinds is _PAIR and not is_pair(value)):
            return field
    return None


def is_pair(value: object) -> bool:
    """Tell whether it is an offset and an epoch."""
    if not isinstance(value, list | tuple):
        return False
    return [type(number) for number in value] == [int, int]


class _Shape:
    """The fields that an event must have, with their types: one look instead of one per field."""

    def __init__(self, required: Mapping[str, _Kinds]) -> None:
        self.fields = itemgetter(*required)
        self.kinds = frozenset(product(*required.values()))  # that these may have, together
        self.pairs = [field for field, kinds in required.items() if kinds is _PAIR]

    def has_pairs(self, event: Event) -> bool:
        """Tell whether the fields that are to be pairs are."""
        return all(is_pair(event[field]) for field in self.pairs)


_ANY_SHAPE = _Shape(_COMMON)
_SHAPES = {type_: _Shape(_COMMON | required) for type_, required in REQUIRED.items()}


def snapshots_of(event: Event) -> dict[int, int]:
    """Epochs of the snapshots that a ``start`` names, by end offset; not the bootstrap one."""
    found = event.get("snaps") or ()
    return {id_[0]: id_[1] for id_ in found if is_pair(id_) and id_[0] > 0}
