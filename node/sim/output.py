"""Collects the log lines of simulated processes, with the simulated time."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

from node.sim.loop import VirtualLoop
from node.sim.process_state import NS_PER_S, RUNNING


class VirtualOutput(logging.Handler):
    """Takes the place of all log handlers while it is entered; ``lines`` by name of the process."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.lines: dict[str, list[str]] = {}
        self._loop = loop
        self._before: tuple[list[logging.Handler], int] = ([], logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what a process says; what nobody of them says, or a dead one, is dropped."""
        process = RUNNING.get()
        if process is not None and process.alive:
            text = f"{self._loop.now_ns / NS_PER_S:.6f} {record.levelname} {self.format(record)}"
            self.lines.setdefault(process.name, []).extend(text.splitlines())

    def __enter__(self) -> Self:
        root = logging.getLogger()
        self._before = root.handlers[:], root.level
        root.handlers[:] = [self]
        root.setLevel(logging.INFO)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        root = logging.getLogger()
        root.handlers[:], level = self._before
        root.setLevel(level)
