"""Generators that share out the threads; ``generator.py`` says what generators are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from harness import seeds
from harness.errors import HarnessError
from harness.generators.basic import (
    PENDING,
    Context,
    Draft,
    Generator,
    Pending,
    Source,
    Step,
    coerce,
    sooner,
)
from harness.history.ops import Op

EMPTY_KEYS_MAX = 1_000  # keys in a row without any op before it is called a mistake


def on_threads(wanted: Callable[[int], bool], source: Source) -> Generator:
    """Give ops only to the threads that ``wanted`` accepts."""
    return OnThreads(wanted, coerce(source))


@dataclass(frozen=True, slots=True)
class OnThreads(Generator):
    """An inner generator that has some of the threads."""

    wanted: Callable[[int], bool]
    inner: Generator

    def op(self, ctx: Context) -> Step:
        """The inner op, on one of its threads."""
        draft, inner = self.inner.op(self._own(ctx))
        return draft, OnThreads(self.wanted, inner)

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass on the events of its threads."""
        if not self.wanted(ctx.thread_of(event)):
            return self
        inner = self.inner.update(self._own(ctx), event)
        return self if inner is self.inner else OnThreads(self.wanted, inner)

    def seeded(self, seed: int) -> Generator:
        """Seed the inner generator."""
        return OnThreads(self.wanted, self.inner.seeded(seed))

    def _own(self, ctx: Context) -> Context:
        return ctx.only([thread for thread in ctx.threads if self.wanted(thread)])


def reserve(*shares: tuple[int, Source], rest: Source) -> Generator:
    """The first threads for the first share, the next for the second, all others for ``rest``."""
    return Split(
        shares=tuple(count for count, _ in shares),
        parts=(*(coerce(source) for _, source in shares), coerce(rest)),
    )


@dataclass(frozen=True, slots=True)
class Split(Generator):
    """Ranges of threads, each with its own generator; the last has what is left."""

    shares: tuple[int, ...]
    parts: tuple[Generator, ...]

    def op(self, ctx: Context) -> Step:
        """An op of the part whose thread is free for the longest time."""
        layout = _layout(ctx.threads, self.shares)
        parts, wait, ended = list(self.parts), PENDING, 0
        for at in layout.in_turn(ctx):
            draft, parts[at] = parts[at].op(layout.view(ctx, at))
            if isinstance(draft, Draft):
                return draft, Split(self.shares, tuple(parts))
            if draft is None:
                ended += 1
            else:
                wait = sooner(wait, draft)
        return (None if ended == len(parts) else wait), Split(self.shares, tuple(parts))

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on to the part it belongs to."""
        layout = _layout(ctx.threads, self.shares)
        at = layout.owner.get(ctx.thread_of(event))
        if at is None:
            return self
        part = self.parts[at].update(layout.view(ctx, at), event)
        if part is self.parts[at]:
            return self
        return Split(self.shares, (*self.parts[:at], part, *self.parts[at + 1 :]))

    def seeded(self, seed: int) -> Generator:
        """Seed each part by its position."""
        parts = tuple(p.seeded(seeds.split(seed, i)) for i, p in enumerate(self.parts))
        return Split(self.shares, parts)


def each_thread(source: Source) -> Generator:
    """A copy of the generator for each thread, seeded by the thread's number."""
    return EachThread(coerce(source))


@dataclass(frozen=True, slots=True)
class EachThread(Generator):
    """One generator per thread, all from one template."""

    template: Generator
    copies: tuple[tuple[int, Generator], ...] = ()  # (thread, its copy), made when first needed
    seed: int = 0

    def op(self, ctx: Context) -> Step:
        """An op of the thread that is free for the longest time and has one."""
        copies, wait, ended = dict(self.copies), PENDING, 0
        order = dict.fromkeys((*ctx.free, *ctx.threads))
        for thread in order:
            copy = copies.get(thread) or self._copy(thread)
            draft, copies[thread] = copy.op(ctx.only((thread,)))
            if isinstance(draft, Draft):
                return draft, replace(self, copies=tuple(copies.items()))
            if draft is None:
                ended += 1
            else:
                wait = sooner(wait, draft)
        after = replace(self, copies=tuple(copies.items()))
        return (None if ended == len(ctx.threads) else wait), after

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on to its thread's copy."""
        thread = ctx.thread_of(event)
        copies = dict(self.copies)
        if thread not in copies:
            return self
        copy = copies[thread].update(ctx.only((thread,)), event)
        if copy is copies[thread]:
            return self
        return replace(self, copies=tuple({**copies, thread: copy}.items()))

    def seeded(self, seed: int) -> Generator:
        """Later copies split from this seed."""
        return replace(self, copies=(), seed=seed)

    def _copy(self, thread: int) -> Generator:
        return self.template.seeded(seeds.split(self.seed, "thread", thread))


