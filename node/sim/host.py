"""A simulated host: an address, a disk that survives, and one node process after another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

import msgspec

from node.driver.process import EXIT_FATAL, UNSTARTABLE
from node.driver.world import World
from node.faults.disk.trouble import PROBE_FILE, VirtualTroubles
from node.log.memory_disk import MemoryDisk, PowerCutError
from node.sim.fabric import Fabric
from node.sim.network import VirtualNetwork
from node.sim.power_loss import CLAIMS, PowerLoss, read_undated
from node.sim.process import VirtualProcess
from node.sim.process_state import PPM, RUNNING, ProcessState

log = logging.getLogger("krucible.sim")

Failed = Callable[[BaseException], None]
Sink = Callable[[bytes], None]  # takes one line of JSON
Watch = Callable[[Mapping[str, Any]], None]  # takes an event while its node is at it
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
EXIT_UNSTARTABLE: Final = 254
_ENCODED_CLAIMS: Final = frozenset(claim.encode() for claim in CLAIMS)
_KINDS: Final = {".log": "log", ".checkpoint": "snapshot"}
EXIT_KILLED: Final = -9
CHANGES: Final = frozenset({"append", "pwrite", "truncate", "fsync", "rename", "unlink"})
WATCHED: Final = CHANGES | {"fsync_dir"}  # what is told of before it is done
EPOCH_MS: Final = 1_700_000_000_000  # what the wall clocks show when a simulation begins


class Runs(Protocol):
    """A node at work in a process, as ``node.driver.process.Running`` is one."""

    async def start(self) -> None:
        """Listen, and join the quorum; raises OSError, ValueError, OverflowError."""
        ...

    async def stop(self, *, orderly: bool) -> None:
        """Leave the quorum, then stop serving."""
        ...

    def redraw(self, salt: str) -> None:
        """Draw timeouts and all else that is random otherwise from now on."""
        ...


@dataclass(frozen=True, slots=True)
class Program:
    """A program that a host can run.

    Attributes:
        node_id: The node that it makes.
        syncs: Whether fsyncs of its disk do anything.
        begin: Makes the node of its surroundings, and of whom to tell that it failed; raises one
            of ``node.driver.process.UNSTARTABLE``.
    """

    node_id: int
    syncs: bool
    begin: Callable[[World, Failed], Runs]


class VirtualClock:
    """The clocks of one host: a steady one, and one on the wall that may be set."""

    def __init__(self, process: ProcessState, fabric: Fabric, host: VirtualHost) -> None:
        self._process = process
        self._loop = fabric.loop
        self._host = host

    def now_ms(self) -> int:
        """Milliseconds on the steady clock of the process."""
        return self._process.local_ns(self._loop.now_ns) // 1_000_000

    def both_ms(self) -> tuple[int, int]:
        """Milliseconds on both clocks, the steady one first."""
        now_ms = self._process.local_ns(self._loop.now_ns) // 1_000_000
        return now_ms, self._host.wall_ms(now_ms)

    def trace_ns(self) -> int:
        """The true time, for the event trace."""
        return self._loop.now_ns

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as the host believes."""
        return self._host.wall_ms(self.now_ms())


