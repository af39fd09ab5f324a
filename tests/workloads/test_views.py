"""``views``: brokers tell of topics as the committed log has them, and never go back."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest

from harness.errors import UsageError
from harness.sessions.plan import Plan
from harness.sessions.simulated import SimRun, simulate
from harness.spec import SIM, RunSpec
from harness.verdict import Valid
from node.driver.apis import metadata, topic_pages
from node.driver.apis.partition_view import View
from workloads.views import LAYOUT, PAGES

SPEC = RunSpec(
    seed=2,
    env=SIM,
    workload="views",
    nemeses=("kill",),
    voters=3,
    observers=2,
    time_limit_s=8,
    rate_hz=40,
    concurrency=10,
)


def played(**options: Any) -> SimRun:
    return simulate(Plan.simulated(dataclasses.replace(SPEC, **options)))


def broken(run: SimRun) -> set[str]:
    return {anomaly.invariant for anomaly in run.judgement.anomalies}


def test_brokers_tell_what_was_committed() -> None:
    run = played()
    assert run.verdict is Valid.VALID, run.judgement.reasons
    shown = [op for op in run.data.history.clients() if (op.f, op.type) == (LAYOUT, "ok")]
    asked = {op.index: op for op in run.data.history.clients() if op.type == "invoke"}
    invoked = {op.process: op.value for op in asked.values() if op.f == LAYOUT}
    assert set(invoked.values()) <= {None, *PAGES}
    sizes = Counter(len(op.value["partitions"]) for op in shown if op.value)
    assert sum(sizes.values()) > 50
    assert any(size > 1 for size in sizes), "of several pages"
    (result,) = [each for each in run.judgement.results if each.checker == "reads"]
    assert result.checked["C8"] > 50


def test_another_leader_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(_: Any, state: Any) -> View:
        return View(state.replicas[-1])

    for module in (metadata, topic_pages):
        monkeypatch.setattr(module, "View", type("Wrong", (), {"of": staticmethod(of)}))
    assert "C8" in broken(played())


def test_a_page_that_leaves_a_partition_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = topic_pages._page

    def skipping(serving: Any, names: set[str], start: tuple[str, int], limit: int) -> Any:
        page = original(serving, names, start, limit)
        if page.cursor is None:
            return page
        return dataclasses.replace(page, cursor=(page.cursor[0], page.cursor[1] + 1))

    monkeypatch.setattr(topic_pages, "_page", skipping)
    assert "C8" in broken(played())


@pytest.mark.parametrize("index", [0, -2])
def test_a_page_that_leads_back_is_found(monkeypatch: pytest.MonkeyPatch, index: int) -> None:
    """A change of our node by machine, after which a page led to one before it, had survived."""
    original = topic_pages._page

    def back(serving: Any, names: set[str], start: tuple[str, int], limit: int) -> Any:
        page = original(serving, names, start, limit)
        return page if page.cursor is None else dataclasses.replace(page, cursor=("t", index))

    monkeypatch.setattr(topic_pages, "_page", back)
    assert broken(played()) == {"C17"}


def test_somebody_must_ask_a_broker() -> None:
    for options in ({"observers": 0}, {"concurrency": 3}):
        with pytest.raises(UsageError, match="needs a client on a broker"):
            played(**options)
