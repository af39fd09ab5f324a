"""The contracts between the kernel and its plug-ins: what each kind must offer, and no more.

A *system* knows how to run one kind of cluster and how to talk to it; an *environment* knows how
to run processes and links, whatever the system. Optional abilities are separate protocols
(``Kill``, ``Pause``, ``Roles``, and those of ``harness.hosts``): a nemesis asks for what it needs
and is skipped, with its reason, where it is not there. Nodes are called ``n1``, ``n2``, ...
everywhere; voters come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal, Protocol, runtime_checkable

from harness.history import History, Op
from harness.spec import RunSpec
from harness.verdict import Anomaly, CheckResult

Role = Literal[
    "leader", "follower", "candidate", "prospective", "unattached", "resigned", "observer"
]
Link = tuple[str, str]  # directed: (source, destination)


# --------------------------------------------------------------------------- clients


class Client(Protocol):
    """Speaks to one node on behalf of one process; opened from a prototype."""

    async def open(self, node: str) -> Client:
        """A client connected to (or ready to connect to) ``node``. Does not change ``self``."""
        ...

    async def invoke(self, op: Op) -> Op:
        """Do ``op`` and return its completion: same process, f and key; type ok, fail or info.

        Raises only on a programmer's error: what the system answers, or does not, is data.
        """
        ...

    async def close(self) -> None:
        """Release the connection; never raises."""
        ...


# --------------------------------------------------------------------------- environments


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
        """Really try the link, from ``source``'s own address: a request out and an answer back."""
        ...

    async def stats(self) -> Mapping[Link, Mapping[str, int]]:
        """Per link: connections, bytes passed, bytes held back since the start."""
        ...


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What the kernel says of a node's process."""

    pid: int | None
    state: str  # a letter of /proc/PID/stat ("R", "S", "D", "T", "Z"), or "gone"
    detail: str = ""


class Environment(Protocol):
    """Runs node processes and the links between them."""

    name: str
    net: Net

    async def setup(self, nodes: Sequence[str]) -> None:
        """Reserve addresses, start relays; heals first what an earlier run left behind."""
        ...

    def bind_address(self, node: str) -> Address:
        """Where the node itself must listen, and the source address it must connect from."""
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
        """What the kernel says about the node's process."""
        ...

    def log_file(self, node: str) -> Path:
        """Where the node's stdout and stderr go."""
        ...

    async def teardown(self) -> None:
        """Stop everything that setup and start began; nothing of ours is left."""
        ...


# --------------------------------------------------------------------------- systems


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
        """Let it run again."""
        ...


@dataclass(frozen=True, slots=True)
class VoterChange:
    """What came of a try to change the voters; not done: nobody may know whether it still is."""

    done: bool
    detail: str
    tries: int = 1


@runtime_checkable
class Members(Protocol):
    """A system whose voters can be removed and added again, as replicas with empty disks."""

    @staticmethod
    def fixed_members(spec: RunSpec) -> str | None:
        """Why a run with such options has the same voters for ever; None when it has not."""
        ...

    async def voter_keys(self) -> Mapping[str, str] | None:
        """The directory id (hex) of each voter by node, as the leader says; None without one."""
        ...

    async def remove_voter(self, node: str, *, timeout_s: float) -> VoterChange:
        """Remove a node from the voters, whichever directory id it has there.

        Not while that could leave a cluster that never leads again, as the leader of two voters.
        """
        ...

    async def add_voter(self, node: str, *, timeout_s: float) -> VoterChange:
        """Add a node to the voters, with the directory id that its disk has now."""
        ...

    async def await_address(self, node: str, *, timeout_s: float) -> VoterChange:
        """Wait until the committed voters have a node where it is now, or it is none of them."""
        ...

    def reformat(self, node: str) -> str:
        """Give a node that is down, on an empty disk, a new directory id; returns it (hex)."""
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
class Registers(Protocol):
    """A system that holds named registers; used by the ``register`` workload."""

    def register_client(self) -> RegisterClient:
        """A prototype client."""
        ...


class Outcome(Exception):  # noqa: N818 - not an error of ours: the answer of the system
    """The system did not say yes. ``definite``: it surely did not happen (else nobody knows)."""

    def __init__(self, error: str, *, definite: bool) -> None:
        super().__init__(error)
        self.error = error
        self.definite = definite


class RegisterClient(Protocol):
    """Reads and writes registers by name at one node; raises Outcome."""

    async def open(self, node: str) -> RegisterClient:
        """A client of ``node``."""
        ...

    async def read(self, key: str) -> int | None:
        """Linearizable read; None when never written."""
        ...

    async def read_local(self, key: str) -> int | None:
        """What this node's own image says; may be stale, never goes backward in one process."""
        ...

    async def write(self, key: str, value: int) -> None:
        """Write; returning means committed."""
        ...

    async def close(self) -> None:
        """Release the connection; never raises."""
        ...


@runtime_checkable
class Topics(Protocol):
    """A system that holds topics; used by the ``topics`` workload."""

    def topic_client(self) -> TopicClient:
        """A prototype client."""
        ...


class TopicClient(Protocol):
    """Creates, deletes and lists topics at one node; raises Outcome."""

    async def open(self, node: str) -> TopicClient:
        """A client of ``node``."""
        ...

    async def create(self, name: str, *, partitions: int, configs: Mapping[str, str]) -> str:
        """Create a topic, all or nothing; returns its id (32 hex digits)."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a topic."""
        ...

    async def describe(self, name: str) -> TopicView | None:
        """A linearizable look at one topic; None when there is none of that name."""
        ...

    async def close(self) -> None:
        """Release the connection; never raises."""
        ...


