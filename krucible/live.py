"""Live status of a run: a small panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.contracts.nemesis import Fault
from harness.history.ops import Op

REFRESH_HZ = 4.0
PLAIN_PERIOD_S = 5.0  # between two lines of figures when this is no terminal
RATE_WINDOW_S = 2.0

ROLE_STYLE: Mapping[str, str] = {
    "leader": "bold green",
    "follower": "green",
    "observer": "cyan",
    "candidate": "yellow",
    "prospective": "yellow",
    "unattached": "dim",
    "resigned": "magenta",
}


class LiveStatus:
    """Progress of one run for people; a context manager around it."""

    def __init__(
        self,
        console: Console,
        title: str,
        *,
        roles: Callable[[], Mapping[str, str]],
        time_limit_s: float,
    ) -> None:
        self._console = console
        self._title = title
        self._roles = roles
        self._time_limit_s = time_limit_s
        self._started_s = time.monotonic()
        self._plain_s = self._started_s
        self._phase = "open"
        self._phase_s = self._started_s
        self._counts: Counter[str] = Counter()
        self._window = (self._started_s, 0)
        self._rate_hz = 0.0
        self._active: dict[int, str] = {}
        self._outcomes: Counter[str] = Counter()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._render,
                console=self._console,
                refresh_per_second=REFRESH_HZ,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    # ------------------------------------------------------------------ Progress

    def on_op(self, op: Op) -> None:
        """Count an op."""
        self._counts[op.type] += 1
        now_s = time.monotonic()
        since_s, count = self._window
        done = self._counts["ok"]
        if now_s - since_s >= RATE_WINDOW_S:
            self._rate_hz = (done - count) / (now_s - since_s)
            self._window = (now_s, done)
        if self._live is None and now_s - self._plain_s >= PLAIN_PERIOD_S:
            self._plain_s = now_s
            self._console.print(f"{self._clock()} {self._figures()}")

    def on_fault(self, fault: Fault, stage: str, detail: dict[str, Any]) -> None:
        """Show what became of a fault."""
        targets = ", ".join(detail.get("targets", ()))
        if stage in ("installed", "skipped", "failed"):
            self._outcomes[stage] += 1
        if stage == "installed":
            self._active[fault.id] = f"{fault.nemesis} on {targets}" if targets else fault.nemesis
        elif stage == "healed":
            self._active.pop(fault.id, None)
        if stage in ("installed", "skipped", "failed", "healed", "heal-failed"):
            reason = detail.get("reason") or detail.get("error") or targets
            text = f"{self._clock()} {fault.nemesis} {stage}"
            self._console.print(f"{text}: {reason}" if reason else text, markup=False)

    def on_phase(self, phase: str) -> None:
        """Note the phase."""
        self._phase = phase
        self._phase_s = time.monotonic()
        if self._live is None:
            self._console.print(f"{self._clock()} phase {phase}")

    # ------------------------------------------------------------------ rendering

    def _clock(self) -> str:
        return f"{time.monotonic() - self._started_s:6.1f} s"

    def _phase_text(self) -> str:
        elapsed_s = time.monotonic() - self._phase_s
        of = f" of {self._time_limit_s:g} s" if self._phase == "main" else ""
        return f"{self._phase}, {elapsed_s:.1f} s{of}"

    def _figures(self) -> str:
        counts = self._counts
        return (
            f"{counts['ok']} ok, {counts['fail']} fail, {counts['info']} info, "
            f"{self._rate_hz:.0f} ok/s"
        )

    def _render(self) -> Group:
        roles = Text()
        for node, role in sorted(self._roles().items()):
            roles.append(f" {node} ", style="bold")
            roles.append(role, style=ROLE_STYLE.get(role, "white"))
        table = Table.grid(padding=(0, 2))
        table.add_row("phase", self._phase_text())
        table.add_row("nodes", roles)
        table.add_row("ops", self._figures())
        faults = ", ".join(self._active.values()) or "none"
        done = ", ".join(f"{n} {outcome}" for outcome, n in sorted(self._outcomes.items()))
        table.add_row("faults", Text(f"now: {faults}   so far: {done or 'none'}"))
        return Group(Text(self._title, style="bold"), table)
