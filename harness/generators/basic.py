"""Generators that do not care about threads; ``generator.py`` says what generators are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, NamedTuple

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
    """Nothing to do now; asks again at ``until_ns``, or when anything has happened."""

    until_ns: int | None = None


PENDING = Pending()


@dataclass(slots=True)
class Context:
    """What a generator may know: the time, and which threads have nothing to do."""

    time_ns: int
    free: tuple[int, ...]  # the thread that is free for the longest time first
    threads: tuple[int, ...]  # all threads of this generator, ascending
    concurrency: int

    def thread_of(self, event: Op) -> int:
        """The thread that the op's process runs, or ran, on."""
        return event.process % self.concurrency if isinstance(event.process, int) else -1

    def only(self, threads: Sequence[int]) -> Context:
        """The same, seen by a generator that has only these threads."""
        wanted = frozenset(threads)
        free = tuple(t for t in self.free if t in wanted)
        return Context(self.time_ns, free, tuple(threads), self.concurrency)


class Generator:
    """The base of all generators: ignores events, has nothing random."""

    __slots__ = ()

    def op(self, ctx: Context) -> Step:
        """What to do next, and the generator after that."""
        raise NotImplementedError

    def update(self, ctx: Context, event: Op) -> Generator:  # noqa: ARG002 - subclasses use them
        """The generator once ``event`` (an invocation or a completion) has happened."""
        return self

    def seeded(self, seed: int) -> Generator:  # noqa: ARG002
        """The same with all its random parts seeded."""
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
            return Limit(Const(source), 1)
        case _ if callable(source):
            return Fn(source)
        case list() | tuple():
            return Seq(tuple(coerce(item) for item in source))
        case _:
            raise HarnessError(
                f"{source!r} is no generator: want a Generator, Draft, function or sequence"
            )


# --------------------------------------------------------------------------- sources


def fn(make: Make) -> Generator:
    """Ops from ``make(rng, n)``: n counts 0, 1, 2... and rng depends on the seed and n alone.

    ``make`` must be a pure function of its arguments (it may be called twice for one n) and ends
    the generator by returning None.
    """
    return Fn(make)


def repeat(source: Draft) -> Generator:
    """The same op forever."""
    return Const(source)


@dataclass(frozen=True, slots=True)
class Const(Generator):
    """The same op forever."""

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
    """At most one op."""
    return Limit(coerce(source), 1)


def limit(source: Source, ops: int) -> Generator:
    """At most ``ops`` ops."""
    return Limit(coerce(source), ops)


@dataclass(frozen=True, slots=True)
class Limit(Generator):
    """At most ``remaining`` ops."""

    inner: Generator
    remaining: int

    def op(self, ctx: Context) -> Step:
        """The inner op while any remain."""
        if self.remaining <= 0:
            return None, self
        draft, inner = self.inner.op(ctx)
        return draft, Limit(inner, self.remaining - isinstance(draft, Draft))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on."""
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else Limit(inner, self.remaining)

    def seeded(self, seed: int) -> Generator:
        """Seed the inner generator."""
        return Limit(self.inner.seeded(seed), self.remaining)


def only(source: Source, numbers: Sequence[int]) -> Generator:
    """The ops with these numbers, counted from 0; the others are left out, their moments stay.

    After the last it waits for whoever limits its time: the faults of a run go on.
    """
    return Only(coerce(source), frozenset(numbers), max(numbers, default=-1))


@dataclass(frozen=True, slots=True)
class Only(Generator):
    """Some of the ops."""

    inner: Generator
    numbers: frozenset[int]
    last: int
    n: int = 0

    def op(self, ctx: Context) -> Step:
        """The next of the ops that are wanted."""
        inner, n = self.inner, self.n
        while n <= self.last:
            draft, inner = inner.op(ctx)
            if not isinstance(draft, Draft):
                return draft, replace(self, inner=inner, n=n)
            n += 1
            if n - 1 in self.numbers:
                return draft, replace(self, inner=inner, n=n)
        return PENDING, replace(self, inner=inner, n=n)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on."""
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else replace(self, inner=inner)

    def seeded(self, seed: int) -> Generator:
        """Seed the inner generator."""
        return replace(self, inner=self.inner.seeded(seed))


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
    return TimeLimit(coerce(source), int(limit_s * NS_PER_S))


