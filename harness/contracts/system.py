"""A system under test runs one kind of cluster and says how it ends."""

from __future__ import annotations

from typing import Literal, Protocol

Role = Literal[
    "leader", "follower", "candidate", "prospective", "unattached", "resigned", "observer"
]


class System(Protocol):
    """A system under test: made by ``factory(spec, environment, run_dir)``.

    What is to be known before that, it says as ``SystemTraits`` where it registers itself; what it
    can do besides are ``contracts.abilities``.
    """

    name: str
    nodes: tuple[str, ...]  # all, voters first
    voters: tuple[str, ...]
    observers: tuple[str, ...]

    async def setup(self) -> None:
        """Start all nodes and wait until the system serves; raises NodeStartError."""
        ...

    async def teardown(self) -> None:
        """Stop all nodes in an orderly way."""
        ...

    async def await_recovery(self, timeout_s: float) -> bool:
        """Wait, after all faults are healed, until every node is up, led and caught up."""
        ...

    def collect(self) -> None:
        """Copy events, logs and the replicated log itself into the store, after teardown."""
        ...
