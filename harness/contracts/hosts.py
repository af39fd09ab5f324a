"""Contracts of hosts: everything that can be done to them and to the links between them.

Each is an ability that an environment, or its net, has or has not. A nemesis asks for the one that
it needs and is skipped, with its reason, where it is not there. What takes many orders is an object
that the environment has: its net, its disks, its clocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol, runtime_checkable

from harness.contracts.environment import Link


@dataclass(frozen=True, slots=True)
class Shape:
    """The treatment of messages on a link; the defaults leave them alone."""

    delay_ms: int = 0  # added to every message
    jitter_ms: int = 0  # at most so much more, evenly
    loss: float = 0.0  # share of packets lost; the sender's kernel sends them again, later
    jam_ms: int = 0  # let through only every so often, then all that has queued up
    repeat: float = 0.0  # share of replicas' requests that come a second time
    keep_back: float = 0.0  # share of messages that later ones of other connections overtake
    late_ms: int = 0  # by how much what is repeated or kept back is late, at most
    bytes_per_s: int = 0  # 0: as many as there are
    duplicate: float = 0.0  # share of packets that come twice; the receiver's kernel notices
    corrupt: float = 0.0  # share of packets with a flipped bit; their checksums tell

    def __add__(self, other: Shape) -> Shape:
        """Both at once; of two losses, jams, repetitions, ... the worse."""
        return Shape(
            self.delay_ms + other.delay_ms,
            self.jitter_ms + other.jitter_ms,
            max(self.loss, other.loss),
            max(self.jam_ms, other.jam_ms),
            max(self.repeat, other.repeat),
            max(self.keep_back, other.keep_back),
            max(self.late_ms, other.late_ms),
            min(filter(None, (self.bytes_per_s, other.bytes_per_s)), default=0),
            max(self.duplicate, other.duplicate),
            max(self.corrupt, other.corrupt),
        )


@dataclass(frozen=True, slots=True)
class Election:
    """A disk's word on elections: the latest epoch, its leader if known, if it is this node."""

    epoch: int
    leader: int | None
    leads: bool


@runtime_checkable
class Packets(Protocol):
    """Links (a ``Net``) whose messages can be slowed, lost, jammed, repeated and reordered."""

    async def shape(self, owner: int, links: Iterable[Link], shape: Shape | None) -> None:
        """Treat what is sent over these directed links so from now on; None: no longer.

        What several owners want adds up.

        Raises:
            NotShapedError: They cannot be; never for None.
        """
        ...

    async def shaped(self, link: Link) -> Mapping[str, Any]:
        """Tell how the link is now, with what passed, was lost, came twice or was kept back."""
        ...


@runtime_checkable
class Repeats(Packets, Protocol):
    """Links that can carry a request of a replica a second time (``Shape.repeat``)."""


@runtime_checkable
class LosesAnswers(Protocol):
    """Links (a ``Net``) that can lose single answers, and let the requests through."""

    async def lose_answers(
        self, node: str, count: int, to: Collection[str], *, resets: bool
    ) -> None:
        """Lose the next so many answers that a node gives to these nodes; 0: no more.

        With ``resets`` the connection of a lost answer breaks; without, it stays, and whoever asked
        waits in vain.
        """
        ...

    async def lost_answers(self, node: str) -> int:
        """Count the answers of a node that were lost since the last order."""
        ...


@runtime_checkable
class PowerOrders(Protocol):
    """Orders to the power of an environment's hosts."""

    async def lose(self, node: str, *, mid_write: bool, clean: bool = False) -> Mapping[str, Any]:
        """Cut the power now or, with ``mid_write``, within a write; returns what was lost.

        With ``clean`` nothing that was not fsynced survives; without, a part of it may.
        Keys: ``lost_bytes``, ``lost`` (bytes by file name), ``torn_write``.
        """
        ...


@runtime_checkable
class Power(Protocol):
    """An environment whose hosts can lose their power, and with it what was not fsynced."""

    @property
    def power(self) -> PowerOrders:
        """The power of its hosts."""
        ...


@runtime_checkable
class DiskOrders(Protocol):
    """Orders to the disks of an environment's hosts."""

    async def slow_fsync(self, node: str, ms: int) -> None:
        """Make every fsync of a node take so long; 0 makes it as fast as at first."""
        ...

    async def fill(self, node: str, *, full: bool) -> None:
        """Leave no room for another byte, or make room again."""
        ...

    async def fail_io(self, node: str, operation: str | None) -> None:
        """Make ``read``, ``write`` or ``fsync`` fail with EIO from now on; None repairs it."""
        ...

    async def try_disk(self, node: str) -> Mapping[str, Any]:
        """Use the disk: ``errno`` of what it refuses or None, and counts since the start."""
        ...

    async def tear_tail(self, node: str, rng: Random) -> Mapping[str, Any]:
        """Lose un-fsynced bytes at the end of the log and leave a torn write; says how many."""
        ...

    async def flip_bit(self, node: str, rng: Random) -> Mapping[str, Any] | None:
        """Flip one bit of the log that a CRC covers; says which. None: there is no record yet."""
        ...

    async def cut_tail(self, node: str, rng: Random) -> Mapping[str, Any] | None:
        """Cut fsynced bytes off the end of the log; says how many. None: there are none."""
        ...

    async def lose_vote(self, node: str) -> Mapping[str, Any] | None:
        """Delete quorum-state; says what was in it. None: there is none."""
        ...

    async def lose_snapshots(self, node: str) -> Mapping[str, Any]:
        """Delete the node's snapshots; ``files`` are the names of those that were there."""
        ...

    async def return_snapshots(self, node: str) -> None:
        """Put the snapshots back that were deleted last."""
        ...

    async def election(self, node: str) -> Election | None:
        """Tell what quorum-state says; None: there is none."""
        ...

    async def wipe(self, node: str, *, keep_id: bool = False) -> Mapping[str, Any]:
        """Put an empty disk in the place of the node's; says what was on the old one.

        With ``keep_id`` it says whose it is all the same, and nobody can tell the difference.
        """
        ...

    async def save_copy(self, node: str) -> None:
        """Keep a copy of the node's disk as it is now, in the place of an earlier one."""
        ...

    async def restore_copy(self, node: str) -> Mapping[str, Any]:
        """Put the kept copy in the place of the node's disk; says what it holds."""
        ...


