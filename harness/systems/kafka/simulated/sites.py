"""The hosts of the simulator, with Kafka's nodes on them, in the JVM of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from harness import seeds
from harness.envs.sim.hosts import Sim
from harness.spec import RunSpec
from harness.systems.kafka.simulated.controllers import Controllers
from harness.systems.kafka.simulated.jvm import release
from harness.systems.kafka.simulated.process import KafkaProcess, Stack
from harness.systems.kafka.simulated.registers import Registers
from harness.systems.kraft.sites import Site, VirtualSite
from node.config import NodeConfig, parse
from node.driver.world import World
from node.sim.fabric import US, Link
from node.sim.host import Program

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


def kafka_site(environment: Sim, spec: RunSpec) -> Site:
    """The hosts of a simulation, with Kafka's nodes on them."""
    environment.fabric.default = _link
    return VirtualSite(environment, partial(_program, spec))


def _program(spec: RunSpec, settings: Mapping[str, str]) -> Program:
    """Make what a host runs; raises EnvError when Kafka cannot run here."""
    release()  # what is missing is told before the node begins
    config = parse({key: settings[key] for key in KNOWN if key in settings})
    known = {k: v for k, v in settings.items() if not k.startswith(OURS)}
    seed = seeds.split(spec.seed, "node", config.node_id, *spec.lucky())
    machine = Registers if spec.workload in OF_RAFT_ALONE else Controllers
    begin = partial(_made, machine, range(1, spec.voters + 1), config, known, seed)
    return Program(config.node_id, settings.get(FSYNC) != "false", begin)


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
