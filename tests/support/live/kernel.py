"""Parts for tests of the kernel: clients, nemeses and plans over the atom system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal, cast

from harness.contracts.clients import Client, Outcome, RegisterClient
from harness.contracts.environment import NEVER_STARTED, Environment, ProcessState
from harness.contracts.nemesis import Cluster, Fault, Injection, Nemesis
from harness.contracts.system import System
from harness.contracts.workload import Workload
from harness.generators.generator import Draft, Generator, fn, mix
from harness.history.ops import History, Op, read_jsonl
from harness.run.recorder import Progress
from harness.run.runner import RunOptions, RunPlan, RunResult, run
from harness.spec import RunSpec
from harness.systems.atom import AtomSystem


class RegisterOps:
    """read and write on a register client."""

    def __init__(self, registers: RegisterClient) -> None:
        self.registers = registers

    async def open(self, node: str) -> Client:
        return type(self)(await self.registers.open(node))

    async def invoke(self, op: Op) -> Op:
        assert op.key is not None
        try:
            if op.f == "read":
                return op.with_(type="ok", value=await self.registers.read(op.key))
            await self.registers.write(op.key, op.value)
        except Outcome as outcome:
            return op.with_(type="fail" if outcome.definite else "info", error=outcome.error)
        return op.with_(type="ok")

    async def close(self) -> None:
        await self.registers.close()


class FakeNemesis:
    """Writes down what is asked of it; can be told to misbehave."""

    family = "fake"

    def __init__(
        self,
        log: list[str] | None = None,
        *,
        outcome: Literal["installed", "skipped", "failed"] = "installed",
        inject_error: Exception | None = None,
        heal_errors: int = 0,
        heal_error: Exception | None = None,
    ) -> None:
        self.log = [] if log is None else log
        self.outcome = outcome
        self.inject_error = inject_error
        self.heal_errors = heal_errors
        self.heal_error = OSError("still broken") if heal_error is None else heal_error

    def available(self, _: Cluster) -> str | None:
        return None

    def params(self, rng: Random) -> Mapping[str, Any]:
        return {"target": rng.choice(["leader", "minority"])}

    async def inject(self, fault: Fault, _: Cluster) -> Injection:
        self.log.append(f"inject {fault.id}")
        if self.inject_error is not None:
            raise self.inject_error
        if self.outcome != "installed":
            return Injection(self.outcome, reason="not here")
        return Injection("installed", ("n1",), evidence=({"seen": True},))

    async def heal(self, fault: Fault, _: Injection, __: Cluster) -> Mapping[str, Any]:
        self.log.append(f"heal {fault.id}")
        if self.heal_errors > 0:
            self.heal_errors -= 1
            raise self.heal_error
        return {"gone": True}


def write_op(rng: Random, n: int) -> Draft:
    return Draft("write", n, f"k{rng.randrange(3)}")


def read_op(rng: Random, _: int) -> Draft:
    return Draft("read", key=f"k{rng.randrange(3)}")


class NoProcesses:
    """The environment of a system in memory: nodes have the processes that a test names."""

    def __init__(self) -> None:
        self.states: dict[str, ProcessState] = {}

    def process(self, node: str) -> ProcessState:
        """What a test said."""
        return self.states.get(node, ProcessState(None, "gone", NEVER_STARTED))


def registers_plan(
    *,
    faults: Sequence[Fault] = (),
    nemeses: Mapping[str, Nemesis] | None = None,
    generator: Generator | None = None,
    final: Any = None,
    client: Callable[[System], Client] | None = None,
    **options: Any,
) -> RunPlan:
    spec = RunSpec(
        **{"seed": 1, "system": "atom", "time_limit_s": 5.0, "concurrency": 4, **options}
    )
    system = AtomSystem(spec, None, None)
    workload = Workload(
        client=client or registers_client,
        generator=generator or mix(fn(write_op), fn(read_op)),
        final_generator=final,
        checkers=(),
    )
    cluster = Cluster(system, cast("Environment", NoProcesses()))
    return RunPlan(spec, workload, cluster, faults, nemeses or {})


def registers_client(system: System) -> Client:
    return RegisterOps(cast("AtomSystem", system).register_client())


async def run_to_history(
    plan: RunPlan,
    folder: Path,
    *,
    options: RunOptions | None = None,
    progress: Progress | None = None,
) -> tuple[RunResult, History]:
    path = folder / "history.jsonl"
    result = await run(plan, path, options=options, progress=progress)
    return result, read_jsonl(path)
