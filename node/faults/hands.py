"""Changes the files of a node from outside: its disk, and its wall clock.

``Hands`` work where the files are. On another host they are a process,
``python -m node.faults.hands FOLDER``: JSON lines ``{"do", ...}`` in, ``{"ok"}`` or ``{"error"}``
out, one for each. All that goes in and comes out is JSON, chance is a seed. The node itself never
imports this.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec

from node.faults import damage
from node.faults.clock_report import read_report
from node.faults.disk.image import load, store
from node.faults.disk.journal import DiskJournal
from node.faults.disk.trouble import Trouble, Troubles, order
from node.log.disk import Disk, FileDisk
from node.log.memory_disk import MemoryDisk
from node.log.meta_properties import MetaProperties, load_meta_properties
from node.log.quorum_state import ElectionStateStore

DATA, EVENTS, FAULTS = "data", "events.jsonl", "faults"  # in a node's folder
CLOCK, CLOCK_REPORT = "clock", "clock.report"  # in that of its faults
_PROBE = "probe"

T = TypeVar("T")


class HandsError(Exception):
    """Raised when something cannot be done; the text says why."""


class Hands:
    """Hands on one node's folder; its methods do what ``harness.contracts.hosts`` says of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = folder / DATA
        self._faults = folder / FAULTS
        self._copy: MemoryDisk | None = None
        self._lost_snapshots: dict[Path, bytes] = {}

    # ---- while the node runs

    def order(self, trouble: Mapping[str, Any]) -> None:
        """Give the node a disk with such troubles from now on; ``trouble`` is a ``Trouble``."""
        order(self._room(), msgspec.convert(trouble, Trouble))

    def try_disk(self) -> dict[str, Any]:
        """The counts are the node's own, and those of such tries."""
        folder, refused = self._room(), None
        troubles = Troubles(folder)
        try:
            _use(FileDisk(), folder / _PROBE, troubles)
        except OSError as error:
            refused = error
        counts = troubles.counts()
        return {
            "errno": None if refused is None else refused.errno,
            "detail": str(refused or "all was done"),
            "refused": counts[0],
            "fsync_ms": troubles.now().fsync_ms,
            "slowed": counts[1],
        }

    def election(self) -> dict[str, Any] | None:
        """Keys: ``epoch``, ``leader``, ``leads``."""
        disk = FileDisk()
        state = ElectionStateStore(disk, self._data).load()
        meta = load_meta_properties(disk, self._data)
        if state is None or meta is None:
            return None
        leads = state.leader_id == meta.node_id
        return {"epoch": state.epoch, "leader": state.leader_id, "leads": leads}

    def save_copy(self) -> None:
        """The node must stand still meanwhile, so that all files are of one moment."""
        journal = DiskJournal(self._room())
        try:
            self._copy = load(self._data, journal).clone()
        finally:
            journal.close()

    # ---- while it is down

    def crash(self, seed: int, *, clean: bool = False) -> dict[str, Any]:
        """Lose what is not durable, or some of it; keys as of ``Power``, without ``torn_write``."""
        lost = self._change(lambda disk: disk.crash(None if clean else Random(seed)))[0]
        sizes = {path.name: size for path, size in lost.items()}
        return {"lost_bytes": sum(sizes.values()), "lost": sizes}

    def tear_tail(self, seed: int) -> dict[str, Any]:
        """See ``Disks``."""
        return self._change(lambda disk: damage.tear_tail(disk, self._data, Random(seed)))[0]

    def flip_bit(self, seed: int) -> dict[str, Any] | None:
        """See ``Disks``."""
        return self._damage("log", lambda disk: damage.flip_bit(disk, self._data, Random(seed)))

    def cut_tail(self, seed: int) -> dict[str, Any] | None:
        """See ``Disks``."""
        return self._damage("log", lambda disk: damage.cut_tail(disk, self._data, Random(seed)))

    def lose_vote(self) -> dict[str, Any] | None:
        """See ``Disks``."""
        return self._damage("vote", lambda disk: damage.lose_vote(disk, self._data))

    def lose_snapshots(self) -> dict[str, Any]:
        """See ``Disks``."""
        self._lost_snapshots = self._damage(
            "snapshots", lambda disk: damage.lose_snapshots(disk, self._data)
        )
        return {"files": [path.name for path in self._lost_snapshots]}

    def return_snapshots(self) -> None:
        """See ``Disks``."""
        files, self._lost_snapshots = self._lost_snapshots, {}
        self._change(lambda disk: damage.put_back(disk, files))

    def wipe(self, *, keep_id: bool) -> dict[str, Any]:
        """See ``Disks``."""
        return self._damage("wipe", lambda disk: damage.wipe(disk, keep_id=keep_id))

    def restore_copy(self) -> dict[str, Any]:
        """See ``Disks``; raises HandsError when there is none."""
        copy = self._copy
        if copy is None:
            raise HandsError(f"there is no copy of the disk in {self._folder}: save one first")
        held = {"files": len(copy.sizes()), "bytes": sum(copy.sizes().values())}

        def restore(disk: MemoryDisk) -> dict[str, Any]:
            disk.restore(copy)
            return held

        return self._damage("wipe", restore)

    # ---- its clock

    def set_clock(self, text: str, *, fresh: bool) -> None:
        """Order it of libfaketime; ``fresh``: for a new process, which has said nothing yet."""
        folder = self._room()
        draft = folder / f"{CLOCK}.tmp"
        draft.write_text(text)
        draft.replace(folder / CLOCK)
        if fresh:
            (folder / CLOCK_REPORT).unlink(missing_ok=True)

    def read_clock(self) -> dict[str, int] | None:
        """Give what the process read last: ``steady_ms``, ``wall_ms``; None: nothing yet."""
        seen = read_report(self._faults / CLOCK_REPORT)
        if seen is None:
            return None
        return {"steady_ms": seen.steady_ns // 1_000_000, "wall_ms": seen.wall_ms}

    # ---- inside

    def _room(self) -> Path:
        self._faults.mkdir(parents=True, exist_ok=True)
        return self._faults

    def _damage(self, what: str, do: Callable[[MemoryDisk], T]) -> T:
        """Change files and tell in the node's trace what; nothing where there was nothing to do."""
        done, owner = self._change(do)
        if done and owner is not None:
            self._tell(owner, what)
        return done

    def _change(self, do: Callable[[MemoryDisk], T]) -> tuple[T, MetaProperties | None]:
        """Do something to the files of a node that is down; returns also whose they were."""
        journal = DiskJournal(self._room())
        try:
            owner = load_meta_properties(FileDisk(), self._data)
            disk = load(self._data, journal)
            done = do(disk)
            store(self._data, journal, disk)
        finally:
            journal.close()
        return done, owner

    def _tell(self, owner: MetaProperties, what: str) -> None:
        """Say in the trace that the disk is not what the node made of it, as the simulator does."""
        now_ns = time.monotonic_ns()
        event: dict[str, Any] = {"ts": now_ns, "seq": 1, "node": owner.node_id, "inc": now_ns}
        event |= {"dir": owner.directory_id.hex, "t": "disk", "what": what}
        path = self._folder / EVENTS
        torn = path.exists() and not path.read_bytes().endswith(b"\n")
        with path.open("ab") as file:
            file.write((b"\n" if torn else b"") + msgspec.json.encode(event) + b"\n")


def _use(disk: Disk, path: Path, troubles: Troubles) -> None:
    """Use a disk as a node does, in each way that may be refused; raises OSError."""
    troubles.refuse("append", path)
    file = disk.open(path, create=True)
    try:
        file.append(b"probe")
        troubles.refuse("fsync", path)
        file.fsync()
        troubles.refuse("read", path)
        file.read(0, 1)
    finally:
        file.close()


def main() -> None:
    """Obey until nobody asks any more."""
    hands = Hands(Path(sys.argv[1]))
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"ok": getattr(hands, asked.pop("do"))(**asked)}
        except (HandsError, OSError) as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
