"""Metrics and spans from the command line, and without the libraries that they need."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from harness.spec import RunSpec
from harness.telemetry.opening import night_metrics, run_metrics, spans_of
from krucible.console import EXIT_INTERRUPTED
from krucible.program import program
from tests.support.commands.command import krucible

ATOM = ("--system", "atom", "--rate", "200", "--seed", "7", "--time-limit")
LIBRARIES = ("prometheus_client", "opentelemetry")


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRUCIBLE_STATE", str(tmp_path / "state"))
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were not installed."""
    ours = [name for name in sys.modules if name.startswith("harness.telemetry.")]
    for name in ours:
        if name.rpartition(".")[2] in ("metrics", "spans"):
            monkeypatch.delitem(sys.modules, name)
    for name in list(sys.modules):
        if name.partition(".")[0] in LIBRARIES:
            monkeypatch.delitem(sys.modules, name)
    for name in LIBRARIES:
        monkeypatch.setitem(sys.modules, name, None)


def test_a_run_of_the_command_line_is_scraped_while_it_goes_on(tmp_path: Path) -> None:
    command = [*program().argv, "run", *ATOM, "60", "--metrics", "0", "--store", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as going:
        assert going.stderr is not None
        found = None
        for line in going.stderr:
            found = found or re.match(r"metrics: (http://127\.0\.0\.1:\d+/metrics)$", line)
            if "phase main" in line:
                break
        assert found is not None
        text = ""
        while 'krucible_ops_total{f="read",outcome="ok"}' not in text:
            assert going.poll() is None, "it is over, and nothing was counted"
            with urlopen(found[1], timeout=5) as answer:
                text = answer.read().decode()
        going.send_signal(signal.SIGINT)  # it has shown what it should
        going.stderr.read()
    assert going.returncode == EXIT_INTERRUPTED


@pytest.mark.usefixtures("_bare")
@pytest.mark.parametrize("verb", ["run", "nightly"])
def test_metrics_without_the_extra(verb: str, tmp_path: Path) -> None:
    ended = krucible(verb, "--metrics", "0", "--store", tmp_path)
    assert ended.code == 254
    assert re.fullmatch(
        r"--metrics needs prometheus_client: install krucible with its extra \[metrics\]",
        ended.complaint,
    )
    assert not list(tmp_path.glob("*/*/*")), "nothing was begun"


@pytest.mark.usefixtures("_bare")
def test_spans_without_the_extra_are_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    ended = krucible("run", *ATOM, "1", "--store", tmp_path)
    assert ended.code == 0, ended.err
    assert "note: no spans: they need opentelemetry" in ended.err
    assert "extra [metrics]" in ended.err


@pytest.mark.usefixtures("_bare")
def test_nothing_is_needed_when_nobody_asks() -> None:
    spec = RunSpec(seed=1)
    with (
        run_metrics(None, pytest.fail) as run,
        night_metrics(None, pytest.fail) as night,
        spans_of(spec, "some-run", pytest.fail) as spans,
    ):
        assert (run, night, spans) == (None, None, None)
    assert not {"harness.telemetry.metrics", "harness.telemetry.spans"} & set(sys.modules)
