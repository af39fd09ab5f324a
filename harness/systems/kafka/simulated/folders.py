"""Real folders of this host, in which simulated nodes of Kafka have Kafka's own log.

``krucible.kafka.log=real`` asks for it. The folders of a simulation lie in one, below that of all
temporary files, which is gone with the simulation. It is locked for so long: what a simulation that
was killed has left is removed by the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from harness.contracts.hosts import Disks, Power
from harness.errors import UsageError
from harness.systems.kafka.mixed import SYSTEM, nodes_of_ours
from harness.systems.kafka.releases import Line, all_releases
from harness.systems.nodes.processes import FSYNC_SETTING

LOG: Final = "krucible.kafka.log"
SIMULATED, REAL = "simulated", "real"
REAL_SINCE: Final[Line] = (4, 1)
IN_RAFT_SINCE: Final[Line] = (4, 3)  # before, the log is one of the server's classes
NOT_OURS: Final = (
    f"--set {LOG}={REAL} has Kafka's logs on the disk of this host, where no fault can be made"
)
_PREFIX: Final = "krucible-kafka-"
_DRAFT: Final = f".{_PREFIX}"  # a folder that is not locked yet


def is_real(settings: Mapping[str, str]) -> bool:
    """Tell whether nodes of a run have Kafka's own log, in a real folder."""
    return settings.get(LOG) == REAL


def check_log(settings: Mapping[str, str]) -> None:
    """Raise UsageError for a log that simulated nodes cannot have."""
    if settings.get(LOG, SIMULATED) not in (SIMULATED, REAL):
        raise UsageError(f"--set {LOG}={settings[LOG]}: want {SIMULATED} or {REAL}")
    if not is_real(settings):
        return
    if settings.get(FSYNC_SETTING) == "false":
        raise UsageError(f"--set {FSYNC_SETTING}=false: disks of {LOG}={REAL} do not lie")
    if nodes_of_ours(settings):
        raise UsageError(f"--set {SYSTEM}.NODE: all nodes of {LOG}={REAL} are Kafka's")
    for release in all_releases(settings):
        if release.line < REAL_SINCE:
            want = ".".join(map(str, REAL_SINCE))
            raise UsageError(f"--set {LOG}={REAL}: want Apache Kafka {want} or newer: {release}")
        if release.line < IN_RAFT_SINCE and not release.has_server():
            raise UsageError(f"--set {LOG}={REAL}: {release} has no kafka_2.*.jar, with that log")


def why_not(ability: type, settings: Mapping[str, str]) -> str | None:
    """Tell why disks cannot break, or lose what was not fsynced; None when they can."""
    return NOT_OURS if ability in (Disks, Power) and is_real(settings) else None


class Folders:
    """The folders of one simulation; used as a context that ends with it."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._lock = -1

    def of(self, node: str) -> Path:
        """Give the folder of a node, as ``log.dirs`` names it; raises OSError."""
        if self._root is None:
            _sweep()
            draft = Path(tempfile.mkdtemp(prefix=_DRAFT))
            self._lock = _locked(draft)
            self._root = draft.rename(draft.with_name(draft.name.removeprefix(".")))
        folder = self._root / node
        folder.mkdir(exist_ok=True)
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._root is not None:
            shutil.rmtree(self._root)
            os.close(self._lock)
            self._root = None


def _locked(folder: Path) -> int:
    """Lock a folder, until the file descriptor is closed; raises OSError, as when it is locked."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _sweep() -> None:
    """Remove the folders of simulations that are no more."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it lives, or is somebody else's
            fd = _locked(left)
            try:
                shutil.rmtree(left)
            finally:
                os.close(fd)
