"""A node that writes down the turns of its event loop that took long.

    python bench/bench_turns.py FILE run --config n1.properties

While a turn lasts, nobody is answered and no vote is given. FILE gets one JSON line per long turn:
``at`` (time.monotonic at its end, s), ``cpu_ms``, which hardly depends on who else uses the host,
and ``wall_ms``, with the waiting for the disk and for the host. The first turn, in which the node
opens its directory, is left out: it does not listen yet.
"""

from __future__ import annotations

import selectors
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

CPU_MS = 20.0  # a turn is long from here on
WALL_MS = 50.0
FIRST = 2  # the first turn ends with the second look at the sockets


def watch(path: Path) -> None:
    """Let all loops of this process tell of their long turns."""
    selector: Any = selectors.DefaultSelector
    select = selector.select
    encode = msgspec.json.Encoder().encode
    file = path.open("ab", buffering=0)
    began: list[float] = []  # CPU and wall time at the beginning of this turn
    turn = 0

    def watched(self: Any, timeout: float | None = None) -> Any:
        nonlocal turn
        turn += 1
        if turn > FIRST:
            cpu_ms = (time.thread_time() - began[0]) * 1e3
            wall_ms = (time.perf_counter() - began[1]) * 1e3
            if cpu_ms > CPU_MS or wall_ms > WALL_MS:
                line = {"at": time.monotonic(), "cpu_ms": cpu_ms, "wall_ms": wall_ms}
                file.write(encode(line) + b"\n")
        ready = select(self, timeout)
        began[:] = time.thread_time(), time.perf_counter()
        return ready

    selector.select = watched


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from node.__main__ import main

    main(sys.argv[2:])
