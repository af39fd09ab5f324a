"""Generators that do not care about threads; ``generator.py`` says what generators are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from harness import seeds
from harness.clock import NS_PER_S
from harness.errors import HarnessError
from harness.history.ops import Op

FILTER_TRIES_MAX = 10_000  # ops a filter may reject in a row before it is called a mistake


class Draft(NamedTuple):
    """An op as a generator proposes it; ``thread`` is filled in by the generator."""

    f: str
    value: Any = None
    key: str | None = None
    thread: int = -1


@dataclass(frozen=True, slots=True)
class Pending:
    """A pause: there is nothing to do until ``until_ns``, or until anything has happened."""

    until_ns: int | None = None


PENDING = Pending()


@dataclass(slots=True)
class Context:
    """The knowledge of a generator: the time, and the threads that have nothing to do."""

    time_ns: int
    free: tuple[int, ...]  # the thread that is free for the longest time first
    threads: tuple[int, ...]  # all threads of this generator, ascending
    concurrency: int

    def thread_of(self, event: Op) -> int:
        """The thread that the op's process runs, or ran, on."""
        return event.process % self.concurrency if isinstance(event.process, int) else -1

    def only(self, threads: Sequence[int]) -> Context:
        """Give the context as a generator sees it that has only these threads."""
        wanted = frozenset(threads)
        free = tuple(t for t in self.free if t in wanted)
        return Context(self.time_ns, free, tuple(threads), self.concurrency)


class Generator:
    """The base of all generators: ignores events, has nothing random."""

    __slots__ = ()

    def op(self, ctx: Context) -> Step:
        """Tell what to do next, and the generator after that."""
        raise NotImplementedError

    def update(self, ctx: Context, event: Op) -> Generator:  # noqa: ARG002 - subclasses use them
        """The generator once ``event`` (an invocation or a completion) has happened."""
        return self

    def seeded(self, seed: int) -> Generator:  # noqa: ARG002
        """Give this generator with all its random parts seeded."""
        return self


Step = tuple[Draft | Pending | None, Generator]
Make = Callable[[Random, int], Draft | None]
Source = Generator | Draft | Make | Sequence[Any]


def coerce(source: Source) -> Generator:
    """Make a generator: a draft happens once, a function forever, a sequence one by one."""
    match source:
        case Generator():
            return source
        case Draft():
            return Wrapper(Limit(1), Const(source))
        case _ if callable(source):
            return Fn(source)
        case list() | tuple():
            return Seq(tuple(coerce(item) for item in source))
        case _:
            raise HarnessError(
                f"{source!r} is no generator: want a Generator, Draft, function or sequence"
            )


# --------------------------------------------------------------------------- around another


class Rule(Protocol):
    """An immutable value that says what becomes of the ops of another generator."""

    def op(self, inner: Generator, ctx: Context) -> Ruled:
        """Tell what to do next, and what follows: the inner generator, under which rule."""
        ...


# Without a rule the inner generator goes on by itself.
Ruled = tuple[Draft | Pending | None, Generator, Rule | None]


@dataclass(frozen=True, slots=True)
class Wrapper(Generator):
    """A generator under a rule; events and seeds are the inner one's."""

    rule: Rule
    inner: Generator

    def op(self, ctx: Context) -> Step:
        """Tell what the rule makes of the inner generator."""
        draft, inner, rule = self.rule.op(self.inner, ctx)
        return draft, inner if rule is None else Wrapper(rule, inner)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on."""
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else Wrapper(self.rule, inner)

    def seeded(self, seed: int) -> Generator:
        """Seed the inner generator."""
        return Wrapper(self.rule, self.inner.seeded(seed))


# --------------------------------------------------------------------------- sources


def fn(make: Make) -> Generator:
    """Ops from ``make(rng, n)``: n counts 0, 1, 2... and rng depends on the seed and n alone.

    ``make`` must be a pure function of its arguments (it may be called twice for one n) and ends
    the generator by returning None.
    """
    return Fn(make)


def repeat(source: Draft) -> Generator:
    """Give the same op forever."""
    return Const(source)


@dataclass(frozen=True, slots=True)
class Const(Generator):
    """Give the same op forever."""

    draft: Draft

    def op(self, ctx: Context) -> Step:
        """The op, on the thread that is free for the longest time."""
        if not ctx.free:
            return PENDING, self
        draft = self.draft
        return Draft(draft.f, draft.value, draft.key, ctx.free[0]), self


@dataclass(frozen=True, slots=True)
class Fn(Generator):
    """Ops from a function; see ``fn``."""

    make: Make
    seed: int = 0
    n: int = 0

    def op(self, ctx: Context) -> Step:
        """The n-th op of the function."""
        if not ctx.free:
            return PENDING, self
        draft = self.make(seeds.rng(self.seed, self.n), self.n)
        if draft is None:
            return None, self
        return Draft(draft.f, draft.value, draft.key, ctx.free[0]), Fn(
            self.make, self.seed, self.n + 1
        )

    def seeded(self, seed: int) -> Generator:
        """The function's stream, begun from ``seed``."""
        return Fn(self.make, seed, 0)


