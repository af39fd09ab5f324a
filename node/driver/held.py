"""The storage of a running node, and the client requests that it has not answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from node.clock import Clock
from node.controller.operations import Note
from node.core.types import ReplicaKey
from node.log.file_log import FileLog
from node.log.quorum_state import ElectionStateStore
from node.trace import Tracer
from node.wire.network import Network


@dataclass(slots=True)
class Storage:
    """The log and the election state of a node, and whose they are."""

    log: FileLog
    elections: ElectionStateStore
    key: ReplicaKey
    cluster_id: str


@dataclass(frozen=True, slots=True)
class Outside:
    """A node's ways to the world beside its disk; all of them are seams."""

    trace: Tracer
    clock: Clock
    network: Network
    rng: Random
    on_fatal: Callable[[BaseException], None]


@dataclass(slots=True)
class HeldWrite:
    """A client's write that waits until the high watermark passes the last record it depends on.

    Exactly one of the three is called: ``done`` when it is committed, ``refused`` when its
    records never reached the log, ``abandoned`` when leadership was lost in between.
    """

    api: str
    done: Callable[[], None]
    refused: Callable[[], None]
    abandoned: Callable[[], None]
    notes: Sequence[Note] = ()  # traced when it is committed
    wait_for: int = -1  # offset of the last record it depends on; -1 = nothing pending
    base: int = -1  # where the log ended when it was decided


@dataclass(slots=True)
class HeldRead:
    """A client's read behind the barrier; ``done`` looks at the state there and then."""

    api: str
    done: Callable[[], None]
    refused: Callable[[], None]
    asked: int = 0  # the newest event of the trace when it was asked for


@dataclass(slots=True)
class Counters:
    """Counts what the pump did, for tests."""

    steps: int = 0
    flushes: int = 0
