"""A voter moves: it comes back at another port, and has the others know (UpdateVoter, KIP-853)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.contracts.abilities import Kill, Members
from harness.contracts.hosts import Movable
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError, SystemStuckError
from harness.registry import nemeses
from harness.spec import RunSpec
from nemesis.common import claims
from nemesis.common.hosts import DISK, PROCESS, needs
from nemesis.common.restarts import restart
from nemesis.common.targets import aim, draw_target
from nemesis.common.turns import in_turn
from nemesis.membership import TURN_S, VOTERS, claim_voters, members_available, needs_members

PORTS = (9193, 9293)
KNOWN_TIMEOUT_S = 20.0  # a voter tells where it is after three fetch timeouts
_TARGETS = {"leader": 2, "follower": 3, "one": 1}


@dataclass(slots=True)
class _Undo:
    """The voter that moved, with the pid and the port that it had."""

    node: str
    pid: int | None
    port: int
    moved_back: Mapping[str, Any] | None = None  # by its heal, which does so only once


@nemeses.register("move-voter")
class MoveVoter:
    """Kill a voter and start it on another port; heal moves it back.

    One at a time: the rest of the bootstrap servers must stay where they are. Clients that knew the
    node at its old port find nobody there. No other fault changes the voters before a committed set
    has it where it is again: until then nobody can ask it for its vote, so the loss of one more
    voter could leave a quorum that never elects (docs/findings.md).

    Params: ``target``; ``port``; ``stay_ms``, how long it is there at least.
    """

    family = "membership"

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell why voters, or their addresses, cannot change in such a run; None when they can."""
        return needs_members(spec) or needs(Movable, spec)

    def available(self, cluster: Cluster) -> str | None:
        """The system must know changes of its voters, the hosts have more ports."""
        if not isinstance(cluster.environment, Movable):
            return f"environment {cluster.environment.name!r} cannot move its nodes"
        return members_available(cluster)

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw a target, and where it goes."""
        return {
            "target": draw_target(rng, _TARGETS),
            "port": rng.choice(PORTS),
            "stay_ms": rng.choice((0, 4_000, 8_000)),  # a voter waits three fetch timeouts to tell
        }

    @in_turn
    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Move a voter; evidence: where it was and is, and that it answers there."""
        system, hosts = cluster.system, cluster.environment
        if not isinstance(system, Kill) or not isinstance(hosts, Movable):
            return Injection("skipped", reason=self.available(cluster))
        if (reason := self.available(cluster)) is not None:
            return Injection("skipped", reason=reason)
        if not await claim_voters(fault, cluster):
            return Injection("skipped", reason="another fault changes the voters")
        target, choice = await aim(fault, cluster, PROCESS, DISK)
        node = choice.nodes[0]
        mine = [VOTERS, (PROCESS, node), (DISK, node)]
        pid = cluster.environment.process(node).pid
        if pid is None or len(claims.claim_free(cluster, fault.id, mine)) < len(mine):
            claims.release(cluster, fault.id, mine)
            return Injection("skipped", reason=f"{node} is down, or another fault has it")
        undo = _Undo(node, pid, cluster.environment.bind_address(node).port)
        await system.kill(node)
        await hosts.move(node, int(fault.params.get("port", PORTS[0])))
        seen = await restart({node: pid}, cluster)
        claims.release(cluster, fault.id, [(PROCESS, node), (DISK, node)])
        await asyncio.sleep(int(fault.params.get("stay_ms", 0)) / 1e3)
        now = str(cluster.environment.bind_address(node))
        moved = {"saw": "move", "node": node, "from_port": undo.port, "now_at": now, **seen}
        return Injection("installed", (node,), None, (choice.evidence(target), moved), undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Move it back, once no other fault has it; evidence: it answers where it was.

        Raises:
            SystemStuckError: The committed voters do not have it there in the time for it, or
                another fault is not done with it by then.
        """
        undo, system, hosts = injection.undo, cluster.system, cluster.environment
        if (
            not isinstance(undo, _Undo)
            or not isinstance(system, Kill)
            or not isinstance(system, Members)
            or not isinstance(hosts, Movable)
        ):
            raise HarnessError(f"fault {fault.id} left no voter to move back")
        if undo.moved_back is None:
            mine = [(PROCESS, undo.node), (DISK, undo.node)]
            turns = [
                claims.claim_when_free(cluster, fault.id, x, timeout_s=4 * TURN_S) for x in mine
            ]
            if not all(await asyncio.gather(*turns)):
                claims.release(cluster, fault.id, mine)
                raise SystemStuckError(f"another fault holds {undo.node}, which is not back yet")
            if cluster.environment.process(undo.node).pid is not None:
                await system.kill(undo.node)
            await hosts.move(undo.node, undo.port)
            undo.moved_back = await restart({undo.node: undo.pid}, cluster)
            claims.release(cluster, fault.id, mine)
        known = await system.await_address(undo.node, timeout_s=KNOWN_TIMEOUT_S)
        if not known.done:
            raise SystemStuckError(
                f"{undo.node} has moved back, but the quorum does not know it: {known.detail}"
            )
        claims.release(cluster, fault.id, [VOTERS])
        now = str(cluster.environment.bind_address(undo.node))
        return {**undo.moved_back, "now_at": now, "known": known.detail}
