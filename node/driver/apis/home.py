"""The members of ``node.driver.node.Node`` that the handlers need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Protocol

from node.config import NodeConfig
from node.controller.controller import QuorumController
from node.core.messages import Records, VoterChangeResponse
from node.core.types import Voter
from node.driver.held import HeldRead, HeldWrite
from node.driver.long_work import LongWork
from node.metadata.image import MetadataImage


class Applied(Protocol):
    """The state machine: the image of what is committed, up to the offset ``applied``."""

    @property
    def image(self) -> MetadataImage:
        """The committed state."""
        ...

    @property
    def applied(self) -> int:
        """The end of what is applied, exclusive."""
        ...


class Member(Protocol):
    """The consensus core."""

    @property
    def leader_id(self) -> int | None:
        """The leader of the quorum, as far as the core knows."""
        ...

    @property
    def kraft_version(self) -> int:
        """The level in force: 0 for static voters, 1 for voters in the log."""
        ...


class Disk(Protocol):
    """The disk, as formatted."""

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        ...


class ProducerIdSource(Protocol):
    """The source of a broker's producer ids."""

    def take(self) -> int | None:
        """An id that nobody was ever given; None while there is none."""
        ...


class Home(Protocol):
    """A node, as far as its handlers are concerned."""

    @property
    def config(self) -> NodeConfig:
        """Give the node's settings."""
        ...

    @property
    def storage(self) -> Disk:
        """Give the node's disk."""
        ...

    @property
    def machine(self) -> Applied:
        """Give the node's state machine."""
        ...

    @property
    def replica(self) -> Member:
        """Give the node's consensus core."""
        ...

    @property
    def voters(self) -> Iterable[Voter]:
        """The voters in force."""
        ...

    @property
    def controller(self) -> QuorumController | None:
        """Give the node's controller; None on a node that is only a broker."""
        ...

    @property
    def producer_ids(self) -> ProducerIdSource | None:
        """Give the node's producer ids; None on a node that hands none out."""
        ...

    @property
    def rng(self) -> Random:
        """The source of its randomness."""
        ...

    @property
    def long_work(self) -> LongWork:
        """The work of its controller in slices, and those who wait for it."""
        ...

    def later(self, send: Callable[[], None]) -> None:
        """Do ``send`` once the trace of everything before it is written."""
        ...

    def propose(self, entries: Sequence[Records], write: HeldWrite) -> None:
        """Append entries, and settle ``write`` when they are committed."""
        ...

    def upgrade_quorum(
        self, level: int, *, validate_only: bool, told: Callable[[VoterChangeResponse], None]
    ) -> None:
        """Have the core change the kraft.version, or say whether it would."""
        ...

    def fault(self, operation: str, error: Exception) -> None:
        """Give up being the active controller after an operation that failed unexpectedly."""
        ...

    def read(self, pending: HeldRead) -> None:
        """Confirm leadership, then answer."""
        ...

    def when_published(self, look: Callable[[], None]) -> bool:
        """Look at the image once it may be shown, which may be now; False: too many wait."""
        ...

    def trace(self, type_: str, **fields: object) -> None:
        """Trace an event."""
        ...
