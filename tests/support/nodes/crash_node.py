"""A whole node on a disk that loses its power: what it told others, and whether it keeps it.

The node is stepped by hand, so a history is the same each time. Whatever leaves it (votes, fetches,
announcements, answers to clients) is a promise from that moment on; ``crash_check`` holds
whoever starts after it to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from uuid import NAMESPACE_DNS, UUID, uuid5

from node.config import parse
from node.controller.operations import NewTopic
from node.core import effects as fx
from node.core import inputs
from node.core.messages import (
    Batch,
    BeginQuorumEpochRequest,
    ControlRecord,
    Error,
    FetchRequest,
    FetchResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from node.core.types import Endpoint, OffsetAndEpoch, ReplicaKey
from node.driver.bootstrap import load_bootstrap
from node.driver.held import HeldWrite, Outside, Storage
from node.driver.node import Node
from node.driver.parts import NodeParts
from node.formatting import Quorum, format_node
from node.log.batch import encode_batch, parse_batch
from node.log.control.records import encode_control
from node.log.file_log import FileLog
from node.log.layout import partition_dir, uuid_to_text
from node.log.memory_disk import MemoryDisk
from node.log.meta_properties import load_meta_properties
from node.log.quorum_state import ElectionStateStore
from node.metadata.records import encode_record
from node.metadata.schemas import MetadataRecord, TopicRecord

T = TypeVar("T")
DIR = Path("/node")
PARTITION = partition_dir(DIR)
CLUSTER = "crash-tests"
KEYS = {i: ReplicaKey(i, UUID(int=i << 100 | 77)) for i in (1, 2, 3)}
ME = KEYS[1]
LOG_END = 10**6
FETCHER = 1_000
RECORDS_OF_A_TOPIC = 2  # it and its partition
CONFIG = parse(
    {
        "node.id": "1",
        "process.roles": "controller",
        "controller.quorum.bootstrap.servers": "h1:1,h2:2,h3:3",
        "listeners": "CONTROLLER://h1:1",
        "log.dirs": str(DIR),
        "controller.quorum.append.linger.ms": "0",
        "metadata.max.idle.interval.ms": "0",
        "metadata.log.segment.bytes": "700",
        "metadata.log.max.record.bytes.between.snapshots": "900",
        "metadata.max.retention.bytes": "1500",
        "krucible.seed": "1",
        "krucible.brokers": "7,8",
    }
)


def endpoint(node_id: int) -> Endpoint:
    return Endpoint(f"h{node_id}", node_id)


def formatted() -> MemoryDisk:
    """The disk of controller 1 of three."""
    disk = MemoryDisk()
    text = ",".join(
        f"{key.id}@{endpoint(key.id)}:{uuid_to_text(key.directory_id or UUID(int=0))}"
        for key in KEYS.values()
    )
    format_node(
        disk,
        CONFIG,
        cluster_id=CLUSTER,
        quorum=Quorum(initial_controllers=text),
        timestamp_ms=1,
    )
    return disk


def topic_batch(base: int, epoch: int, *names: str) -> Batch:
    """A leader's batch of topics."""
    values = [encode_record(record) for record in topic_records(names)]
    return parse_batch(
        encode_batch(base, epoch, [(None, v) for v in values], control=False, timestamp_ms=7)
    )


def topic_records(names: Iterable[str]) -> list[MetadataRecord]:
    return [TopicRecord(name=n, topic_id=uuid5(NAMESPACE_DNS, n)) for n in names]


def control_batch(base: int, epoch: int, *controls: ControlRecord) -> Batch:
    encoded = [encode_control(record) for record in controls]
    return parse_batch(encode_batch(base, epoch, encoded, control=True, timestamp_ms=7))


@dataclass
class Promises:
    """What others may count on, and what the disk may hold."""

    epoch: int = 0
    votes: dict[int, ReplicaKey] = field(default_factory=dict)  # real ones, given or asked for
    led: set[int] = field(default_factory=set)
    durable: list[Batch] = field(default_factory=list)  # told of by a fetch, or acknowledged
    acked: dict[str, int] = field(default_factory=dict)  # topics and the offsets of their records
    written: list[Batch] = field(default_factory=list)  # what was ever handed to the log
    installing: OffsetAndEpoch | None = None
    told: int = 0  # promises made, one by one

    def epoch_told(self, epoch: int) -> None:
        self.epoch = max(self.epoch, epoch)
        self.told += 1

    def kept_below(self, offset: int) -> None:
        """A leader says that what lies above was never committed."""
        self.durable = [b for b in self.durable if b.last_offset < offset]


