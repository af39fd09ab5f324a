"""The atom system: right when it should be, wrong in the ways it was asked to be."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import harness.systems.atom as atom_module
from harness.contracts.abilities import Kill, Pause, Registers, Roles, Topics
from harness.contracts.clients import Outcome
from harness.errors import UsageError
from harness.generators.generator import fn, mix
from harness.history.ops import History
from harness.spec import RunSpec
from harness.systems.atom import BUGS, AtomSystem
from tests.support.live.kernel import read_op, registers_plan, run_to_history, write_op
from tests.support.simulated.virtual_time import run_virtual


def atom(**settings: str) -> AtomSystem:
    names = {f"atom.{name.replace('_', '-')}": value for name, value in settings.items()}
    return AtomSystem(RunSpec(seed=1, settings=names), None, None)


def test_its_abilities() -> None:
    system = atom()
    assert isinstance(system, Registers)
    assert isinstance(system, Topics)
    for ability in (Kill, Pause, Roles):
        assert not isinstance(system, ability)
    assert system.nodes == ("n1", "n2", "n3", "n4", "n5")
    assert system.voters + system.observers == system.nodes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bug": "gremlin"}, "atom.bug is 'gremlin', want one of: none, stale-read"),
        ({"bug_rate": "2"}, "atom.bug-rate is '2', want a number from 0 to 1"),
        ({"latency_ms": "slow"}, "atom.latency-ms is 'slow'"),
        ({"info_rate": "nan"}, "atom.info-rate is 'nan'"),
        ({"colour": "red"}, r"unknown settings \['atom.colour'\]"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        atom(**settings)


def real_time_anomalies(history: History) -> Counter[str]:
    """Reads that no order of the writes explains, judged by intervals alone (unique values)."""
    anomalies: Counter[str] = Counter()
    intervals = history.intervals()
    for read in intervals:
        if read.invocation.f != "read" or read.outcome != "ok" or read.completion is None:
            continue
        key, seen = read.invocation.key, read.completion.value
        writes = [w for w in intervals if w.invocation.f == "write" and w.invocation.key == key]
        source = next((w for w in writes if w.invocation.value == seen), None)
        if source is not None and source.outcome == "fail":
            anomalies["dirty"] += 1
        seen_by = -1 if source is None else _end(source)
        overwritten = [
            w
            for w in writes
            if w.outcome == "ok"
            and w.invocation.index > seen_by
            and _end(w) < read.invocation.index
        ]
        anomalies["stale"] += bool(overwritten)
    return +anomalies


def _end(interval: Any) -> int:
    return 10**9 if interval.completion is None else int(interval.completion.index)


def run_registers(tmp_path: Path, **settings: str) -> Counter[str]:
    names = {f"atom.{name.replace('_', '-')}": value for name, value in settings.items()}
    plan = registers_plan(
        generator=mix(fn(write_op), fn(read_op)), settings=names, rate_hz=300, time_limit_s=2.0
    )
    result, history = run_virtual(run_to_history(plan, tmp_path))
    assert result.harness_ok
    return real_time_anomalies(history)


def test_without_a_bug_nothing_is_wrong(tmp_path: Path) -> None:
    assert run_registers(tmp_path) == {}
    assert run_registers(tmp_path, info_rate="0.1", fail_rate="0.1", latency_ms="8") == {}


@pytest.mark.parametrize(
    ("bug", "sign"), [("stale-read", "stale"), ("lost-write", "stale"), ("dirty-read", "dirty")]
)
def test_register_bugs_show(tmp_path: Path, bug: str, sign: str) -> None:
    assert run_registers(tmp_path, bug=bug, bug_rate="0.2")[sign] > 3


def test_topics_without_a_bug() -> None:
    async def body() -> None:
        topics = await atom().topic_client().open("n2")
        first = await topics.create("a", partitions=3, configs={"x": "1"})
        assert len(first) == 32
        with pytest.raises(Outcome, match="TOPIC_ALREADY_EXISTS") as refused:
            await topics.create("a", partitions=1, configs={})
        assert refused.value.definite
        view = await topics.describe("a")
        assert view is not None
        assert (view.topic_id, view.partitions, view.configs) == (first, 3, {"x": "1"})
        await topics.delete("a")
        assert await topics.describe("a") is None
        with pytest.raises(Outcome, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await topics.delete("a")
        assert await topics.create("a", partitions=1, configs={}) != first
        await topics.close()

    run_virtual(body())


def test_topic_bugs_show() -> None:
    async def body() -> None:
        winners = await atom(bug="two-winners", bug_rate="1").topic_client().open("n1")
        await winners.create("a", partitions=1, configs={})
        await winners.create("a", partitions=1, configs={})
        reuse = await atom(bug="id-reuse", bug_rate="1").topic_client().open("n1")
        first = await reuse.create("a", partitions=1, configs={})
        await reuse.delete("a")
        assert await reuse.create("b", partitions=1, configs={}) == first
        half = await atom(bug="half-create", bug_rate="1").topic_client().open("n1")
        await half.create("a", partitions=1, configs={"x": "1"})
        view = await half.describe("a")
        assert view is not None
        assert view.configs == {}

    run_virtual(body())


def test_every_bug_is_documented() -> None:
    assert all(f"``{bug}``" in (atom_module.__doc__ or "") for bug in BUGS)


def test_its_life_cycle() -> None:
    async def body() -> None:
        system = atom()
        await system.setup()
        assert await system.await_recovery(1)
        await system.teardown()
        system.collect()

    asyncio.run(body())
