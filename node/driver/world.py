"""The world a node process lives in: its effects, bundled; a simulated one has the same parts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from node.clock import Clock, SystemClock
from node.config import NodeConfig
from node.faults.clock_report import report_clock
from node.faults.fault_disk import disk_of
from node.log.disk import Disk
from node.trace import NoTrace, Tracer, TraceWriter
from node.wire.network import Network, Sockets


@dataclass(frozen=True, slots=True)
class World:
    """The surroundings of a process; every part is a seam.

    ``incarnation`` grows from one process of a node to its next; ``trace`` makes the event trace
    for the directory of that id (32 hex digits).
    """

    disk: Disk
    clock: Clock
    network: Network
    incarnation: int
    trace: Callable[[str], Tracer]

    @classmethod
    def real(cls, config: NodeConfig) -> World:
        """Make the world of a real node: this host's clock, disk and network."""
        clock = SystemClock()
        incarnation = clock.trace_ns()  # the wall clock may go back from one process to the next

        def trace(directory_id: str) -> Tracer:
            if config.trace_file is None:
                return NoTrace()
            return TraceWriter(
                config.trace_file,
                node=config.node_id,
                directory_id=directory_id,
                incarnation=incarnation,
                clock_ns=clock.trace_ns,
            )

        report_clock(os.environ, clock)
        disk = disk_of(os.environ, fsync=config.fsync)
        return cls(disk, clock, Sockets(config.source_host), incarnation, trace)
