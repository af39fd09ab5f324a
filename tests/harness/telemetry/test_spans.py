"""Spans of a run, as a collector receives them over OTLP/HTTP."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from harness.contracts.nemesis import Fault
from harness.telemetry.opening import spans_of
from tests.support.live.kernel import FakeNemesis, registers_plan, run_to_history
from tests.support.simulated.virtual_time import run_virtual


class Collector(ThreadingHTTPServer):
    """Takes what exporters send, and keeps it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.requests: list[ExportTraceServiceRequest] = []
        self.paths: set[str] = set()

    @property
    def spans(self) -> list[Span]:
        """All spans so far."""
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class Taking(BaseHTTPRequestHandler):
    """One request."""

    server: Collector

    def do_POST(self) -> None:
        """Decode and keep it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        self.server.requests.append(request)
        self.server.paths.add(self.path)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        yield server
        server.shutdown()
        thread.join()


def told(span: Span) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes
    }


def test_a_run_its_ops_and_its_faults_are_spans(collector: Collector, tmp_path: Path) -> None:
    faults = [
        Fault(id=1, nemesis="fake", at_ms=100, duration_ms=300),
        Fault(id=2, nemesis="absent", at_ms=100, duration_ms=300),
    ]
    nemeses = {"fake": FakeNemesis(heal_errors=1), "absent": FakeNemesis(outcome="skipped")}
    plan = registers_plan(
        faults=faults, nemeses=nemeses, rate_hz=200, time_limit_s=1.0,
        settings={"atom.info-rate": "0.1"},
    )  # fmt: skip
    said: list[str] = []
    with spans_of(plan.spec, "some-run", said.append) as spans:
        assert spans is not None
        result, history = run_virtual(run_to_history(plan, tmp_path, progress=spans))
        assert result.crash_trace is None
        spans.judged("valid")
    assert not said
    assert collector.paths == {"/v1/traces"}
    (service,) = {
        each.value.string_value
        for request in collector.requests
        for resource in request.resource_spans
        for each in resource.resource.attributes
        if each.key == "service.name"
    }
    assert service == "krucible"

    (root,) = [span for span in collector.spans if not span.parent_span_id]
    assert root.name == "run atom/register"
    assert told(root) == {
        "krucible.run": "some-run",
        "krucible.system": "atom",
        "krucible.workload": "register",
        "krucible.env": "local",
        "krucible.seed": 1,
        "krucible.verdict": "valid",
    }
    assert root.status.code == Status.STATUS_CODE_OK
    events = [event.name for event in root.events]
    assert "phase main" in events
    assert "fault skipped" in events

    below = [span for span in collector.spans if span.parent_span_id]
    assert {span.parent_span_id for span in below} == {root.span_id}
    assert {span.trace_id for span in below} == {root.trace_id}
    assert all(root.start_time_unix_nano <= span.start_time_unix_nano for span in below)
    assert all(span.end_time_unix_nano <= root.end_time_unix_nano for span in below)

    (fault,) = [span for span in below if span.name.startswith("fault")]
    assert fault.name == "fault fake"
    assert told(fault)["krucible.fault.id"] == 1
    assert [v.string_value for v in told(fault)["krucible.fault.targets"].values] == ["n1"]
    assert [event.name for event in fault.events] == ["heal-failed"]

    ops = [span for span in below if span is not fault]
    done = [pair for pair in history.intervals() if pair.completion is not None]
    assert _counted(ops) == Counter(
        (pair.invocation.process, pair.invocation.f, pair.invocation.key, pair.outcome)
        for pair in done
    )
    info = [span for span in ops if told(span)["krucible.outcome"] == "info"]
    assert info
    for span in info:
        assert span.status.code == Status.STATUS_CODE_ERROR
        assert span.status.message == told(span)["krucible.error"]
    assert all(told(span)["krucible.node"].startswith("n") for span in ops)


def _counted(ops: list[Span]) -> Counter[tuple[Any, ...]]:
    names = ("process", "f", "key", "outcome")
    return Counter(tuple(told(span)[f"krucible.{name}"] for name in names) for span in ops)


def test_a_collector_that_is_away_costs_a_note(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    monkeypatch.setattr("harness.telemetry.spans.CLOSE_S", 0.2)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")  # nobody listens
    said: list[str] = []
    with spans_of(registers_plan().spec, "some-run", said.append):
        pass
    assert said == ["note: 1 of 1 spans did not reach the collector of OpenTelemetry"]
    assert not collector.requests


def test_nothing_is_sent_unless_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    spec = registers_plan().spec
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with spans_of(spec, "some-run", pytest.fail) as spans:
        assert spans is None
    monkeypatch.delenv("OTEL_SDK_DISABLED")
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    with spans_of(spec, "some-run", pytest.fail) as spans:
        assert spans is None
    assert not collector.requests
