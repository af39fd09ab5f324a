"""Clocks of node processes: each its own, by libfaketime; the host's is never set.

Only the wall clock is moved (``DONT_FAKE_MONOTONIC``): a steady clock that jumps is no clock that
exists. A rate bends the wall clock as well, and libfaketime stretches the waits of a process whose
clock is slow, so that its timers are late.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import EnvError
from harness.journal import Journal
from harness.protocols import ProcessState
from node.clock_report import VARIABLE, read_report

LIBRARIES = ("/usr/lib", "/usr/local/lib")
_LIBRARY = "faketime/libfaketimeMT.so.1"
_FOLDER, _SHIFT, _REPORT = "faults", "clock", "clock.report"
_PPM = 1_000_000


@dataclass(slots=True)
class Dial:
    """What a node's wall clock should show: the true time, and what was added to it so far.

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
        """Let another rate hold from now on; what has been gained or lost stays."""
        self.drift_s += (now_s - self.since_s) * self._excess
        self.since_s, self.ppm = now_s, ppm

    def shown_ms(self, now_s: float) -> int:
        """What the clock shows."""
        drift_s = self.drift_s + (now_s - self.since_s) * self._excess
        return int((now_s + drift_s) * 1e3) + self.jumps_ms

    def order(self) -> str:
        """The same as libfaketime wants it: an offset in seconds, and a rate."""
        offset_s = self.jumps_ms / 1e3 + self.drift_s
        offset_s -= (self.since_s - self.start_s) * self._excess
        return f"{offset_s:+.6f} x{self.ppm / _PPM:.6f}\n"


class NodeClocks:
    """The ability ``Clocks`` of an environment whose nodes run under this host's kernel.

    The environment mixes it in, calls ``use_fake_clocks`` before it starts nodes, and
    ``fake_clock_environ`` for each process just before its start, when the one before has ended.
    """

    def __init__(self, journal: Journal) -> None:
        self._clock_journal = journal
        self._library: str | None = None  # None: the nodes have the host's own clock
        self._dials: dict[str, Dial] = {}

    # ---- what the environment gives

    def node_dir(self, node: str) -> Path:
        """The node's folder."""
        raise NotImplementedError

    def process(self, node: str) -> ProcessState:
        """The node's process."""
        raise NotImplementedError

    # ---- set-up

    def use_fake_clocks(self, library: str | None = None) -> None:
        """Start nodes with clocks of their own from now on.

        Args:
            library: libfaketime where the nodes see it; None: where this host has it.

        Raises:
            EnvError: This host has it nowhere.
        """
        found = library or _find_library()
        if found is None:
            raise EnvError(no_fake_clocks())
        self._library = str(found)

    def fake_clock_environ(self, node: str) -> dict[str, str]:
        """What the environment of a node's next process needs for its clock to be in our hands."""
        if self._library is None:
            return {}
        dial = self._dial(node)
        dial.start_s = time.time()
        self._write(node, dial)
        self._file(node, _REPORT).unlink(missing_ok=True)  # what is found there is of this process
        return {
            "LD_PRELOAD": self._library,
            "FAKETIME_TIMESTAMP_FILE": str(self._file(node, _SHIFT)),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            VARIABLE: str(self._file(node, _REPORT)),
        }

    # ---- Clocks

    def set_rate(self, node: str, ppm: int) -> None:
        """See ``Clocks``."""
        dial = self._dial(node)
        dial.set_rate(ppm, time.time())
        self._set(node, dial)

    def jump_wall(self, node: str, ms: int) -> None:
        """See ``Clocks``; the process sees it as soon as it looks at its clock."""
        dial = self._dial(node)
        dial.jumps_ms += ms
        self._set(node, dial)

    def clock(self, node: str) -> Mapping[str, int]:
        """See ``Clocks``: what the process said last; of one that is down, what it would read."""
        dial, runs = self._dial(node), self.process(node).pid is not None
        seen = read_report(self._file(node, _REPORT))
        if runs and seen is not None:
            steady_ms, wall_ms = seen.steady_ns // 1_000_000, seen.wall_ms
        else:
            steady_ms, wall_ms = time.monotonic_ns() // 1_000_000, dial.shown_ms(time.time())
        return {
            "true_ms": steady_ms,
            "steady_ms": steady_ms,
            "wall_ms": wall_ms,
            "rated_ms": wall_ms - dial.jumps_ms,
        }

    # ---- inside

    def _dial(self, node: str) -> Dial:
        if self._library is None:
            raise EnvError("nodes have the host's own clock: no fault of the run asked for more")
        return self._dials.setdefault(node, Dial(time.time()))

    def _set(self, node: str, dial: Dial) -> None:
        """Order it: in the heal journal before it is wrong, out of it once it is right."""
        wrong = dial.jumps_ms != 0 or dial.ppm != _PPM
        if wrong and dial.entry is None:
            folder = str(self._file(node, _SHIFT).parent)
            dial.entry = self._clock_journal.record("clock", node=node, folder=folder)
        self._write(node, dial)
        if not wrong and dial.entry is not None:
            self._clock_journal.undone(dial.entry)
            dial.entry = None

    def _write(self, node: str, dial: Dial) -> None:
        draft = self._file(node, f"{_SHIFT}.tmp")
        draft.write_text(dial.order())
        draft.replace(self._file(node, _SHIFT))

    def _file(self, node: str, name: str) -> Path:
        folder = self.node_dir(node) / _FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name


def no_fake_clocks() -> str | None:
    """Why processes of this host cannot have clocks of their own; None when they can."""
    if _find_library() is not None:
        return None
    return f"there is no {_LIBRARY} below {' or '.join(LIBRARIES)}: apt-get install faketime"


def _find_library() -> Path | None:
    places = (Path(folder) for folder in LIBRARIES)
    # with the machine's name in between on Debian, without elsewhere
    found = (p for at in places for p in (*sorted(at.glob(f"*/{_LIBRARY}")), at / _LIBRARY))
    return next((path for path in found if path.exists()), None)
