"""A controller that fences several brokers by one look at the cluster."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.controller import leader_updates
from node.controller.controller import QuorumController
from node.controller.operation import Operation
from node.controller.operations import ControllerResult, PendingWrite
from node.core.messages import Records
from node.driver.parts import NodeParts
from node.mutants import mutant


class HastyController(QuorumController):
    """Works each expiration out as if the others were still there."""

    def expire_sessions(self, now_ms: int) -> ControllerResult[int | None]:
        """Fence all silent brokers at once."""
        gone = [self._overlay.broker(key[0]) for key in self._sessions.expired(now_ms)]
        silent = [broker for broker in gone if broker is not None and not broker.fenced]
        if len(silent) < 2:  # noqa: PLR2004 - one has no company
            return super().expire_sessions(now_ms)
        entries: list[Records] = []
        for broker in silent:
            self._sessions.end((broker.id, broker.epoch))
            operation = Operation(self._overlay, atomic=False)
            leader_updates.fence(self._ctx, operation, broker)
            entries += operation.entries()
            self._overlay.undo(operation.write)
        write = PendingWrite(sum(records.count for records in entries))
        self._pending.append(write)
        self._unappended.append(write)
        return ControllerResult(tuple(entries), None, write)


@mutant(
    "stale-expiry",
    breaks=("C2", "C3", "C4"),
    source="KAFKA-13173 (several expirations are worked out from one stale view)",
    scenario=Scenario(
        seeds=(1, 3),
        observers=2,
        faults=(
            fault("kill", 3, 4, target="observer", draw=0.1),
            fault("kill", 3, 4, target="observer", draw=0.2),
        ),
        time_limit_s=10,
        settings={
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "300",
            "default.replication.factor": "2",
        },
    ),
)
def stale_expiry(parts: NodeParts) -> NodeParts:
    """Brokers that fall silent together are fenced without regard to each other."""
    return replace(parts, controller=HastyController)
