"""The table of handlers, by API and kind of listener."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache

from node.config import NodeConfig
from node.driver import apis
from node.driver.apis.call import Call
from node.driver.apis.serving import Serving
from node.wire.api import ALL_APIS, ApiKey, ApiTable, apis_of, table

Handle = Callable[[Serving, Call], None]

# What the core answers, and ApiVersions, which the server does.
QUORUM = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.API_VERSIONS,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)


class Listener(Enum):
    """The two kinds of listeners; values are the roles of ``process.roles``."""

    CONTROLLER = "controller"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Handler:
    """An API on one kind of listener."""

    key: int
    listener: Listener
    handle: Handle
    forwarded: bool = False  # to the active controller, if there is a way to it
    only_if: Callable[[NodeConfig], bool] | None = None


_handlers: dict[tuple[Listener, int], Handler] = {}


def serves(
    key: int,
    *listeners: Listener,
    forwarded: bool = False,
    only_if: Callable[[NodeConfig], bool] | None = None,
) -> Callable[[Handle], Handle]:
    """Register the handler of an API, in all versions of ``ALL_APIS``.

    Args:
        key: The API.
        listeners: Where it is answered.
        forwarded: Brokers forward it to the active controller; without a way to it they answer
            with the same handler, which refuses.
        only_if: Serve it only with this configuration.
    """

    def register(handle: Handle) -> Handle:
        for listener in listeners:
            _add(Handler(int(key), listener, handle, only_if=only_if))
        if forwarded:
            _add(Handler(int(key), Listener.BROKER, handle, forwarded=True))
        return handle

    return register


def _add(handler: Handler) -> None:
    place = (handler.listener, handler.key)
    assert place not in _handlers, f"API {handler.key} has two handlers"  # noqa: S101
    _handlers[place] = handler


@cache
def _load() -> None:
    """Import every family; each registers its handlers."""
    for module in pkgutil.iter_modules(apis.__path__):
        importlib.import_module(f"{apis.__name__}.{module.name}")


def handlers(
    config: NodeConfig, roles: Iterable[str], *, forwarding: bool = False
) -> dict[int, Handler]:
    """The handlers of a listener by API key; on one that serves both roles controllers win.

    Without ``forwarding`` the core answers for itself what a broker would forward to a core.
    """
    _load()
    wanted = set(roles)
    chosen: dict[int, Handler] = {}
    for listener in (Listener.BROKER, Listener.CONTROLLER):  # the later one replaces
        if listener.value in wanted:
            chosen |= {
                key: handler
                for (at, key), handler in _handlers.items()
                if at is listener
                and (handler.only_if is None or handler.only_if(config))
                and (forwarding or key not in QUORUM)
            }
    if Listener.CONTROLLER.value in wanted:
        return {key: handler for key, handler in chosen.items() if key not in QUORUM}
    return chosen


def served(config: NodeConfig, roles: Iterable[str], *, forwarding: bool = False) -> ApiTable:
    """Give the APIs that such a listener serves: the handlers', and those of the quorum."""
    roles = tuple(roles)
    keys = handlers(config, roles, forwarding=forwarding).keys()
    quorum = [api for api in apis_of(roles).values() if api.key in QUORUM]
    return table(quorum, [ALL_APIS[key] for key in keys])
