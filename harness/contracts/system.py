"""A system under test runs one kind of cluster and says how it ends."""

from __future__ import annotations

from typing import Literal, Protocol

Role = Literal[
    "leader", "follower", "candidate", "prospective", "unattached", "resigned", "observer"
]


class System(Protocol):
    """A system under test: made by ``factory(spec, environment, run_dir)``.

    The class may say what a run of it ``leaves`` behind (``events``, ``records``, ``output``); a
    checker whose ``needs`` are not left is not asked. One that leaves events has ``event_files``.
    A static ``check_settings(settings)`` refuses bad settings (UsageError) before a run is begun;
    so do ``workloads`` and ``envs``, where the class has them, other workloads and environments.
    ``checkers`` judge each run of it, beside those of the workload; ``versions`` are its own.
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
        """After all faults are healed: wait until every node is up, led and caught up."""
        ...

    def collect(self) -> None:
        """After teardown: copy events, logs and the replicated log itself into the store."""
        ...
