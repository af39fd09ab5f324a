"""The shrinker: from a failing run to the least that still fails in the same way.

A pure search: what is tried is data (``Candidate``), whether it fails is asked of a ``Runner``.
Passes of delta debugging over faults, nodes, ops, settings and times are repeated until none of
them finds anything smaller, or the budget is spent. First the run is cut to its violation, then
what did nothing goes, then whole families of faults, then sets by what was learned of each fault
(``harness.shrink.beliefs``), then single ones, and in the end pairs, which may go only together.
Nothing is tried twice. Of candidates that are tried side by side the first in order that fails is
taken, so that the outcome does not depend on how many there are at a time.

Source: Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (TSE 2002), ddmin;
that of ``harness.shrink.beliefs``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import TypeVar

from harness.contracts.nemesis import Fault
from harness.registry import systems
from harness.shrink import moves
from harness.shrink.beliefs import Beliefs, families
from harness.shrink.moves import Candidate, Struck
from harness.spec import RunSpec

T = TypeVar("T")
SECONDS = 100.0  # what a search may take when nobody says
TRIES = 2_000
LUCKS = 3  # draws of luck that fewer faults are tried with, in each of the rounds
LUCKS_AT_LAST = 12  # when nothing else makes it any smaller
AHEAD = 8  # tries that are planned at once; what fails before changes the plan
CRASH = "crash"  # the invariant that a node breaks that prints signs of a crash
PAIRED_MAX = 14  # faults of which pairs are left out


@dataclass(frozen=True, slots=True)
class Failure:
    """The invariant that a candidate broke, and how far it had got."""

    found: tuple[tuple[str, float | None], ...]  # invariant, seconds into the main phase: by time
    ops: int  # issued in the main phase
    idle: frozenset[int] = frozenset()  # ids of faults that did nothing before it was broken
    struck: Mapping[int, Struck] = field(default_factory=dict)  # those with a trigger, by id
    crashes: frozenset[str] = frozenset()  # what nodes printed when they crashed, without numbers

    @property
    def invariants(self) -> frozenset[str]:
        """The failure's signature."""
        return frozenset(name for name, _ in self.found)

    def at_s(self, invariant: str) -> float | None:
        """Tell when the invariant was first seen broken; None when that is not known."""
        return next((at_s for name, at_s in self.found if name == invariant), None)


class HaltedError(Exception):
    """A try was given up, because whoever watches the search wants what there is."""


# The results of candidates, in their order, as they are asked for; None: it does not fail.
# Raises HaltedError in place of a result that is not waited for.
Runner = Callable[[Sequence[Candidate]], Iterator[Failure | None]]


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a search."""

    seconds: float = SECONDS
    tries: int = TRIES


@dataclass(frozen=True, slots=True)
class Step:
    """The progress of a search, for whoever watches it."""

    doing: str
    tries: int
    best: Candidate
    failure: Failure
    better: bool  # whether this is a new best


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The result of a search."""

    candidate: Candidate
    failure: Failure
    original: Failure
    invariant: str
    tries: int
    spared: int  # candidates that had been tried before
    exhausted: bool  # the budget ended it
    halted: bool  # whoever watched it ended it


def shrink(
    start: Candidate,
    run: Runner,
    *,
    budget: Budget,
    now_s: Callable[[], float],
    invariant: str | None = None,
    tell: Callable[[Step], None] = lambda _: None,
    halt: Callable[[], bool] = lambda: False,
) -> Shrunk | Failure | None:
    """The smallest candidate found that breaks the same invariant as ``start``.

    Of a crash what was printed is the same, too, but for numbers and what is in brackets.

    Args:
        start: What failed.
        run: Says of candidates whether they fail.
        budget: When to be content with what was found.
        now_s: The time, in seconds.
        invariant: The invariant that must stay broken; the first that ``start`` breaks when None.
        tell: Told of every try.
        halt: Asked before every try whether the best so far is good enough.

    Raises:
        HaltedError: The search was halted before ``start`` was seen to fail.

    Returns:
        None when ``start`` does not fail; its Failure when that is of other invariants.
    """
    began_s = now_s()
    tried = start if invariant is None else _aimed(start, invariant)
    (original,) = run([tried])
    if original is None or not original.found:
        return None
    invariant = invariant or original.found[0][0]
    if invariant not in original.invariants:
        return original
    search = _Search(run, _Aim(invariant, original), budget, now_s, began_s, tell, halt)
    aimed = _aimed(tried, invariant)
    if tried != aimed and (again := search.once(aimed, original)) is not None:
        tried, original = aimed, again
    cut = search.spends(tried, original)
    return Shrunk(
        search.held,
        search.failure,
        original,
        invariant,
        search.tries,
        search.spared,
        exhausted=cut and not search.halted,
        halted=search.halted,
    )


