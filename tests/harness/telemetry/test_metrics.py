"""Metrics of runs and nights: what they count, over real HTTP."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from harness.contracts.nemesis import Fault
from harness.errors import UsageError
from harness.telemetry.address import Address
from harness.telemetry.listeners import together
from harness.telemetry.metrics import NightMetrics, RunMetrics, served
from tests.support.commands.nights import CANARY, seed_line
from tests.support.live.kernel import FakeNemesis, registers_plan, run_to_history
from tests.support.simulated.virtual_time import run_virtual

FREE = Address("127.0.0.1", 0)
Values = dict[tuple[str, tuple[str, ...]], float]


def scraped(url: str) -> Values:
    """Every sample by its name and the values of its labels."""
    with urlopen(url, timeout=5) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_a_run_is_counted_as_its_history_is(tmp_path: Path) -> None:
    faults = [Fault(id=n, nemesis="fake", at_ms=200 * n, duration_ms=300) for n in (1, 2)]
    plan = registers_plan(
        faults=faults, nemeses={"fake": FakeNemesis()}, rate_hz=200, time_limit_s=2.0,
        settings={"atom.info-rate": "0.1"},
    )  # fmt: skip
    metrics = RunMetrics()
    result, history = run_virtual(run_to_history(plan, tmp_path, progress=metrics))
    assert result.crash_trace is None
    metrics.judged("valid")
    with served(metrics.registry, FREE) as url:
        seen = scraped(url)
    for f, outcome in (("read", "ok"), ("write", "ok"), ("write", "info")):
        count = sum(op.f == f and op.type == outcome for op in history.clients())
        assert count > 0
        assert seen["krucible_ops_total", (f, outcome)] == count
    for f in ("read", "write"):
        took_s = [
            (pair.completion.time_ns - pair.invocation.time_ns) / 1e9
            for pair in history.intervals()
            if pair.completion is not None and pair.invocation.f == f
        ]
        assert seen["krucible_op_latency_seconds_count", (f,)] == len(took_s)
        assert seen["krucible_op_latency_seconds_sum", (f,)] == pytest.approx(sum(took_s))
    assert seen["krucible_faults_installed_total", ("fake",)] == 2
    assert seen["krucible_faults_healed_total", ("fake",)] == 2
    assert seen["krucible_faults_active", ("fake",)] == 0
    assert seen["krucible_runs_total", ("valid",)] == 1


def test_a_run_is_scraped_while_it_goes_on(tmp_path: Path) -> None:
    faults = [Fault(id=1, nemesis="fake", at_ms=0, duration_ms=60_000)]
    plan = registers_plan(
        faults=faults, nemeses={"fake": FakeNemesis()}, rate_hz=500, time_limit_s=60.0
    )
    metrics = RunMetrics()

    async def main(url: str) -> list[Values]:
        going = asyncio.create_task(run_to_history(plan, tmp_path, progress=metrics))
        seen: list[Values] = []
        async with asyncio.timeout(20):
            while len(seen) < 2:
                values = await asyncio.to_thread(scraped, url)
                before = seen[-1][_OK] if seen else 0
                if values.get(_OK, 0) > before and values.get(_ACTIVE) == 1:
                    seen.append(values)
        going.cancel()  # as Ctrl-C does: all is healed
        result, _ = await going
        assert result.interrupted
        return seen

    with served(metrics.registry, FREE) as url:
        first, second = asyncio.run(main(url))
        assert first[_OK] < second[_OK]
        assert scraped(url)[_ACTIVE] == 0


_OK = ("krucible_ops_total", ("read", "ok"))
_ACTIVE = ("krucible_faults_active", ("fake",))


def test_what_did_not_take_hold_is_not_active() -> None:
    metrics = RunMetrics()
    fault = Fault(id=1, nemesis="kill", at_ms=0, duration_ms=1)
    for stage in ("inject", "failed", "heal", "healed"):
        metrics.on_fault(fault, stage, {})
    with served(metrics.registry, FREE) as url:
        assert not [name for name, _ in scraped(url) if name.startswith("krucible_faults")]


def test_a_night_is_counted_line_by_line() -> None:
    metrics = NightMetrics()
    lines = (
        {"t": "begin", "first_seed": 1},
        seed_line(1),
        seed_line(2),
        seed_line(3, "invalid"),
        seed_line(4, "unknown", harness_error="broke"),
        CANARY,
        {**CANARY, "caught": False},
        {"t": "spent", "entry": "sim:a", "s": 1.5},
        {"t": "broke", "reason": "no disk"},
        {"t": "note", "text": "nothing"},
    )
    for line in lines:
        metrics.on_line(line)
    with served(metrics.registry, FREE) as url:
        seen = scraped(url)
    assert seen == {
        ("krucible_histories_total", ("sim:a", "valid")): 2,
        ("krucible_histories_total", ("sim:a", "invalid")): 1,
        ("krucible_histories_total", ("sim:a", "unknown")): 1,
        ("krucible_canaries_total", ("caught",)): 1,
        ("krucible_canaries_total", ("missed",)): 1,
        ("krucible_night_work_seconds_total", ("sim:a",)): 1.5,
        ("krucible_night_broken_total", ()): 2,
    }


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(UsageError, match=rf"127.0.0.1:{port}: cannot listen there: Address"),
            served(CollectorRegistry(), Address("127.0.0.1", port)),
        ):
            pass


def test_a_listener_alone_is_asked_directly() -> None:
    alone, other = RunMetrics(), RunMetrics()
    assert together(alone, None) is alone
    both = together(alone, None, other)
    both.on_fault(Fault(id=1, nemesis="kill", at_ms=0, duration_ms=1), "installed", {})
    for each in (alone, other):
        labels = {"kind": "kill"}
        assert each.registry.get_sample_value("krucible_faults_active", labels) == 1