# --------------------------------------------------------------------------- how many, how long


def once(source: Source) -> Generator:
    """Make a generator of at most one op."""
    return Wrapper(Limit(1), coerce(source))


def limit(source: Source, ops: int) -> Generator:
    """Make a generator of at most ``ops`` ops."""
    return Wrapper(Limit(ops), coerce(source))


@dataclass(frozen=True, slots=True)
class Limit:
    """A rule that lets at most ``remaining`` ops through."""

    remaining: int

    def op(self, inner: Generator, ctx: Context) -> Ruled:
        """The inner op while any remain."""
        if self.remaining <= 0:
            return None, inner, self
        draft, inner = inner.op(ctx)
        return draft, inner, Limit(self.remaining - isinstance(draft, Draft))


def only(source: Source, numbers: Sequence[int]) -> Generator:
    """The ops with these numbers, counted from 0; the others are left out, their moments stay.

    After the last it waits for whoever limits its time: the faults of a run go on.
    """
    return Wrapper(Only(frozenset(numbers), max(numbers, default=-1)), coerce(source))


@dataclass(frozen=True, slots=True)
class Only:
    """A rule that lets only the ops of these numbers through."""

    numbers: frozenset[int]
    last: int
    n: int = 0

    def op(self, inner: Generator, ctx: Context) -> Ruled:
        """The next of the ops that are wanted."""
        n = self.n
        while n <= self.last:
            draft, inner = inner.op(ctx)
            if not isinstance(draft, Draft):
                return draft, inner, replace(self, n=n)
            n += 1
            if n - 1 in self.numbers:
                return draft, inner, replace(self, n=n)
        return PENDING, inner, replace(self, n=n)


def cycle(source: Source, times: int | None = None) -> Generator:
    """Begin again whenever it ends, ``times`` times in all; each round has a seed of its own."""
    inner = coerce(source)
    return Cycle(inner, inner, times)


@dataclass(frozen=True, slots=True)
class Cycle(Generator):
    """Rounds of a generator."""

    template: Generator
    inner: Generator
    times: int | None
    seed: int = 0
    round: int = 0
    fresh: bool = True  # nothing was drawn in this round: if it ends now, so will all others

    def op(self, ctx: Context) -> Step:
        """The round's next op, or the next round's first."""
        if self.times is not None and self.round >= self.times:
            return None, self
        draft, inner = self.inner.op(ctx)
        if draft is not None:
            fresh = self.fresh and not isinstance(draft, Draft)
            return draft, replace(self, inner=inner, fresh=fresh)
        if self.fresh:
            return None, self
        number = self.round + 1
        again = self.template.seeded(seeds.split(self.seed, number))
        return replace(self, inner=again, round=number, fresh=True).op(ctx)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on."""
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else replace(self, inner=inner)

    def seeded(self, seed: int) -> Generator:
        """Seed this round; later ones split from the same seed."""
        first = self.template.seeded(seeds.split(seed, 0))
        return replace(self, inner=first, seed=seed, round=0, fresh=True)


def time_limit(source: Source, limit_s: float) -> Generator:
    """No ops later than ``limit_s`` seconds after it was first asked."""
    return Wrapper(TimeLimit(int(limit_s * NS_PER_S)), coerce(source))


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Ends at a time."""

    limit_ns: int
    end_ns: int | None = None

    def op(self, inner: Generator, ctx: Context) -> Ruled:
        """The inner op until the end."""
        end_ns = ctx.time_ns + self.limit_ns if self.end_ns is None else self.end_ns
        rule = self if self.end_ns is not None else TimeLimit(self.limit_ns, end_ns)
        if ctx.time_ns >= end_ns:
            return None, inner, rule
        draft, inner = inner.op(ctx)
        if isinstance(draft, Pending):
            draft = sooner(draft, Pending(end_ns))
        return draft, inner, rule


