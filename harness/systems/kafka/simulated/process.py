"""A process of Kafka's on a simulated host: its raft client, driven by the virtual loop.

Whatever happens to it - a message, an answer, a time that has come - is a turn of the client, in
Java; what it does then comes back as outputs. Above it is a state machine, which serves clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from harness.systems.kafka.images import image_fields
from harness.systems.kafka.simulated.disk import PartitionDisk, java_disk
from harness.systems.kafka.simulated.folders import Folders
from harness.systems.kafka.simulated.held import Held
from harness.systems.kafka.simulated.jvm import Loaded
from harness.systems.kafka.simulated.packed import (
    KEY_BITS,
    Item,
    Kind,
    pack,
    pack_values,
    unpack,
    unpack_batch,
    unpack_values,
)
from harness.systems.kafka.simulated.peers import Asked, Failed, Peers
from node.config import NodeConfig
from node.core.messages import Request
from node.core.types import Endpoint
from node.driver.apis.call import Inbound
from node.driver.apis.registry import QUORUM
from node.driver.world import World
from node.loading.loader import DELTA, FULL
from node.log.layout import partition_dir
from node.log.meta_properties import MetaPropertiesError, load_meta_properties
from node.metadata.records import decode_record
from node.metadata.snapshot import image_of_records
from node.sim.host import VirtualClock, VirtualTracer
from node.sim.network import VirtualListener, VirtualNetwork
from node.sim.watchdog import CallNeverEndsError
from node.wire.api import ALL_APIS, ApiKey, ApiRange, ApiTable, table
from node.wire.api_versions import Features
from node.wire.network import Answer
from node.wire.payloads import encode

log = logging.getLogger("krucible.kafka")

SHUTDOWN_MS: Final = 5_000
NO_WAIT: Final = 2**62
TICK_S: Final = 1e-9  # times are rounded to it
# the most frequent outputs of a turn: to look up and compare a member of an enum takes longer
_EVENT, _WAIT, _CREATE = int(Kind.EVENT), int(Kind.WAIT), int(Kind.CREATE)
_SEND, _REPLY, _REQUEST = int(Kind.SEND), int(Kind.REPLY), int(Kind.REQUEST)
RAFT_APIS: Final = QUORUM - {ApiKey.API_VERSIONS}


class KafkaFatalError(Exception):
    """Raised when the raft thread has thrown something: the process ends, as Kafka's does."""


class StateMachine(Protocol):
    """The state machine above the raft client, which serves clients."""

    @property
    def apis(self) -> frozenset[ApiKey]:
        """Give the APIs that it serves."""
        ...

    @property
    def native(self) -> frozenset[ApiKey]:
        """Give the APIs that Java serves for it, beside the quorum's."""
        ...

    def committed(self, end: int, epoch: int, size: int, values: list[bytes]) -> None:
        """The next batch, up to just below ``end`` and of so many bytes, is committed.

        One of control records has no values.
        """
        ...

    def loaded(self, end: int, epoch: int, values: list[bytes]) -> None:
        """A snapshot takes the place of all state."""
        ...

    def led_by(self, leader: int | None, epoch: int) -> None:
        """The node follows that leader now, or leads, having applied all before its epoch."""
        ...

    def serve(self, request: Inbound) -> None:
        """Answer a client."""
        ...


@dataclass(frozen=True, slots=True)
class Stack:
    """The software of all nodes of a cluster.

    ``kind`` is Java's name of the state machines that ``make`` makes; ``controllers`` are the ids
    of all controllers. A new cluster is formatted with ``features``. Where there are
    ``folders``, nodes have Kafka's own log in them, and not on their simulated disks. ``held``
    knows what their processes hold in the JVM.
    """

    release: Loaded
    kind: str
    make: Callable[[KafkaProcess], StateMachine]
    controllers: Sequence[int]
    features: Mapping[str, int]
    held: Held
    folders: Folders | None = None


