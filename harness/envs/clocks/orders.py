"""Clocks of node processes: each its own, by libfaketime; the host's is never set.

Only the wall clock is moved (``DONT_FAKE_MONOTONIC``): a steady clock that jumps is no clock that
exists. A rate bends the wall clock as well, and libfaketime stretches the waits of a process whose
clock is slow, so that its timers are late.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.envs.clocks.jvm_attach import AttachError
from harness.envs.nodes.hands import NodeHands
from harness.envs.nodes.processes import NodeProcesses
from harness.errors import EnvError
from harness.healing.journal import Journal
from node.faults.clock_report import VARIABLE
from node.faults.hands import CLOCK, CLOCK_REPORT, FAULTS

LIBRARIES = ("/usr/lib", "/usr/local/lib")
_LIBRARY = "faketime/libfaketimeMT.so.1"
_PPM = 1_000_000
STILL: Final = ("gone", "Z", "T")  # states in which a process reads nothing

# What a node's process reads on its clocks: ``steady_ms`` and ``wall_ms``, and ``precision_ms``
# where it is not that of whole ms. None: it is down, or frozen. AttachError: it does not say.
ReadInside = Callable[[str], Awaitable[dict[str, int] | None]]


@dataclass(slots=True)
class Dial:
    """The time that a node's wall clock should show: the true time, and what was added so far.

    ``since_s`` is when the rate began to hold, ``drift_s`` what rates before it have added, and
    ``start_s`` when the process began: libfaketime counts a rate from there.
    """

    since_s: float
    jumps_ms: int = 0
    drift_s: float = 0.0
    ppm: int = _PPM
    start_s: float = 0.0
    entry: int | None = None

    @property
    def _excess(self) -> float:
        return self.ppm / _PPM - 1

    def set_rate(self, ppm: int, now_s: float) -> None:
        """Set the clock's rate from now on; what it has gained or lost until then stays."""
        self.drift_s += (now_s - self.since_s) * self._excess
        self.since_s, self.ppm = now_s, ppm

    def shown_ms(self, now_s: float) -> int:
        """Give the time that the clock shows."""
        drift_s = self.drift_s + (now_s - self.since_s) * self._excess
        return int((now_s + drift_s) * 1e3) + self.jumps_ms

    def order(self) -> str:
        """Give the clock's setting as libfaketime wants it: an offset in seconds, and a rate."""
        offset_s = self.jumps_ms / 1e3 + self.drift_s
        offset_s -= (self.since_s - self.start_s) * self._excess
        return f"{offset_s:+.6f} x{self.ppm / _PPM:.6f}\n"


class NodeClocks:
    """``ClockOrders`` where an environment starts its nodes' processes.

    The environment calls ``use`` before it starts nodes, and ``environ`` for each process just
    before its start, when the one before has ended.
    """

    def __init__(
        self,
        journal: Journal,
        hands: NodeHands,
        processes: NodeProcesses,
        faketime: Callable[[str], str | None],
        *,
        entry: str = "clock",
    ) -> None:
        """Nodes have the host's own clock.

        Args:
            journal: Of the run.
            hands: Reach the files of its nodes.
            processes: The nodes'.
            faketime: Tells by node where its process finds libfaketime; None: nowhere.
            entry: The kind of its journal entries.
        """
        self._journal = journal
        self._hands = hands
        self._processes = processes
        self._faketime = faketime
        self._entry = entry
        self._fakes = False
        self._asked: ReadInside | None = None
        self._dials: dict[str, Dial] = {}
        self._setting = asyncio.Lock()

    # ---- set-up

    def use(self) -> None:
        """Start nodes with clocks of their own from now on, where there is libfaketime."""
        self._fakes = True

    def ask(self, read_inside: ReadInside) -> None:
        """Have processes asked what they read, for they do not tell by themselves."""
        self._asked = read_inside

    async def environ(self, node: str) -> dict[str, str]:
        """Give the variables that put the clock of a node's next process in our hands."""
        library = self._faketime(node) if self._fakes else None
        if library is None:
            return {}
        dial = self._dial(node)
        dial.start_s = time.time()
        await self._hands.reach(node, "set_clock", text=dial.order(), fresh=True)
        folder = self._folder(node)
        return {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": f"{folder}/{CLOCK}",
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            VARIABLE: f"{folder}/{CLOCK_REPORT}",
        }

    # ---- orders

    async def set_rate(self, node: str, ppm: int) -> None:
        """See ``ClockOrders``."""
        dial = self._dial(node)
        async with self._setting:
            dial.set_rate(ppm, time.time())
            await self._set(node, dial)

    async def jump_wall(self, node: str, ms: int) -> None:
        """See ``ClockOrders``; the process sees it as soon as it looks at its clock."""
        dial = self._dial(node)
        async with self._setting:
            dial.jumps_ms += ms
            await self._set(node, dial)

    async def clock(self, node: str) -> Mapping[str, Any]:
        """See ``ClockOrders``; what a process that reads nothing now read last, or would read."""
        dial = self._dial(node)
        try:
            seen, unread = await self._read_inside(node), "the process has not told its time yet"
        except AttachError as error:
            seen, unread = None, str(error)
        state = self._processes.state(node).state
        if state in STILL:
            unread = f"the process is in state {state}"
        known: dict[str, Any] = {} if seen and state not in STILL else {"unread": unread}
        if seen is None:
            steady_ms, wall_ms = time.monotonic_ns() // 1_000_000, dial.shown_ms(time.time())
        else:
            steady_ms, wall_ms = seen.pop("steady_ms"), seen.pop("wall_ms")
            known |= seen
        return known | {
            "true_ms": steady_ms,
            "steady_ms": steady_ms,
            "wall_ms": wall_ms,
            "rated_ms": wall_ms - dial.jumps_ms,
        }

    # ---- inside

    async def _read_inside(self, node: str) -> dict[str, int] | None:
        if self._asked is not None:
            return await self._asked(node)
        runs = self._processes.state(node).pid is not None
        return await self._hands.reach(node, "read_clock") if runs else None

    def _folder(self, node: str) -> str:
        return f"{self._hands.folder_seen(node)}/{FAULTS}"

    def _dial(self, node: str) -> Dial:
        if not self._fakes:
            raise EnvError(
                "nodes go by the host's clock: no fault of this run needs clocks of their own"
            )
        return self._dials.setdefault(node, Dial(time.time()))

    async def _set(self, node: str, dial: Dial) -> None:
        """Order it: in the heal journal before it is wrong, out of it once it is right."""
        wrong = dial.jumps_ms != 0 or dial.ppm != _PPM
        if wrong and dial.entry is None:
            folder = self._folder(node)
            dial.entry = self._journal.record(self._entry, node=node, folder=folder)
        await self._hands.reach(node, "set_clock", text=dial.order(), fresh=False)
        if not wrong and dial.entry is not None:
            self._journal.undone(dial.entry)
            dial.entry = None


def no_fake_clocks() -> str | None:
    """Tell why processes of this host cannot have clocks of their own; None when they can."""
    if find_faketime() is not None:
        return None
    return f"there is no {_LIBRARY} below {' or '.join(LIBRARIES)}: apt-get install faketime"


def find_faketime() -> str | None:
    """Find libfaketime on this host; None when it is not installed."""
    places = (Path(folder) for folder in LIBRARIES)
    # with the machine's name in between on Debian, without elsewhere
    found = (p for at in places for p in (*sorted(at.glob(f"*/{_LIBRARY}")), at / _LIBRARY))
    return next((str(path) for path in found if path.exists()), None)