@runtime_checkable
class Disks(Protocol):
    """An environment whose hosts' disks can misbehave, and be damaged while their node is down."""

    @property
    def disks(self) -> DiskOrders:
        """The disks of its hosts."""
        ...


@runtime_checkable
class MountsDisks(Protocol):
    """An environment that can put a file system of ours under nodes that have no seam for faults.

    With it, ``Disks`` and ``Power`` are there for any process that keeps its files in ``data``.
    """

    def mount_disks(self, *, lies_about: str | None = None) -> None:
        """Start nodes on it from now on, if the run's faults ask for disks and the host can.

        Files whose names end with ``lies_about`` are never durable, though an fsync says so.
        """
        ...


@runtime_checkable
class Movable(Protocol):
    """An environment whose nodes can go to another port, as of their next start."""

    async def move(self, node: str, port: int) -> None:
        """Make the node, which is down, listen at that port when it starts again."""
        ...


@runtime_checkable
class ClockOrders(Protocol):
    """Orders to the clocks of an environment's hosts."""

    async def set_rate(self, node: str, ppm: int) -> None:
        """Make the node's clocks run at so many millionths of the true speed."""
        ...

    async def jump_wall(self, node: str, ms: int) -> None:
        """Set the node's wall clock forward, or back, by so much."""
        ...

    async def clock(self, node: str) -> Mapping[str, Any]:
        """``true_ms``, and what the process reads: ``steady_ms``, ``wall_ms``.

        ``rated_ms`` is of the clock that ``set_rate`` bends, without jumps. ``unread``, where it
        is there, says why the process did not read it now: this is what it read last, or would.
        ``precision_ms``, where it is there, is how exactly the process tells it.
        """
        ...


@runtime_checkable
class Clocks(Protocol):
    """An environment whose hosts' clocks can be set, and read from inside their processes."""

    @property
    def clocks(self) -> ClockOrders:
        """The clocks of its hosts."""
        ...


@runtime_checkable
class AsksJvms(Protocol):
    """An environment that can read the clocks of JVMs, which they do not show by themselves.

    With it, ``Clocks`` are there for nodes of a system whose traits say ``jvms``.
    """

    def ask_jvms(self) -> None:
        """The nodes are JVMs: ask them what they read."""
        ...


@dataclass(frozen=True, slots=True)
class JavaProgram:
    """A program of the JVM, as this host has it, for nodes that do not see this host's files.

    Attributes:
        java: This host's ``java``.
        version_min: The oldest major version of Java that will do.
        files: Folders and files that its processes read, and nobody writes.
        archives: Loaded classes for quick starts, which it can do without.
        image: A container image to run it in; None: the environment's own.
        in_image: What stands in such an image in the place of paths of this host.
        image_has: Paths that such an image must have.
    """

    java: Path
    version_min: int
    files: tuple[Path, ...]
    archives: tuple[Path, ...] = ()
    image: str | None = None
    in_image: Mapping[Path, str] = field(default_factory=dict)
    image_has: tuple[str, ...] = ()


@runtime_checkable
class BringsJava(Protocol):
    """An environment whose nodes do not see this host's files: a program is brought to them."""

    async def bring(self, program: JavaProgram) -> None:
        """Bring it, before nodes start; from then on its paths mean those that nodes see.

        Raises:
            EnvError: It cannot run there; says where, why and what to do.
        """
        ...


@runtime_checkable
class Mirrors(Protocol):
    """An environment whose nodes' folders lie elsewhere, and are only mirrored here."""

    async def refresh(self, node: str) -> None:
        """Bring here what is new of the node's data; what is gone there is gone here, too."""
        ...


@runtime_checkable
class LosesDisks(Protocol):
    """An environment that may not get back what was on a node's disk at the end."""

    def lost_disk(self, node: str) -> str | None:
        """Tell, after teardown, why a node's disk here differs from the one there; else None."""
        ...


@runtime_checkable
class Explains(Protocol):
    """An environment that knows why it has not an ability that its class, or its net, has."""

    def why_not(self, ability: type) -> str | None:
        """Tell why not here: by this host and, once set up, by what that has found; None: nothing.

        ``Net`` itself stands for cutting its links.
        """
        ...


@runtime_checkable
class Permits(Protocol):
    """An environment of hosts that are not ours: not all may be done there that can be done."""

    def why_not_hit(self, nemesis: str, nodes: Sequence[str]) -> str | None:
        """Tell why a nemesis must not stop or freeze these nodes now, all at once; None: it may."""
        ...

    def why_not_cut(self, links: Iterable[Link]) -> str | None:
        """Tell why these links must not be cut now, beside those that are; None: they may."""
        ...


@runtime_checkable
class Expects(Protocol):
    """An environment that has to be told before ``setup`` what a run's faults will ask of it."""

    def expect(self, abilities: Collection[type], rng: Random) -> None:
        """Prepare for these protocols of this module; ``rng`` decides what hosts do by chance."""
        ...
