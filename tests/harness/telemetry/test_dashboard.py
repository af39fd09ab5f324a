"""The dashboard for Grafana: its models take all of it, and Prometheus answers all it asks."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import prometheus as models_prometheus
from grafana_foundation_sdk.models import stat, timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

from harness.contracts.nemesis import Fault
from harness.telemetry.address import Address
from harness.telemetry.metrics import NightMetrics, RunMetrics, served
from tests.support.commands.nights import CANARY, seed_line
from tests.support.live.kernel import FakeNemesis, registers_plan, run_to_history
from tests.support.live.prometheus import needs_prometheus, prometheus
from tests.support.places import ROOT
from tests.support.simulated.virtual_time import run_virtual

BOARD: dict[str, Any] = json.loads(
    (ROOT / "docs/examples/grafana.json").read_text(encoding="utf-8")
)
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
FREE = Address("127.0.0.1", 0)
OPTIONS = {"timeseries": timeseries.Options, "stat": stat.Options}
LOOK_S = 60.0


def loaded(board: dict[str, Any]) -> Dashboard:
    """The dashboard as Grafana's own models read it."""
    register_default_plugins()
    return Dashboard.from_json(copy.deepcopy(board))


def lost(ours: Any, theirs: Any, where: str = "") -> Iterator[str]:
    """Name what the models of Grafana did not keep, by its place."""
    if isinstance(ours, dict):
        for key, value in ours.items():
            if key in theirs:
                yield from lost(value, theirs[key], f"{where}/{key}")
            else:
                yield f"{where}/{key}"
    elif isinstance(ours, list):
        if len(ours) != len(theirs):
            yield where
        for at, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            yield from lost(one, other, f"{where}/{at}")
    elif ours != theirs:
        yield where


def kept(board: dict[str, Any]) -> list[str]:
    return list(lost(board, json.loads(JSONEncoder().encode(loaded(board)))))


def test_grafanas_models_load_all_of_it() -> None:
    assert kept(BOARD) == []
    panels = loaded(BOARD).panels or []
    assert len(panels) == len(BOARD["panels"])
    for panel in panels:
        assert isinstance(panel, Panel)
        assert isinstance(panel.options, OPTIONS[panel.type_val])
        for target in panel.targets or []:
            assert isinstance(target, models_prometheus.Dataquery)


def test_a_word_that_grafana_does_not_know_is_seen() -> None:
    wrong = copy.deepcopy(BOARD)
    wrong["panels"][0]["targets"][0]["expression"] = "up"
    wrong["panels"][1]["options"]["legends"] = {}
    wrong["refreshed"] = "5s"
    assert kept(wrong) == [
        "/panels/0/targets/0/expression",
        "/panels/1/options/legends",
        "/refreshed",
    ]


def test_it_asks_for_metrics_and_labels_that_exist() -> None:
    known: dict[str, set[str]] = {}  # by name of a sample, its labels
    families = set[str]()
    for registry in (RunMetrics().registry, NightMetrics().registry):
        for collector in registry._collector_to_names:
            (family,) = collector.collect()
            families.add(family.name)
            for suffix in SUFFIXES[family.type]:
                labels = set(getattr(collector, "_labelnames", ()))
                known[family.name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    asked: set[str] = set()
    for query, legend in queries():
        names = set(re.findall(r"\bkrucible_\w+", query))
        assert names
        assert names <= set(known), query
        labels = set().union(*(known[name] for name in names))
        grouped = {label for by in re.findall(r"by \(([^)]*)\)", query) for label in by.split(", ")}
        matched = set(re.findall(r"(\w+)=~?\"", query))
        assert grouped | matched | in_legend(legend) <= labels, query
        asked |= names
    shown = {name.removesuffix("_total").removesuffix("_bucket") for name in asked}
    assert shown == families
    told = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert not {name for name in families if f"`{name}" not in told}


@needs_prometheus
def test_a_real_prometheus_answers_each_of_its_questions(tmp_path: Path) -> None:
    run, night = RunMetrics(), NightMetrics()
    with served(run.registry, FREE) as of_run, served(night.registry, FREE) as of_night:
        targets = [
            url.removeprefix("http://").removesuffix("/metrics") for url in (of_run, of_night)
        ]
        with prometheus(tmp_path, targets) as server:
            waiting = dict(queries())
            until = time.monotonic() + LOOK_S
            while waiting and time.monotonic() < until:
                something_happens(run, night, tmp_path)
                for query, legend in list(waiting.items()):
                    series = server.query(query.replace("$__rate_interval", "10s"))
                    if series:  # with all labels that its legend names
                        assert all(in_legend(legend) <= set(each) for each in series), query
                        del waiting[query]
    assert not waiting


def something_happens(run: RunMetrics, night: NightMetrics, folder: Path) -> None:
    """Count one run more, and a bit of a night."""
    faults = [Fault(id=1, nemesis="fake", at_ms=100, duration_ms=100)]
    plan = registers_plan(
        faults=faults, nemeses={"fake": FakeNemesis()}, rate_hz=200, time_limit_s=0.5
    )
    run_virtual(run_to_history(plan, folder, progress=run))
    run.judged("valid")
    for line in (seed_line(1), CANARY, {"t": "spent", "entry": "sim:a", "s": 1.5}):
        night.on_line(line)
    night.on_line({"t": "broke", "reason": "no disk"})


def queries() -> list[tuple[str, str]]:
    """Each question that the dashboard asks, with the legend of what comes back."""
    return [
        (target["expr"], target.get("legendFormat", ""))
        for panel in BOARD["panels"]
        for target in panel["targets"]
    ]


def in_legend(legend: str) -> set[str]:
    return set(re.findall(r"{{(\w+)}}", legend))
