"""Model ``topics``: creating, deleting and describing contended names, judged by answers alone.

Three promises. *One winner*: per name there is one order of all creates, deletes and looks that
explains every answer and agrees with time. *All or nothing*: a look shows the partitions and
configs of the very create whose id it shows. *Ids are never reused*: one id, one name, one create.

A create that failed because the topic existed, and a delete or describe that failed because there
was none, are looks of their own. That a create meets the topic of an earlier create of unknown
outcome, be it its own client's, is legal: that one took effect.

Source: KIP-500 topic ids; C11 of the catalogue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from checkers.invariants.metadata_log import C11
from checkers.limits.budget import (
    MEMORY_LIMIT_BYTES,
    TIME_LIMIT_S,
    Budget,
    BudgetError,
    uncollected,
    watched,
)
from harness.contracts.meaning import Meaning
from harness.contracts.model import ILLEGAL, Action, ByStates, Illegal, State, freeze, show
from harness.contracts.workload import LOCAL
from harness.errors import HistoryFormatError
from harness.history.formats.conventions import Conventions
from harness.history.ops import History, Interval
from harness.registry import models
from harness.verdict import Anomaly, CheckResult, Valid, merge

NAME = "topics"
IDS = "C11"
ALL_OR_NOTHING = "all-or-nothing"
WHOLE_TOPICS = Meaning(
    "all-or-nothing",
    promise=(
        "A topic is seen with the partitions and configs of the very request that created it, or "
        "not at all."
    ),
    why=(
        "Producers that see only some of the partitions send keys to the wrong ones, and a topic "
        "without its configs may delete data that it was to keep."
    ),
    source="KIP-500; CreateTopics; KAFKA-12376",
)
JUDGED = (C11, WHOLE_TOPICS)  # beside the order of what happens to a name
EXISTS = frozenset(("topic-already-exists",))
MISSING = frozenset(("unknown-topic", "unknown-topic-or-partition", "unknown-topic-id"))
FS = frozenset(("create", "delete", "describe"))
LOCAL_LOOK = LOCAL + "describe"


def check_topics(
    history: History,
    by_states: ByStates,
    *,
    conventions: Conventions | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
    by_node: bool = False,
) -> CheckResult:
    """Judge a history of creates, deletes and describes. O(n log n) plus the search per name.

    ``by_states`` judges the order; what is looked at here are the ids. ``by_node``: a refusal is no
    look; local describes show ids, whatever their order.

    Raises:
        HistoryFormatError: Ops that do not pair, or values that topics cannot have.
    """
    budget = Budget.of(time_limit_s, memory_limit_bytes)
    found: list[Anomaly] = []
    try:
        with uncollected():
            ids = _Ids(history.intervals(lambda ops: watched(ops, budget)), budget)
            found += ids.reused()
            found += ids.partial()
    except BudgetError as error:
        reason = f"{error.reason} ran out; all {len(history)} events are open"
        verdict = Valid.INVALID if found else Valid.UNKNOWN
        return CheckResult(NAME, verdict, tuple(found), checked={IDS: 0}, reason=reason)
    order = by_states(
        History(op for op in history if op.f != LOCAL_LOOK),
        Topic(ids.strangers(), refusals_look=not by_node),
        conventions=conventions,
        time_limit_s=budget.left_s(),
        memory_limit_bytes=memory_limit_bytes,
    )
    anomalies = sorted([*found, *order.anomalies], key=lambda anomaly: anomaly.time_ns or 0)
    return replace(
        order,
        checker=NAME,
        valid=merge((order.valid, Valid.INVALID if found else Valid.VALID)),
        anomalies=tuple(anomalies),
        checked={**order.checked, IDS: len(ids.creates), ALL_OR_NOTHING: len(ids.looks)},
    )


# --------------------------------------------------------------------------- the model


@models.register(NAME, judges=JUDGED)
class Topic:
    """A topic name: create (ok with an id), delete, describe; initially there is none.

    The state is None or (id, partitions, configs). The id of a create of unknown outcome is not
    known: such a topic answers to any of the ``strangers``, ids that no create is known to have
    made. That is generous where several such creates asked for the very same.
    """

    fs: frozenset[str] = FS
    initial: Any = None

    def __init__(
        self, strangers: frozenset[str] | None = None, *, refusals_look: bool = True
    ) -> None:
        self._strangers = strangers
        self._refusals_look = refusals_look

    def check_with(
        self,
        by_states: ByStates,
        history: History,
        *,
        conventions: Conventions,
        time_limit_s: float,
        memory_limit_bytes: int | None,
    ) -> CheckResult:
        """Judge a whole history of topics, ids and all."""
        return check_topics(
            history,
            by_states,
            conventions=conventions,
            time_limit_s=time_limit_s,
            memory_limit_bytes=memory_limit_bytes,
        )

    def start(self, value: Any) -> State:
        """Make the state of a topic from what a describe shows; None when there is no topic."""
        return None if value is None else _view(value)

    def action(self, interval: Interval, _: Conventions) -> Action | None:
        """Tell what was asked and seen; see the module for what a failure says."""
        op, outcome = interval.invocation, interval.outcome
        end = interval.completion
        if op.f not in FS:
            raise ValueError(f"a topic has no op {op.f!r}")
        if outcome == "fail" and not self._refusals_look:
            return None
        if outcome == "fail":
            code = _code(end.error if end is not None else None)
            if op.f == "create" and code in EXISTS:
                return Action("exists", observes=True)
            if op.f != "create" and code in MISSING:
                return Action("missing", observes=True)
            return None
        match op.f:
            case "create":
                partitions, configs = _asked(op.value)
                made = _id(end.value) if outcome == "ok" and end is not None else None
                return Action("create", (made, partitions, configs))
            case "delete":
                return Action("delete")
            case _:
                if outcome != "ok" or end is None:
                    return None
                return Action("describe", seen=self.start(end.value), observes=True)

    def step(self, state: State, action: Action) -> State | Illegal:
        """Create needs that there is none, delete that there is one."""
        match action.f:
            case "create":
                return action.value if state is None else ILLEGAL
            case "delete":
                return ILLEGAL if state is None else None
            case "exists":
                return ILLEGAL if state is None else state
            case "missing":
                return state if state is None else ILLEGAL
            case _:
                return state if self._shows(state, action.seen) else ILLEGAL

    def useful(self, unknown: Sequence[Action], _: Sequence[Action]) -> Sequence[bool]:
        """All may be."""
        return [True] * len(unknown)

    def describe(self, action: Action) -> str:
        """As in ``create with 3 partitions``, ``describe -> nothing``."""
        match action.f:
            case "create":
                return f"create {_show(action.value)}"
            case "describe":
                return f"describe -> {_show(action.seen)}"
            case "exists":
                return "an answer that it exists"
            case "missing":
                return "an answer that there is none"
            case _:
                return "delete"

    def obstacle(self, state: State, action: Action) -> str:
        """Say what there was instead."""
        if state is None:
            return "there is no such topic then"
        if action.f == "describe" and action.seen is not None:
            return f"it saw {_show(action.seen)}, there is {_show(state)}"
        return f"there is {_show(state)} then"

    def _shows(self, state: State, seen: State) -> bool:
        """Tell whether a look at the state may show this.

        Partitions and configs of an id that we know are judged apart, as all or nothing.
        """
        if state is None or seen is None:
            return state is seen
        assert isinstance(state, tuple) and isinstance(seen, tuple)  # noqa: S101, PT018
        if state[0] is not None:
            return bool(state[0] == seen[0])
        stranger = self._strangers is None or seen[0] in self._strangers
        return stranger and state[1:] == seen[1:]


# --------------------------------------------------------------------------- ids


@dataclass(frozen=True, slots=True)
class _Sight:
    """A completed op that showed an id under a name."""

    name: str | None
    interval: Interval
    id: str
    view: tuple[Hashable, ...]  # (id, partitions, configs)

    @property
    def index(self) -> int:
        """The index of its completion."""
        end = self.interval.completion
        return self.interval.invocation.index if end is None else end.index

    @property
    def time_ns(self) -> int | None:
        """Tell when it was seen."""
        end = self.interval.completion
        return None if end is None else end.time_ns


@dataclass(slots=True)
class _Ids:
    """Tells who made and who saw each id."""

    intervals: Sequence[Interval]
    budget: Budget | None = None
    creates: list[_Sight] = field(default_factory=list)  # ok, so their ids are known
    looks: list[_Sight] = field(default_factory=list)  # describes that showed a topic

    def __post_init__(self) -> None:
        for interval in watched(self.intervals, self.budget):
            op, end = interval.invocation, interval.completion
            if interval.outcome != "ok" or end is None or op.f == "delete":
                continue
            try:
                if op.f == "create":
                    view: tuple[Hashable, ...] = (_id(end.value), *_asked(op.value))
                    sights = self.creates
                elif end.value is not None:
                    view = _view(end.value)
                    sights = self.looks
                else:
                    continue
            except ValueError as error:
                raise HistoryFormatError(f"op {end.index} ({op.f}): {error}") from error
            if view[0] is not None:
                sights.append(_Sight(op.key, interval, str(view[0]), view))

    def strangers(self) -> frozenset[str]:
        """Ids that were seen and that no known create made."""
        return frozenset(s.id for s in self.looks) - {s.id for s in self.creates}

    def reused(self) -> list[Anomaly]:
        """Ids made twice, or seen under two names."""
        found: list[Anomaly] = []
        made: dict[str, _Sight] = {}
        for sight in sorted(self.creates, key=lambda s: s.index):
            first = made.setdefault(sight.id, sight)
            if first is not sight:
                found.append(
                    _anomaly(
                        IDS,
                        f"topic id {sight.id} was given to two creates: of {first.name!r} "
                        f"(op {first.index}) and of {sight.name!r} (op {sight.index})",
                        [first, sight],
                    )
                )
        owner: dict[str, _Sight] = dict(made)
        told: set[tuple[str, str | None]] = {(s.id, s.name) for s in self.creates}
        for sight in sorted(self.looks, key=lambda s: s.index):
            first = owner.setdefault(sight.id, sight)
            if first.name != sight.name and (sight.id, sight.name) not in told:
                told.add((sight.id, sight.name))
                found.append(
                    _anomaly(
                        IDS,
                        f"topic id {sight.id} belongs to two names: {first.name!r} (op "
                        f"{first.index}) and {sight.name!r} (op {sight.index})",
                        [first, sight],
                    )
                )
        return found

    def partial(self) -> list[Anomaly]:
        """Looks that show an id with other partitions or configs than its create asked for."""
        made = {sight.id: sight for sight in self.creates}
        asked: dict[str | None, set[Hashable]] = defaultdict(set)
        for interval in watched(self.intervals, self.budget):
            op = interval.invocation
            if op.f == "create" and (interval.outcome == "info" or not _has_id(interval)):
                asked[op.key].add(_asked(op.value))
        found: list[Anomaly] = []
        told: set[tuple[Hashable, ...]] = set()
        for sight in self.looks:
            create = made.get(sight.id)
            if create is not None and (create.name != sight.name or create.view == sight.view):
                continue  # another name is judged as a reused id
            if create is None and sight.view[1:] in asked[sight.name]:
                continue
            if sight.view in told:
                continue
            told.add(sight.view)
            wanted = (
                f"its create (op {create.index}) asked for {_show(create.view)}"
                if create is not None
                else "no create of that name with an unknown outcome asked for that"
            )
            found.append(
                _anomaly(
                    ALL_OR_NOTHING,
                    f"topic {sight.name!r} was seen as {_show(sight.view)} (op {sight.index}), but "
                    f"{wanted}",
                    [sight] if create is None else [create, sight],
                )
            )
        return found


def _anomaly(invariant: str, message: str, sights: Sequence[_Sight]) -> Anomaly:
    last = max(sights, key=lambda s: s.index)
    ops = {i for s in sights for i in (s.interval.invocation.index, s.index)}
    return Anomaly(
        invariant,
        message,
        ops=tuple(sorted(ops)),
        details={"id": last.id, "names": sorted({str(s.name) for s in sights})},
        time_ns=last.time_ns,
    )


# --------------------------------------------------------------------------- values


def _asked(value: Any) -> tuple[Hashable, Hashable]:
    """Partitions and configs of a create."""
    if not isinstance(value, dict) or not isinstance(value.get("partitions"), int):
        raise ValueError(f"value {value!r}, want {{'partitions': n, 'configs': {{...}}}}")
    configs = value.get("configs") or {}
    if not isinstance(configs, dict):
        raise ValueError(f"configs are {configs!r}, want a map")
    return value["partitions"], freeze({k: str(v) for k, v in configs.items()})


def _view(value: Any) -> tuple[Hashable, ...]:
    """Read what a describe showed: (id, partitions, configs)."""
    return (_id(value), *_asked(value))


def _id(value: Any) -> str | None:
    topic_id = value.get("id") if isinstance(value, dict) else None
    return None if topic_id is None else str(topic_id)


def _has_id(interval: Interval) -> bool:
    end = interval.completion
    return interval.outcome != "ok" or end is None or _id(end.value) is not None


def _code(error: str | None) -> str:
    """The error's code: its name before any detail, in our spelling."""
    return (error or "").split(":", 1)[0].strip().lower().replace("_", "-")


def _show(view: Hashable) -> str:
    if view is None:
        return "nothing"
    assert isinstance(view, tuple)  # noqa: S101
    topic_id, partitions, configs = view
    who = "a topic" if topic_id is None else f"topic {topic_id}"
    return f"{who} of {partitions} partitions with {show(configs)}"