class VirtualTracer:
    """Hands the lines of the event trace on as soon as ``flush`` says that they may be seen.

    Among them is what a loss of power would leave on the host's disk: all of it after the ``start``
    of a process, and what has changed before any claim. Who watches the host is told of each event
    at once, in the middle of what the node does; of those that come encoded, as Kafka's classes
    tell them, and of what they say of the disk, when the present callback is over.
    """

    def __init__(
        self,
        sink: Sink,
        common: Mapping[str, Any],
        clock_ns: Callable[[], int],
        host: VirtualHost,
    ) -> None:
        self._sink = sink
        self._host = host
        self._common = dict(common)
        self._encoded = _encode(self._common)[1:-1]
        self._clock_ns = clock_ns
        self._seq = 0
        self._epoch = 0  # of the newest event
        self._lines: list[bytes] = []
        self._power_loss: PowerLoss | None = None

    @property
    def seq(self) -> int:
        """The number of the newest event; 0 before the first one."""
        return self._seq

    def emit(self, type_: str, epoch: int, fields: Mapping[str, Any]) -> None:
        """Take one event, stamped now."""
        self._epoch = epoch
        if self._power_loss is not None and type_ in CLAIMS:
            self._power_loss.claimed()
        self._take(type_, epoch, fields)
        if type_ == "start":
            self._begin(PowerLoss(self._host.disk, self._left))

    def _begin(self, power_loss: PowerLoss) -> None:
        self._power_loss = power_loss
        self._host.disk.changed = power_loss.changed
        power_loss.claimed()

    def _left(self, type_: str, fields: Mapping[str, Any]) -> None:
        """Tell of the disk in the middle of what the node does."""
        self._take(type_, self._epoch, fields)

    def tell_beside(self, type_: str, fields: Mapping[str, Any]) -> None:
        """Take an event of which the host tells, and not the node."""
        self._left_encoded(type_, fields)

    def _left_encoded(self, type_: str, fields: Mapping[str, Any]) -> None:
        """Tell of the disk among events that come encoded."""
        tail = _encode({"ep": self._epoch, "t": type_, **fields})
        self._take_encoded(b"," + tail[1:])

    def _take(self, type_: str, epoch: int, fields: Mapping[str, Any]) -> None:
        self._seq += 1
        event = {
            "ts": self._clock_ns(),
            "seq": self._seq,
            **self._common,
            "ep": epoch,
            "t": type_,
            **fields,
        }
        self._lines.append(_encode(event))
        if self._host.watch is not None:
            self._host.happens(_decode(self._lines[-1]))

    def emit_encoded(self, tails: bytes) -> None:
        """Take events that are lines of JSON already, but for what all events have in front.

        Such come when a turn of the node is over, in their order with its changes of the disk: who
        watches is told after the last.
        """
        for tail in tails.splitlines():
            _, _, epoch, _, _, type_, _ = tail.split(b'"', 6)  # ,"ep":3,"t":"flush","upto":17}
            self._epoch = int(epoch[1:-1])
            if type_ in _ENCODED_CLAIMS and self._power_loss is not None:
                self._power_loss.claimed()
            self._take_encoded(tail)
            if type_ == b"start":
                self._begin(PowerLoss(self._host.disk, self._left_encoded, read_undated))
        self.flush()

    def _take_encoded(self, tail: bytes) -> None:
        self._seq += 1
        line = b'{"ts":%d,"seq":%d,%b%b' % (self._clock_ns(), self._seq, self._encoded, tail)
        self._lines.append(line)
        if self._host.watch is not None:
            self._host.has_happened(_decode(line))

    def flush(self) -> None:
        """Show the others what was emitted."""
        if self._lines:
            lines, self._lines = self._lines, []
            for line in lines:
                self._sink(line)

    def close(self) -> None:
        """Flush."""
        self.flush()


@dataclass(slots=True)
class _Life:
    """One process of a node."""

    process: VirtualProcess
    network: VirtualNetwork
    running: Runs | None = None
    code: int | None = None


