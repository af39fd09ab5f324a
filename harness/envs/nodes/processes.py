"""A hold on the nodes' processes, for whatever has to have one end or stand still."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from harness.contracts.environment import ProcessState


class NodeProcesses(Protocol):
    """The processes of an environment's nodes."""

    def state(self, node: str) -> ProcessState:
        """Ask the kernel about the node's process."""
        ...

    async def end(self, node: str) -> None:
        """Kill the node's process, if it runs, and wait until it is gone."""
        ...

    async def cut(self, node: str) -> None:
        """Do as ``end``, and drop what the process asked of its disk and was not yet told of.

        The end of a process alone waits for an fsync that is under way, a loss of power does not.
        """
        ...

    def frozen(self, node: str) -> AbstractAsyncContextManager[None]:
        """Within, the node stands still; nothing where it did before, or is down."""
        ...