class KafkaProcess:
    """One process; see ``node.sim.host.Runs``.

    Args:
        stack: What it runs.
        config: What the harness knows of the node.
        settings: All that it is told.
        seed: Of its random numbers.
        world: Its surroundings.
        on_fatal: Told what ended it.
    """

    def __init__(
        self,
        stack: Stack,
        config: NodeConfig,
        settings: Mapping[str, str],
        seed: int,
        world: World,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        meta = load_meta_properties(world.disk, config.log_dir)
        if meta is None:
            raise MetaPropertiesError(f"{config.log_dir} is not formatted")
        self.config = config
        self.settings = settings
        self.world = world
        self.cluster_id = meta.cluster_id
        self.seed = seed
        self._tracer = cast("VirtualTracer", world.trace(meta.directory_id.hex))
        identity = {
            "node.id": str(config.node_id),
            "directory.id": meta.directory_id.hex,
            "cluster.id": meta.cluster_id,
            "seed": str((seed * 1_000_003 + world.incarnation) % 2**63),
            "machine": stack.kind,
            "features": ",".join(f"{name}={level}" for name, level in stack.features.items()),
            "controllers": ",".join(map(str, stack.controllers)),
        }
        self._folder = None if stack.folders is None else stack.folders.of(f"n{config.node_id}")
        if self._folder is not None:
            partition = partition_dir(self._folder)
            partition.mkdir(exist_ok=True)
            identity["folder"] = str(partition)
        self._disk = PartitionDisk(
            world.disk, partition_dir(config.log_dir), self._tell, self._outputs
        )
        self._java: Any = stack.release.replica(settings, identity, java_disk(self._disk))
        self._fatal = on_fatal
        stack.held.begin(f"n{config.node_id}", self._let_go)
        self._now = cast("VirtualClock", world.clock).both_ms
        self._loop = asyncio.get_running_loop()
        timeout_ms = int(settings.get("controller.quorum.request.timeout.ms", 2000))
        network = cast("VirtualNetwork", world.network)
        self._peers = Peers(network, timeout_ms / 1e3, self._answered, stack.release.recode)
        self._answers: dict[int, Callable[[bytes], None]] = {}
        self._rejects: dict[int, Callable[[str], None]] = {}
        self._tokens: dict[int, Callable[[int | None], None]] = {}
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None  # fires no later than the next turn is due
        self._timer_s = 0.0
        self._due_s: float | None = None
        self._inputs: list[bytes] = []
        self._in_turn = False
        self._is_over = False
        self._features = Features({}, {}, -1)  # finalised ones, of the newest image
        self.epoch = 0  # of the leader that it has heard of
        self._stopped: asyncio.Future[None] | None = None
        self.machine = stack.make(self)
        self._raw_apis = RAFT_APIS | self.machine.native
        self._listener: VirtualListener = network.listen(
            config.listeners[0].bind,
            self._serve,
            ask=self._ask,
            apis=_served(stack.release.apis, self._raw_apis, self.machine.apis),
            on_reject=lambda peer, reason: log.warning("closed %s:%s: %s", *peer, reason),
            tls=None,
            features=lambda: self._features,
            raw=self._raw,
        )

    # ------------------------------------------------------------------ lifecycle

    async def start(self) -> None:
        """Listen, and let the raft client begin."""
        await self._listener.start()
        self._do(self._java.start)

    def redraw(self, salt: str) -> None:
        """Do nothing: the classes have drawn their seeds when they began."""

    async def stop(self, *, orderly: bool) -> None:
        """Leave the quorum in good order, then stop serving."""
        if orderly and not self._is_over:
            self._stopped = self._loop.create_future()
            self.put(pack(Kind.SHUTDOWN, SHUTDOWN_MS))
            await self._stopped
            self.trace("stop", self.epoch, why="signal")
            self._tracer.flush()
        self._close()
        await self._listener.close()

    def _close(self) -> None:
        self._let_go()
        if self._timer is not None:
            self._timer.cancel()
        self._peers.close()

    def _let_go(self) -> None:
        """Let go of what the process has in the JVM, and close its files; it writes no more."""
        self._is_over = True
        if self._java is not None:
            self._java.close()
            self._java = None

    # ------------------------------------------------------------------ turns

    def put(self, input_: bytes) -> None:
        """Give the client an input, now or after the present turn."""
        self._inputs.append(input_)
        if not self._in_turn:
            self._turns()

    def _turns(self) -> None:
        while self._inputs and not self._is_over:
            inputs, self._inputs = b"".join(self._inputs), []
            self._do(self._java.turn, inputs)

    def _due(self) -> None:
        self._timer = None
        due_s = self._due_s
        if due_s is None or self._is_over:
            return
        if self._loop.time() < due_s - TICK_S:
            self._timer, self._timer_s = self._loop.call_at(due_s, self._due), due_s
        elif not self._in_turn:
            self._do(self._java.turn, b"")
            self._turns()

    def _do(self, call: Callable[..., Any], *inputs: bytes) -> None:
        """Make a turn, and do what it asks for."""
        if self._is_over:
            return
        now_ms, wall_ms = self._now()
        self._in_turn = True
        try:
            self._outputs(bytes(call(now_ms * 1_000_000, wall_ms, self._disk.is_sound, *inputs)))
        finally:
            self._in_turn = False
        self._tracer.flush()
        if self._inputs and not self._is_over:
            self._turns()

    def _outputs(self, data: bytes) -> None:
        for item in unpack(data):
            kind, _, _, c, _, content = item
            if kind == _EVENT:
                self._tracer.emit_encoded(content)
            elif kind == _WAIT:
                self._wait(c)
            elif kind >= _CREATE:
                self._disk.make(kind, c, content)
            elif kind in (_SEND, _REPLY):
                self._message(item)
            else:
                self._output(item)

    def _output(self, item: Item) -> None:
        kind, a, _, _, _, data = item
        match kind:
            case Kind.LOG:
                log.log(a, "%s", self._said(data))
            case Kind.REJECTED:
                self._message(item)
            case Kind.STOPPED:
                if self._stopped is not None and not self._stopped.done():
                    self._stopped.set_result(None)
            case Kind.FATAL:
                self._failed(self._said(data))
            case Kind.ENDLESS:
                raise CallNeverEndsError(
                    f"a turn of n{self.config.node_id} takes too long in Java, and is at"
                    f" {self._said(data)}"
                )
            case _:
                self._to_machine(item)

    def _said(self, text: bytes) -> str:
        """Name the simulated folder instead of the real one, whose path differs from run to run."""
        said = text.decode()
        if self._folder is None:
            return said
        return said.replace(str(self._folder), str(self.config.log_dir))

    def _message(self, item: Item) -> None:
        """Send a request, or an answer."""
        kind, number, port, _, d, data = item
        if kind == _SEND:
            host, _, body = data.partition(b"\0")
            key, version = d & (1 << KEY_BITS) - 1, d >> KEY_BITS
            self._peers.send(Endpoint(host.decode(), port), Asked(number, key, version, body))
            return
        answer, reject = self._answers.pop(number), self._rejects.pop(number, None)
        if kind == _REPLY:
            answer(data)
        elif reject is not None:
            reject(data.decode())

    def _to_machine(self, item: Item) -> None:
        """Tell the state machine what has become of the log."""
        kind, a, b, c, _, data = item
        match kind:
            case Kind.APPENDED:
                self._tokens.pop(a)(c)
            case Kind.REFUSED:
                self._tokens.pop(a)(None)
            case Kind.COMMITTED:
                size, values = unpack_batch(data)
                self.machine.committed(c + a, b, size, values)
            case Kind.LOADED:
                self.machine.loaded(c, b, unpack_values(data))
            case Kind.IMAGE:
                self._image(item)
            case Kind.LEADER:
                self.epoch = b
                self.machine.led_by(None if a < 0 else a, b)
            case _:
                raise AssertionError(f"no output of kind {kind}")

    def _image(self, item: Item) -> None:
        """Tell of an image that Kafka's MetadataLoader has published, by our digest of it."""
        _, is_full, epoch, end, _, data = item
        image = image_of_records(map(decode_record, unpack_values(data)), end)
        self._features = Features({}, dict(image.features), end - 1)
        digest = image.digest
        kind, rest = FULL if is_full else DELTA, image_fields(image)
        self.trace("image", epoch, off=end, digest=digest, kind=kind, **rest)

    def _wait(self, wait_ms: int) -> None:
        """Have the loop call us when the client's poll would have ended by itself."""
        if wait_ms >= NO_WAIT:
            self._due_s = None
            return
        due_s = self._due_s = self._loop.time() + max(0, wait_ms) / 1e3
        if self._timer is not None:
            if self._timer_s <= due_s:
                return  # one timer for many turns: most put the next one off
            self._timer.cancel()
        self._timer, self._timer_s = self._loop.call_at(due_s, self._due), due_s

    def _failed(self, trace: str) -> None:
        log.critical("Encountered fatal fault: Unexpected error in raft IO thread\n%s", trace)
        self._tracer.flush()
        self._close()
        self._fatal(KafkaFatalError(trace.partition("\n")[0]))

    # ------------------------------------------------------------------ the trace

    def _tell(self, lines: bytes) -> None:
        if lines:
            self._tracer.emit_encoded(lines)

    def trace(self, type_: str, epoch: int, **fields: object) -> None:
        """Tell of an event of the state machine's."""
        self._tracer.emit(type_, epoch, fields)

    @property
    def seq(self) -> int:
        """The number of the newest event."""
        return self._tracer.seq

    # ------------------------------------------------------------------ messages

    def _answered(self, correlation: int, answer: bytes | Failed) -> None:
        if isinstance(answer, Failed):
            self.put(pack(Kind.UNANSWERED, correlation, answer.code, d=int(answer.unsent)))
        else:
            self.put(pack(Kind.ANSWER, correlation, data=answer))

    def _raw(
        self,
        api_key: int,
        version: int,
        body: bytes,
        answer: Callable[[bytes], None],
        reject: Callable[[str], None] | None = None,
    ) -> None:
        if self._is_over:
            return
        self._number += 1
        self._answers[self._number] = answer
        if reject is not None:
            self._rejects[self._number] = reject
        self.put(pack(_REQUEST, self._number, d=version << KEY_BITS | api_key, data=body))

    def _serve(self, request: Inbound) -> None:
        if request.api_key in self._raw_apis:
            body = encode(request.body)
            self._raw(request.api_key, request.version, body, request.reply, reject=request.reject)
        else:
            self.machine.serve(request)

    def _ask(self, _: int, message: Request, answer: Answer) -> None:
        """A node of ours encodes what it asks of this one."""
        raise AssertionError(f"{type(message).__name__} came as an object, for {answer}")

    # ------------------------------------------------------------------ for the state machine

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call something after a time, unless the process is over by then."""

        def due() -> None:
            if not self._is_over:
                call()

        self._loop.call_later(delay_s, due)

    def append(self, epoch: int, values: list[bytes], done: Callable[[int | None], None]) -> None:
        """Append records as an epoch's leader; ``done`` gets the last offset, None: refused."""
        self._number += 1
        self._tokens[self._number] = done
        self.put(pack(Kind.APPEND, self._number, epoch, data=pack_values(values)))

    def snapshot(self, end: int, epoch: int, values: list[bytes]) -> None:
        """Write a snapshot of the state below ``end``, whose last record is of ``epoch``."""
        self.put(pack(Kind.SNAPSHOT, 0, epoch, end, data=pack_values(values)))


def _served(theirs: ApiTable, raw: Iterable[int], ours: Iterable[int]) -> ApiTable:
    """The APIs that are served: by Java in its versions, the others in those that we know, too."""
    return table(
        (
            *(theirs[key] for key in raw if key in theirs),
            *(_ours(key, theirs[key]) for key in ours),
        )
    )


def _ours(key: int, theirs: ApiRange) -> ApiRange:
    """Give the versions of an API that both our state machine and the release know.

    DescribeCluster has all versions of ours: controllers before 3.7 do not serve it (KIP-919).
    """
    known = ALL_APIS[key]
    if key == ApiKey.DESCRIBE_CLUSTER:
        return known
    lowest, highest = theirs.min_version, theirs.max_version
    return ApiRange(key, max(lowest, known.min_version), min(highest, known.max_version))
