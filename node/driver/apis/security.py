"""SASL (17, 36) and ACLs (29, 30, 31), which this node does not do."""

from __future__ import annotations

from node.driver.apis.call import Call
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.wire.refusals import REFUSED_APIS, refusal


def refuse(serving: Serving, call: Call) -> None:
    """Answer as Kafka does on a listener without SASL and without an authorizer."""
    entity, why_closed = refusal(call.api_key, call.version, call.body)
    serving.answer(call, entity, then_close=why_closed)


for _api in REFUSED_APIS.values():
    serves(_api.key, Listener.CONTROLLER, Listener.BROKER)(refuse)
