"""Nodes on simulated hosts: one virtual event loop holds all of them, and the harness too."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from harness.contracts.environment import Address, Link, Net, Probe, ProcessState
from harness.contracts.hosts import Election, Shape
from harness.errors import EnvError
from harness.spec import SIM
from node.core.types import Endpoint
from node.faults import damage
from node.faults.disk.trouble import FAILING, PROBE_FILE
from node.log.memory_disk import MemoryDisk
from node.log.meta_properties import load_meta_properties
from node.log.quorum_state import ElectionStateStore
from node.sim.fabric import MS, Fabric
from node.sim.host import EXIT_KILLED, Program, VirtualHost
from node.sim.loop import StalledError, VirtualLoop
from node.sim.network import VirtualNetwork
from node.sim.output import VirtualOutput
from node.sim.stray import repeater
from node.wire.errors import WireError

CLIENT_HOST = "10.0.1.1"
PORT = 9093
POLL_S = 0.01
WALL_OFFSETS_MS = (0, 0, 3, -40, 700, -5_000, 3_600_000, -86_400_000)  # of hosts, at the start
WRITES_MAX = 12  # a power failure in a write comes so many changes of the disk later at most
WRITE_WAIT_NS = 1_000 * MS

T = TypeVar("T")

Sink = Callable[[str, bytes], None]  # takes a node's name and a line of its event trace


__all__ = ["Sim", "StalledError", "run"]


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a virtual loop of its own; a ``Sim`` can be made in it."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


class SimNet:
    """The links between the hosts of a simulation."""

    def __init__(self, environment: Sim, fabric: Fabric) -> None:
        self._env = environment
        self._fabric = fabric
        self._cuts: set[Link] = set()
        self._shapes: dict[Link, dict[int, Shape]] = {}  # by owner

    async def cut(self, links: Iterable[Link]) -> None:
        """Hold back everything on these directed links from now on."""
        for link in links:
            self._cuts.add(link)
            self._fabric.cut(*self._hosts(link))

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Let everything through again: on these links, or on all."""
        for link in sorted(self._cuts if links is None else self._cuts.intersection(links)):
            self._cuts.discard(link)
            self._fabric.heal(*self._hosts(link))

    def cuts(self) -> frozenset[Link]:
        """The links cut at present."""
        return frozenset(self._cuts)

    async def probe(self, source: str, destination: str, *, timeout_s: float = 0.5) -> Probe:
        """A request from ``source``'s own host, and its answer."""
        network = VirtualNetwork(self._fabric, self._env.bind_address(source).host)
        passed, detail, elapsed_ms = await self._env.try_from(network, destination, timeout_s)
        return Probe(source, destination, passed, detail, elapsed_ms)

    async def stats(self) -> Mapping[Link, Mapping[str, int]]:
        """Per link: messages that passed and that are held back now, packets that were lost."""
        names = {self._env.bind_address(node).host: node for node in self._env.nodes}
        return {
            (names[a], names[b]): {
                "passed": link.passed,
                "held_bytes": len(link.held),
                "lost": link.lost,
            }
            for (a, b), link in self._fabric.links().items()
            if a in names and b in names
        }

    async def shape(self, owner: int, links: Iterable[Link], shape: Shape | None) -> None:
        """See ``Packets``."""
        plain = self._fabric.default()
        for link in links:
            shapes = self._shapes.setdefault(link, {})
            shapes.pop(owner, None)
            if shape is not None:
                shapes[owner] = shape
            wanted = sum(shapes.values(), Shape())
            found = self._fabric.link(*self._hosts(link))
            found.latency_ns = plain.latency_ns + wanted.delay_ms * MS
            found.jitter_ns = plain.jitter_ns + wanted.jitter_ms * MS
            found.loss = wanted.loss
            found.jam_ns = wanted.jam_ms * MS
            found.repeat = wanted.repeat
            found.keep_back = wanted.keep_back
            found.late_ns = max(1, wanted.late_ms) * MS
            found.bytes_per_s = wanted.bytes_per_s
            found.settle()

    async def shaped(self, link: Link) -> Mapping[str, Any]:
        """See ``Packets``."""
        found = self._fabric.link(*self._hosts(link))
        return {
            "link": list(link),
            "latency_ms": found.latency_ns / MS,
            "jitter_ms": found.jitter_ns / MS,
            "loss": found.loss,
            "jam_ms": found.jam_ns / MS,
            "repeat": found.repeat,
            "keep_back": found.keep_back,
            "bytes_per_s": found.bytes_per_s,
            "passed": found.passed,
            "lost": found.lost,
            "repeated": found.repeated,
            "kept_back": found.kept_back,
        }

    def _hosts(self, link: Link) -> tuple[str, str]:
        source, destination = link
        return self._env.bind_address(source).host, self._env.bind_address(destination).host


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
        self.net: Net = SimNet(self, self.fabric)
        self.client_network = VirtualNetwork(self.fabric, CLIENT_HOST)
        self.output = VirtualOutput(loop)
        self.nodes: tuple[str, ...] = ()
        self._rng = rng
        self._sink = sink
        self._hosts: dict[str, VirtualHost] = {}
        self._starts: dict[str, int] = {}
        self._copies: dict[str, MemoryDisk] = {}  # of disks, by node
        self._lost: dict[str, dict[Path, bytes]] = {}  # snapshots, by node
        self._ports: dict[str, int] = {}  # of nodes that have moved

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

    def host(self, node: str) -> VirtualHost:
        """The host of a node; raises EnvError."""
        if node not in self._hosts:
            raise EnvError(f"no node is called {node!r}; there are: {', '.join(self._hosts)}")
        return self._hosts[node]

    def bind_address(self, node: str) -> Address:
        """Where the node listens."""
        return Address(self.host(node).address, self._ports.get(node, PORT))

    def address(self, node: str) -> Address:
        """The same: nothing is in between."""
        return self.bind_address(node)

    def client_source(self) -> str | None:
        """The host of the harness."""
        return CLIENT_HOST

    def node_dir(self, node: str) -> Path:
        """A folder on the host's own disk."""
        self.host(node)
        return Path("/data")

    def log_file(self, node: str) -> Path:
        """Where what a node prints goes once the run is saved, within its folder."""
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
        """Whether the node's process runs; the "pid" counts its starts."""
        host, starts = self.host(node), self._starts[node]
        process = host.process
        if process is not None:
            return ProcessState(starts, "T" if process.stopped else "S", f"process {starts}")
        code = host.exit_code
        if code is None:
            return ProcessState(None, "gone", "never started")
        end = "killed" if code == EXIT_KILLED else f"exit code {code}"
        return ProcessState(None, "gone", f"process {starts}: {end}")

    # ------------------------------------------------------------------ what happens to hosts

    async def lose_power(self, node: str, *, mid_write: bool) -> Mapping[str, Any]:
        """See ``Power``; a host that writes nothing for a while loses it all the same."""
        host = self.host(node)
        if mid_write:
            host.lose_power_in(self._rng.randint(1, WRITES_MAX))
            deadline_ns = self.loop.now_ns + WRITE_WAIT_NS
            while host.awaits_power_loss and self.loop.now_ns < deadline_ns:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        torn = mid_write and not host.awaits_power_loss
        if not torn:
            host.lose_power()
        lost = {path.name: size for path, size in host.lost.items()}
        return {"lost_bytes": sum(lost.values()), "lost": lost, "torn_write": torn}

    async def slow_fsync(self, node: str, ms: int) -> None:
        """See ``Disks``."""
        self.host(node).trouble.fsync_ns = ms * MS

    async def fill(self, node: str, *, full: bool) -> None:
        """See ``Disks``."""
        self.host(node).trouble.full = full

    async def fail_io(self, node: str, operation: str | None) -> None:
        """See ``Disks``."""
        self.host(node).trouble.failing = FAILING[operation] if operation else frozenset()

    async def try_disk(self, node: str) -> Mapping[str, Any]:
        """See ``Disks``."""
        host, refused = self.host(node), None
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
        """See ``Disks``."""
        return damage.tear_tail(self._down(node).disk, self.node_dir(node), rng)

    async def flip_bit(self, node: str, rng: Random) -> Mapping[str, Any] | None:
        """See ``Disks``."""
        host = self._down(node)
        found = damage.flip_bit(host.disk, self.node_dir(node), rng)
        if found is not None:
            host.damaged("log")
        return found

    async def cut_tail(self, node: str, rng: Random) -> Mapping[str, Any] | None:
        """See ``Disks``."""
        host = self._down(node)
        found = damage.cut_tail(host.disk, self.node_dir(node), rng)
        if found is not None:
            host.damaged("log")
        return found

    async def lose_vote(self, node: str) -> Mapping[str, Any] | None:
        """See ``Disks``."""
        host = self._down(node)
        found = damage.lose_vote(host.disk, self.node_dir(node))
        if found is not None:
            host.damaged("vote")
        return found

    async def lose_snapshots(self, node: str) -> Mapping[str, Any]:
        """See ``Disks``."""
        host = self._down(node)
        lost = self._lost[node] = damage.lose_snapshots(host.disk, self.node_dir(node))
        if lost:
            host.damaged("snapshots")
        return {"files": [path.name for path in lost]}

    async def return_snapshots(self, node: str) -> None:
        """See ``Disks``."""
        damage.put_back(self._down(node).disk, self._lost.pop(node, {}))

    async def election(self, node: str) -> Election | None:
        """See ``Disks``."""
        disk, folder = self.host(node).disk, self.node_dir(node)
        state, meta = ElectionStateStore(disk, folder).load(), load_meta_properties(disk, folder)
        if state is None or meta is None:
            return None
        return Election(state.epoch, state.leader_id, leads=state.leader_id == meta.node_id)

    async def wipe(self, node: str, *, keep_id: bool = False) -> Mapping[str, Any]:
        """See ``Disks``."""
        host = self._down(node)
        host.damaged("wipe")
        return damage.wipe(host.disk, keep_id=keep_id)

    async def save_copy(self, node: str) -> None:
        """See ``Disks``."""
        self._copies[node] = self.host(node).disk.clone()

    async def restore_copy(self, node: str) -> Mapping[str, Any]:
        """See ``Disks``."""
        host, copy = self._down(node), self._copies.get(node)
        if copy is None:
            raise EnvError(f"there is no copy of the disk of {node}: save one first")
        host.damaged("wipe")
        host.disk.restore(copy)
        return {"files": len(copy.sizes()), "bytes": sum(copy.sizes().values())}

    def _down(self, node: str) -> VirtualHost:
        host = self.host(node)
        if host.process is not None:
            raise EnvError(f"{node} runs: its disk can be damaged only while it is down")
        return host

    async def move(self, node: str, port: int) -> None:
        """See ``Movable``."""
        self._down(node)
        self._ports[node] = port

    async def set_rate(self, node: str, ppm: int) -> None:
        """See ``Clocks``."""
        self.host(node).set_rate(ppm)

    async def jump_wall(self, node: str, ms: int) -> None:
        """See ``Clocks``."""
        self.host(node).wall_offset_ms += ms

    async def clock(self, node: str) -> Mapping[str, int]:
        """See ``Clocks``."""
        host = self.host(node)
        return {
            "true_ms": self.loop.now_ns // MS,
            "steady_ms": host.steady_ms(),
            "wall_ms": host.wall_ms(),
            "rated_ms": host.steady_ms(),
        }

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
