"""``register``: reads and writes of single keys, judged as linearizable registers."""

from __future__ import annotations

from random import Random

from harness.contracts.abilities import Registers
from harness.contracts.clients import Client, Outcome, RegisterClient
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.errors import EnvError
from harness.generators.generator import Draft, Generator, independent, limit, mix
from harness.history.ops import Op
from harness.registry import workloads
from harness.spec import RunSpec
from workloads.common.keys import Keys, groups

THREADS_PER_KEY = 5  # contention on one key; more threads work on other keys
OPS_PER_KEY = 250
FINISHED_KEYS = 2  # read by every thread after the heal, beside those that are in use


@workloads.register("register", WorkloadTraits(prefixed=True, refusals=frozenset()))
def register(spec: RunSpec) -> Workload:
    """Read and write keys; every write has a value of its own; judge linearizability per key."""
    keys = Keys("r")
    final = groups(spec.concurrency, THREADS_PER_KEY) + FINISHED_KEYS
    return Workload(
        client=register_client,
        generator=independent(_key_ops, threads_per_key=THREADS_PER_KEY, name=keys.name),
        final_generator=keys.on_each_thread(final, lambda key: Draft("read", key=key)),
        checkers=("linearizable", "consensus", "observers", "reads"),
        model="register",
        reads=frozenset({"read"}),
    )


def register_client(system: System) -> Client:
    """A client for ``read``, ``write`` and ``local-read``; raises EnvError without registers."""
    if not isinstance(system, Registers):
        raise EnvError(f"system {system.name!r} has no registers: choose another workload")
    return RegisterOps(system.register_client())


class RegisterOps:
    """Does register ops through a system's register client."""

    def __init__(self, registers: RegisterClient) -> None:
        self._registers = registers

    async def open(self, node: str) -> RegisterOps:
        """A client of ``node``."""
        return RegisterOps(await self._registers.open(node))

    async def invoke(self, op: Op) -> Op:
        """Do one op; a read that failed is always a ``fail``, it changed nothing."""
        assert op.key is not None, "register ops have a key"  # noqa: S101
        try:
            match op.f:
                case "write":
                    await self._registers.write(op.key, op.value)
                    return op.with_(type="ok")
                case "read":
                    return op.with_(type="ok", value=await self._registers.read(op.key))
                case "local-read":
                    return op.with_(type="ok", value=await self._registers.read_local(op.key))
                case _:
                    raise AssertionError(f"register has no op {op.f!r}")
        except Outcome as outcome:
            failed = outcome.definite or op.f != "write"
            return op.with_(type="fail" if failed else "info", error=outcome.error)

    async def close(self) -> None:
        """Release the connection."""
        await self._registers.close()


def write_op(_: Random, n: int) -> Draft:
    """The n-th write of a key: values 1, 2, 3, ... are unique within the key."""
    return Draft("write", n + 1)


def read_op(_: Random, __: int) -> Draft:
    """A linearizable read."""
    return Draft("read")


def _key_ops(_: str) -> Generator:
    return limit(mix(write_op, read_op), OPS_PER_KEY)
