"""``Spans`` tells OpenTelemetry of a run: one span for it, and below it one each op and fault.

Only who imports this module needs opentelemetry-sdk and its exporter for OTLP over HTTP. The
exporter takes its settings from the standard variables (``OTEL_EXPORTER_OTLP_ENDPOINT``,
``OTEL_EXPORTER_OTLP_HEADERS``, ...). Spans wait in a queue and leave from a thread.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from threading import Thread
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context

from harness.contracts.nemesis import Fault
from harness.history.ops import Op

QUEUE_MAX: Final = 1 << 16  # spans that wait; more are lost
CLOSE_S: Final = 5.0  # for the rest to leave at the end


class Counted(SpanExporter):
    """An exporter that counts what reached the collector."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.sent = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
        return result

    def shutdown(self) -> None:
        """Send nothing more."""
        self._exporter.shutdown()


class Spans:
    """The spans of one run; a ``Progress``. ``close`` ends it."""

    def __init__(self, name: str, attributes: Mapping[str, str | int]) -> None:
        # what is lost is told at the end, in one line
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._exporter = Counted(OTLPSpanExporter())
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "krucible"}
        self._provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(self._exporter, max_queue_size=QUEUE_MAX)
        )
        self._tracer = self._provider.get_tracer("krucible")
        self._run = self._tracer.start_span(name, attributes=attributes)
        self._below: Context = set_span_in_context(self._run)
        self._ops: dict[int | str, Span] = {}  # by process
        self._faults: dict[int, Span] = {}  # by id
        self._begun = int(self._run.is_recording())  # those that were sampled

    def on_op(self, op: Op) -> None:
        """Begin or end the span of an op."""
        if op.type == "invoke":
            told = {"krucible.f": op.f, "krucible.process": op.process}
            told |= _given({"krucible.key": op.key, "krucible.node": op.node})
            self._ops[op.process] = self._begin(op.f, SpanKind.CLIENT, told)
            return
        span = self._ops.pop(op.process, None)
        if span is None:
            return
        told = {"krucible.outcome": op.type}
        told |= _given({"krucible.error": op.error, "krucible.node": op.node})
        span.set_attributes(told)
        if op.type == "ok":
            span.set_status(StatusCode.OK)
        else:
            span.set_status(StatusCode.ERROR, op.error or op.type)
        span.end()

    def on_fault(self, fault: Fault, stage: str, detail: dict[str, Any]) -> None:
        """Begin the span of a fault that takes hold, end that of one that is healed."""
        told: dict[str, Any] = {"krucible.fault.id": fault.id, "krucible.fault.kind": fault.nemesis}
        if stage == "installed":
            told["krucible.fault.targets"] = list(detail.get("targets", ()))
            kind = SpanKind.INTERNAL
            self._faults[fault.id] = self._begin(f"fault {fault.nemesis}", kind, told)
        elif stage == "healed" and fault.id in self._faults:
            span = self._faults.pop(fault.id)
            span.set_status(StatusCode.OK)
            span.end()
        elif stage in ("skipped", "failed"):
            told |= _given({"krucible.reason": detail.get("reason")})
            self._run.add_event(f"fault {stage}", told)
        elif stage == "heal-failed" and fault.id in self._faults:
            self._faults[fault.id].add_event(stage, _given({"krucible.error": detail.get("error")}))

    def on_phase(self, phase: str) -> None:
        """Mark the phase in the span of the run."""
        self._run.add_event(f"phase {phase}")

    def judged(self, verdict: str) -> None:
        """Note the verdict."""
        self._run.set_attribute("krucible.verdict", verdict)
        if verdict == "valid":
            self._run.set_status(StatusCode.OK)
        else:
            self._run.set_status(StatusCode.ERROR, verdict)

    def close(self) -> str | None:
        """End what is open, and send the rest; gives what to tell of spans that were lost."""
        for open_ in (*self._ops.values(), *self._faults.values()):
            open_.set_status(StatusCode.ERROR, "open at the end of the run")
            open_.end()
        self._run.end()
        # a collector that is not there holds nobody up
        sending = Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        sending.start()
        sending.join(CLOSE_S)
        lost = self._begun - self._exporter.sent
        if not lost:
            return None
        return f"{lost} of {self._begun} spans did not reach the collector of OpenTelemetry"

    def _begin(self, name: str, kind: SpanKind, told: Mapping[str, Any]) -> Span:
        span = self._tracer.start_span(name, self._below, kind, told)
        self._begun += span.is_recording()
        return span


def _given(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}
