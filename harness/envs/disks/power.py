"""Power of hosts: the process is gone, and with it what its disk had not fsynced."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

from harness.envs.disks.orders import SEED_BITS, NodeDisks
from harness.envs.nodes.processes import NodeProcesses
from harness.errors import EnvError

_WRITES_MAX = 12  # a power failure in a write comes so many changes of the disk later at most
_WRITE_WAIT_S = 1.0
_POLL_S = 0.01


class NodePower:
    """``PowerOrders`` where nodes run on fault disks, which know what was not fsynced."""

    def __init__(self, disks: NodeDisks, processes: NodeProcesses) -> None:
        """Begin with power on all hosts."""
        self._disks = disks
        self._processes = processes
        self._rng: Random | None = None
        self._serial = 0  # of orders to lose the power

    def use(self, rng: Random) -> None:
        """Prepare the node's power to be lost; ``rng`` decides what a failure leaves."""
        self._rng = rng

    async def lose(
        self,
        node: str,
        *,
        mid_write: bool,
        clean: bool = False,
    ) -> Mapping[str, Any]:
        """See ``PowerOrders``; a host that writes nothing for a while loses it all the same."""
        rng = self._chance()
        if mid_write:
            self._serial += 1
            await self._disks.order(
                node, power_in=rng.randint(1, _WRITES_MAX), torn=rng.random(), serial=self._serial
            )
            deadline_s = asyncio.get_running_loop().time() + _WRITE_WAIT_S
            while self._processes.state(node).pid is not None:
                if asyncio.get_running_loop().time() > deadline_s:
                    break
                await asyncio.sleep(_POLL_S)
        torn = mid_write and self._processes.state(node).pid is None
        await self._processes.cut(node)
        if mid_write:
            await self._disks.order(node, power_in=0, torn=0.0)
        lost = await self._disks.damage(node, "crash", seed=rng.getrandbits(SEED_BITS), clean=clean)
        return {**lost, "torn_write": torn}

    def _chance(self) -> Random:
        if self._rng is None:
            raise EnvError("hosts cannot lose their power: no fault of this run needs it")
        return self._rng
