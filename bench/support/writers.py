"""Closed-loop writers: each client does one write at a time over connections of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.support.clients import first_commit
from bench.support.quorum import Quorum, cpu_s
from harness.kafka.client import KafkaClient


@dataclass(frozen=True, slots=True)
class Measured:
    """The writes acknowledged in ``seconds``, and the CPU seconds of all nodes and this process."""

    seconds: float
    latencies_ms: list[float]
    nodes_cpu_s: float
    clients_cpu_s: float

    @property
    def writes_per_s(self) -> float:
        """All clients together."""
        return len(self.latencies_ms) / self.seconds

    @property
    def cpu_us_per_write(self) -> float:
        """CPU of all nodes."""
        return self.nodes_cpu_s / len(self.latencies_ms) * 1e6


class Writers:
    """Clients that write all the time."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._latencies_ms: list[float] = []
        self._stop = False
        self.written = 0

    async def measure(self, warm_up_s: float, seconds: float) -> Measured:
        """Look on for some seconds; raises SystemExit when nothing at all is written."""
        nodes = self._quorum.processes.values()
        await asyncio.sleep(warm_up_s)
        self._latencies_ms = []
        cpu, own, began = sum(map(cpu_s, nodes)), time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        found = Measured(
            time.perf_counter() - began,
            self._latencies_ms,
            sum(map(cpu_s, nodes)) - cpu,
            time.process_time() - own,
        )
        self._latencies_ms = []
        if not found.latencies_ms:
            raise SystemExit(f"no write was acknowledged in {seconds} s: what do the nodes say?")
        return found

    async def _write(self, home: str, number: int) -> None:
        client = await KafkaClient(self._quorum.cluster).open(home)
        value = 0
        try:
            while not self._stop:
                value += 1
                began = time.perf_counter()
                await client.write(f"b{number}", value)
                self._latencies_ms.append((time.perf_counter() - began) * 1e3)
                self.written += 1
        finally:
            await client.close()

    @asynccontextmanager
    async def running(self, clients: int) -> AsyncIterator[Writers]:
        """So many clients write until the block ends; raises Outcome when a write fails."""
        leader = await first_commit(self._quorum, self._quorum.ports, 0)
        self._stop = False
        async with asyncio.TaskGroup() as tasks:
            for number in range(clients):
                tasks.create_task(self._write(f"n{leader}", number))
            yield self
            self._stop = True