def unlimited(generator: Generator) -> Generator:
    """Tell what a limit of time has held back; any other generator as it is."""
    if isinstance(generator, Wrapper) and isinstance(generator.rule, TimeLimit):
        return generator.inner
    return generator


def stagger(source: Source, rate_hz: float) -> Generator:
    """Ops at random moments, ``rate_hz`` a second on average.

    The moments form a schedule that stands still for nothing: after a stall (all threads busy)
    the ops whose moments have passed come at once, so that the average rate is kept.
    """
    if rate_hz <= 0:
        raise HarnessError(f"stagger: rate is {rate_hz!r} ops/s, want more than 0")
    return Stagger(coerce(source), NS_PER_S / rate_hz)


@dataclass(frozen=True, slots=True)
class Stagger(Generator):
    """Ops on an absolute schedule with gaps drawn evenly from 0 to twice the mean."""

    inner: Generator
    interval_ns: float
    seed: int = 0
    n: int = 0
    next_ns: int | None = None

    def op(self, ctx: Context) -> Step:
        """The inner op once its moment has come."""
        next_ns = ctx.time_ns if self.next_ns is None else self.next_ns
        if ctx.time_ns < next_ns:
            return Pending(next_ns), self
        draft, inner = self.inner.op(ctx)
        n = self.n
        if isinstance(draft, Draft):
            next_ns += int(2 * self.interval_ns * seeds.unit(self.seed, n))
            n += 1
        return draft, Stagger(inner, self.interval_ns, self.seed, n, next_ns)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on."""
        inner = self.inner.update(ctx, event)
        if inner is self.inner:
            return self
        return Stagger(inner, self.interval_ns, self.seed, self.n, self.next_ns)

    def seeded(self, seed: int) -> Generator:
        """Seed the moments and the inner generator."""
        inner = self.inner.seeded(seeds.split(seed, 0))
        return Stagger(inner, self.interval_ns, seeds.split(seed, 1), 0, self.next_ns)


# --------------------------------------------------------------------------- one after another


def seq(*sources: Source) -> Generator:
    """One generator after another; the next may begin while ops of the last are still open."""
    return Seq(tuple(coerce(source) for source in sources))


def phases(*sources: Source) -> Generator:
    """One generator after another; each begins once all threads are free."""
    return Seq(tuple(synchronize(source) for source in sources))


@dataclass(frozen=True, slots=True)
class Seq(Generator):
    """The first generator until it ends, then the rest."""

    parts: tuple[Generator, ...]

    def op(self, ctx: Context) -> Step:
        """The op of the first part that has not ended."""
        parts = self.parts
        while parts:
            draft, first = parts[0].op(ctx)
            if draft is not None:
                return draft, Seq((first, *parts[1:]))
            parts = parts[1:]
        return None, Seq(())

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on to the part that is at work."""
        if not self.parts:
            return self
        first = self.parts[0].update(ctx, event)
        return self if first is self.parts[0] else Seq((first, *self.parts[1:]))

    def seeded(self, seed: int) -> Generator:
        """Seed each part by its position."""
        return Seq(tuple(p.seeded(seeds.split(seed, i)) for i, p in enumerate(self.parts)))


def synchronize(source: Source) -> Generator:
    """Begins once all threads are free."""
    return Wrapper(Synchronize(), coerce(source))


@dataclass(frozen=True, slots=True)
class Synchronize:
    """Waits for all threads, then is no more."""

    def op(self, inner: Generator, ctx: Context) -> Ruled:
        """The inner op once all threads are free."""
        if len(ctx.free) != len(ctx.threads):
            return PENDING, inner, self
        draft, inner = inner.op(ctx)
        return draft, inner, None


def until_ok(source: Source) -> Generator:
    """Ends once one of its ops has completed as ok."""
    return UntilOk(coerce(source))


