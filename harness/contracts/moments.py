"""A source of moments tells of the nodes' events as they happen, so that faults can strike then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

Tell = Callable[[str, Mapping[str, Any]], None]  # takes a node's name and an event of it


class Moments(Protocol):
    """The events of a run's nodes, while it runs."""

    def watch(self, tell: Tell | None) -> None:
        """Tell of every event from now on; None: of none any more.

        A simulation tells in the step of the node in which it happens, and of changes of its disk
        before they are made; live, an event is told of as soon as it was read from the node's file.
        """
        ...

    def begin(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Begin what an event calls for; a simulation does so within the step that it tells of."""
        ...
