"""One request to be answered, whether it came by itself or inside an envelope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from node.wire.errors import LocalProtocolError
from node.wire.payloads import ApiSchema, api_schema
from node.wire.structs import NO_THROTTLE, build, knows

Answer = Any  # a kio response, or its encoded body


class Inbound(Protocol):
    """The members of ``node.wire.server.InboundRequest`` in use; a ``Call`` is one too."""

    @property
    def api_key(self) -> int:
        """The API that it is of."""
        ...

    @property
    def version(self) -> int:
        """Give the version of the request."""
        ...

    @property
    def client_id(self) -> str | None:
        """The name that the client gives itself."""
        ...

    @property
    def connection(self) -> int:
        """The connection it came on."""
        ...

    @property
    def peer(self) -> tuple[str, int]:
        """The address that it came from."""
        ...

    @property
    def body(self) -> Any:
        """The decoded request."""
        ...

    def reply(self, answer: Answer, *, then_close: str | None = None) -> None:
        """Answer, once; raises LocalProtocolError and stays unanswered when it cannot.

        With a reason ``then_close`` the connection ends when the response is written.
        """
        ...

    def reject(self, reason: str) -> None:
        """Close the connection instead."""
        ...


class Call:
    """A request and the means to answer it.

    ``refer`` answers that another node is the active controller and that nothing was written
    here. By itself a request is referred with its own answer; in an envelope the envelope says
    so, and the broker that forwarded it asks the next controller.
    """

    __slots__ = ("_inbound", "_refer", "schema")

    def __init__(self, inbound: Inbound, refer: Callable[[], None] | None = None) -> None:
        self.schema: ApiSchema = api_schema(inbound.api_key, inbound.version)
        self._inbound = inbound
        self._refer = refer

    @property
    def api_key(self) -> int:
        """The API that it is of."""
        return self.schema.key

    @property
    def version(self) -> int:
        """Give the version of the request."""
        return self.schema.version

    @property
    def name(self) -> str:
        """Kafka's name of the API, as in ``CreateTopics``."""
        return self.schema.request.__name__.removesuffix("Request")

    @property
    def body(self) -> Any:
        """The decoded request."""
        return self._inbound.body

    @property
    def client_id(self) -> str | None:
        """The name that the client gives itself."""
        return self._inbound.client_id

    @property
    def connection(self) -> int:
        """The connection it came on."""
        return self._inbound.connection

    @property
    def peer(self) -> tuple[str, int]:
        """The address that it came from."""
        return self._inbound.peer

    # ------------------------------------------------------------------ making the answer

    def struct(self, name: str | None = None, /, **values: Any) -> Any:
        """The response itself, or the named struct in it, from those values that it knows."""
        if name is None:
            values.setdefault("throttle_time", NO_THROTTLE)
        return build(self.schema.response, name, **values)

    def knows(self, name: str | None, field: str) -> bool:
        """Tell whether the response's struct has that field in this version."""
        return knows(self.schema.response, name, field)

    # ------------------------------------------------------------------ answering

    def reply(self, answer: Answer, *, then_close: str | None = None) -> None:
        """Answer; one that does not fit the protocol ends the connection of who asked for it."""
        try:
            self._inbound.reply(answer, then_close=then_close)
        except LocalProtocolError as error:
            self._inbound.reject(f"its answer cannot be encoded: {error}")

    def refer(self, answer: Answer) -> None:
        """Answer that the active controller is another node, and that nothing was written."""
        if self._refer is None:
            self.reply(answer)
        else:
            self._refer()

    def reject(self, reason: str) -> None:
        """Close the connection instead."""
        self._inbound.reject(reason)