@dataclass(frozen=True, slots=True)
class TimeLimit(Generator):
    """Ends at a time."""

    inner: Generator
    limit_ns: int
    end_ns: int | None = None

    def op(self, ctx: Context) -> Step:
        """The inner op until the end."""
        end_ns = ctx.time_ns + self.limit_ns if self.end_ns is None else self.end_ns
        if ctx.time_ns >= end_ns:
            return None, TimeLimit(self.inner, self.limit_ns, end_ns)
        draft, inner = self.inner.op(ctx)
        if isinstance(draft, Pending):
            draft = sooner(draft, Pending(end_ns))
        return draft, TimeLimit(inner, self.limit_ns, end_ns)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on."""
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else TimeLimit(inner, self.limit_ns, self.end_ns)

    def seeded(self, seed: int) -> Generator:
        """Seed the inner generator."""
        return TimeLimit(self.inner.seeded(seed), self.limit_ns, self.end_ns)


def unlimited(generator: Generator) -> Generator:
    """What a limit of time has held back; any other generator as it is."""
    return generator.inner if isinstance(generator, TimeLimit) else generator


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
    return Seq(tuple(Synchronize(coerce(source)) for source in sources))


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
    return Synchronize(coerce(source))


@dataclass(frozen=True, slots=True)
class Synchronize(Generator):
    """Waits for all threads, then becomes its inner generator."""

    inner: Generator

    def op(self, ctx: Context) -> Step:
        """The inner op once all threads are free."""
        return self.inner.op(ctx) if len(ctx.free) == len(ctx.threads) else (PENDING, self)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on."""
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else Synchronize(inner)

    def seeded(self, seed: int) -> Generator:
        """Seed the inner generator."""
        return Synchronize(self.inner.seeded(seed))


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
    return Map(change, coerce(source))


@dataclass(frozen=True, slots=True)
class Map(Generator):
    """Changed ops."""

    change: Callable[[Draft], Draft]
    inner: Generator

    def op(self, ctx: Context) -> Step:
        """The inner op, changed; it stays on its thread."""
        draft, inner = self.inner.op(ctx)
        if isinstance(draft, Draft):
            draft = self.change(draft)._replace(thread=draft.thread)
        return draft, Map(self.change, inner)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on."""
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else Map(self.change, inner)

    def seeded(self, seed: int) -> Generator:
        """Seed the inner generator."""
        return Map(self.change, self.inner.seeded(seed))


def filter_ops(keep: Callable[[Draft], bool], source: Source) -> Generator:
    """Only the ops that ``keep`` (a pure function) accepts."""
    return Filter(keep, coerce(source))


@dataclass(frozen=True, slots=True)
class Filter(Generator):
    """Chosen ops."""

    keep: Callable[[Draft], bool]
    inner: Generator

    def op(self, ctx: Context) -> Step:
        """The next inner op that is accepted."""
        inner = self.inner
        for _ in range(FILTER_TRIES_MAX):
            draft, inner = inner.op(ctx)
            if not isinstance(draft, Draft) or self.keep(draft):
                return draft, Filter(self.keep, inner)
        raise HarnessError(
            f"filter_ops: {FILTER_TRIES_MAX} ops in a row were rejected by {self.keep!r}; "
            "generate what is wanted instead"
        )

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on."""
        inner = self.inner.update(ctx, event)
        return self if inner is self.inner else Filter(self.keep, inner)

    def seeded(self, seed: int) -> Generator:
        """Seed the inner generator."""
        return Filter(self.keep, self.inner.seeded(seed))


def sooner(one: Pending, other: Pending) -> Pending:
    """The one that asks again first."""
    if one.until_ns is None or other.until_ns is None:
        return other if one.until_ns is None else one
    return one if one.until_ns <= other.until_ns else other
