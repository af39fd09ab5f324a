"""The hosts of the simulator, with Kafka's nodes on them, in the JVM of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from harness import seeds
from harness.envs.sim.hosts import Sim
from harness.spec import RunSpec
from harness.systems.kafka.simulated.controllers import Controllers
from harness.systems.kafka.simulated.jvm import release
from harness.systems.kafka.simulated.process import KafkaProcess, Stack
from harness.systems.kafka.simulated.registers import Registers
from node.config import NodeConfig, parse
from node.driver.world import World
from node.log.disk import Disk
from node.sim.fabric import US, Link
from node.sim.host import Program
from node.wire.network import Network

LATENCY_NS: Final = 500 * US
JITTER_NS: Final = 500 * US
OF_RAFT_ALONE: Final = frozenset({"register", "membership", "describe"})  # workloads
OF_CONTROLLERS: Final = frozenset({"brokers", "producer-ids"})
FSYNC: Final = "krucible.fsync"
OURS: Final = "krucible."
KNOWN: Final = (
    "node.id",
    "process.roles",
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
)


class KafkaSite:
    """See ``harness.systems.kraft.sites.Site``."""

    def __init__(self, environment: Sim, spec: RunSpec) -> None:
        self._env = environment
        self._spec = spec
        environment.fabric.default = _link

    def network(self) -> Network:
        """The simulated one."""
        return self._env.client_network

    def disk(self, node: str) -> Disk:
        """The host's."""
        return self._env.host(node).disk

    def data_dir(self, node: str) -> Path:
        """The same on all."""
        return self._env.node_dir(node)

    def event_file(self, node: str) -> Path | None:  # noqa: ARG002 - none has one
        """None."""
        return None

    def wall_ms(self, node: str) -> int:
        """The host's."""
        return self._env.host(node).wall_ms()

    async def launch(self, node: str, settings: Mapping[str, str]) -> None:
        """Start a process on the host; raises EnvError."""
        release()  # what is missing is told before the node begins
        config = parse({key: settings[key] for key in KNOWN if key in settings})
        known = {k: v for k, v in settings.items() if not k.startswith(OURS)}
        lucky = self._spec.lucky()
        seed = seeds.split(self._spec.seed, "node", config.node_id, *lucky)
        syncs = settings.get(FSYNC) != "false"
        machine = Registers if self._spec.workload in OF_RAFT_ALONE else Controllers
        begin = partial(_made, machine, range(1, self._spec.voters + 1), config, known, seed)
        self._env.launch(node, Program(config.node_id, syncs, begin))


def _link() -> Link:
    """A link between racks: a node of Kafka's without a leader asks again once per round trip."""
    return Link(latency_ns=LATENCY_NS, jitter_ns=JITTER_NS)


def _made(
    machine: type[Registers] | type[Controllers],
    controllers: Sequence[int],
    config: NodeConfig,
    settings: Mapping[str, str],
    seed: int,
    world: World,
    failed: Callable[[BaseException], None],
) -> KafkaProcess:
    stack = Stack(release(), machine.kind, machine, controllers)
    return KafkaProcess(stack, config, settings, seed, world, failed)
