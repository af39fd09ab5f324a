"""A controller that takes a repeated registration for a new one."""

from __future__ import annotations

from dataclasses import replace

from node.catalogue.scenario import Scenario, fault
from node.controller import brokers
from node.controller.broker_operations import BrokerRegistrationReply, BrokerRegistrationRequest
from node.controller.controller import QuorumController
from node.controller.operation import Operation
from node.controller.operations import ControllerResult
from node.driver.parts import NodeParts
from node.mutants import mutant


class ForgetfulController(QuorumController):
    """Does not look which incarnation it is that registers."""

    def register_broker(
        self, request: BrokerRegistrationRequest, now_ms: int
    ) -> ControllerResult[BrokerRegistrationReply]:
        """Give the broker an epoch of its own each time."""
        known = self._overlay.broker(request.broker_id)
        if known is None or known.incarnation != request.incarnation_id:
            return super().register_broker(request, now_ms)

        def again(operation: Operation) -> BrokerRegistrationReply:
            record = brokers.registration(self._ctx, request)
            operation.add_at_offset(record, brokers.epoch_is_offset)
            return BrokerRegistrationReply(write=operation.write)

        return self._write(again)


@mutant(
    "new-epoch-again",
    breaks=("C1",),
    source="KAFKA-16952 (registering again as the same incarnation raises the broker epoch)",
    scenario=Scenario(
        seeds=(1, 2, 3, 4),
        observers=1,
        faults=(
            fault("kill", 1, 3, target="observer"),
            fault("slow-links", 2, 4, target="observer", way="both", delay_ms=200, jitter_ms=0),
            fault("partition-isolate-one", 4.9, 4, target="observer"),
        ),
        time_limit_s=12,
        settings={"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"},
    ),
)
def new_epoch_again(parts: NodeParts) -> NodeParts:
    """A broker that repeats its registration, its answer lost, gets another broker epoch."""
    return replace(parts, controller=ForgetfulController)