@dataclass(frozen=True, slots=True)
class TopicView:
    """What a topic looked like."""

    topic_id: str
    partitions: int
    configs: Mapping[str, str]


# --------------------------------------------------------------------------- nemeses


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of a schedule: data, so that it can be saved, replayed and cut down.

    Times are milliseconds since the schedule's start. ``params`` names targets by role or by size
    ("leader", "minority"), never by what happened to be true in one run; ``draw`` is a number
    in [0, 1) that decides what the params leave open (which follower). A ``late`` one is played
    when all others are over and healed, in the order of ``at_ms``, whatever the time is then.
    """

    id: int
    nemesis: str
    at_ms: int
    duration_ms: int
    params: Mapping[str, Any] = field(default_factory=dict)
    draw: float = 0.0
    late: bool = False

    def to_json(self) -> dict[str, Any]:
        """The fault as a JSON object."""
        fields = {
            "id": self.id,
            "nemesis": self.nemesis,
            "at_ms": self.at_ms,
            "duration_ms": self.duration_ms,
            "params": dict(self.params),
            "draw": self.draw,
        }
        return {**fields, "late": True} if self.late else fields


@dataclass(frozen=True, slots=True)
class Injection:
    """What became of a fault: installed with evidence, skipped or failed with the reason."""

    outcome: Literal["installed", "skipped", "failed"]
    targets: tuple[str, ...] = ()
    reason: str | None = None
    evidence: tuple[Mapping[str, Any], ...] = ()  # what was seen, from inside: JSON objects
    undo: Any = None  # the nemesis's own note of what to heal

    def to_json(self) -> dict[str, Any]:
        """The injection as a JSON object, without the undo note."""
        return {
            "outcome": self.outcome,
            "targets": list(self.targets),
            "reason": self.reason,
            "evidence": [dict(e) for e in self.evidence],
        }


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a nemesis may touch."""

    system: System
    environment: Environment


class Nemesis(Protocol):
    """One kind of fault; made by ``factory()``. ``family`` groups kinds for ``--nemesis``."""

    family: str

    def available(self, cluster: Cluster) -> str | None:
        """None when it can be used here, else the reason why not."""
        ...

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw the parameters of one fault."""
        ...

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Install the fault and look whether it took hold; one that did not is an outcome."""
        ...

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Undo it and look whether it is gone; returns the evidence.

        Raises:
            SystemStuckError: What is left to do is the system's, which does not do it: that is its
                own failure, and the run is judged.
            Exception: It is not gone: nothing can be judged when all tries have ended so.
        """
        ...


# --------------------------------------------------------------------------- workloads, checkers


@dataclass(frozen=True, slots=True)
class Workload:
    """Ops, how to do them, and which checkers judge them; made by ``factory(spec)``.

    ``client`` builds the prototype client from the system and raises EnvError when the system
    lacks the ability. ``generator`` runs while faults do; ``final_generator`` after the heal.
    """

    client: Callable[[System], Client]
    generator: Any  # harness.generator.Generator
    final_generator: Any | None
    checkers: tuple[str, ...]
    model: str | None = None


@dataclass(frozen=True, slots=True)
class LogBatch:
    """A batch of a node's replicated log as it lay on its disk at the end of the run."""

    base: int
    last: int
    epoch: int
    crc: int
    control: bool
    records: tuple[Mapping[str, Any], ...]  # {"offset", "type", "fields"}

    def to_json(self) -> dict[str, Any]:
        """The batch as a JSON object."""
        return {
            "base": self.base,
            "last": self.last,
            "epoch": self.epoch,
            "crc": self.crc,
            "control": self.control,
            "records": [dict(r) for r in self.records],
        }


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """A snapshot of a node's replicated log as it lay on its disk at the end of the run."""

    end: int  # it holds what the records below this offset leave behind
    epoch: int  # of the last of them
    records: tuple[Mapping[str, Any], ...]  # {"type", "version", "fields"}, without its frame
    error: str | None = None  # why it is not usable; then its records are left out

    def to_json(self) -> dict[str, Any]:
        """The snapshot as a JSON object."""
        return {
            "end": self.end,
            "epoch": self.epoch,
            "error": self.error,
            "records": [dict(r) for r in self.records],
        }


@dataclass(frozen=True, slots=True)
class RunData:
    """Everything one run left behind: the input of every checker. Nothing in it is live."""

    spec: RunSpec
    history: History
    events: Mapping[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)
    logs: Mapping[str, tuple[LogBatch, ...]] = field(default_factory=dict)
    snapshots: Mapping[str, tuple[LogSnapshot, ...]] = field(default_factory=dict)  # oldest first
    output: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # stdout+stderr lines
    faults: tuple[Fault, ...] = ()
    voters: tuple[str, ...] = ()
    observers: tuple[str, ...] = ()
    watches: Mapping[str, Watch] = field(default_factory=dict, compare=False, repr=False)


ReadLog = Callable[[str, int, int], Sequence[LogBatch]]  # as ``Simulated.read_log``


class Watch(Protocol):
    """Judges the events of a simulation as they happen; checkers go by what it has found."""

    def feed(self, event: Mapping[str, Any]) -> Sequence[Anomaly]:
        """What an event breaks; called once for each, in the order in which they happen."""
        ...

    def op(self, op: Op) -> Sequence[Anomaly]:
        """What an op breaks, when it is invoked or answered; called as ``feed`` is."""
        ...


Checker = Callable[[RunData], CheckResult]
