"""What a list-append history means, by trying all orders; and random histories to try it on."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from checkers.transactions.cycles import check_transactions
from harness.history.ops import History, Interval, Op
from harness.verdict import Valid

Mops = list[list[Any]]


def explained(history: History, *, realtime: bool) -> bool:
    """Whether some order of the transactions explains every read; time counts if ``realtime``."""
    intervals = [i for i in history.intervals() if i.outcome != "fail"]
    return any(_orders(intervals, realtime=realtime, done=0, state={}))


def _orders(
    intervals: list[Interval], *, realtime: bool, done: int, state: dict[Any, tuple[Any, ...]]
) -> Iterator[bool]:
    """Yield True for each order of those not done that explains what they read."""
    rest = [n for n in range(len(intervals)) if not done >> n & 1]
    if all(intervals[n].outcome != "ok" for n in rest):
        yield True  # the others never happened
        return
    for n in rest:
        one = intervals[n]
        earlier = (
            intervals[m].outcome == "ok"
            and intervals[m].completion is not None
            and intervals[m].completion.index < one.invocation.index  # type: ignore[union-attr]
            for m in rest
            if m != n
        )
        if realtime and any(earlier):
            continue
        after = _apply(one, state)
        if after is not None:
            yield from _orders(intervals, realtime=realtime, done=done | 1 << n, state=after)


def _apply(
    interval: Interval, state: dict[Any, tuple[Any, ...]]
) -> dict[Any, tuple[Any, ...]] | None:
    """The state behind a transaction, or None when it cannot have read what it did."""
    end = interval.completion
    ok = end is not None and end.type == "ok"
    state = dict(state)
    for f, key, value in end.value if ok and end is not None else interval.invocation.value:
        if f == "append":
            state[key] = (*state.get(key, ()), value)
        elif ok and tuple(value or ()) != state.get(key, ()):
            return None
    return state


def random_history(rng: Random, txns: int = 5) -> History:  # noqa: PLR0912
    """Some transactions over few keys, many at a time; what they read is often, not always, right.

    Failed ones and those of unknown outcome are among them, and the latter often take effect.
    """
    keys = ("x", "y")[: rng.randint(1, 2)]
    lies = rng.choice((0.0, 0.2, 0.5, 0.8))
    state: dict[str, list[int]] = {key: [] for key in keys}
    past: list[dict[str, list[int]]] = [{key: [] for key in keys}]
    pending: list[tuple[int, Mops, Mops | None, str]] = []
    later: list[Mops] = []
    ops: list[Op] = []
    element = begun = 0
    count = rng.randint(2, txns)

    def note(process: int, type_: Any, value: Mops) -> None:
        ops.append(Op(len(ops), len(ops), process, type_, "txn", value))

    while begun < count or pending:
        if later and rng.random() < 0.2:  # of unknown outcome, and takes effect only now
            for f, key, value in later.pop():
                if f == "append":
                    state[key].append(value)
        waiting = [at for at, each in enumerate(pending) if each[2] is None]
        what = rng.random()
        if begun < count and (not pending or what < 0.4):
            mops: Mops = []
            for _ in range(rng.choice((1, 1, 2, 3))):
                element += 1
                append = rng.random() < 0.5
                mops.append(
                    ["append" if append else "r", rng.choice(keys), element if append else None]
                )
            end = rng.choices(("ok", "info", "fail"), (8, 2, 1))[0]
            process = (
                begun
                if rng.random() < 0.5
                else min({0, 1, 2} - {p for p, *_ in pending}, default=begun + 1_000)
            )
            pending.append((process, mops, None, end))
            note(process, "invoke", mops)
            begun += 1
        elif waiting and what < 0.7:
            at = rng.choice(waiting)
            process, mops, _, end = pending[at]
            seen = state if rng.random() >= lies else rng.choice(past)
            here = {key: list(seen[key]) for key in keys}
            answer: Mops = []
            for f, key, value in mops:
                if f == "append":
                    here[key].append(value)
                    answer.append([f, key, value])
                else:
                    answer.append([f, key, list(here[key])])
                    if here[key] and rng.random() < lies / 2:
                        answer[-1][2] = rng.sample(here[key], rng.randint(0, len(here[key])))
            late = end == "info" and rng.random() < 0.5
            if late:
                later.append(mops)
            takes_effect = not late and (end == "ok" or rng.random() < 0.5)
            if takes_effect and (end != "fail" or rng.random() < lies):
                for f, key, value in mops:
                    if f == "append" and rng.random() >= lies / 3:
                        state[key].append(value)
            past.append({key: list(state[key]) for key in keys})
            pending[at] = (process, mops, answer, end)
        else:
            at = rng.randrange(len(pending))
            process, mops, filled, end = pending[at]
            if filled is None:
                if waiting and what < 0.9:
                    continue
                filled, end = mops, "info"
            pending.pop(at)
            if end == "info" and rng.random() < 0.5:
                continue  # open for ever
            note(process, end, filled if end == "ok" else mops)
    return History(_own_processes(ops))


def _own_processes(ops: list[Op]) -> list[Op]:
    """A process whose op did not end, or ended as info, never acts again: others take its place."""
    alias: dict[int | str, int] = {}
    busy: set[int | str] = set()
    fresh = 100
    out: list[Op] = []
    for op in ops:
        if op.type == "invoke":
            if op.process in busy:
                alias[op.process] = fresh = fresh + 1
            busy.add(op.process)
        out.append(op.with_(process=alias.get(op.process, op.process)))
        if op.type in ("ok", "fail"):
            busy.discard(op.process)
    return out


def compare(history: History) -> bool:
    """Whether the history is strictly serializable; AssertionError where we say otherwise."""
    truth = True
    for model, realtime in (("serializable", False), ("strict-serializable", True)):
        truth = explained(history, realtime=realtime)
        result = check_transactions(history, consistency_model=model)
        said = result.valid is not Valid.INVALID
        if said is not truth:
            lines = "\n".join(str(op.to_json()) for op in history)
            raise AssertionError(f"{model} is {truth}, we say {result}\n{lines}")
    return truth
