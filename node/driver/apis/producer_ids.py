"""AllocateProducerIds (67): a broker wants a block of producer ids. Source: KIP-730."""

from __future__ import annotations

from typing import Any

from node.controller.broker_operations import ProducerIdsReply
from node.driver.apis.call import Call
from node.driver.apis.fields import error_fields
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.wire.api import ApiKey


@serves(ApiKey.ALLOCATE_PRODUCER_IDS, Listener.CONTROLLER)
def allocate_producer_ids(serving: Serving, call: Call) -> None:
    """The block goes to nobody else, ever."""
    broker_id, broker_epoch = int(call.body.broker_id), int(call.body.broker_epoch)

    def encode(reply: ProducerIdsReply) -> Any:
        return call.struct(
            producer_id_start=reply.producer_id_start,
            producer_id_len=reply.producer_id_len,
            **error_fields(reply),
        )

    serving.write(
        call,
        lambda c: c.allocate_producer_ids(broker_id, broker_epoch),
        ProducerIdsReply,
        encode,
    )
