"""Generators: what comes, in which order, and that timing does not change it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from harness import seeds
from harness.clock import NS_PER_S
from harness.errors import HarnessError
from harness.generators.generator import (
    Context,
    Draft,
    Generator,
    Pending,
    coerce,
    cycle,
    each_thread,
    filter_ops,
    fn,
    independent,
    limit,
    map_ops,
    mix,
    on_threads,
    once,
    only,
    phases,
    repeat,
    reserve,
    seq,
    stagger,
    time_limit,
    until_ok,
)
from harness.history.ops import Op, OpType

MS = 1_000_000


def draw(rng: Random, n: int) -> Draft:
    return Draft("draw", [n, rng.randrange(1_000_000)])


def drive(
    generator: Generator,
    *,
    threads: int = 4,
    timing: int = 0,
    ops_max: int = 200,
    outcome: OpType = "ok",
    latency_ns: int = 10 * MS,
    until_ns: int = 100 * NS_PER_S,
) -> list[tuple[int, Draft]]:
    """Run a generator against made-up clients; ``timing`` seeds how long their ops take."""
    rng = Random(timing)
    everyone = tuple(range(threads))
    free, open_, now, index = list(everyone), dict[int, tuple[int, Op]](), 0, 0
    done: list[tuple[int, Draft]] = []

    def context() -> Context:
        return Context(now, tuple(free), everyone, threads)

    while len(done) < ops_max and now < until_ns:
        step, generator = generator.op(context())
        if isinstance(step, Draft):
            assert step.thread in free
            free.remove(step.thread)
            op = Op(index, now, step.thread, "invoke", step.f, step.value, step.key)
            index += 1
            generator = generator.update(context(), op)
            open_[step.thread] = (now + rng.randrange(1, 2 * latency_ns), op)
            done.append((now, step))
            continue
        if step is None and not open_:
            break
        ends = [(at, thread) for thread, (at, _) in open_.items()]
        wake = step.until_ns if isinstance(step, Pending) else None
        if wake is not None and (not ends or wake < min(ends)[0]):
            now = wake
            continue
        if not ends:
            pytest.fail("the generator waits for nothing")
        now, thread = min(ends)
        _, op = open_.pop(thread)
        free.append(thread)
        generator = generator.update(context(), op.with_(type=outcome))
    return done


def values(done: list[tuple[int, Draft]]) -> list[object]:
    return [draft.value for _, draft in done]


def ctx(*free: int, threads: int = 4, time_ns: int = 0) -> Context:
    return Context(time_ns, free, tuple(range(threads)), threads)


def test_draft_happens_once_function_forever_sequence_in_order() -> None:
    assert values(drive(coerce(Draft("a", 1)))) == [1]
    assert len(drive(fn(draw), ops_max=50)) == 50
    assert values(drive(coerce([Draft("a", 1), limit(repeat(Draft("a", 2)), 2)]))) == [1, 2, 2]


def test_what_is_no_generator_is_refused() -> None:
    with pytest.raises(HarnessError, match="7 is no generator"):
        coerce(7)  # type: ignore[arg-type]


def test_function_ends_with_none() -> None:
    gen = fn(lambda _, n: Draft("a", n) if n < 3 else None)
    assert values(drive(gen)) == [0, 1, 2]


def test_op_goes_to_the_thread_free_for_the_longest_time() -> None:
    step, _ = repeat(Draft("a")).op(ctx(3, 1, 0))
    assert isinstance(step, Draft)
    assert step.thread == 3


def test_no_free_thread_is_pending() -> None:
    for gen in (repeat(Draft("a")), fn(draw), mix(fn(draw)), stagger(fn(draw), 10)):
        step, after = gen.op(ctx())
        assert isinstance(step, Pending)
        assert values(drive(after, ops_max=1)) == values(drive(gen, ops_max=1))


def test_generators_are_values() -> None:
    gen = mix(fn(draw), limit(fn(draw), 3)).seeded(5)
    first, second = gen.op(ctx(0)), gen.op(ctx(0))
    assert first == second


def test_once_and_limit_and_cycle() -> None:
    assert len(drive(once(fn(draw)))) == 1
    assert len(drive(limit(fn(draw), 7))) == 7
    rounds = values(drive(cycle(limit(fn(draw), 2), 3).seeded(1)))
    assert len(rounds) == 6
    assert len({str(value) for value in rounds}) == 6  # each round has a seed of its own
    assert drive(cycle(seq())) == []  # rounds without ops end it, rather than the run


def test_seq_and_phases() -> None:
    assert values(drive(seq(Draft("a", 1), Draft("b", 2)))) == [1, 2]
    gen = phases(limit(repeat(Draft("a")), 4), Draft("b"))
    done = drive(gen)
    (last, _), (at, draft) = done[3], done[4]
    assert draft.f == "b"
    assert at > last  # waited for all four


def test_mix_follows_weights_and_leaves_out_what_ended() -> None:
    gen = mix(repeat(Draft("a")), repeat(Draft("b")), weights=(3, 1)).seeded(11)
    counts = Counter(draft.f for _, draft in drive(gen, ops_max=4000, until_ns=10**15))
    assert 2850 < counts["a"] < 3150
    gen = mix(limit(repeat(Draft("a")), 2), limit(repeat(Draft("b")), 3)).seeded(1)
    assert Counter(draft.f for _, draft in drive(gen)) == {"a": 2, "b": 3}


def test_mix_refuses_bad_weights() -> None:
    with pytest.raises(HarnessError, match="1 sources but 2 weights"):
        mix(fn(draw), weights=(1, 2))
    with pytest.raises(HarnessError, match="more than 0"):
        mix(fn(draw), weights=(0,))


def test_map_and_filter() -> None:
    doubled = map_ops(lambda d: d._replace(f="x", thread=99), limit(fn(draw), 3))
    assert [draft.f for _, draft in drive(doubled)] == ["x"] * 3
    even = filter_ops(lambda d: d.value[0] % 2 == 0, fn(draw))
    assert [v[0] for v in values(drive(even, ops_max=3))] == [0, 2, 4]  # type: ignore[index]


def test_filter_that_rejects_everything_is_a_mistake() -> None:
    with pytest.raises(HarnessError, match="rejected"):
        filter_ops(lambda _: False, fn(draw)).op(ctx(0))


@pytest.mark.parametrize("latency_ms", [1, 100])
def test_stagger_keeps_the_average_rate(latency_ms: int) -> None:
    done = drive(
        stagger(fn(draw), 100).seeded(3),
        threads=20,
        ops_max=100_000,
        until_ns=20 * NS_PER_S,
        latency_ns=latency_ms * MS,
    )
    assert 1900 < len(done) < 2100


def test_stagger_catches_up_after_a_stall() -> None:
    gen: Generator = stagger(fn(draw), 100).seeded(3)
    step, gen = gen.op(ctx(0))
    assert isinstance(step, Draft)
    burst = 0
    while True:  # five seconds later nothing has been asked
        step, gen = gen.op(ctx(0, time_ns=5 * NS_PER_S))
        if not isinstance(step, Draft):
            break
        burst += 1
    assert 450 < burst < 550
    assert isinstance(step, Pending)
    assert step.until_ns is not None
    assert step.until_ns > 5 * NS_PER_S


def test_stagger_refuses_no_rate() -> None:
    with pytest.raises(HarnessError, match="rate is 0"):
        stagger(fn(draw), 0)


def test_time_limit_counts_from_the_first_question() -> None:
    gen: Generator = time_limit(fn(draw), 1.5)
    step, gen = gen.op(ctx(0, time_ns=7 * NS_PER_S))
    assert isinstance(step, Draft)
    assert isinstance(gen.op(ctx(0, time_ns=int(8.4 * NS_PER_S)))[0], Draft)
    assert gen.op(ctx(0, time_ns=int(8.5 * NS_PER_S)))[0] is None
    waiting, _ = gen.op(ctx(time_ns=8 * NS_PER_S))
    assert waiting == Pending(int(8.5 * NS_PER_S))  # asks again when it ends


def test_only_some_ops_come_and_none_of_them_earlier() -> None:
    def of(source: Generator) -> list[tuple[int, object]]:
        done = drive(time_limit(source, 3.0).seeded(5), threads=9)
        return [(at, draft.value) for at, draft in done]

    whole = of(stagger(fn(draw), 10))
    numbers = (0, 3, 4, 17)
    assert of(only(stagger(fn(draw), 10), numbers)) == [whole[n] for n in numbers]
    assert of(only(stagger(fn(draw), 10), ())) == []
    assert values(drive(only(limit(fn(draw), 4), (1, 9)))) == values(drive(fn(draw)))[1:2]


def test_only_waits_after_its_last_op_for_the_time_to_end() -> None:
    gen = time_limit(only(fn(draw), (1,)), 2.0)
    step, gen = gen.op(ctx(0))
    assert isinstance(step, Draft)
    assert step.value[0] == 1
    assert gen.op(ctx(0, time_ns=1))[0] == Pending(2 * NS_PER_S)
    assert gen.op(ctx(0, time_ns=2 * NS_PER_S))[0] is None


def test_until_ok_ends_with_the_first_ok() -> None:
    assert len(drive(until_ok(repeat(Draft("a"))), threads=1)) == 1
    assert len(drive(until_ok(repeat(Draft("a"))), threads=1, outcome="fail", ops_max=9)) == 9


def test_on_threads_and_reserve() -> None:
    done = drive(on_threads(lambda t: t >= 2, limit(fn(draw), 20)))
    assert {draft.thread for _, draft in done} == {2, 3}
    gen = reserve(
        (1, limit(repeat(Draft("a")), 5)),
        (2, limit(repeat(Draft("b")), 5)),
        rest=limit(repeat(Draft("c")), 5),
    )
    by_f: dict[str, set[int]] = {}
    done = drive(gen, threads=5)
    for _, draft in done:
        by_f.setdefault(draft.f, set()).add(draft.thread)
    assert by_f == {"a": {0}, "b": {1, 2}, "c": {3, 4}}
    assert len(done) == 15


def test_each_thread_has_its_own_copy() -> None:
    done = drive(each_thread(limit(fn(draw), 3)).seeded(2))
    assert Counter(draft.thread for _, draft in done) == dict.fromkeys(range(4), 3)
    assert len({str(draft.value) for _, draft in done}) == 12


def test_independent_gives_keys_to_groups_of_threads() -> None:
    gen = independent(lambda _: limit(fn(draw), 10), threads_per_key=2, keys=5).seeded(1)
    done = drive(gen, threads=4)
    assert Counter(draft.key for _, draft in done) == {f"k{i}": 10 for i in range(5)}
    for key in ("k0", "k1"):
        groups = {draft.thread // 2 for _, draft in done if draft.key == key}
        assert len(groups) == 1


def test_independent_with_too_few_threads_and_with_threads_left_over() -> None:
    gen = independent(lambda _: limit(fn(draw), 10), threads_per_key=5, keys=2).seeded(1)
    assert {draft.thread for _, draft in drive(gen, threads=3)} == {0, 1, 2}
    assert {draft.thread for _, draft in drive(gen, threads=12)} == set(range(12))


def test_independent_refuses_nonsense() -> None:
    with pytest.raises(HarnessError, match="threads_per_key is 0"):
        independent(lambda _: fn(draw), threads_per_key=0)
    with pytest.raises(HarnessError, match="keys in a row"):
        independent(lambda _: seq(), threads_per_key=1).op(ctx(0))


def test_independent_passes_events_to_the_key() -> None:
    gen = independent(lambda _: until_ok(repeat(Draft("a"))), threads_per_key=1, keys=3)
    assert [draft.key for _, draft in drive(gen, threads=1)] == ["k0", "k1", "k2"]


# ------------------------------------------------------------------ determinism


def test_timing_does_not_change_the_ops() -> None:
    gen = stagger(mix(fn(draw), cycle(limit(fn(draw), 3)), weights=(2, 1)), 200).seeded(42)
    runs = [values(drive(gen, timing=timing)) for timing in range(5)]
    assert all(run == runs[0] for run in runs)
    assert values(drive(gen.seeded(43))) != runs[0]


def test_timing_does_not_change_the_ops_of_a_key_or_thread() -> None:
    keyed = independent(lambda _: limit(mix(fn(draw), fn(draw)), 20), threads_per_key=2, keys=6)
    each = each_thread(limit(mix(fn(draw), fn(draw)), 20))
    for gen in (keyed.seeded(9), each.seeded(9)):
        runs = []
        for timing in range(5):
            by_part: dict[object, list[object]] = {}
            for _, draft in drive(gen, timing=timing, ops_max=1000):
                by_part.setdefault(draft.key or draft.thread, []).append(draft.value)
            runs.append(by_part)
        assert all(run == runs[0] for run in runs)


def test_split_seeds_differ_and_repeat() -> None:
    paths = [(i, j) for i in range(30) for j in range(30)] + [("a", 1), ("b", 1), (1, "a")]
    children = [seeds.split(7, *path) for path in paths]
    assert len(set(children)) == len(paths)
    assert children == [seeds.split(7, *path) for path in paths]
    assert 0.48 < sum(seeds.unit(1, n) for n in range(10_000)) / 10_000 < 0.52


def test_known_seeds_stay_what_they_are() -> None:
    """Saved runs are repeated by their seed: these numbers may never change."""
    assert [seeds.split(1, n) for n in range(3)] == GOLDEN_SPLITS
    gen = mix(fn(draw), fn(draw)).seeded(1)
    assert values(drive(gen, ops_max=3)) == GOLDEN_DRAWS


GOLDEN_SPLITS = [10451216379200822465, 17911839290282890590, 8195237237126968761]
GOLDEN_DRAWS = [[0, 19439], [1, 627049], [0, 957396]]