class NotingLog(FileLog):
    """Notes what may be on the disk from now on."""

    def __init__(self, promises: Promises, disk: MemoryDisk, directory: Path, **options: int):
        self.promises = promises
        super().__init__(disk, directory, **options)

    def append_batches(self, batches: Sequence[Batch]) -> None:
        self.promises.written += batches
        super().append_batches(batches)

    def truncate_to(self, offset: int) -> int:
        end = super().truncate_to(offset)
        self.promises.written = [b for b in self.promises.written if b.last_offset < end]
        return end

    def truncate_fully_to(self, snapshot: OffsetAndEpoch) -> None:
        super().truncate_fully_to(snapshot)
        self.promises.written.clear()
        self.promises.durable.clear()


@dataclass
class HandClock:
    """Stands still until it is moved."""

    ms: int = 1_000

    def now_ms(self) -> int:
        return self.ms

    def trace_ns(self) -> int:
        return self.ms * 1_000_000

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.ms


@dataclass
class ListTracer:
    """Keeps all events."""

    events: list[tuple[str, int, Mapping[str, Any]]] = field(default_factory=list)

    @property
    def seq(self) -> int:
        return len(self.events)

    def emit(self, type_: str, epoch: int, fields: Mapping[str, Any]) -> None:
        self.events.append((type_, epoch, fields))

    def flush(self) -> None:
        """They are kept already."""

    def close(self) -> None:
        """They are kept already."""


class Wire:
    """Takes the node's requests; a test answers them."""

    def __init__(self, sent: Callable[[fx.Send], None]) -> None:
        self.send = sent

    def reset(self) -> None:
        """Nothing is in flight but in the test's head."""

    def close(self) -> None:
        """There is nothing to close."""

    async def drain(self) -> None:
        """Nothing is waited for."""