def independent(
    make: Callable[[str], Source],
    *,
    threads_per_key: int,
    keys: int | None = None,
    name: Callable[[int], str] = lambda n: f"k{n}",
) -> Generator:
    """Keys 0, 1, 2... (``keys`` of them, or forever), each worked on by a group of threads.

    A group stays with a key until ``make(key)``'s generator ends, then takes the next key. Ops get
    the key's name as ``Op.key``. With fewer threads than ``threads_per_key`` there is one group;
    threads left over join the last group. A key's ops depend on the seed and the key alone.
    """
    if threads_per_key < 1:
        raise HarnessError(f"independent: threads_per_key is {threads_per_key}, want 1 or more")
    return Independent(make, threads_per_key, keys, name)


@dataclass(frozen=True, slots=True)
class Independent(Generator):
    """Groups of threads that each work on a key."""

    make: Callable[[str], Source]
    threads_per_key: int
    keys: int | None
    name: Callable[[int], str]
    groups: tuple[tuple[int, Generator] | None, ...] = ()  # (key number, its generator)
    next_key: int = 0
    seed: int = 0

    def op(self, ctx: Context) -> Step:
        """An op of the group whose thread is free for the longest time."""
        layout = self._groups_of(ctx)
        count = len(layout.members)
        state = self if self.groups else replace(self, groups=(None,) * count)
        wait, ended = PENDING, 0
        for at in layout.in_turn(ctx):
            draft, state = _group_op(state, at, layout.view(ctx, at))
            if isinstance(draft, Draft):
                return draft, state
            if draft is None:
                ended += 1
            else:
                wait = sooner(wait, draft)
        return (None if ended == count else wait), state

    def update(self, ctx: Context, event: Op) -> Generator:
        """Pass the event on to the group that works on its key."""
        layout = self._groups_of(ctx)
        at = layout.owner.get(ctx.thread_of(event))
        if at is None or at >= len(self.groups):
            return self
        group = self.groups[at]
        if group is None or self.name(group[0]) != event.key:
            return self
        inner = group[1].update(layout.view(ctx, at), event)
        return self if inner is group[1] else self.with_group(at, (group[0], inner))

    def seeded(self, seed: int) -> Generator:
        """Keys split from this seed."""
        return replace(self, groups=(), next_key=0, seed=seed)

    def of_key(self, number: int) -> Generator:
        """The generator of a key."""
        return coerce(self.make(self.name(number))).seeded(seeds.split(self.seed, "key", number))

    def with_group(
        self, at: int, group: tuple[int, Generator] | None, next_key: int | None = None
    ) -> Independent:
        """Give this generator with another key or generator in one group."""
        return Independent(
            self.make,
            self.threads_per_key,
            self.keys,
            self.name,
            (*self.groups[:at], group, *self.groups[at + 1 :]),
            self.next_key if next_key is None else next_key,
            self.seed,
        )

    def _groups_of(self, ctx: Context) -> _Layout:
        count = max(1, len(ctx.threads) // self.threads_per_key)
        return _layout(ctx.threads, (self.threads_per_key,) * (count - 1))


def _group_op(
    state: Independent, at: int, ctx: Context
) -> tuple[Draft | Pending | None, Independent]:
    """The next op of one group; takes keys until one has an op."""
    group, next_key = state.groups[at], state.next_key
    for _ in range(EMPTY_KEYS_MAX):
        if group is None:
            if state.keys is not None and next_key >= state.keys:
                return None, state.with_group(at, None, next_key)
            group = (next_key, state.of_key(next_key))
            next_key += 1
        number, inner = group
        draft, inner = inner.op(ctx)
        if draft is not None:
            if isinstance(draft, Draft):
                draft = draft._replace(key=state.name(number))
            return draft, state.with_group(at, (number, inner), next_key)
        group = None
    raise HarnessError(f"independent: {EMPTY_KEYS_MAX} keys in a row had no op at all")


class _Layout:
    """The share of threads of each part."""

    def __init__(self, threads: tuple[int, ...], shares: tuple[int, ...]) -> None:
        owners = [at for at, count in enumerate(shares) for _ in range(count)]
        last = len(shares)
        self.owner = {t: owners[i] if i < len(owners) else last for i, t in enumerate(threads)}
        self.members = [
            tuple(t for t in threads if self.owner[t] == at) for at in range(len(shares) + 1)
        ]

    def view(self, ctx: Context, at: int) -> Context:
        """Tell what one part sees: its own threads."""
        owner = self.owner
        free = tuple([t for t in ctx.free if owner[t] == at])
        return Context(ctx.time_ns, free, self.members[at], ctx.concurrency)

    def in_turn(self, ctx: Context) -> Iterator[int]:
        """All parts: first those with a free thread, the longest free first, then the others."""
        seen = dict.fromkeys([self.owner[thread] for thread in ctx.free])
        yield from seen
        yield from (at for at in range(len(self.members)) if at not in seen)


@lru_cache(maxsize=64)
def _layout(threads: tuple[int, ...], shares: tuple[int, ...]) -> _Layout:
    """The first threads for the first share, the next for the second; the last gets the rest."""
    return _Layout(threads, shares)