def _aimed(candidate: Candidate, invariant: str) -> Candidate:
    """Make a run end as soon as this invariant is broken, and for no other one."""
    return candidate.with_spec(stop_at=(invariant,))


class _SpentError(Exception):
    """The budget is spent, or the search was halted."""


@dataclass(frozen=True, slots=True)
class _Aim:
    """Tells whether a smaller candidate breaks the same invariant in the same way."""

    invariant: str
    original: Failure

    def is_hit_by(self, failure: Failure | None) -> bool:
        """Tell whether a candidate has; of crashes there are many."""
        if failure is None or self.invariant not in failure.invariants:
            return False
        wanted = self.original.crashes if self.invariant == CRASH else frozenset()
        return not wanted or bool(wanted & failure.crashes)


class _Search:
    """The best so far, and what was tried."""

    best: Candidate
    failure: Failure
    held: Candidate  # the last best that fails in full
    _held: Failure

    def __init__(
        self,
        run: Runner,
        aim: _Aim,
        budget: Budget,
        now_s: Callable[[], float],
        began_s: float,
        tell: Callable[[Step], None],
        halt: Callable[[], bool],
    ) -> None:
        self.tries = 1
        self.spared = 0
        self.halted = False
        self._run = run
        self._aim = aim
        self._invariant = aim.invariant
        self._budget = budget
        self._now_s = now_s
        self._end_s = began_s + budget.seconds
        self._most_s = 0.0  # no run may become longer than the first
        self._tell = tell
        self._halt = halt
        self._doing = ""
        self._seen: dict[bytes, Failure | None] = {}

    def spends(self, start: Candidate, failure: Failure) -> bool:
        """Search from a candidate that fails; whether it was cut short.

        As long as they do, tries are brief, and now and then the best is tried in full: ``held`` is
        the last that failed so. When a best does not, no try is brief any more.
        """
        self.best, self.failure = self.held, self._held = start, failure
        self._most_s = start.spec.time_limit_s
        self._seen[start.fingerprint()] = failure
        try:
            self._begin_briefly()
            self.to_the_end()
            if self.best == replace(start, brief=True):
                self.best = start  # nothing may fail briefly
                self.to_the_end()
            while not self._holds():
                self.to_the_end()
        except HaltedError:
            self.halted = True
        except _SpentError:
            pass
        else:
            return False
        self._holds()
        return True

    def _begin_briefly(self) -> None:
        """Have tries without the peace at the end, where the first of them fails all the same."""
        self._doing = "brief"
        brief, at_s = replace(self.best, brief=True), self.failure.at_s(self._invariant)
        if at_s is not None and at_s < brief.spec.time_limit_s:
            self.best = brief  # it ends there, whatever would come after: that is not tried
        else:
            self._any([brief])

    def _holds(self) -> bool:
        """Tell whether the best fails in full, too; where it does not, it is the last that did."""
        whole = replace(self.best, brief=False)
        if whole != self.held:
            failure = self.once(whole, self.failure) if self.best.brief else self.failure
            if failure is None:
                self.best, self.failure = self.held, self._held
                return False
            self.held, self._held = whole, failure
        return True

    def once(self, candidate: Candidate, before: Failure) -> Failure | None:
        """Tell what became of a candidate that should fail; tried, budget or not."""
        (failure,) = self._run([candidate])
        self.tries += 1
        self._tell(Step("check", self.tries, candidate, failure or before, better=False))
        return failure if self._aim.is_hit_by(failure) else None

    def to_the_end(self) -> None:
        """Pass after pass until a whole round changes nothing; raises _SpentError."""
        passes = (
            self._idle,
            self._tape,
            self._last_faults,
            self._faults,
            self._gaps,  # early too: of a long run little else is left
            self._no_ops,
            self._nodes,  # early, for every later try is the quicker for it
            self._clients,
            self._ops,
            self._settings,
            self._times,
            self._moments,
            self._params,
            self._at_last,
        )
        before: Candidate | None = None
        while before != self.best:
            before = self.best
            self._length()
            for one in passes:
                was = self.best
                one()
                if self.best != was:
                    self._length()
                if one == self._faults:
                    self._holds()
            self._holds()

    # ---------------------------------------------------------------- passes

    def _length(self) -> None:
        self._doing = "length"
        while self._any(moves.shorter_runs(self.best, self.failure.at_s(self._invariant))):
            pass

    def _idle(self) -> None:
        self._doing = "faults"
        busy = tuple(f for f in self.best.faults if f.id not in self.failure.idle)
        self._any([replace(self.best, faults=busy)])

    def _tape(self) -> None:
        self._doing = "luck"
        while self._any(moves.plainer_tapes(self.best)):
            pass

    def _last_faults(self) -> None:
        self._doing = "last faults"
        self._any(moves.last_faults(self.best))

    def _faults(self) -> None:
        self._fewer_faults()
        while self._redrawn(LUCKS) or self._pair():
            self._length()
            self._fewer_faults()

    def _redrawn(self, lucks: int) -> bool:
        """Try few of the faults alone, or all but few, with one draw of luck after the other."""
        self._doing = "luck"
        return any(
            self._any(moves.windows(self.best, luck))
            or self._any(moves.redrawn(self.best, luck, self._most_s))
            for luck in range(lucks)
        )

    def _at_last(self) -> None:
        self._redrawn(LUCKS_AT_LAST)

    def _fewer_faults(self) -> None:
        self._doing = "faults"
        base = self.best

        def build(kept: tuple[Fault, ...]) -> Candidate:
            return replace(base, faults=kept)

        self._minimise(base.faults, build, families(moves.families(base.faults)))

    def _pair(self) -> bool:
        """Leave out two faults that go only together; those next to each other first."""
        self._doing = "pairs"
        faults = self.best.faults
        if len(faults) > PAIRED_MAX:
            return False
        pairs = sorted(combinations(range(len(faults)), 2), key=lambda pair: pair[1] - pair[0])
        return self._any([replace(self.best, faults=_without(faults, pair)) for pair in pairs])

    def _gaps(self) -> None:
        self._doing = "times"
        self._any(moves.closer(self.best))

    def _no_ops(self) -> None:
        self._doing = "ops"
        self._any([self.best.with_spec(only_ops=())])

    def _ops(self) -> None:
        self._doing = "ops"
        base, issued = self.best, self.failure.ops
        before = base.spec.only_ops
        items = tuple(range(issued)) if before is None else before[:issued]

        def build(kept: tuple[int, ...]) -> Candidate:
            return base.with_spec(only_ops=kept)

        if not self._minimise(items, build) and before != items:
            self._any([build(items)])

    def _settings(self) -> None:
        self._doing = "settings"
        base = self.best

        every = base.spec.settings
        fixed = {name: every[name] for name in every if _is_under_test(base.spec, name)}

        def build(kept: tuple[tuple[str, str], ...]) -> Candidate:
            return base.with_spec(settings={**fixed, **dict(kept)})

        self._minimise(tuple(each for each in every.items() if each[0] not in fixed), build)

    def _nodes(self) -> None:
        self._doing = "nodes"
        self._any(moves.fewer_observers(self.best))
        self._any(moves.fewer_voters(self.best))

    def _clients(self) -> None:
        self._doing = "clients"
        self._any(moves.fewer_clients(self.best))

    def _times(self) -> None:
        self._doing = "times"
        for at in range(len(self.best.faults)):
            for move in (moves.earlier, moves.briefer):
                while self._any(move(self.best, at)):
                    pass

    def _moments(self) -> None:
        """Have faults go by time where that fails, too; else wait for a plainer moment."""
        self._doing = "moments"
        for number in [fault.id for fault in self.best.faults if fault.trigger is not None]:
            at = next(n for n, fault in enumerate(self.best.faults) if fault.id == number)
            struck = self.failure.struck.get(number)
            if struck is not None and self._any([moves.timed(self.best, at, struck)]):
                continue
            while self._any(moves.sooner(self.best, at)):
                pass

    def _params(self) -> None:
        self._doing = "params"
        for at in range(len(self.best.faults)):
            self._any(moves.plainer(self.best, at))
            for name in moves.lists(self.best, at):
                items = tuple(self.best.faults[at].params[name])
                self._minimise(items, partial(moves.with_items, self.best, at, name))

    # ---------------------------------------------------------------- trying

    def _minimise(
        self,
        items: tuple[T, ...],
        build: Callable[[tuple[T, ...]], Candidate],
        groups: Sequence[frozenset[int]] = (),
    ) -> bool:
        """Delta debugging: leave out as many items as can be; later ones matter more."""
        if not items:
            return False
        if self._first([build(())]) is not None:
            return True
        before, beliefs = len(items), Beliefs(len(items), groups)
        while plan := beliefs.ahead(AHEAD):
            self._leave_out(items, build, beliefs, plan)
        while len(beliefs.kept) > 1:  # what was needed then may not be now
            singles = [frozenset([place]) for place in beliefs.kept]
            if not self._leave_out(items, build, beliefs, singles):
                break
        return len(beliefs.kept) < before

    def _leave_out(
        self,
        items: tuple[T, ...],
        build: Callable[[tuple[T, ...]], Candidate],
        beliefs: Beliefs,
        plan: Sequence[frozenset[int]],
    ) -> bool:
        """Take the first of the plan without which it fails; beliefs hear of all before."""
        kept = [[n for n in beliefs.kept if n not in out] for out in plan]
        taken = self._first([build(tuple(items[n] for n in places)) for places in kept])
        for out in plan[:taken]:
            beliefs.missed(out)
        if taken is not None:
            beliefs.gone(plan[taken])
        return taken is not None

    def _any(self, candidates: Sequence[Candidate]) -> bool:
        return self._first(candidates) is not None

    def _first(self, candidates: Sequence[Candidate]) -> int | None:
        """Make the first candidate that fails the best; its place, or None."""
        keys = [candidate.fingerprint() for candidate in candidates]
        fresh = {k: c for k, c in zip(keys, candidates, strict=True) if k not in self._seen}
        results = self._run(list(fresh.values()))
        for place, (key, candidate) in enumerate(zip(keys, candidates, strict=True)):
            if key in self._seen:
                self.spared += 1
            else:
                self._may_go_on()
                self._seen[key] = next(results)
                self.tries += 1
            failure = self._seen[key]
            better = self._aim.is_hit_by(failure)
            if better and failure is not None:
                self.best, self.failure = candidate, failure
            self._tell(Step(self._doing, self.tries, self.best, self.failure, better))
            if better:
                return place
        return None

    def _may_go_on(self) -> None:
        """Raise _SpentError when there must not be another try."""
        self.halted = self.halted or self._halt()
        spent = self.tries >= self._budget.tries or self._now_s() >= self._end_s
        if self.halted or spent:
            raise _SpentError


def _without(items: tuple[T, ...], places: tuple[int, ...]) -> tuple[T, ...]:
    return tuple(item for place, item in enumerate(items) if place not in places)


def _is_under_test(spec: RunSpec, setting: str) -> bool:
    """Tell whether a setting says what is under test: a release, and how it is put together."""
    release = systems.traits(spec.system).release
    return bool(release) and setting.startswith(release.rpartition(".")[0])