class HandNode:
    """A node that does something only when told to, until its disk fails it."""

    def __init__(
        self, disk: MemoryDisk, promises: Promises, *, log: Callable[..., FileLog] = FileLog
    ) -> None:
        self.promises = promises
        self.clock = HandClock()
        self.tracer = ListTracer()
        self.sends: list[fx.Send] = []
        self.errors: list[BaseException] = []
        meta = load_meta_properties(disk, DIR)
        assert meta is not None
        self.log = log(disk, DIR, segment_bytes=CONFIG.segment_bytes)
        wire: Any = Wire(self._sent)
        self.node = Node(
            CONFIG,
            Storage(
                self.log,
                ElectionStateStore(disk, DIR),
                ReplicaKey(meta.node_id, meta.directory_id),
                meta.cluster_id,
            ),
            parts=NodeParts(),
            peers=lambda _: wire,
            bootstrap=load_bootstrap(disk, DIR),
            outside=self._outside(),
        )
        self.node.start()
        self.turn()

    def _outside(self) -> Outside:
        """Without a network: what the node sends goes to ``Wire``."""
        ways: dict[str, Any] = dict.fromkeys(way.name for way in fields(Outside))
        ways |= {"trace": self.tracer, "clock": self.clock, "rng": Random(3)}
        return Outside(**ways | {"on_fatal": self.errors.append})

    # ------------------------------------------------------------------ acting

    def turn(self) -> None:
        """Let it do all there is to do; raises what has stopped it."""
        node = self.node
        while (node.pump._inputs or node.pump._outbox) and not self.errors:
            node.pump._pump()
        if self.errors:
            raise self.errors[0]

    def step(self, input_: inputs.Input) -> None:
        self.node.pump.enqueue(input_)
        self.turn()

    def wait(self, ms: int) -> None:
        self.clock.ms += ms
        self.step(inputs.Tick())

    def ask(self, request: Request, *, connection: int = 1) -> Response | None:
        """Hand in a request; None when the answer is held back."""
        answers: list[Response] = []

        def left(response: Response, _: bytes) -> None:
            self._left(request, response)
            answers.append(response)

        self.node.request(lambda t: inputs.RequestReceived(t, connection, request), left)
        self.turn()
        return answers[0] if answers else None

    def vote(self, candidate: int, epoch: int, *, pre: bool = False) -> VoteResponse:
        """A candidate whose log is as long as can be asks for a vote."""
        last = OffsetAndEpoch(LOG_END, max(0, epoch - 1))
        answer = self.ask(VoteRequest(KEYS[candidate], epoch, last, pre, ME, CLUSTER))
        assert isinstance(answer, VoteResponse)
        return answer

    def follow(self, leader: int, epoch: int) -> None:
        self.ask(BeginQuorumEpochRequest(leader, epoch, endpoint(leader), ME, CLUSTER))
        assert (self.node.replica.leader_id, self.node.replica.epoch) == (leader, epoch)

    def fetched(self, *batches: Batch, hwm: int | None = None, **more: Any) -> None:
        """The leader answers the latest Fetch."""
        epoch, leader = self.node.replica.epoch, self.node.replica.leader_id
        response = FetchResponse(Error.NONE, epoch, leader, hwm, batches=batches, **more)
        self.answer(FetchRequest, response)

    def answer(self, kind: type[Request], response: Response, *, peer: int | None = None) -> None:
        """Answer the latest request of that kind, to that peer if one is named."""
        send = next(
            s
            for s in reversed(self.sends)
            if isinstance(s.request, kind) and peer in (None, s.peer)
        )
        self.step(inputs.ResponseReceived(send.peer, send.correlation, response))

    def replicate(self, voter: int, offset: int | None = None) -> None:
        """A voter fetches: it has all there is, or all below ``offset``."""
        replica = self.node.replica
        at = replica.last if offset is None else OffsetAndEpoch(offset, replica.epoch)
        self.ask(
            FetchRequest(KEYS[voter], replica.epoch, at.offset, at.epoch, 0, 1 << 20),
            connection=FETCHER + voter,
        )

    def create(self, name: str, *, had_by: int | None = None) -> None:
        """A client creates a topic of one partition.

        The voter ``had_by`` has it before this node's own disk has.
        """
        controller = self.node.controller
        assert controller is not None
        result = controller.create_topics([NewTopic(name)])
        write = HeldWrite("Test", lambda: self._acked(name, write), _nothing, _nothing)
        self.node.propose(result.entries, write)
        if had_by is not None:
            self.replicate(had_by, self.node.replica.log_end_offset + RECORDS_OF_A_TOPIC)
        self.turn()

    # ------------------------------------------------------------------ what has left

    def _sent(self, send: fx.Send) -> None:
        self.sends.append(send)
        request, promises = send.request, self.promises
        epoch = getattr(request, "epoch", None)
        if isinstance(epoch, int):
            promises.epoch_told(epoch)
        if isinstance(request, VoteRequest) and not request.pre_vote:
            promises.votes[request.epoch] = request.candidate
        elif isinstance(request, BeginQuorumEpochRequest):
            promises.led.add(request.epoch)
        elif isinstance(request, FetchRequest):
            self._has_all_below(request.offset)

    def _left(self, request: Request, response: Response) -> None:
        promises = self.promises
        epoch = getattr(response, "epoch", None)
        if isinstance(epoch, int):
            promises.epoch_told(epoch)
        if isinstance(request, VoteRequest) and isinstance(response, VoteResponse):
            if response.granted and not request.pre_vote:
                promises.votes[request.epoch] = request.candidate
        elif isinstance(response, FetchResponse) and not response.error:
            promises.led.add(response.epoch)

    def _has_all_below(self, offset: int) -> None:
        self.promises.durable = [b for b in self.promises.written if b.last_offset < offset]
        self.promises.told += 1

    def _acked(self, name: str, write: HeldWrite) -> None:
        self.promises.acked[name] = write.wait_for
        high_watermark = self.node.replica.high_watermark
        assert high_watermark is not None
        assert write.wait_for < high_watermark
        self._has_all_below(write.wait_for + 1)


def _nothing() -> None:
    """This history ends its leadership with no write pending."""
