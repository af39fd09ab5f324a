"""Disks and power of simulated hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.contracts.hosts import Election
from harness.envs.nodes.names import known
from harness.errors import EnvError
from node.faults import damage
from node.faults.disk.trouble import FAILING, PROBE_FILE
from node.log.memory_disk import MemoryDisk
from node.log.meta_properties import load_meta_properties
from node.log.quorum_state import ElectionStateStore
from node.sim.fabric import MS
from node.sim.host import VirtualHost
from node.sim.loop import VirtualLoop

NODE_DIR: Final = Path("/data")  # of each node, on its host's own disk
POLL_S: Final = 0.01
WRITES_MAX: Final = 12  # a power failure in a write comes so many changes of the disk later at most
WRITE_WAIT_NS: Final = 1_000 * MS


def down(hosts: Mapping[str, VirtualHost], node: str) -> VirtualHost:
    """The host of a node that is down; raises EnvError."""
    host = known(hosts, node)
    if host.process is not None:
        raise EnvError(f"{node} runs: its disk can be damaged only while it is down")
    return host


class SimPower:
    """``PowerOrders`` of simulated hosts."""

    def __init__(self, loop: VirtualLoop, hosts: Mapping[str, VirtualHost], rng: Random) -> None:
        """Begin with power on all hosts; ``rng`` decides in which of its writes a host loses it."""
        self._loop = loop
        self._hosts = hosts
        self._rng = rng

    async def lose(self, node: str, *, mid_write: bool, clean: bool = False) -> Mapping[str, Any]:
        """See ``PowerOrders``; a host that writes nothing for a while loses it all the same.

        In the middle of a change of the disk, at which a trigger strikes, that is the write.
        """
        host = known(self._hosts, node)
        amid = mid_write and host.lose_power_amid()
        if mid_write and not amid:
            host.lose_power_in(self._rng.randint(1, WRITES_MAX))
            deadline_ns = self._loop.now_ns + WRITE_WAIT_NS
            while host.awaits_power_loss and self._loop.now_ns < deadline_ns:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        torn = amid or (mid_write and not host.awaits_power_loss)
        if not torn:
            host.lose_power(torn=not clean)
        lost = {path.name: size for path, size in host.lost.items()}
        return {"lost_bytes": sum(lost.values()), "lost": lost, "torn_write": torn}


class SimDisks:
    """``DiskOrders`` of simulated hosts."""

    def __init__(self, hosts: Mapping[str, VirtualHost]) -> None:
        """Begin with whole disks; ``hosts`` are the simulation's, by node, once they are there."""
        self._hosts = hosts
        self._copies: dict[str, MemoryDisk] = {}  # of disks, by node
        self._lost: dict[str, dict[Path, bytes]] = {}  # snapshots, by node

    async def slow_fsync(self, node: str, ms: int) -> None:
        """See ``DiskOrders``."""
        known(self._hosts, node).trouble.fsync_ns = ms * MS

    async def fill(self, node: str, *, full: bool) -> None:
        """See ``DiskOrders``."""
        known(self._hosts, node).trouble.full = full

    async def fail_io(self, node: str, operation: str | None) -> None:
        """See ``DiskOrders``."""
        known(self._hosts, node).trouble.failing = FAILING[operation] if operation else frozenset()

    async def try_disk(self, node: str) -> Mapping[str, Any]:
        """See ``DiskOrders``."""
        host, refused = known(self._hosts, node), None
        try:
            file = host.disk.open(PROBE_FILE, create=True)
            file.append(b"probe")
            file.fsync()
            file.read(0, 1)
        except OSError as error:
            refused = error
        return {
            "errno": None if refused is None else refused.errno,
            "detail": str(refused or "all was done"),
            "refused": host.trouble.refused,
            "fsync_ms": host.trouble.fsync_ns / MS,
            "slowed": host.trouble.slowed,
        }

    async def tear_tail(self, node: str, rng: Random) -> Mapping[str, Any]:
        """See ``DiskOrders``."""
        return damage.tear_tail(down(self._hosts, node).disk, NODE_DIR, rng)

    async def flip_bit(self, node: str, rng: Random) -> Mapping[str, Any] | None:
        """See ``DiskOrders``."""
        host = down(self._hosts, node)
        found = damage.flip_bit(host.disk, NODE_DIR, rng)
        if found is not None:
            host.damaged("log")
        return found

    async def cut_tail(self, node: str, rng: Random) -> Mapping[str, Any] | None:
        """See ``DiskOrders``."""
        host = down(self._hosts, node)
        found = damage.cut_tail(host.disk, NODE_DIR, rng)
        if found is not None:
            host.damaged("log")
        return found

    async def lose_vote(self, node: str) -> Mapping[str, Any] | None:
        """See ``DiskOrders``."""
        host = down(self._hosts, node)
        found = damage.lose_vote(host.disk, NODE_DIR)
        if found is not None:
            host.damaged("vote")
        return found

    async def lose_snapshots(self, node: str) -> Mapping[str, Any]:
        """See ``DiskOrders``."""
        host = down(self._hosts, node)
        lost = self._lost[node] = damage.lose_snapshots(host.disk, NODE_DIR)
        if lost:
            host.damaged("snapshots")
        return {"files": [path.name for path in lost]}

    async def return_snapshots(self, node: str) -> None:
        """See ``DiskOrders``."""
        damage.put_back(down(self._hosts, node).disk, self._lost.pop(node, {}))

    async def election(self, node: str) -> Election | None:
        """See ``DiskOrders``."""
        disk, folder = known(self._hosts, node).disk, NODE_DIR
        state, meta = ElectionStateStore(disk, folder).load(), load_meta_properties(disk, folder)
        if state is None or meta is None:
            return None
        return Election(state.epoch, state.leader_id, leads=state.leader_id == meta.node_id)

    async def wipe(self, node: str, *, keep_id: bool = False) -> Mapping[str, Any]:
        """See ``DiskOrders``."""
        host = down(self._hosts, node)
        host.damaged("wipe")
        return damage.wipe(host.disk, keep_id=keep_id)

    async def save_copy(self, node: str) -> None:
        """See ``DiskOrders``."""
        self._copies[node] = known(self._hosts, node).disk.clone()

    async def restore_copy(self, node: str) -> Mapping[str, Any]:
        """See ``DiskOrders``."""
        host, copy = down(self._hosts, node), self._copies.get(node)
        if copy is None:
            raise EnvError(f"there is no copy of the disk of {node}: save one first")
        host.damaged("wipe")
        host.disk.restore(copy)
        return {"files": len(copy.sizes()), "bytes": sum(copy.sizes().values())}