@dataclass(frozen=True, slots=True)
class UntilOk(Generator):
    """Ops until one succeeds."""

    inner: Generator
    open: frozenset[int] = frozenset()  # threads that do an op of ours
    done: bool = False

    def op(self, ctx: Context) -> Step:
        """The inner op until one has succeeded."""
        if self.done:
            return None, self
        draft, inner = self.inner.op(ctx)
        threads = self.open | {draft.thread} if isinstance(draft, Draft) else self.open
        return draft, UntilOk(inner, threads)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Note the completion when it is one of ours, and pass it on."""
        inner = self.inner.update(ctx, event)
        thread = ctx.thread_of(event)
        if event.type == "invoke" or thread not in self.open:
            return self if inner is self.inner else UntilOk(inner, self.open, self.done)
        return UntilOk(inner, self.open - {thread}, self.done or event.type == "ok")

    def seeded(self, seed: int) -> Generator:
        """Seed the inner generator."""
        return UntilOk(self.inner.seeded(seed), self.open, self.done)


ENDED: Final = Seq(())  # no op at all


# --------------------------------------------------------------------------- one out of many


def mix(*sources: Source, weights: Sequence[float] | None = None) -> Generator:
    """Each op from one of the sources, drawn by weight (equal ones by default)."""
    shares = tuple(weights) if weights is not None else (1.0,) * len(sources)
    if len(shares) != len(sources):
        raise HarnessError(f"mix: {len(sources)} sources but {len(shares)} weights")
    if any(share <= 0 for share in shares):
        raise HarnessError(f"mix: weights are {shares!r}, want all more than 0")
    return Mix(tuple(coerce(source) for source in sources), shares)


@dataclass(frozen=True, slots=True)
class Mix(Generator):
    """Op number n comes from the part that the seed and n choose among those left."""

    parts: tuple[Generator, ...]
    weights: tuple[float, ...]
    seed: int = 0
    n: int = 0

    def op(self, ctx: Context) -> Step:
        """An op of the chosen part; parts that have ended are left out."""
        parts, weights = self.parts, self.weights
        while parts:
            at = self._choose(weights)
            draft, part = parts[at].op(ctx)
            if draft is None:
                parts, weights = (
                    parts[:at] + parts[at + 1 :],
                    weights[:at] + weights[at + 1 :],
                )
                continue
            # A pending part keeps its turn: passing it on would let timing choose the ops.
            n = self.n + isinstance(draft, Draft)
            return draft, Mix((*parts[:at], part, *parts[at + 1 :]), weights, self.seed, n)
        return None, Mix((), (), self.seed, self.n)

    def _choose(self, weights: tuple[float, ...]) -> int:
        point = seeds.unit(self.seed, self.n) * sum(weights)
        for at, weight in enumerate(weights):
            point -= weight
            if point < 0:
                return at
        return len(weights) - 1

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on to all parts."""
        parts = tuple(part.update(ctx, event) for part in self.parts)
        if all(new is old for new, old in zip(parts, self.parts, strict=True)):
            return self
        return Mix(parts, self.weights, self.seed, self.n)

    def seeded(self, seed: int) -> Generator:
        """Seed the choice, and each part by its position."""
        parts = tuple(p.seeded(seeds.split(seed, i)) for i, p in enumerate(self.parts))
        return Mix(parts, self.weights, seeds.split(seed, "mix"), 0)


# --------------------------------------------------------------------------- op by op


def map_ops(change: Callable[[Draft], Draft], source: Source) -> Generator:
    """Each op as ``change`` (a pure function) turns it."""
    return Wrapper(Map(change), coerce(source))


@dataclass(frozen=True, slots=True)
class Map:
    """Changed ops."""

    change: Callable[[Draft], Draft]

    def op(self, inner: Generator, ctx: Context) -> Ruled:
        """The inner op, changed; it stays on its thread."""
        draft, inner = inner.op(ctx)
        if isinstance(draft, Draft):
            draft = self.change(draft)._replace(thread=draft.thread)
        return draft, inner, self


def filter_ops(keep: Callable[[Draft], bool], source: Source) -> Generator:
    """Keep only the ops that ``keep`` (a pure function) accepts."""
    return Wrapper(Filter(keep), coerce(source))


@dataclass(frozen=True, slots=True)
class Filter:
    """Chosen ops."""

    keep: Callable[[Draft], bool]

    def op(self, inner: Generator, ctx: Context) -> Ruled:
        """The next inner op that is accepted."""
        for _ in range(FILTER_TRIES_MAX):
            draft, inner = inner.op(ctx)
            if not isinstance(draft, Draft) or self.keep(draft):
                return draft, inner, self
        raise HarnessError(
            f"filter_ops: {FILTER_TRIES_MAX} ops in a row were rejected by {self.keep!r}; "
            "generate what is wanted instead"
        )


def sooner(one: Pending, other: Pending) -> Pending:
    """The one that asks again first."""
    if one.until_ns is None or other.until_ns is None:
        return other if one.until_ns is None else one
    return one if one.until_ns <= other.until_ns else other
