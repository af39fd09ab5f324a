"""``membership``: voters are removed and added again by clients, while others read and write.

A removed voter goes on as an observer with its log and its identity, and so comes back.
"""

from __future__ import annotations

from random import Random
from typing import Any

from harness.contracts.abilities import Change, Members, Registers
from harness.contracts.clients import Client
from harness.contracts.nemesis import ChangesVoters
from harness.contracts.system import System
from harness.contracts.traits import WorkloadTraits
from harness.contracts.workload import Workload
from harness.errors import EnvError, UsageError
from harness.generators.generator import Draft, fn, mix, phases
from harness.history.ops import Op
from harness.registry import nemeses, workloads
from harness.spec import RunSpec
from workloads.common.abilities import refuse_without
from workloads.common.keys import Keys
from workloads.register import RegisterOps

VOTERS_MIN = 2  # are left: one alone would not need the others any more
OPS_PER_KEY = 200
RESTORE_S = 3.5  # of one op after the heal
NO_LEADER = "there is no leader"


@workloads.register(
    "membership",
    WorkloadTraits(settings={"krucible.quorum": "dynamic"}, refusals=frozenset()),
)
def membership(spec: RunSpec) -> Workload:
    """Remove and add voters during reads and writes; each change happens wholly or not at all."""
    refuse_without(Members, spec)
    for name in spec.nemeses:
        if name in nemeses.names() and isinstance(nemeses.get(name)(), ChangesVoters):
            raise UsageError(
                f"workload 'membership' and nemesis {name!r} both change the voters, and one would "
                "undo what the other has confirmed: choose one of them"
            )
    keys = Keys("m")
    nodes = [f"n{n}" for n in range(1, spec.voters + 1)]

    def write(_: Random, n: int) -> Draft:
        return Draft("write", n + 1, keys.name(n // OPS_PER_KEY))

    def read(_: Random, n: int) -> Draft:
        return Draft("read", None, keys.name(n // OPS_PER_KEY))

    def change(f: str) -> Any:
        return lambda rng, _: Draft(f, {"node": rng.choice(nodes)})

    def restore(_: Random, n: int) -> Draft | None:
        return Draft("restore", {"node": nodes[n]}) if n < len(nodes) else None

    return Workload(
        client=membership_client,
        generator=mix(
            write, read, change("remove-voter"), change("add-voter"), weights=(8, 8, 1, 1)
        ),
        final_generator=phases(
            Draft("voters"),
            fn(restore),
            Draft("voters"),
            keys.on_each_thread(2, lambda key: Draft("read", key=key)),
        ),
        checkers=("membership", "linearizable", "consensus", "observers", "reads"),
        model="register",
        reads=frozenset({"read"}),
    )


def membership_client(system: System) -> Client:
    """A client for registers and voters; raises EnvError where either is lacking."""
    if not isinstance(system, Members) or not isinstance(system, Registers):
        raise EnvError(f"system {system.name!r} cannot change its voters: choose another workload")
    return MembershipOps(system, RegisterOps(system.register_client()))


class MembershipOps:
    """Changes voters one request at a time, and does register ops."""

    def __init__(self, members: Members, registers: RegisterOps) -> None:
        self._members = members
        self._registers = registers

    async def open(self, node: str) -> MembershipOps:
        """A client of ``node``."""
        return MembershipOps(self._members, await self._registers.open(node))

    async def close(self) -> None:
        """Release the connection."""
        await self._registers.close()

    async def invoke(self, op: Op) -> Op:
        """Do one op; a change that was not confirmed may still happen, unless nobody led."""
        match op.f:
            case "remove-voter":
                change = await self._remove(op.value["node"])
            case "add-voter":
                change = await self._members.add_voter(op.value["node"], timeout_s=0)
            case "restore":
                change = await self._members.add_voter(op.value["node"], timeout_s=RESTORE_S)
            case "voters":
                known = await self._members.voter_keys()
                if known is None:
                    return op.with_(type="fail", error=NO_LEADER)
                return op.with_(type="ok", value=sorted(known))
            case _:
                return await self._registers.invoke(op)
        told = {**op.value, "detail": change.detail}
        if change.done:
            return op.with_(type="ok", value=told)
        failed = change.detail in (NO_LEADER, FEW)
        return op.with_(type="fail" if failed else "info", error=change.detail)

    async def _remove(self, node: str) -> Change:
        known = await self._members.voter_keys()
        if known is None:
            return Change(done=False, detail=NO_LEADER)
        if len(known) <= VOTERS_MIN and node in known:
            return Change(done=False, detail=FEW)
        return await self._members.remove_voter(node, timeout_s=0)


FEW = f"there are no more than {VOTERS_MIN} voters"
