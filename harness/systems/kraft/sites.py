"""The sites of ``kraft``'s nodes: their disks, their processes and how clients reach them.

One site makes real processes of them in whatever environment, the other one objects on a virtual
loop; the system above is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import node as node_package
from harness.contracts.environment import Environment
from harness.envs.sim.hosts import Sim
from harness.processes.python import module_argv
from node.clock import SystemClock
from node.config import parse
from node.log.disk import Disk, FileDisk
from node.sim.host import Program
from node.sim.program import program_of
from node.wire.network import Network, Sockets

_CONFIG = "node.properties"
_TRACE = "events.jsonl"


class Site(Protocol):
    """A place for nodes."""

    def network(self) -> Network:
        """Tell how the harness's clients reach nodes."""
        ...

    def disk(self, node: str) -> Disk:
        """The disk of a node's host; not while the node writes to it."""
        ...

    def data_dir(self, node: str) -> Path:
        """The node's log directory on that disk."""
        ...

    def event_file(self, node: str) -> Path | None:
        """Tell where the node writes its events; None when they are handed over as they happen."""
        ...

    def wall_ms(self, node: str) -> int:
        """The time of the node's host, ms since 1970."""
        ...

    async def launch(self, node: str, settings: Mapping[str, str]) -> None:
        """Start a process of the node; raises EnvError, NodeStartError."""
        ...


class ProcessSite:
    """Real processes, started by an environment."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment

    def network(self) -> Network:
        """Give real sockets."""
        return Sockets(self._env.client_source())

    def disk(self, node: str) -> Disk:  # noqa: ARG002 - all on this host
        """Give the disk of this host."""
        return FileDisk()

    def data_dir(self, node: str) -> Path:
        """Give its path in the node's folder."""
        return self._env.node_dir(node) / "data"

    def event_file(self, node: str) -> Path | None:
        """Give its path in the node's folder."""
        return self._env.node_dir(node) / _TRACE

    def wall_ms(self, node: str) -> int:  # noqa: ARG002 - as above
        """Give the wall clock of this host, ms since 1970."""
        return SystemClock().wall_ms()

    async def launch(self, node: str, settings: Mapping[str, str]) -> None:
        """Write the configuration, and start ``krucible-node run``."""
        path = self._env.node_dir(node) / _CONFIG
        path.write_text("".join(f"{k}={v}\n" for k, v in settings.items()), encoding="utf-8")
        argv = module_argv(node_package.__name__, "run", "--config", str(path))
        await self._env.start(node, argv, env={})


class VirtualSite:
    """Simulated hosts; ``program`` makes what runs on one from the settings of its node."""

    def __init__(self, environment: Sim, program: Callable[[Mapping[str, str]], Program]) -> None:
        self._env = environment
        self._program = program

    def network(self) -> Network:
        """Give the simulated network."""
        return self._env.client_network

    def disk(self, node: str) -> Disk:
        """Give the disk of the node's simulated host."""
        return self._env.host(node).disk

    def data_dir(self, node: str) -> Path:
        """Give the node's folder: it has the same path on all hosts."""
        return self._env.node_dir(node)

    def event_file(self, node: str) -> Path | None:  # noqa: ARG002 - none has one
        """Return None: simulated nodes write no event file."""
        return None

    def wall_ms(self, node: str) -> int:
        """Give the wall clock of the node's simulated host, ms since 1970."""
        return self._env.host(node).wall_ms()

    async def launch(self, node: str, settings: Mapping[str, str]) -> None:
        """Start a process on the host; raises EnvError."""
        self._env.launch(node, self._program(settings))


def _ours(settings: Mapping[str, str]) -> Program:
    return program_of(parse(dict(settings)))


def site_of(environment: Environment) -> Site:
    """The site that an environment offers."""
    if isinstance(environment, Sim):
        return VirtualSite(environment, _ours)
    return ProcessSite(environment)
