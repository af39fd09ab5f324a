"""Disks of nodes: troubles under one that runs, damage to the files of one that is down.

A running node is reached through its own disk seam (``node.faults.fault_disk``): a folder beside
its disk holds what is wrong with it, and what the kernel has not written yet. To a node that is
down the simulator's own code is done, on an image of its files (``node.faults.hands``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from harness.contracts.hosts import Election
from harness.envs.nodes.hands import NodeHands
from harness.envs.nodes.processes import NodeProcesses
from harness.errors import EnvError
from harness.healing.journal import Journal
from node.faults.disk.trouble import FAILING, Trouble
from node.faults.fault_disk import VARIABLE
from node.faults.hands import FAULTS

SEED_BITS = 64


class NodeDisks:
    """``DiskOrders`` where the hands reach the nodes' files.

    The environment calls ``use`` before it starts nodes and gives ``environ`` to each.
    """

    def __init__(
        self, journal: Journal, hands: NodeHands, processes: NodeProcesses, *, entry: str = "disk"
    ) -> None:
        """Nodes have the host's own disks.

        Args:
            journal: Of the run.
            hands: Reach the files of its nodes.
            processes: The nodes'.
            entry: The kind of its journal entries.
        """
        self._journal = journal
        self._hands = hands
        self._processes = processes
        self._entry = entry
        self.used = False  # whether nodes start on fault disks
        self._troubled: dict[str, tuple[Trouble, int | None]] = {}  # with their open entries
        self._ordering = asyncio.Lock()

    # ---- set-up

    def use(self) -> None:
        """Start nodes on fault disks from now on."""
        self.used = True

    def environ(self, node: str) -> dict[str, str]:
        """Give the environment variables that put a node's disk in our hands."""
        return {VARIABLE: self._folder(node)} if self.used else {}

    # ---- while the node runs

    async def slow_fsync(self, node: str, ms: int) -> None:
        """See ``DiskOrders``."""
        await self.order(node, fsync_ms=ms)

    async def fill(self, node: str, *, full: bool) -> None:
        """See ``DiskOrders``."""
        await self.order(node, full=full)

    async def fail_io(self, node: str, operation: str | None) -> None:
        """See ``DiskOrders``."""
        await self.order(node, failing=FAILING[operation] if operation else frozenset())

    async def try_disk(self, node: str) -> Mapping[str, Any]:
        """See ``DiskOrders``; the counts are the node's own, and those of such tries."""
        self.check()
        return dict(await self._hands.reach(node, "try_disk"))

    async def election(self, node: str) -> Election | None:
        """See ``DiskOrders``."""
        found = await self._hands.reach(node, "election")
        return None if found is None else Election(**found)

    async def save_copy(self, node: str) -> None:
        """See ``DiskOrders``; the node stands still for it, so that all files are of one moment."""
        self.check()
        async with self._processes.frozen(node):
            await self._hands.reach(node, "save_copy")

    # ---- while it is down

    async def tear_tail(self, node: str, rng: Random) -> Mapping[str, Any]:
        """See ``DiskOrders``."""
        return dict(await self.damage(node, "tear_tail", seed=rng.getrandbits(SEED_BITS)))

    async def flip_bit(self, node: str, rng: Random) -> Mapping[str, Any] | None:
        """See ``DiskOrders``."""
        return _maybe(await self.damage(node, "flip_bit", seed=rng.getrandbits(SEED_BITS)))

    async def cut_tail(self, node: str, rng: Random) -> Mapping[str, Any] | None:
        """See ``DiskOrders``."""
        return _maybe(await self.damage(node, "cut_tail", seed=rng.getrandbits(SEED_BITS)))

    async def lose_vote(self, node: str) -> Mapping[str, Any] | None:
        """See ``DiskOrders``."""
        return _maybe(await self.damage(node, "lose_vote"))

    async def lose_snapshots(self, node: str) -> Mapping[str, Any]:
        """See ``DiskOrders``."""
        return dict(await self.damage(node, "lose_snapshots"))

    async def return_snapshots(self, node: str) -> None:
        """See ``DiskOrders``."""
        await self.damage(node, "return_snapshots")

    async def wipe(self, node: str, *, keep_id: bool = False) -> Mapping[str, Any]:
        """See ``DiskOrders``."""
        return dict(await self.damage(node, "wipe", keep_id=keep_id))

    async def restore_copy(self, node: str) -> Mapping[str, Any]:
        """See ``DiskOrders``."""
        return dict(await self.damage(node, "restore_copy"))

    # ---- for the power, too

    def check(self) -> None:
        """Raise EnvError where nodes run on the host's own disks."""
        if not self.used:
            raise EnvError(
                "nodes use the host's disk directly: no fault of this run needs disks of their own"
            )

    async def order(self, node: str, **changes: Any) -> None:
        """Change the trouble of a disk: in the heal journal before, out of it after."""
        self.check()
        async with self._ordering:
            before, entry = self._troubled.get(node, (Trouble(), None))
            wanted = msgspec.structs.replace(before, **changes)
            well = msgspec.structs.replace(wanted, serial=0) == Trouble()
            if entry is None and not well:
                folder = self._folder(node)
                entry = self._journal.record(self._entry, node=node, folder=folder)
            self._troubled[node] = wanted, entry
            await self._hands.reach(node, "order", trouble=msgspec.to_builtins(wanted))
            if entry is not None and well:
                self._journal.undone(entry)
                self._troubled[node] = wanted, None

    async def damage(self, node: str, do: str, **arguments: Any) -> Any:
        """Do something to the files of a node that is down."""
        self.check()
        if self._processes.state(node).pid is not None:
            raise EnvError(f"{node} runs: its disk can be damaged only while it is down")
        return await self._hands.damage(node, do, **arguments)

    def _folder(self, node: str) -> str:
        return f"{self._hands.folder_seen(node)}/{FAULTS}"


def _maybe(found: Any) -> Mapping[str, Any] | None:
    return None if found is None else dict(found)
