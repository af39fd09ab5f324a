"""Reads the clocks of JVMs: each is asked, for none shows it by itself."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from typing import Final, Protocol

from harness.envs.clocks.jvm_attach import AttachError, ask
from harness.processes.procfs import ProcessId

PRECISION_MS: Final = 1  # of both clocks, as the JVM prints them
ASK_TIMEOUT_S: Final = 3.0
_COMMAND: Final = "VM.uptime -date"
# Some locales have a comma for the point.
_ANSWER: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d{3}[+-]\d{4}): (\d+)[.,](\d{3}) s\s*"
)


class AskJvm(Protocol):
    """Asks a JVM a command of jcmd's; raises AttachError."""

    async def __call__(self, jvm: ProcessId, command: str, *, timeout_s: float) -> str:
        """Give its answer."""
        ...


class JvmClocks:
    """The clocks of the JVMs that nodes are."""

    def __init__(self, ask: AskJvm = ask) -> None:
        """Read nothing yet; ``ask`` asks a JVM where it is."""
        self._ask = ask
        # By JVM: what the host's steady clock showed when the JVM's own began.
        self._zeros_ms: dict[ProcessId, int] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def read(self, node: str, process: ProcessId) -> dict[str, int]:
        """Read it: ``steady_ms``, ``wall_ms``, and the ``precision_ms`` of both.

        The steady clock is the JVM's own, told from where the host's was when it was first read.

        Raises:
            AttachError: It says nothing, or nothing that could be understood.
        """
        async with self._turns.setdefault(node, asyncio.Lock()):
            asked_ms = _steady_ms()
            answer = await self._ask(process, _COMMAND, timeout_s=ASK_TIMEOUT_S)
            answered_ms = _steady_ms()
        wall_ms, uptime_ms = parse(answer)
        began_ms = (asked_ms + answered_ms) // 2 - uptime_ms
        steady_ms = self._zeros_ms.setdefault(process, began_ms) + uptime_ms
        return {"steady_ms": steady_ms, "wall_ms": wall_ms, "precision_ms": PRECISION_MS}


def parse(answer: str) -> tuple[int, int]:
    """The wall clock, ms since 1970, and the time since the JVM's start, ms; raises AttachError."""
    found = _ANSWER.fullmatch(answer)
    if found is None:
        raise AttachError(
            f"a JVM answered {_COMMAND!r} with {answer[:200]!r}: want a date and an uptime"
        )
    date, seconds, thousandths = found.groups()
    try:
        wall = datetime.strptime(date.replace(",", "."), "%Y-%m-%dT%H:%M:%S.%f%z")
    except ValueError as error:
        raise AttachError(
            f"a JVM answered {_COMMAND!r} with {date!r}: want a date and an uptime"
        ) from error
    return round(wall.timestamp() * 1e3), int(seconds) * 1000 + int(thousandths)


def _steady_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1e3)
