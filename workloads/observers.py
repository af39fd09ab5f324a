"""``observers``: readers on every broker while writes go on; views must converge."""

from __future__ import annotations

from random import Random

from harness.errors import UsageError
from harness.generator import Draft, each_thread, map_ops, mix
from harness.protocols import Workload
from harness.registry import workloads
from harness.spec import RunSpec
from workloads.register import register_client

KEYS = 4


@workloads.register("observers")
def observers(spec: RunSpec) -> Workload:
    """Local reads on every broker during writes: monotonic per broker, converging after heal."""
    nodes = spec.voters + spec.observers
    if spec.observers < 1 or spec.concurrency <= spec.voters:
        raise UsageError(
            f"workload 'observers' needs a client on an observer: {spec.observers} observers and "
            f"concurrency {spec.concurrency} with {spec.voters} voters have none; use --observers "
            f"1 or more and --concurrency {spec.voters + 1} or more"
        )

    def local(draft: Draft) -> Draft:
        # clients are opened on the nodes in turn, voters first
        return Draft("local-read", key=draft.key) if draft.thread % nodes >= spec.voters else draft

    return Workload(
        client=register_client,
        generator=map_ops(local, mix(_write, _read)),
        final_generator=map_ops(
            local, each_thread([Draft("read", key=f"o{key}") for key in range(KEYS)])
        ),
        checkers=("linearizable", "consensus", "observers"),
        model="register",
    )


def _write(_: Random, n: int) -> Draft:
    return Draft("write", n + 1, f"o{n % KEYS}")


def _read(rng: Random, _: int) -> Draft:
    return Draft("read", key=f"o{rng.randrange(KEYS)}")