class VirtualHost:
    """One host.

    Args:
        fabric: The network it is in.
        address: Its own; connections come from there.
        rng: Decides what a power failure leaves on the disk.
        sink: Gets the node's events.
    """

    def __init__(self, fabric: Fabric, address: str, rng: Random, sink: Sink) -> None:
        self.fabric = fabric
        self.address = address
        self.disk = MemoryDisk(self._on_disk, self._lets_all_pass)
        self.wall_offset_ms = 0
        self.rate_ppm = PPM
        self.trouble = VirtualTroubles()
        self.lost: dict[Path, int] = {}  # bytes, in the last loss of power
        self.watch: Watch | None = None  # told of events and disk changes as they happen
        self._changing: tuple[str, Path] | None = None  # the disk change that is told of now
        self._owner: tuple[int, str] | None = None  # node and directory id that last ran here
        self._power_until: int | None = None  # so many writes from now the power fails
        self._rng = rng
        self._sink = sink
        self._life: _Life | None = None
        self._lives = 0

    # ------------------------------------------------------------------ the process

    @property
    def process(self) -> VirtualProcess | None:
        """The process that runs or is stopped here, if there is one."""
        life = self._life
        return None if life is None or life.code is not None else life.process

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last process; None when none ended or one is there."""
        return None if self._life is None else self._life.code

    def start(self, program: Program) -> None:
        """Start a node process; that it could not is its exit code."""
        if self.process is not None:
            raise ValueError(f"a process runs already on {self.address}")
        self._lives += 1
        self.disk.syncs = program.syncs
        process = VirtualProcess(
            self.fabric.loop, f"n{program.node_id}", lambda _, what: self._fatal(life, what)
        )
        process.set_rate(self.rate_ppm)
        life = self._life = _Life(process, VirtualNetwork(self.fabric, self.address))
        process.do(self._begin, life, program)

    def stop(self) -> None:
        """SIGTERM."""
        life = self._life
        if life is not None and life.code is None:
            life.process.do(lambda: asyncio.create_task(self._leave(life)))

    def redraw(self, salt: str) -> None:
        """Draw what is random of the host and of its process otherwise from now on."""
        self._rng.seed(f"host:{salt}")
        if self._life is not None and self._life.running is not None:
            self._life.running.redraw(salt)

    def kill(self) -> None:
        """SIGKILL: what the process wrote stays. Does nothing when there is none."""
        if self._life is not None:
            self._end(self._life, EXIT_KILLED)

    def lose_power(self, *, torn: bool = True) -> None:
        """The process is gone, and with it what was not fsynced, or a random part of that."""
        self._power_until = None
        self.kill()
        self.lost = self.disk.crash(self._rng if torn else None)

    def lose_power_amid(self) -> bool:
        """Lose the power in the middle of the disk change that is watched now; if there is one."""
        if self._changing is None:
            return False
        self._tear(*self._changing)
        return True

    def lose_power_in(self, writes: int) -> None:
        """Lose the power in the middle of a change of the disk, so many from now (1 = the next)."""
        self._power_until = writes

    @property
    def awaits_power_loss(self) -> bool:
        """Tell whether the power will fail in a later change of the disk."""
        return self._power_until is not None

    def damaged(self, what: str) -> None:
        """Tell in the trace that the disk is no longer what the node made of it.

        The damage has an incarnation number of its own, as if something else had run here.
        """
        if self._owner is None:
            return
        self._lives += 1
        node, directory = self._owner
        line = {"ts": self.fabric.loop.now_ns, "seq": 1, "node": node, "inc": self._lives}
        self._sink(_encode({**line, "dir": directory, "t": "disk", "what": what}))

    def set_rate(self, rate_ppm: int) -> None:
        """Make the clocks run at so many millionths of the true speed, also after a restart."""
        if self.process is not None:
            self.process.set_rate(rate_ppm)
        self.rate_ppm = rate_ppm

    def steady_ms(self) -> int:
        """Read the steady clock of the process; the true time when there is none."""
        now_ns, process = self.fabric.loop.now_ns, self.process
        return (now_ns if process is None else process.state.local_ns(now_ns)) // 1_000_000

    def wall_ms(self, steady_ms: int | None = None) -> int:
        """Milliseconds since 1970 by the host's own clock."""
        return (
            EPOCH_MS + self.wall_offset_ms + (self.steady_ms() if steady_ms is None else steady_ms)
        )

    # ------------------------------------------------------------------ its life

    def _begin(self, life: _Life, program: Program) -> None:
        clock = VirtualClock(life.process.state, self.fabric, self)
        common = {"node": program.node_id, "inc": self._lives}

        def tell(line: bytes) -> None:
            if life.code is None:  # the power may fail in the middle of a callback
                self._sink(line)

        def tracer(directory_id: str) -> VirtualTracer:
            self._owner = program.node_id, directory_id
            made = VirtualTracer(tell, {**common, "dir": directory_id}, clock.trace_ns, self)
            life.network.door.tell = made.tell_beside
            return made

        world = World(self.disk, clock, life.network, self._lives, tracer)
        try:
            life.running = program.begin(world, lambda error: self._failed(life, error))
        except UNSTARTABLE as error:
            log.warning("%s does not start: %s", life.process, error)
            self._end(life, EXIT_UNSTARTABLE)
            return
        asyncio.get_running_loop().create_task(life.running.start())

    async def _leave(self, life: _Life) -> None:
        if life.running is None:
            self._end(life, 0)
            return
        try:
            await life.running.stop(orderly=True)
        except Exception as error:  # as ``node.driver.process.serve`` has it
            log.critical("fatal: while stopping: %s", error, exc_info=error)
            self._end(life, EXIT_FATAL)
            return
        self._end(life, 0)

    def _failed(self, life: _Life, error: BaseException) -> None:
        if life.code is not None:
            return
        log.warning("%s has failed: %s", life.process, error)
        self._end(life, EXIT_FATAL)

    def _fatal(self, life: _Life, what: Mapping[str, Any]) -> None:
        error = what.get("exception")
        self._failed(
            life, error if isinstance(error, BaseException) else RuntimeError(what["message"])
        )

    def _end(self, life: _Life, code: int) -> None:
        """The process is over; its host closes its connections."""
        if life.code is not None:
            return
        life.code = code
        life.process.kill()
        life.network.gone()
        self.disk.changed = None
        self.disk.kill()

    def _lets_all_pass(self) -> bool:
        """Tell whether ``_on_disk`` would do nothing now, whatever the operation."""
        return self._power_until is None and self.trouble.is_none and self.watch is None

    def _on_disk(self, operation: str, path: Path) -> None:
        if RUNNING.get() is not None or path == PROBE_FILE:  # the harness reads what it likes
            self.trouble.refuse(operation, path)
        process = self.process
        if process is None or RUNNING.get() is not process.state:
            return
        if self.watch is not None and operation in WATCHED:
            self._changing = operation, path
            try:
                self.happens({"t": "change", "op": operation, "file": kind_of(path)})
            finally:
                self._changing = None
        if operation == "fsync" and self.trouble.fsync_ns:
            self.trouble.slowed += 1
            process.stall(self.trouble.fsync_ns)
        if self._power_until is not None and operation in CHANGES:
            self._power_until -= 1
            if self._power_until == 0:
                self._lose_power_in(operation, path)

    def happens(self, event: Mapping[str, Any]) -> None:
        """Tell who watches of an event; a process that did not survive that goes no further.

        Raises:
            PowerCutError: The process is gone.
        """
        if self.watch is not None and self.process is not None:
            Context().run(self.watch, event)
        if self.process is None:
            raise PowerCutError(f"{self.address} did not survive {event['t']}")

    def has_happened(self, event: Mapping[str, Any]) -> None:
        """Tell who watches of an event when the present callback is over, if its process lives."""
        life = self._life

        def tell() -> None:
            if self.watch is not None and life is self._life and self.process is not None:
                self.watch(event)

        self.fabric.loop.call_soon(tell, context=Context())

    def _lose_power_in(self, operation: str, path: Path) -> None:
        self._tear(operation, path)
        raise PowerCutError(f"the power failed in {operation} {path}")

    def _tear(self, operation: str, path: Path) -> None:
        if operation == "append":
            self.disk.tear(path, self._rng)
        self.lose_power()


def kind_of(path: Path) -> str:
    """Tell what kind of file it is: log, snapshot, or its name."""
    name = path.name
    for ending in (".tmp", ".part", ".deleted"):
        name = name.removesuffix(ending)
    return _KINDS.get(Path(name).suffix, name)
