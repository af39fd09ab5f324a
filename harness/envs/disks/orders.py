"""Disks of nodes: troubles under one that runs, damage to the files of one that is down.

A running node is reached through its own disk seam (``node.faults.fault_disk``): a folder beside
its disk holds what is wrong with it, and what the kernel has not written yet. To a node that is
down the simulator's own code is done, on an image of its files (``node.faults.hands``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import msgspec

from harness.contracts.hosts import Election
from harness.envs.disks.hands import NodeHands
from harness.errors import EnvError
from harness.healing.journal import Journal
from node.faults.disk.trouble import FAILING, Trouble
from node.faults.fault_disk import VARIABLE
from node.faults.hands import FAULTS

_WRITES_MAX = 12  # a power failure in a write comes so many changes of the disk later at most
_WRITE_WAIT_S = 1.0
_POLL_S = 0.01
_SEED_BITS = 64


class NodeDisks(NodeHands):
    """The abilities ``Disks`` and ``Power`` of an environment that reaches its nodes' files.

    The environment mixes it in, calls ``use_fault_disks`` before it starts nodes and gives
    ``fault_disk_environ`` to each.
    """

    disk_entry = "disk"  # the kind of its journal entries

    def __init__(self, journal: Journal) -> None:
        self._disk_journal = journal
        self._disk_rng: Random | None = None  # None: the disks are the host's own
        self._troubled: dict[str, tuple[Trouble, int | None]] = {}  # with their open entries
        self._ordering = asyncio.Lock()
        self._serial = 0  # of orders to lose the power

    # ---- what the environment gives

    async def end(self, node: str) -> None:
        """Kill the node's process, if it runs, and wait until it is gone."""
        raise NotImplementedError

    def frozen(self, node: str) -> AbstractAsyncContextManager[None]:
        """Within, the node stands still; nothing where it did before."""
        raise NotImplementedError

    # ---- set-up

    def use_fault_disks(self, rng: Random) -> None:
        """Start nodes on fault disks from now on; ``rng`` decides what a power failure leaves."""
        self._disk_rng = rng

    def fault_disk_environ(self, node: str) -> dict[str, str]:
        """What a node's environment needs for its disk to be in our hands."""
        return {} if self._disk_rng is None else {VARIABLE: f"{self.folder_seen(node)}/{FAULTS}"}

    # ---- Power

    async def lose_power(self, node: str, *, mid_write: bool) -> Mapping[str, Any]:
        """See ``Power``; a host that writes nothing for a while loses it all the same."""
        rng = self._rng()
        if mid_write:
            self._serial += 1
            await self._order(
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
            await self._order(node, power_in=0, torn=0.0)
        lost = await self._damage(node, "crash", seed=rng.getrandbits(_SEED_BITS))
        return {**lost, "torn_write": torn}

    # ---- Disks, while the node runs

    async def slow_fsync(self, node: str, ms: int) -> None:
        """See ``Disks``."""
        await self._order(node, fsync_ms=ms)

    async def fill(self, node: str, *, full: bool) -> None:
        """See ``Disks``."""
        await self._order(node, full=full)

    async def fail_io(self, node: str, operation: str | None) -> None:
        """See ``Disks``."""
        await self._order(node, failing=FAILING[operation] if operation else frozenset())

    async def try_disk(self, node: str) -> Mapping[str, Any]:
        """See ``Disks``; the counts are the node's own, and those of such tries."""
        self._rng()
        return dict(await self.reach(node, "try_disk"))

    async def election(self, node: str) -> Election | None:
        """See ``Disks``."""
        found = await self.reach(node, "election")
        return None if found is None else Election(**found)

    async def save_copy(self, node: str) -> None:
        """See ``Disks``; the node stands still for it, so that all files are of one moment."""
        self._rng()
        async with self.frozen(node):
            await self.reach(node, "save_copy")

    # ---- Disks, while it is down

    async def tear_tail(self, node: str, rng: Random) -> Mapping[str, Any]:
        """See ``Disks``."""
        return dict(await self._damage(node, "tear_tail", seed=rng.getrandbits(_SEED_BITS)))

    async def flip_bit(self, node: str, rng: Random) -> Mapping[str, Any] | None:
        """See ``Disks``."""
        return _maybe(await self._damage(node, "flip_bit", seed=rng.getrandbits(_SEED_BITS)))

    async def cut_tail(self, node: str, rng: Random) -> Mapping[str, Any] | None:
        """See ``Disks``."""
        return _maybe(await self._damage(node, "cut_tail", seed=rng.getrandbits(_SEED_BITS)))

    async def lose_vote(self, node: str) -> Mapping[str, Any] | None:
        """See ``Disks``."""
        return _maybe(await self._damage(node, "lose_vote"))

    async def lose_snapshots(self, node: str) -> Mapping[str, Any]:
        """See ``Disks``."""
        return dict(await self._damage(node, "lose_snapshots"))

    async def return_snapshots(self, node: str) -> None:
        """See ``Disks``."""
        await self._damage(node, "return_snapshots")

    async def wipe(self, node: str, *, keep_id: bool = False) -> Mapping[str, Any]:
        """See ``Disks``."""
        return dict(await self._damage(node, "wipe", keep_id=keep_id))

    async def restore_copy(self, node: str) -> Mapping[str, Any]:
        """See ``Disks``."""
        return dict(await self._damage(node, "restore_copy"))

    # ---- inside

    def _rng(self) -> Random:
        if self._disk_rng is None:
            raise EnvError("nodes run on the host's own disk: no fault of the run asked for more")
        return self._disk_rng

    async def _order(self, node: str, **changes: Any) -> None:
        """Change the trouble of a disk: in the heal journal before, out of it after."""
        self._rng()
        async with self._ordering:
            before, entry = self._troubled.get(node, (Trouble(), None))
            wanted = msgspec.structs.replace(before, **changes)
            well = msgspec.structs.replace(wanted, serial=0) == Trouble()
            if entry is None and not well:
                folder = f"{self.folder_seen(node)}/{FAULTS}"
                entry = self._disk_journal.record(self.disk_entry, node=node, folder=folder)
            self._troubled[node] = wanted, entry
            await self.reach(node, "order", trouble=msgspec.to_builtins(wanted))
            if entry is not None and well:
                self._disk_journal.undone(entry)
                self._troubled[node] = wanted, None

    async def _damage(self, node: str, do: str, **arguments: Any) -> Any:
        """Do something to the files of a node that is down."""
        self._rng()
        if self.process(node).pid is not None:
            raise EnvError(f"{node} runs: its disk can be damaged only while it is down")
        return await self.reach(node, do, **arguments)


def _maybe(found: Any) -> Mapping[str, Any] | None:
    return None if found is None else dict(found)
