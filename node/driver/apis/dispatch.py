"""The requests of one listener: to their handlers, or on to the active controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from node.controller.errors import ApiError
from node.driver.apis import registry
from node.driver.apis.call import Call, Inbound
from node.driver.apis.forwarding import Forwarder, Forwarding
from node.driver.apis.home import Home
from node.driver.apis.serving import Serving
from node.wire.api import ApiTable


class Apis:
    """Answers the requests of one listener of a node.

    Args:
        node: Whose requests these are.
        roles: The roles that the listener serves; None = those of the node.
        listener_name: Whose endpoints clients are told; None = the first of each node.
        forwarder: The way of a broker's listener to the active controller; None = there is none,
            and what only the active controller can do is refused.
        quorum: Takes the requests that an envelope holds for the quorum (DescribeQuorum, ...);
            None = they are refused.
        now_ms: The clock that the controller's sessions run on; None = the event loop's.
    """

    def __init__(
        self,
        node: Home,
        *,
        roles: Iterable[str] | None = None,
        listener_name: str | None = None,
        forwarder: Forwarder | None = None,
        quorum: Callable[[Inbound], None] | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        config = node.config
        roles = frozenset(config.roles if roles is None else roles)
        forwarding = forwarder is not None
        self.table: ApiTable = registry.served(config, roles, forwarding=forwarding)
        self._handlers = registry.handlers(config, roles, forwarding=forwarding)
        self._quorum = quorum
        self._serving = Serving(
            node,
            now_ms=now_ms or _loop_ms,
            listener_name=listener_name,
            is_controller=registry.Listener.CONTROLLER.value in roles,
            table=self.table,
            dispatch=self._dispatch,
        )
        self._forwarding: Forwarding | None = None
        if forwarder is not None:
            self._forwarding = Forwarding(forwarder, self._refuse)

    def handles(self, api_key: int) -> bool:
        """Tell whether requests of that key are handled here; if not, the quorum handles them."""
        return api_key in self._handlers

    def handle(self, request: Inbound) -> None:
        """Answer a request, now or when what it waits for has happened."""
        self._handle(Call(request))

    def close(self) -> None:
        """Give up what is being forwarded. Idempotent."""
        if self._forwarding is not None:
            self._forwarding.close()

    def _handle(self, call: Call) -> None:
        handler = self._handlers[call.api_key]
        if handler.forwarded and self._forwarding is not None:
            self._forwarding.forward(call)
        else:
            handler.handle(self._serving, call)

    def _dispatch(self, call: Call) -> None:
        """Answer a request that came in an envelope."""
        if self.handles(call.api_key):
            self._handle(call)
        elif self._quorum is not None:
            self._quorum(call)
        else:
            call.reject(f"{call.name} is not served here")

    def _refuse(self, call: Call, error: ApiError, message: str) -> None:
        """Answer a call with an error, in the way of its API."""
        self._handlers[call.api_key].handle(self._serving.refusing(error, message), call)


def _loop_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
