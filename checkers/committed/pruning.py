"""Settles by the committed log the ops whose outcome no client knows: happened, or never.

A client that got no answer leaves an op that may take effect at any later time, and every such op
doubles what a search has to try. The log that a run left behind knows better: an op whose record
is committed happened, and not later than the acknowledgement of anything behind it in the log; an
op whose record is in no log never happened. Both only narrow what is allowed, so a history that
no order explains is never made valid by it.

Source: etcd's robustness tests, which do the same with etcd's write-ahead log.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from checkers.committed.effects import append_of_op, appends_of_record, write_of_op, write_of_record
from harness.contracts.checker import RunData
from harness.contracts.evidence import LogBatch
from harness.history.ops import NEMESIS, History, Op

NEVER = "never-committed"  # the error of an op that, by the log, did not happen
Effect = tuple[str, str, Hashable]


@dataclass(frozen=True, slots=True)
class Readback:
    """Effects by where they lie: ``agreed`` in the logs of a majority, ``held`` in any log.

    Where any log has something else at the same offset, nothing is agreed; nor is an element whose
    first record may be in no log. ``whole`` says that every log was read from its beginning, each
    voter's among them, so that what none of them holds never was.
    """

    agreed: Mapping[Effect, int]
    held: frozenset[Effect]
    whole: bool


def pruned(run: RunData) -> History:
    """The history of a run with what its logs know; as it is, when they cannot tell.

    The logs of a simulation that was stopped are not final: they tell nothing.
    """
    if run.history.stopped is not None or not run.voters or not run.logs:
        return run.history
    return prune(run.history, run.logs, run.voters)


def prune(
    history: History, logs: Mapping[str, Sequence[LogBatch]], voters: Sequence[str]
) -> History:
    """The history with each op of unknown outcome decided, where the logs decide it. O(n log n).

    One that happened ends as ok, just before the first op that was acknowledged from behind it in
    the log, or at the end; one that never did ends as fail. An effect that was asked for or logged
    more than once decides nothing, nor does a log that does not begin at 0.
    """
    known = readback(logs, voters)
    ops = list(history)
    begun, ended = _paired(ops)
    asked = Counter(effect for effect in begun.values() if effect is not None)
    acknowledged = _acknowledged(ops, begun, ended, asked, known)
    moved: dict[int, list[Op]] = defaultdict(list)  # before which place
    gone: set[int] = set()  # places whose op is left out
    for place, effect in begun.items():
        end = ended.get(place)
        if effect is None or asked[effect] > 1 or (end is not None and ops[end].type != "info"):
            continue
        if effect in known.agreed and end is not None:
            until = _first_behind(acknowledged, known.agreed[effect], len(ops))
            if until > place:
                gone.add(end)
                time_ns = ops[min(until, len(ops) - 1)].time_ns
                moved[until].append(ops[end].with_(type="ok", time_ns=time_ns, error=None))
        elif known.whole and effect not in known.held:
            gone.add(place if end is None else end)
            if end is not None:
                moved[end].append(ops[end].with_(type="fail", error=NEVER))
    return History(_woven(ops, moved, gone)) if gone else history


def readback(logs: Mapping[str, Sequence[LogBatch]], voters: Sequence[str]) -> Readback:
    """Tell what the logs hold of the clients' writes and appends. O(records).

    A record of a list holds all its elements, old and new. So an element took effect with the first
    record that has it; where the records before that are in no log, nobody knows.
    """
    holders: Counter[tuple[int, int, int]] = Counter()
    batches: dict[tuple[int, int, int], LogBatch] = {}
    for voter in voters:
        for batch in logs.get(voter, ()):
            holders[batch.base, batch.epoch, batch.crc] += 1
    for log in logs.values():
        batches.update(((batch.base, batch.epoch, batch.crc), batch) for batch in log)
    at_base = Counter(base for base, _, _ in batches)
    agreed: dict[Effect, int] = {}
    held: set[Effect] = set()
    twice: set[Effect] = set()
    lists: set[str] = set()  # whose records are all there, from the first or from an earlier one on
    from_first, end = True, 0
    for name, batch in sorted(batches.items()):
        if batch.base > end:
            from_first = False
            lists.clear()
        end = max(end, batch.last + 1)
        settled = 2 * holders[name] > len(voters) and at_base[name[0]] == 1
        for offset, effects in _effects(batch):
            for effect in effects:
                kind, key, _ = effect
                if effect not in held:
                    held.add(effect)
                    if settled and (kind == "write" or from_first or key in lists):
                        agreed[effect] = offset
                elif kind == "write":
                    twice.add(effect)
            lists.update(key for kind, key, _ in effects if kind == "append")
    for effect in twice:
        agreed.pop(effect, None)
    whole = all(voter in logs for voter in voters)
    whole = whole and all(log and log[0].base == 0 for log in logs.values())
    return Readback(agreed, frozenset(held), whole and bool(voters))


def _effects(batch: LogBatch) -> Iterator[tuple[int, list[Effect]]]:
    """Offset and effects of each record of a batch."""
    for record in () if batch.control else batch.records:
        offset = record.get("offset")
        write = write_of_record(record)
        effects: list[Effect] = [] if write is None else [("write", *write)]
        key, elements = appends_of_record(record) or ("", ())
        effects += [("append", key, element) for element in elements]
        yield offset if isinstance(offset, int) else batch.base, effects


def effect_of(op: Op) -> Effect | None:
    """Tell which effect an op has on the log; None: it is no write and no append."""
    write, append = write_of_op(op), append_of_op(op)
    if write is not None:
        return ("write", *write)
    return None if append is None else ("append", *append)


def _paired(ops: list[Op]) -> tuple[dict[int, Effect | None], dict[int, int]]:
    """The effect of each invocation by its place, and the place where it ended, if it did."""
    begun: dict[int, Effect | None] = {}
    ended: dict[int, int] = {}
    open_: dict[int | str, int] = {}
    for place, op in enumerate(ops):
        if op.process == NEMESIS:
            continue
        if op.type == "invoke":
            begun[place] = effect_of(op)
            open_[op.process] = place
        elif op.process in open_:
            ended[open_.pop(op.process)] = place
    return begun, ended


def _acknowledged(
    ops: list[Op],
    begun: Mapping[int, Effect | None],
    ended: Mapping[int, int],
    asked: Counter[Effect],
    known: Readback,
) -> list[tuple[int, int]]:
    """(offset, place from which on all below it was committed), both falling."""
    found = [
        (known.agreed[effect], ended[place])
        for place, effect in begun.items()
        if effect is not None
        and effect in known.agreed
        and asked[effect] == 1
        and place in ended
        and ops[ended[place]].type == "ok"
    ]
    first = len(ops)
    out: list[tuple[int, int]] = []
    for offset, place in sorted(found, reverse=True):
        if place < first:
            first = place
            out.append((offset, place))
    return out


def _first_behind(acknowledged: list[tuple[int, int]], offset: int, end: int) -> int:
    """The first place where something above an offset was acknowledged; ``end`` when nothing was.

    Bisection: of those above the offset, the last of the list is the first in time.
    """
    low, high = 0, len(acknowledged)
    while low < high:
        middle = (low + high) // 2
        if acknowledged[middle][0] > offset:
            low = middle + 1
        else:
            high = middle
    return acknowledged[low - 1][1] if low else end


def _woven(ops: list[Op], moved: Mapping[int, list[Op]], gone: set[int]) -> Iterator[Op]:
    for place, op in enumerate(ops):
        yield from moved.get(place, ())
        if place not in gone:
            yield op
    yield from moved.get(len(ops), ())
