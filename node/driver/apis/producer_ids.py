"""Producer ids: InitProducerId (22) of clients, AllocateProducerIds (67) of brokers.

A broker gives ids to producers without a transactional id. There is no transaction coordinator
here, so it is never the one of a transactional id. Source: KIP-730, KIP-360.
"""

from __future__ import annotations

from typing import Any, Final

from node.controller.broker_operations import ProducerIdsReply
from node.controller.errors import ApiError
from node.driver.apis.call import Call
from node.driver.apis.fields import code, error_fields
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.wire.api import ApiKey

_NO_ID: Final = -1
_NO_EPOCH: Final = -1


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


@serves(ApiKey.INIT_PRODUCER_ID, Listener.BROKER)
def init_producer_id(serving: Serving, call: Call) -> None:
    """A producer wants an id; one that has an id gets a new one, in epoch 0 again."""
    id_, error = _new_id(serving, call)
    serving.answer(
        call,
        call.struct(
            error_code=code(error),
            producer_id=id_,
            producer_epoch=0 if error is ApiError.NONE else _NO_EPOCH,
        ),
    )


def _new_id(serving: Serving, call: Call) -> tuple[int, ApiError]:
    body = call.body
    had_id = getattr(body, "producer_id", _NO_ID) != _NO_ID
    had_epoch = getattr(body, "producer_epoch", _NO_EPOCH) != _NO_EPOCH
    if had_id != had_epoch or body.transactional_id == "":
        return _NO_ID, ApiError.INVALID_REQUEST
    if body.transactional_id is not None:
        return _NO_ID, ApiError.NOT_COORDINATOR
    source = serving.node.producer_ids
    id_ = None if source is None else source.take()
    if id_ is None:  # Kafka's choice: old clients give up on other errors
        return _NO_ID, ApiError.COORDINATOR_LOAD_IN_PROGRESS
    return id_, ApiError.NONE
