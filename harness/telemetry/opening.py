"""Opens what was asked for, and imports the libraries of the extra ``[metrics]`` only then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from harness.errors import UsageError
from harness.spec import RunSpec
from harness.telemetry.address import parse

if TYPE_CHECKING:
    from harness.telemetry.metrics import NightMetrics, RunMetrics
    from harness.telemetry.spans import Spans

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
OFF: Final = "OTEL_SDK_DISABLED"
Say = Callable[[str], None]  # takes a line for people
M = TypeVar("M", bound="RunMetrics | NightMetrics")


def run_metrics(where: str | None, say: Say) -> AbstractContextManager[RunMetrics | None]:
    """Serve the metrics of a run at ``[HOST:]PORT``; None: of nobody. Raises UsageError."""

    def make() -> RunMetrics:
        from harness.telemetry.metrics import RunMetrics  # noqa: PLC0415 - an extra

        return RunMetrics()

    return _served(where, make, say)


def night_metrics(where: str | None, say: Say) -> AbstractContextManager[NightMetrics | None]:
    """Serve the metrics of a night, as ``run_metrics``."""

    def make() -> NightMetrics:
        from harness.telemetry.metrics import NightMetrics  # noqa: PLC0415 - an extra

        return NightMetrics()

    return _served(where, make, say)


@contextmanager
def spans_of(spec: RunSpec, run_id: str, say: Say) -> Iterator[Spans | None]:
    """Send the spans of a run, if OpenTelemetry's variables name a collector; None: they do not.

    Those variables may be meant for others: without the libraries there is a note, and no spans.
    """
    if not any(map(os.environ.get, ENDPOINTS)) or os.environ.get(OFF, "").lower() == "true":
        yield None
        return
    try:
        from harness.telemetry.spans import Spans  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        say(f"note: no spans: they need {error.name}; install krucible with its extra [metrics]")
        yield None
        return
    attributes: dict[str, str | int] = {
        "krucible.run": run_id,
        "krucible.system": spec.system,
        "krucible.workload": spec.workload,
        "krucible.env": spec.env,
        "krucible.seed": spec.seed,
    }
    spans = Spans(f"run {spec.system}/{spec.workload}", attributes)
    try:
        yield spans
    finally:
        lost = spans.close()
        if lost is not None:
            say(f"note: {lost}")


@contextmanager
def _served(where: str | None, make: Callable[[], M], say: Say) -> Iterator[M | None]:
    """Serve what is made while the block lasts; nothing is made without a place for it."""
    if where is None:
        yield None
        return
    address = parse(where)
    try:
        metrics = make()
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--metrics needs {error.name}: install krucible with its extra [metrics]"
        ) from error
    from harness.telemetry.metrics import served  # noqa: PLC0415 - the extra is there

    with served(metrics.registry, address) as url:
        say(f"metrics: {url}")
        yield metrics
