"""Abilities are what a system may offer beyond the contract; nemeses and workloads ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from harness.contracts.clients import RegisterClient, TopicClient
from harness.contracts.evidence import LogBatch, LogSnapshot
from harness.contracts.system import Role


@runtime_checkable
class Kill(Protocol):
    """A system whose nodes can be killed and started again."""

    async def kill(self, node: str) -> None:
        """SIGKILL; returns when the process is gone."""
        ...

    async def start(self, node: str) -> None:
        """Start a stopped node; returns when its port answers. Raises NodeStartError."""
        ...


@runtime_checkable
class Pause(Protocol):
    """A system whose nodes can be frozen and thawed."""

    async def pause(self, node: str) -> None:
        """Freeze the node's process."""
        ...

    async def resume(self, node: str) -> None:
        """Let a node that was paused run again."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """The outcome of a try to change voters or levels; not done: it may still come to be."""

    done: bool
    detail: str
    tries: int = 1


@runtime_checkable
class Members(Protocol):
    """A system whose voters can be removed and added again, as replicas with empty disks."""

    async def voter_keys(self) -> Mapping[str, str] | None:
        """The directory id (hex) of each voter by node, as the leader says; None without one."""
        ...

    async def remove_voter(self, node: str, *, timeout_s: float) -> Change:
        """Remove a node from the voters, whichever directory id it has there.

        Not while that could leave a cluster that never leads again, as the leader of two voters.
        """
        ...

    async def add_voter(self, node: str, *, timeout_s: float) -> Change:
        """Add a node to the voters, with the directory id that its disk has now."""
        ...

    async def await_address(self, node: str, *, timeout_s: float) -> Change:
        """Wait until the committed voters have a node where it is now, or it is none of them."""
        ...

    def reformat(self, node: str) -> str:
        """Give a node that is down, on an empty disk, a new directory id; returns it (hex)."""
        ...


@runtime_checkable
class Releases(Protocol):
    """A system whose nodes can go over to another release of its software, on their disks."""

    def node_release(self, node: str) -> str:
        """The release of which the node's next process is, and its present one, if it runs."""
        ...

    def other_releases(self, node: str) -> Sequence[str]:
        """Name the releases to which a node may go in this run; none: it stays what it is."""
        ...

    def install(self, node: str, release: str) -> None:
        """Give a node that is down another release; raises EnvError when it runs."""
        ...

    def said_release(self, node: str) -> str | None:
        """Tell of which release the node's present process says to be; None: nothing so far."""
        ...

    def says_releases(self) -> bool:
        """Tell whether its processes say so at all."""
        ...


@runtime_checkable
class Finalizes(Protocol):
    """A system whose cluster finalises levels of features, which all its nodes must know (KIP-584).

    Once a level was asked for, no node goes over to a release that does not know it.
    """

    def raisable(self) -> Mapping[str, Sequence[int]]:
        """The levels above those in force that each node knows with its release, by feature."""
        ...

    async def finalize(self, feature: str, level: int, *, timeout_s: float) -> Change:
        """Raise a feature to a level of ``raisable``."""
        ...

    async def finalized(self, node: str) -> Mapping[str, int] | None:
        """The levels that a node says are finalised, by feature; None: it does not answer."""
        ...


@runtime_checkable
class StoresLogs(Protocol):
    """A system whose nodes keep a replicated log in ``data`` in their folders, as Kafka does."""

    def stored_log(self, node: str) -> Sequence[LogBatch]:
        """The node's replicated log as it lies on its disk."""
        ...

    def stored_snapshots(self, node: str) -> Sequence[LogSnapshot]:
        """The node's snapshots as they lie on its disk."""
        ...


@runtime_checkable
class LeavesEvents(Protocol):
    """A system whose nodes write protocol events; its traits say so, too."""

    def event_files(self) -> Mapping[str, Path]:
        """Tell where each node writes them."""
        ...


@runtime_checkable
class Simulated(StoresLogs, Protocol):
    """A system whose nodes can also live on simulated hosts."""

    def read_log(self, node: str, begin: int, below: int) -> Sequence[LogBatch]:
        """The batches from an offset on that end below another one, as far as they are there.

        The node may be at work; it does not notice.
        """
        ...


@runtime_checkable
class Roles(Protocol):
    """A system that can say who leads."""

    async def leader(self) -> str | None:
        """The leader that a majority would recognise now; None when there is none."""
        ...

    def roles(self) -> Mapping[str, Role]:
        """The last known role of each node."""
        ...


@runtime_checkable
class Guarded(Protocol):
    """A system that a run must let go of as soon as it is not well."""

    async def until_unsafe(self) -> str:
        """Watch it; return, with the reason, when all faults must be healed and the run end."""
        ...


@runtime_checkable
class Registers(Protocol):
    """A system that holds named registers; used by the ``register`` workload."""

    def register_client(self) -> RegisterClient:
        """A prototype client."""
        ...


@runtime_checkable
class Topics(Protocol):
    """A system that holds topics; used by the ``topics`` workload."""

    def topic_client(self) -> TopicClient:
        """A prototype client."""
        ...
