"""An environment runs the processes of nodes and the links between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Link = tuple[str, str]  # directed: (source, destination)


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Probe:
    """One try to use a link: did data come through, and what was seen."""

    source: str
    destination: str
    passed: bool
    detail: str
    elapsed_ms: float
    resent: int = 0  # segments of the probe's own connection that were sent again
    doubled: int = 0  # that came twice, as the peer's kernel has told

    def to_json(self) -> dict[str, Any]:
        """The probe as a JSON object; what was not counted is not in it."""
        counts = {"resent": self.resent, "doubled": self.doubled}
        return {
            "source": self.source,
            "destination": self.destination,
            "passed": self.passed,
            "detail": self.detail,
            "elapsed_ms": round(self.elapsed_ms, 1),
            **{name: count for name, count in counts.items() if count},
        }


class Net(Protocol):
    """The links between nodes."""

    async def cut(self, links: Iterable[Link]) -> None:
        """Stop all data on these directed links; journalled before it takes effect."""
        ...

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Let data through again: on these links, or on all."""
        ...

    def cuts(self) -> frozenset[Link]:
        """The links cut at present."""
        ...

    async def probe(self, source: str, destination: str, *, timeout_s: float = 0.5) -> Probe:
        """Send a request over the link from ``source``'s own address, and wait for the answer."""
        ...

    async def stats(self) -> Mapping[Link, Mapping[str, int]]:
        """Per link: connections, bytes passed, bytes held back since the start."""
        ...


NEVER_STARTED = "never started"  # the detail of a node that has had no process


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The kernel's word on a node's process."""

    pid: int | None
    state: str  # a letter of /proc/PID/stat ("R", "S", "D", "T", "Z"), or "gone"
    detail: str = ""

    @property
    def has_ended(self) -> bool:
        """Tell whether it ran once and runs no more; ``detail`` tells how it ended."""
        return self.state in ("gone", "Z") and self.detail != NEVER_STARTED


class Environment(Protocol):
    """Runs node processes and the links between them."""

    name: str
    net: Net

    async def setup(self, nodes: Sequence[str]) -> None:
        """Reserve addresses, start relays; heals first what an earlier run left behind."""
        ...

    def bind_address(self, node: str) -> Address:
        """Tell where the node itself must listen, and the source address it must connect from."""
        ...

    def address(self, node: str) -> Address:
        """The address others use to reach the node (its relay)."""
        ...

    def client_source(self) -> str | None:
        """Source address that clients of the harness connect from; None = any."""
        ...

    async def ask(self, node: str, *, timeout_s: float) -> tuple[bool, str, float]:
        """Try a node as clients do: whether it answered, what was seen, after how many ms."""
        ...

    def node_dir(self, node: str) -> Path:
        """The node's working folder; its disk, kept over restarts."""
        ...

    async def start(self, node: str, argv: Sequence[str], *, env: Mapping[str, str]) -> None:
        """Start the node's process with its output appended to the node's log."""
        ...

    async def signal(self, node: str, signal_number: int) -> None:
        """Send a signal to the node's process; SIGKILL returns once the process is gone."""
        ...

    def process(self, node: str) -> ProcessState:
        """Tell what the kernel says about the node's process."""
        ...

    def log_file(self, node: str) -> Path:
        """Tell where the node's stdout and stderr go."""
        ...

    async def teardown(self) -> None:
        """Stop everything that setup and start began; nothing of ours is left."""
        ...
