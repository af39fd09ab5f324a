"""Disks of nodes: troubles under one that runs, damage to the files of one that is down.

A running node is reached through its own disk seam (``node.log.fault_disk``): a folder beside its
disk holds what is wrong with it, and what the kernel has not written yet. To a node that is down
the simulator's own code is done, on an image of its files.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec

from harness.errors import EnvError
from harness.hosts import Election
from harness.journal import Journal
from harness.protocols import ProcessState
from node.log.disk import Disk, FileDisk
from node.log.disk_image import load, store
from node.log.disk_journal import DiskJournal
from node.log.disk_trouble import FAILING, Trouble, Troubles, order
from node.log.fault_disk import VARIABLE
from node.log.memory_disk import MemoryDisk
from node.log.meta_properties import MetaProperties, load_meta_properties
from node.log.quorum_state import ElectionStateStore
from node.sim import damage, trouble

DATA, EVENTS = "data", "events.jsonl"  # in a node's folder
_FAULTS = "faults"
_PROBE = "probe"
_WRITES_MAX = 12  # a power failure in a write comes so many changes of the disk later at most
_WRITE_WAIT_S = 1.0
_POLL_S = 0.01

T = TypeVar("T")


class NodeDisks:
    """The abilities ``Disks`` and ``Power`` of an environment that has its nodes' files at hand.

    The environment mixes it in, calls ``use_fault_disks`` before it starts nodes and gives
    ``fault_disk_environ`` to each.
    """

    def __init__(self, journal: Journal) -> None:
        self._heal_journal = journal
        self._disk_rng: Random | None = None  # None: the disks are the host's own
        self._troubled: dict[str, tuple[Trouble, int | None]] = {}  # with their open entries
        self._copies: dict[str, MemoryDisk] = {}
        self._lost_snapshots: dict[str, dict[Path, bytes]] = {}
        self._serial = 0  # of orders to lose the power

    # ---- what the environment gives

    def node_dir(self, node: str) -> Path:
        """The node's folder."""
        raise NotImplementedError

    def process(self, node: str) -> ProcessState:
        """The node's process."""
        raise NotImplementedError

    async def end(self, node: str) -> None:
        """Kill the node's process, if it runs, and wait until it is gone."""
        raise NotImplementedError

    def freeze(self, node: str) -> Callable[[], None]:
        """Let the node stand still at once; returns what lets it go on."""
        raise NotImplementedError

    # ---- set-up

    def use_fault_disks(self, rng: Random) -> None:
        """Start nodes on fault disks from now on; ``rng`` decides what a power failure leaves."""
        self._disk_rng = rng

    def fault_disk_environ(self, node: str) -> dict[str, str]:
        """What a node's environment needs for its disk to be in our hands."""
        return {} if self._disk_rng is None else {VARIABLE: str(self._folder(node))}

    # ---- Power

    async def lose_power(self, node: str, *, mid_write: bool) -> Mapping[str, Any]:
        """See ``Power``; a host that writes nothing for a while loses it all the same."""
        folder, rng = self._folder(node), self._rng()
        if mid_write:
            self._serial += 1
            self._order(
                node, power_in=rng.randint(1, _WRITES_MAX), torn=rng.random(), serial=self._serial
            )
            deadline_s = asyncio.get_running_loop().time() + _WRITE_WAIT_S
            while self.process(node).pid is not None:
                if asyncio.get_running_loop().time() > deadline_s:
                    break
                await asyncio.sleep(_POLL_S)
        torn = mid_write and self.process(node).pid is None
        await self.end(node)
        if mid_write:
            self._order(node, power_in=0, torn=0.0)
        journal = DiskJournal(folder)
        try:
            disk = load(self._data(node), journal)
            lost = {path.name: size for path, size in disk.crash(rng).items()}
            store(self._data(node), journal, disk)
        finally:
            journal.close()
        return {"lost_bytes": sum(lost.values()), "lost": lost, "torn_write": torn}

    # ---- Disks, while the node runs

    def slow_fsync(self, node: str, ms: int) -> None:
        """See ``Disks``."""
        self._order(node, fsync_ms=ms)

    def fill(self, node: str, *, full: bool) -> None:
        """See ``Disks``."""
        self._order(node, full=full)

    def fail_io(self, node: str, operation: str | None) -> None:
        """See ``Disks``."""
        self._order(node, failing=FAILING[operation] if operation else frozenset())

    def try_disk(self, node: str) -> Mapping[str, Any]:
        """See ``Disks``; the counts are the node's own, and those of such tries."""
        folder, refused = self._folder(node), None
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

    def election(self, node: str) -> Election | None:
        """See ``Disks``."""
        disk, folder = FileDisk(), self._data(node)
        state, meta = ElectionStateStore(disk, folder).load(), load_meta_properties(disk, folder)
        if state is None or meta is None:
            return None
        return Election(state.epoch, state.leader_id, leads=state.leader_id == meta.node_id)

    def save_copy(self, node: str) -> None:
        """See ``Disks``; the node stands still for it, so that all files are of one moment."""
        go_on = self.freeze(node)
        try:
            journal = DiskJournal(self._folder(node))
            try:
                self._copies[node] = load(self._data(node), journal).clone()
            finally:
                journal.close()
        finally:
            go_on()

    # ---- Disks, while it is down

    def tear_tail(self, node: str, rng: Random) -> Mapping[str, Any]:
        """See ``Disks``."""
        return self._change(node, lambda disk, data: trouble.tear_tail(disk, data, rng))[0]

    def flip_bit(self, node: str, rng: Random) -> Mapping[str, Any] | None:
        """See ``Disks``."""
        return self._damage(node, "log", lambda disk, data: trouble.flip_bit(disk, data, rng))

    def cut_tail(self, node: str, rng: Random) -> Mapping[str, Any] | None:
        """See ``Disks``."""
        return self._damage(node, "log", lambda disk, data: damage.cut_tail(disk, data, rng))

    def lose_vote(self, node: str) -> Mapping[str, Any] | None:
        """See ``Disks``."""
        return self._damage(node, "vote", damage.lose_vote)

    def lose_snapshots(self, node: str) -> Mapping[str, Any]:
        """See ``Disks``."""
        lost = self._lost_snapshots[node] = self._damage(node, "snapshots", damage.lose_snapshots)
        return {"files": [path.name for path in lost]}

    def return_snapshots(self, node: str) -> None:
        """See ``Disks``."""
        files = self._lost_snapshots.pop(node, {})
        self._change(node, lambda disk, _: damage.put_back(disk, files))

    def wipe(self, node: str, *, keep_id: bool = False) -> Mapping[str, Any]:
        """See ``Disks``."""
        return self._damage(node, "wipe", lambda disk, _: trouble.wipe(disk, keep_id=keep_id))

    def restore_copy(self, node: str) -> Mapping[str, Any]:
        """See ``Disks``."""
        copy = self._copies.get(node)
        if copy is None:
            raise EnvError(f"there is no copy of the disk of {node}: save one first")
        held = {"files": len(copy.sizes()), "bytes": sum(copy.sizes().values())}

        def restore(disk: MemoryDisk, _: Path) -> Mapping[str, Any]:
            disk.restore(copy)
            return held

        return self._damage(node, "wipe", restore)

    # ---- inside

    def _rng(self) -> Random:
        if self._disk_rng is None:
            raise EnvError("nodes run on the host's own disk: no fault of the run asked for more")
        return self._disk_rng

    def _folder(self, node: str) -> Path:
        self._rng()
        folder = self.node_dir(node) / _FAULTS
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _data(self, node: str) -> Path:
        return self.node_dir(node) / DATA

    def _order(self, node: str, **changes: Any) -> None:
        """Change the trouble of a disk: in the heal journal before, out of it after."""
        folder = self._folder(node)
        before, entry = self._troubled.get(node, (Trouble(), None))
        wanted = msgspec.structs.replace(before, **changes)
        well = msgspec.structs.replace(wanted, serial=0) == Trouble()
        if entry is None and not well:
            entry = self._heal_journal.record("disk", node=node, folder=str(folder))
        order(folder, wanted)
        if entry is not None and well:
            self._heal_journal.undone(entry)
            entry = None
        self._troubled[node] = wanted, entry

    def _damage(self, node: str, what: str, do: Callable[[MemoryDisk, Path], T]) -> T:
        """Change files and tell in the node's trace what; nothing where there was nothing to do."""
        done, owner = self._change(node, do)
        if done and owner is not None:
            self._tell(node, owner, what)
        return done

    def _change(
        self, node: str, do: Callable[[MemoryDisk, Path], T]
    ) -> tuple[T, MetaProperties | None]:
        """Do something to the files of a node that is down; returns also whose they were."""
        if self.process(node).pid is not None:
            raise EnvError(f"{node} runs: its disk can be damaged only while it is down")
        journal, data = DiskJournal(self._folder(node)), self._data(node)
        try:
            owner = load_meta_properties(FileDisk(), data)
            disk = load(data, journal)
            done = do(disk, data)
            store(data, journal, disk)
        finally:
            journal.close()
        return done, owner

    def _tell(self, node: str, owner: MetaProperties, what: str) -> None:
        """Say in the trace that the disk is not what the node made of it, as the simulator does."""
        now_ns = time.monotonic_ns()
        event: dict[str, Any] = {"ts": now_ns, "seq": 1, "node": owner.node_id, "inc": now_ns}
        event |= {"dir": owner.directory_id.hex, "t": "disk", "what": what}
        path = self.node_dir(node) / EVENTS
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
