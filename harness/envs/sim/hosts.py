"""Nodes on simulated hosts: one virtual event loop holds all of them, and the harness too."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from harness.contracts.environment import Address, Net, ProcessState
from harness.envs.nodes.names import known
from harness.envs.sim.clocks import SimClocks
from harness.envs.sim.disks import NODE_DIR, SimDisks, SimPower, down
from harness.envs.sim.moments import SimMoments
from harness.envs.sim.net import SimNet
from harness.errors import EnvError
from harness.spec import SIM
from node.core.types import Endpoint
from node.sim.fabric import Fabric
from node.sim.host import EXIT_KILLED, Program, VirtualHost
from node.sim.loop import StalledError, VirtualLoop
from node.sim.network import VirtualNetwork
from node.sim.output import VirtualOutput
from node.sim.stray import repeater
from node.wire.errors import WireError

CLIENT_HOST = "10.0.1.1"
PORT = 9093
WALL_OFFSETS_MS = (0, 0, 3, -40, 700, -5_000, 3_600_000, -86_400_000)  # of hosts, at the start

T = TypeVar("T")

Sink = Callable[[str, bytes], None]  # takes a node's name and a line of its event trace


__all__ = ["Sim", "StalledError", "run"]


def run(main: Callable[[], Coroutine[Any, Any, T]], calls_per_s_max: float = inf) -> T:
    """Run a coroutine on a virtual loop of its own; a ``Sim`` can be made in it.

    Args:
        main: Makes the coroutine.
        calls_per_s_max: How often the loop may call something in a simulated second.

    Raises:
        StalledError: The simulation cannot go on.
    """
    loop = VirtualLoop(calls_per_s_max)
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


class Sim:
    """Simulated hosts, one per node; it is made inside the virtual loop that they live on."""

    name = SIM

    def __init__(self, rng: Random, sink: Sink) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise EnvError("the sim environment needs a virtual loop: use `krucible sim`")
        self.loop = loop
        self.fabric = Fabric(loop, Random(rng.getrandbits(64)))
        self.fabric.again = repeater(self.fabric)
        self.client_network = VirtualNetwork(self.fabric, CLIENT_HOST)
        self.output = VirtualOutput(loop)
        self.nodes: tuple[str, ...] = ()
        self._rng = rng
        self._sink = sink
        self._hosts: dict[str, VirtualHost] = {}
        self._starts: dict[str, int] = {}
        self._ports: dict[str, int] = {}  # of nodes that have moved
        self.net: Net = SimNet(self.fabric, self._hosts, self.try_from)
        self.disks = SimDisks(self._hosts)
        self.power = SimPower(loop, self._hosts, rng)
        self.clocks = SimClocks(loop, self._hosts)
        self.moments = SimMoments(loop, self._hosts)
        self.held = ExitStack()  # of this host; let go when the simulation is over and was read

    async def setup(self, nodes: Sequence[str]) -> None:
        """Make the hosts."""
        self.nodes = tuple(nodes)
        for number, node in enumerate(nodes, start=1):
            seed = self._rng.getrandbits(64)
            host = self._hosts[node] = VirtualHost(
                self.fabric,
                f"10.0.0.{number}",
                Random(seed),
                partial(self._sink, node),
            )
            # Nobody's clock is right; a stream of its own, so that nothing else depends on it.
            host.wall_offset_ms = Random(f"clock:{seed}").choice(WALL_OFFSETS_MS)
            self._starts[node] = 0

    def redraw(self, salt: int) -> None:
        """Draw latencies, losses, timeouts, and what is left without power, otherwise from now on.

        The same salt at the same event gives the same bytes.
        """
        self._rng.seed(f"sim:{salt}")
        self.fabric.redraw(str(salt))
        for node, host in self._hosts.items():
            host.redraw(f"{salt}:{node}")

    def host(self, node: str) -> VirtualHost:
        """The host of a node; raises EnvError."""
        return known(self._hosts, node)

    def bind_address(self, node: str) -> Address:
        """Give the address at which the node listens."""
        return Address(self.host(node).address, self._ports.get(node, PORT))

    def address(self, node: str) -> Address:
        """Give the address at which the node listens: nothing is in between."""
        return self.bind_address(node)

    def client_source(self) -> str | None:
        """The host of the harness."""
        return CLIENT_HOST

    def node_dir(self, node: str) -> Path:
        """A folder on the host's own disk."""
        self.host(node)
        return NODE_DIR

    def log_file(self, node: str) -> Path:
        """Give the file, within the saved run's folder, for what a node prints."""
        self.host(node)
        return Path("logs") / f"{node}.log"

    async def ask(self, node: str, *, timeout_s: float) -> tuple[bool, str, float]:
        """See ``Environment``."""
        return await self.try_from(self.client_network, node, timeout_s)

    async def start(self, node: str, argv: Sequence[str], *, env: Mapping[str, str]) -> None:
        """Programs do not run here."""
        raise EnvError(f"{node}: {' '.join(argv)} ({env}) cannot run on a simulated host")

    def launch(self, node: str, program: Program) -> None:
        """Start a process of the node."""
        host = self.host(node)
        if host.process is not None:
            raise EnvError(f"{node} runs already")
        self._starts[node] += 1
        host.start(program)

    async def signal(self, node: str, signal_number: int) -> None:
        """SIGKILL, SIGTERM, SIGSTOP or SIGCONT; raises EnvError when there is no process."""
        host = self.host(node)
        process = host.process
        if process is None:
            raise EnvError(f"cannot signal {node}: {self.process(node).detail}")
        match signal_number:
            case signal.SIGKILL:
                host.kill()
            case signal.SIGTERM:
                host.stop()
            case signal.SIGSTOP:
                process.stop()
            case signal.SIGCONT:
                process.resume()
            case _:
                raise EnvError(f"signal {signal_number} means nothing to a simulated process")

    def process(self, node: str) -> ProcessState:
        """Give the state of the node's process; the "pid" is the number of its starts."""
        host, starts = self.host(node), self._starts[node]
        process = host.process
        if process is not None:
            return ProcessState(starts, "T" if process.stopped else "S", f"process {starts}")
        code = host.exit_code
        if code is None:
            return ProcessState(None, "gone", "never started")
        end = "killed" if code == EXIT_KILLED else f"exit code {code}"
        return ProcessState(None, "gone", f"process {starts}: {end}")

    async def move(self, node: str, port: int) -> None:
        """See ``Movable``."""
        down(self._hosts, node)
        self._ports[node] = port

    async def teardown(self) -> None:
        """Kill what still runs. Idempotent."""
        for host in self._hosts.values():
            host.kill()

    async def try_from(
        self, network: VirtualNetwork, node: str, timeout_s: float
    ) -> tuple[bool, str, float]:
        """Ask a node what it serves: whether an answer came, what was seen, after how many ms."""
        began_ns = self.loop.now_ns
        address = self.bind_address(node)
        passed, detail = True, "answer"
        try:
            async with asyncio.timeout(timeout_s):
                connection = await network.connect(
                    Endpoint(address.host, address.port), timeout_s=timeout_s
                )
                try:
                    await connection.negotiate(timeout_s)
                finally:
                    connection.close()
        except TimeoutError:
            passed, detail = False, f"no answer within {timeout_s:g} s"
        except WireError as error:
            passed, detail = False, str(error)
        return passed, detail, (self.loop.now_ns - began_ns) / 1e6
