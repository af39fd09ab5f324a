"""``RunMetrics`` and ``NightMetrics`` count what happens; ``served`` lets Prometheus read them.

Only who imports this module needs prometheus-client. Counters begin at zero with the command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from harness.contracts.nemesis import Fault
from harness.errors import UsageError
from harness.history.ops import Op
from harness.telemetry.address import Address

BUCKETS_S: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0),
)


class RunMetrics:
    """The metrics of a run; a ``Progress``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._ops = Counter(
            "krucible_ops",
            "Ops of clients that completed: ok, fail, or info (nobody knows).",
            ("f", "outcome"),
            registry=self.registry,
        )
        self._latency = Histogram(
            "krucible_op_latency_seconds",
            "Time from the invocation of an op to its completion, whatever that was.",
            ("f",),
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self._active_faults = Gauge(
            "krucible_faults_active",
            "Faults that are installed and not healed.",
            ("kind",),
            registry=self.registry,
        )
        self._installed = Counter(
            "krucible_faults_installed",
            "Faults that took hold.",
            ("kind",),
            registry=self.registry,
        )
        self._healed = Counter(
            "krucible_faults_healed",
            "Faults that took hold and were healed.",
            ("kind",),
            registry=self.registry,
        )
        self._runs = Counter(
            "krucible_runs",
            "Runs that were judged: valid, invalid or unknown.",
            ("verdict",),
            registry=self.registry,
        )
        self._began_ns: dict[int | str, int] = {}  # by process: the invocation that is open
        self._active: set[int] = set()  # faults

    def on_op(self, op: Op) -> None:
        """Count a completion, and its latency; an invocation is only remembered."""
        if op.type == "invoke":
            self._began_ns[op.process] = op.time_ns
            return
        self._ops.labels(op.f, op.type).inc()
        began_ns = self._began_ns.pop(op.process, None)
        if began_ns is not None:
            self._latency.labels(op.f).observe((op.time_ns - began_ns) / 1e9)

    def on_fault(self, fault: Fault, stage: str, _: dict[str, Any]) -> None:
        """Count a fault that takes hold, or is healed."""
        if stage == "installed":
            self._active.add(fault.id)
            self._installed.labels(fault.nemesis).inc()
            self._active_faults.labels(fault.nemesis).inc()
        elif stage == "healed" and fault.id in self._active:
            self._active.discard(fault.id)
            self._healed.labels(fault.nemesis).inc()
            self._active_faults.labels(fault.nemesis).dec()

    def on_phase(self, phase: str) -> None:
        """Do nothing: phases are seen in spans."""

    def judged(self, verdict: str) -> None:
        """Count the verdict."""
        self._runs.labels(verdict).inc()


class NightMetrics:
    """The metrics of a night, from the lines of its ledger."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._histories = Counter(
            "krucible_histories",
            "Histories that were judged, by verdict; of live runs and simulated ones.",
            ("entry", "verdict"),
            registry=self.registry,
        )
        self._canaries = Counter(
            "krucible_canaries",
            "Canaries that were looked for: caught or missed.",
            ("outcome",),
            registry=self.registry,
        )
        self._work = Counter(
            "krucible_night_work_seconds",
            "Time that was spent.",
            ("entry",),
            registry=self.registry,
        )
        self._broken = Counter(
            "krucible_night_broken",
            "Times that the harness broke.",
            registry=self.registry,
        )

    def on_line(self, line: Mapping[str, Any]) -> None:
        """Count what a line tells."""
        kind = line["t"]
        if kind in ("seed", "live"):
            self._histories.labels(line["entry"], line["verdict"]).inc()
            if line.get("harness_error"):
                self._broken.inc()
        elif kind == "canary":
            self._canaries.labels("caught" if line["caught"] else "missed").inc()
        elif kind == "spent":
            self._work.labels(line["entry"]).inc(line["s"])
        elif kind == "broke":
            self._broken.inc()


@contextmanager
def served(registry: CollectorRegistry, address: Address) -> Iterator[str]:
    """Serve the metrics meanwhile, from a thread; gives the URL. Raises UsageError."""
    try:
        server, thread = start_http_server(address.port, address.host, registry)
    except OSError as error:
        raise UsageError(
            f"--metrics {address.host}:{address.port}: cannot listen there: "
            f"{error.strerror or error}; choose another port, or 0 for any free one"
        ) from error
    try:
        yield Address(address.host, server.server_port).url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
