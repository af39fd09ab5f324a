"""Envelope (58): a client's request that a broker forwards to the controller.

We enforce no ACLs, so the principal is not looked at. Source: KIP-590, Kafka's EnvelopeUtils.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from node.controller.errors import ApiError
from node.driver.apis.call import Answer, Call
from node.driver.apis.fields import code
from node.driver.apis.registry import Listener, serves
from node.driver.apis.serving import Serving
from node.wire.api import ApiKey, ApiTable
from node.wire.errors import RemoteProtocolError, UnsupportedVersionError
from node.wire.payloads import (
    api_schema,
    decode,
    encode,
    peek_api,
    read_request_head,
    response_frame,
)
from node.wire.shape import REQUEST_ELEMENTS_MAX

log = logging.getLogger("krucible.node")

_LENGTH_BYTES: Final = 4
_ADDRESS_BYTES: Final = (4, 16)

# Those of Kafka's forwardable APIs that we serve.
FORWARDABLE: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)


class EnvelopeError(Exception):
    """Raised when an envelope is refused: ``error`` says why."""

    def __init__(self, error: ApiError, message: str) -> None:
        super().__init__(message)
        self.error = error


class Enveloped:
    """The request in an envelope; its answer goes back in another. See ``call.Inbound``."""

    def __init__(self, outer: Call, table: ApiTable) -> None:
        data = bytes(outer.body.request_data)
        if len(outer.body.client_host_address) not in _ADDRESS_BYTES:
            raise EnvelopeError(ApiError.INVALID_REQUEST, "the client's address is malformed")
        try:
            self.api_key, self.version, self._correlation = peek_api(data)
            if self.api_key not in FORWARDABLE:
                raise EnvelopeError(
                    ApiError.INVALID_REQUEST, f"API {self.api_key} is not to be forwarded"
                )
            api = table.get(self.api_key)
            if api is None or self.version not in api:
                raise EnvelopeError(
                    ApiError.UNSUPPORTED_VERSION,
                    f"version {self.version} of API {self.api_key} is not served",
                )
            schema = api_schema(self.api_key, self.version)
            head = read_request_head(data, flexible=schema.flexible_request_header)
            self.body: Any = decode(
                schema.request, data, head.body_offset, elements_max=REQUEST_ELEMENTS_MAX
            )
        except (RemoteProtocolError, UnsupportedVersionError) as error:
            # As Kafka: whatever is wrong with the request inside is a version we do not know.
            raise EnvelopeError(ApiError.UNSUPPORTED_VERSION, str(error)) from error
        self.client_id = head.client_id
        self.connection = outer.connection
        self.peer = outer.peer
        self._flexible = schema.flexible_response_header
        self._outer = outer

    def reply(self, answer: Answer, *, then_close: str | None = None) -> None:
        """Answer the envelope; raises LocalProtocolError when that cannot be encoded."""
        body = answer if isinstance(answer, bytes) else encode(answer)
        frame = response_frame(self._correlation, body, flexible=self._flexible)
        answer = _envelope(self._outer, ApiError.NONE, frame[_LENGTH_BYTES:])
        self._outer.reply(answer, then_close=then_close)

    def reject(self, reason: str) -> None:
        """Refuse the envelope: the connection is the broker's, and others use it."""
        log.warning("refused an envelope of %s:%s: %s", *self.peer[:2], reason)
        self._outer.reply(_envelope(self._outer, ApiError.UNKNOWN_SERVER_ERROR))

    def refer(self) -> None:
        """Say on the envelope that another node is the controller: nothing was written here."""
        self._outer.reply(_envelope(self._outer, ApiError.NOT_CONTROLLER))


@serves(ApiKey.ENVELOPE, Listener.CONTROLLER)
def envelope(serving: Serving, call: Call) -> None:
    """Answer the request inside, or say what is wrong with the envelope."""
    try:
        inner = Enveloped(call, serving.table)
    except EnvelopeError as refusal:
        serving.answer(call, _envelope(call, refusal.error))
        return
    serving.dispatch(Call(inner, inner.refer))


def _envelope(call: Call, error: ApiError, data: bytes | None = None) -> Any:
    return call.struct(response_data=data, error_code=code(error))
