"""``observers``: readers on every broker while writes go on; views must converge."""

from __future__ import annotations

from random import Random

from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, map_ops, mix
from harness.registry import workloads
from harness.spec import RunSpec
from workloads.common.keys import Keys
from workloads.common.on_brokers import by_brokers, need_client_of_broker
from workloads.register import register_client

KEYS = 4  # in use at a time
WRITES_PER_KEY = 125  # then come the next keys, so that no history of one key grows without end


@workloads.register("observers", WorkloadTraits(refusals=frozenset(), on_brokers=True))
def observers(spec: RunSpec) -> Workload:
    """Write topics and read them on every broker; reads never go back, and all brokers converge."""
    need_client_of_broker(spec, "observers")
    keys = Keys("o")

    def write(_: Random, n: int) -> Draft:
        return Draft("write", n + 1, keys.name(_number(n, n % KEYS)))

    def read(rng: Random, n: int) -> Draft:
        return Draft("read", key=keys.name(_number(n, rng.randrange(KEYS))))

    local = by_brokers(spec, lambda draft: Draft("local-read", key=draft.key))
    return Workload(
        client=register_client,
        generator=map_ops(local, mix(write, read)),
        final_generator=map_ops(
            local, keys.on_each_thread(KEYS, lambda key: Draft("read", key=key))
        ),
        checkers=("linearizable", "consensus", "observers", "reads"),
        model="register",
        reads=frozenset({"read"}),
    )


def _number(n: int, place: int) -> int:
    """The key of the n-th op of a kind: one of the KEYS in use then."""
    return n // (WRITES_PER_KEY * KEYS) * KEYS + place
