"""The workloads: legal ops, values that tell writes apart, and verdicts on the atom system."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from harness.contracts.clients import Outcome, TopicView
from harness.contracts.workload import Workload
from harness.errors import EnvError, UsageError
from harness.generators.basic import Context, Draft, coerce
from harness.history.ops import History, Op, read_jsonl
from harness.registry import environments
from harness.registry import workloads as registry
from harness.sessions import live as session
from harness.spec import RunSpec
from harness.systems.atom import AtomSystem
from harness.verdict import Valid
from krucible.stores import opened
from tests.support.simulated.virtual_time import run_virtual
from workloads.common.keys import Keys, groups
from workloads.register import RegisterOps
from workloads.topics import TopicOps

pytestmark = pytest.mark.slow
NAMES = ("register", "topics", "observers")
every_workload = pytest.mark.parametrize("name", NAMES)


def spec_of(name: str, **options: Any) -> RunSpec:
    return RunSpec(**{"seed": 1, "system": "atom", "workload": name, "nemeses": (), **options})


def made(name: str, **options: Any) -> Workload:
    workload: Workload = registry.get(name)(spec_of(name, **options))
    return workload


def drafts(source: Any, count: int, concurrency: int = 10, seed: int = 3) -> Iterator[Draft]:
    """The first ops of a generator whose every op ends at once."""
    generator = coerce(source).seeded(seed)
    threads = tuple(range(concurrency))
    free = list(threads)
    for _ in range(count):
        draft, generator = generator.op(Context(0, tuple(free), threads, concurrency))
        if not isinstance(draft, Draft):
            assert draft is None, "nothing is open, so there is nothing to wait for"
            return
        free.append(free.pop(free.index(draft.thread)))
        yield draft


# --------------------------------------------------------------------------- generators


@every_workload
def test_every_op_has_a_key_and_a_legal_f(name: str) -> None:
    legal = {
        "register": {"read", "write"},
        "observers": {"read", "write", "local-read"},
        "topics": {"create", "delete", "describe"},
    }[name]
    ops = list(drafts(made(name).generator, 2_000))
    assert len(ops) == 2_000, "the main phase never runs out of ops"
    assert {op.f for op in ops} == legal
    assert all(op.key for op in ops)


@every_workload
def test_what_is_written_is_written_once(name: str) -> None:
    ops = list(drafts(made(name).generator, 3_000))
    written = Counter(
        (op.key, str(op.value if name != "topics" else op.value["configs"]["retention.ms"]))
        for op in ops
        if op.f in ("write", "create")
    )
    assert len(written) > 300
    assert set(written.values()) == {1}


@every_workload
def test_the_history_of_one_key_stays_short(name: str) -> None:
    """The search for an order is exponential in the worst case, in the ops of one key."""
    ops = Counter(op.key for op in drafts(made(name).generator, 5_000))
    assert max(ops.values()) <= 600
    assert len(ops) > 5


@every_workload
def test_several_threads_contend_for_a_key(name: str) -> None:
    threads: dict[str | None, set[int]] = {}
    for op in drafts(made(name).generator, 1_000):
        threads.setdefault(op.key, set()).add(op.thread)
    assert all(len(t) >= 5 for t in list(threads.values())[:2])


@every_workload
def test_the_same_seed_makes_the_same_ops(name: str) -> None:
    assert list(drafts(made(name).generator, 500)) == list(drafts(made(name).generator, 500))
    assert list(drafts(made(name).generator, 500)) != list(
        drafts(made(name).generator, 500, seed=4)
    )


@every_workload
def test_the_final_ops_look_at_the_keys_in_use_from_every_thread(name: str) -> None:
    workload = made(name)
    main = list(drafts(workload.generator, 2_500))
    final = list(drafts(workload.final_generator, 1_000))
    assert {op.f for op in final} <= {"read", "local-read", "describe"}
    assert {op.thread for op in final} == set(range(10))
    assert {op.key for op in final} >= {op.key for op in main[-20:]}
    assert len(final) < 100


def test_the_final_ops_of_a_run_without_ops_are_none() -> None:
    assert list(drafts(made("register").final_generator, 10)) == []


def test_keys_name_the_last_ones_newest_first() -> None:
    keys = Keys("k")
    assert keys.last(3) == []
    assert [keys.name(n) for n in (0, 1, 4, 2)] == ["k0", "k1", "k4", "k2"]
    assert keys.last(2) == ["k4", "k3"]
    assert keys.last(9) == ["k4", "k3", "k2", "k1", "k0"]
    assert [groups(c, 5) for c in (1, 5, 9, 10, 11)] == [1, 1, 1, 2, 2]


def test_observers_read_locally_where_an_observer_is_home_and_write_elsewhere() -> None:
    workload = made("observers", voters=3, observers=2, concurrency=10)
    for op in drafts(workload.generator, 1_000):
        assert (op.f == "local-read") == (op.thread % 5 >= 3)


@pytest.mark.parametrize(("observers", "concurrency"), [(0, 10), (2, 3), (1, 1)])
def test_observers_without_a_client_on_one_is_refused(observers: int, concurrency: int) -> None:
    with pytest.raises(UsageError, match=r"--observers 1 or more and --concurrency 4"):
        made("observers", voters=3, observers=observers, concurrency=concurrency)


@every_workload
def test_a_system_without_the_ability_is_refused(name: str) -> None:
    class Bare:
        name = "bare"

    with pytest.raises(EnvError, match="bare"):
        made(name).client(cast("Any", Bare()))


# --------------------------------------------------------------------------- clients


class Scripted:
    """Registers and topics that end each op as the test says."""

    def __init__(self, end: Any) -> None:
        self.end = end
        self.closed = 0

    async def open(self, _: str) -> Scripted:
        return self

    async def close(self) -> None:
        self.closed += 1

    async def _op(self, *_: Any, **__: Any) -> Any:
        if isinstance(self.end, Exception):
            raise self.end
        return self.end

    read = read_local = write = create = delete = describe = _op


def invoke(ops: type[RegisterOps | TopicOps], end: Any, f: str, value: Any = None) -> Op:
    async def main() -> Op:
        scripted = Scripted(end)
        client = await ops(cast("Any", scripted)).open("n1")
        completion = await client.invoke(Op(0, 0, 3, "invoke", f, value, key="k", node="n1"))
        await client.close()
        assert scripted.closed == 1
        return completion

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("ops", "f", "writes"),
    [
        (RegisterOps, "write", True),
        (RegisterOps, "read", False),
        (RegisterOps, "local-read", False),
        (TopicOps, "create", True),
        (TopicOps, "delete", True),
        (TopicOps, "describe", False),
    ],
)
@pytest.mark.parametrize("definite", [True, False])
def test_only_a_write_can_end_as_info(
    ops: type[RegisterOps | TopicOps], f: str, writes: bool, definite: bool
) -> None:
    value = {"partitions": 1, "configs": {}} if f == "create" else 4
    end = invoke(ops, Outcome("why", definite=definite), f, value)
    assert end.type == ("info" if writes and not definite else "fail")
    assert (end.error, end.value, end.key, end.process) == ("why", value, "k", 3)


def test_ok_ops_say_what_they_saw() -> None:
    assert invoke(RegisterOps, 7, "read").value == 7
    assert invoke(RegisterOps, 8, "local-read").value == 8
    assert invoke(RegisterOps, None, "read").value is None
    assert invoke(RegisterOps, None, "write", 9).value == 9
    asked = {"partitions": 2, "configs": {"a": "1"}}
    assert invoke(TopicOps, "f" * 32, "create", asked).value == {**asked, "id": "f" * 32}
    assert invoke(TopicOps, None, "delete").type == "ok"
    assert invoke(TopicOps, None, "describe").value is None
    view = TopicView("e" * 32, 2, {"a": "1"})
    assert invoke(TopicOps, view, "describe").value == {**asked, "id": "e" * 32}


@pytest.mark.parametrize("ops", [RegisterOps, TopicOps])
def test_an_op_of_another_workload_is_a_mistake_of_ours(ops: type[RegisterOps | TopicOps]) -> None:
    with pytest.raises(AssertionError, match="juggle"):
        invoke(ops, None, "juggle")


def test_atom_serves_the_ops_of_every_workload() -> None:
    async def main() -> None:
        for name in NAMES:
            workload = made(name)
            client = await workload.client(AtomSystem(spec_of(name), None, None)).open("n1")
            for number, draft in enumerate(drafts(workload.generator, 60)):
                op = Op(number, 0, 0, "invoke", draft.f, draft.value, key=draft.key)
                assert (await client.invoke(op)).type in ("ok", "fail")
            await client.close()

    asyncio.run(main())


# --------------------------------------------------------------------------- whole runs


class Nowhere:
    """An environment that has nothing to do, and so needs no real time."""

    def __init__(self, *_: Any) -> None: ...

    async def setup(self, _: Any) -> None: ...

    async def teardown(self) -> None: ...


def whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, **options: Any
) -> session.Session:
    """A run on the atom system in virtual time, judged; atom uses no environment."""
    settings = {"atom.latency-ms": "5", **options.pop("settings", {})}
    spec = spec_of(name, time_limit_s=8.0, rate_hz=100.0, settings=settings, **options)
    monkeypatch.setattr(asyncio, "run", run_virtual)
    monkeypatch.setattr(environments, "get", lambda _: Nowhere)
    prepared = session.prepare(spec, opened(tmp_path / "store"))
    return session.execute(prepared, state_dir=tmp_path / "state")


@every_workload
@pytest.mark.parametrize("trouble", [{}, {"atom.info-rate": "0.05", "atom.fail-rate": "0.05"}])
def test_a_sound_system_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, trouble: dict[str, str]
) -> None:
    done = whole_run(tmp_path, monkeypatch, name, settings=trouble)
    assert done.judgement is not None
    assert done.judgement.anomalies == ()
    assert session.verdict(done.judgement) is Valid.VALID, done.judgement.reasons
    assert done.exit_code == 0
    assert done.run_dir.report.is_file()


@pytest.mark.parametrize(
    ("name", "bug", "invariant"),
    [
        ("register", "stale-read", "linearizability"),
        ("register", "lost-write", "linearizability"),
        ("register", "dirty-read", "linearizability"),
        ("observers", "lost-write", "linearizability"),
        ("topics", "two-winners", "linearizability"),
        ("topics", "id-reuse", "C11"),
        ("topics", "half-create", "all-or-nothing"),
    ],
)
def test_a_bug_is_found_for_the_right_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, bug: str, invariant: str
) -> None:
    settings = {"atom.bug": bug, "atom.bug-rate": "0.3"}
    done = whole_run(tmp_path, monkeypatch, name, settings=settings)
    assert done.exit_code == 1
    assert done.judgement is not None
    assert invariant in {a.invariant for a in done.judgement.anomalies}


@every_workload
def test_the_history_of_a_run_ends_with_looks_at_the_last_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    done = whole_run(tmp_path, monkeypatch, name)
    history: History = read_jsonl(done.run_dir.history)
    assert done.result is not None
    began = done.result.phases_ns["final"]
    before = [op for op in history.clients() if op.time_ns < began]
    final = [op for op in history.clients() if op.time_ns > began and op.type == "invoke"]
    assert {op.f for op in final} <= {"read", "local-read", "describe"}
    assert {op.key for op in final} >= {op.key for op in before[-10:]}


def test_random_is_not_needed_to_make_keys() -> None:
    """The final generator asks for nothing but the keys: it is the same with any dice."""
    keys = Keys("x")
    keys.name(1)
    source = keys.on_each_thread(5, lambda key: Draft("read", key=key))
    one = [d.key for d in drafts(source, 10, concurrency=1, seed=Random(1).randrange(99))]
    assert one == ["x1", "x0"]
