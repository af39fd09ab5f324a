"""Controllers and brokers as processes, Kafka's and ours alike, and waiting for what they do.

Both kinds are configured with the same properties, so a quorum of any mix is made by naming the
kind of each node. Everything here is synchronous: fixtures outlive a test's event loop.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from harness.systems.kafka.distribution import (
    BROKER_HEAP_MB,
    CONTROLLER_HEAP_MB,
    SERVER,
    STORAGE_TOOL,
    KafkaDist,
)
from node.__main__ import main as node_main
from node.core.messages import Batch, DescribeQuorumResponse
from node.core.types import Endpoint
from node.log.batch import iter_batches
from node.log.layout import partition_dir, segment_base
from node.wire.errors import WireError
from tests.support.kafka.calls import broker_default, describe_quorum, set_broker_default
from tests.support.kafka.toolbox import toolbox_of

HOST = "127.77.202.1"
CLUSTER_ID = "oF6mE8-pQ6ejdxVRWSZ1fA"
WAIT_S = 120.0  # a limit and no pause: a dozen JVMs may share a core with other tests
SETTING = "log.retention.ms"  # of all brokers: needs none to be set
_POLL_S = 0.05
_TAIL_CHARS = 3000


T = TypeVar("T")


def free_ports(count: int, host: str = HOST) -> list[int]:
    """Different ports that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((host, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


@dataclass
class Member(ABC):
    """A node that can be started again and again on one directory."""

    node_id: int
    endpoint: Endpoint
    folder: Path
    properties: dict[str, str]
    dist: KafkaDist
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    space: str | None = None  # the network namespace that its process is in
    is_paused: bool = field(default=False, init=False)

    @property
    def data(self) -> Path:
        """The log directory."""
        return self.folder / "data"

    @property
    def directory_id(self) -> str:
        """The directory id that formatting gave it, in Kafka's text form."""
        (line,) = [
            line
            for line in (self.data / "meta.properties").read_text().splitlines()
            if line.startswith("directory.id=")
        ]
        return line.removeprefix("directory.id=")

    @property
    def snapshots(self) -> list[Path]:
        """Its snapshots but the bootstrap one, the oldest first."""
        found = sorted(partition_dir(self.data).glob("*.checkpoint"))
        return [path for path in found if not path.name.startswith("0" * 20)]

    @property
    def config(self) -> Path:
        return self.folder / "node.properties"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def died(self) -> bool:
        """Whether it ended without having been told to."""
        return self.process is not None and self.process.poll() is not None

    @property
    def said(self) -> str:
        """The logs of all incarnations."""
        files = (self.folder / "server.log", self.folder / "output.log")
        return "".join(f.read_text(errors="replace") for f in files if f.exists())

    def format(self, *options: str, cluster_id: str = CLUSTER_ID) -> None:
        """Write the configuration and make the directory the node's own, by its own tool."""
        self.configure()
        code, said = self._format(cluster_id, options)
        assert code == 0, said

    def configure(self) -> None:
        """Write the configuration."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{key}={value}\n" for key, value in self.properties.items()]
        self.config.write_text("".join(lines), encoding="utf-8")

    def start(self) -> None:
        """Start the process; it may take a while to answer."""
        assert not self.alive, f"node {self.node_id} runs already"
        # A killed test run takes its nodes with it.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        inside = [] if self.space is None else ["ip", "netns", "exec", self.space]
        with (self.folder / "output.log").open("ab") as output:
            self.process = subprocess.Popen(
                [*guard, *inside, *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def argv(self) -> list[str]:
        """Give the command line of its process, on its host."""
        return self._run_argv()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; nothing when it does not run."""
        self.is_paused = False
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait(WAIT_S)

    def stop(self) -> int:
        """Ask it to end in good order and wait for it; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(WAIT_S)
        self.process = None
        return code

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections, and says nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT: it goes on as if no time had passed."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def batches(self) -> list[Batch]:
        """What its log holds, each batch checked; the last one may still be being written."""
        segments = sorted(
            path
            for path in partition_dir(self.data).iterdir()
            if segment_base(path.name) is not None
        )
        return [b for s in segments for b in iter_batches(s.read_bytes(), partial_tail=True)]

    @abstractmethod
    def _format(self, cluster_id: str, options: tuple[str, ...]) -> tuple[int, str]:
        """The exit code of the tool, and what it says."""

    @abstractmethod
    def _run_argv(self) -> list[str]: ...


class KafkaMember(Member):
    """A node of Apache Kafka."""

    def _format(self, cluster_id: str, options: tuple[str, ...]) -> tuple[int, str]:
        arguments = ["format", "-t", cluster_id, "-c", str(self.config), *options]
        return toolbox_of(self.dist).run(STORAGE_TOOL, arguments, WAIT_S)

    def _run_argv(self) -> list[str]:
        broker = "broker" in self.properties["process.roles"]
        heap = BROKER_HEAP_MB if broker else CONTROLLER_HEAP_MB
        log = self.folder / "server.log"
        return self.dist.argv(SERVER, self.config, log=log, heap_mb=heap, logs_its_end=broker)


class OurMember(Member):
    """A node of ours."""

    def _format(self, cluster_id: str, options: tuple[str, ...]) -> tuple[int, str]:
        """The command, without a process of its own (``tests/node/processes`` has one)."""
        arguments = ["format", "--config", str(self.config), "--cluster-id", cluster_id, *options]
        said = io.StringIO()
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            pytest.raises(SystemExit) as ended,
        ):
            node_main(arguments)
        return int(ended.value.code or 0), said.getvalue()

    def _run_argv(self) -> list[str]:
        return [sys.executable, "-m", "node", "run", "--config", str(self.config)]


KINDS: Mapping[str, type[Member]] = {"kafka": KafkaMember, "ours": OurMember}


@dataclass(frozen=True)
class View:
    """The quorum as its leader sees it; offsets are ends, exclusive."""

    leader_id: int
    epoch: int
    high_watermark: int
    ends: Mapping[int, int]
    observers: frozenset[int]

    @property
    def log_end(self) -> int:
        """Where the leader's log ends."""
        return self.ends[self.leader_id]

    @classmethod
    def of(cls, response: DescribeQuorumResponse | None) -> View | None:
        """None while the leader has committed nothing in its epoch."""
        if response is None or response.leader_id is None or response.high_watermark is None:
            return None
        ends = {voter.key.id: voter.log_end_offset or 0 for voter in response.voters}
        observers = frozenset(observer.key.id for observer in response.observers)
        return cls(response.leader_id, response.epoch, response.high_watermark, ends, observers)


@dataclass
class Quorum:
    """Controllers of both kinds; stops them all at its end."""

    members: dict[int, Member]

    def __getitem__(self, node_id: int) -> Member:
        return self.members[node_id]

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    @property
    def live(self) -> list[Member]:
        """Those that run, and are not paused."""
        return [member for member in self if member.alive and not member.is_paused]

    @property
    def addresses(self) -> str:
        """All controllers, for ``--bootstrap-controller``."""
        return ",".join(f"{m.endpoint.host}:{m.endpoint.port}" for m in self)

    def of_kind(self, kind: str) -> list[int]:
        """Ids of the members of one kind."""
        return [i for i, member in self.members.items() if isinstance(member, KINDS[kind])]

    def wait_for(
        self, condition: Callable[[], T | None], what: str, timeout_s: float = WAIT_S
    ) -> T:
        """The first result that is true; fails with the ends of all logs when there is none."""

        def alive() -> None:
            died = [m.node_id for m in self if m.died]
            assert not died, f"nodes {died} died while waiting for {what}\n{self._tails()}"

        return wait_for(condition, what, self._tails, timeout_s, alive)

    def leader(self) -> View | None:
        """The quorum as the leader of the newest epoch sees it, once it has committed there."""
        views = [view for m in self.live if (view := View.of(describe_quorum(m.endpoint)))]
        return max(views, key=lambda view: view.epoch, default=None)

    def await_leader(self, among: Iterable[int] = (), after_epoch: int = 0) -> View:
        """Wait until one of these nodes (any) leads a majority in an epoch after that one."""
        wanted = set(among) or set(self.members)

        def found() -> View | None:
            view = self.leader()
            fits = view is not None and view.leader_id in wanted and view.epoch > after_epoch
            return view if fits else None

        return self.wait_for(found, f"a leader among {sorted(wanted)} after {after_epoch}")

    def await_replicated(self, voters: Iterable[int] = ()) -> int:
        """Wait until these voters (all live) have a record newer than this call; its offset."""
        target = self.await_leader().log_end

        def replicated() -> bool:
            view = self.leader()
            wanted = set(voters) or {member.node_id for member in self.live}
            return view is not None and all(view.ends[node_id] > target for node_id in wanted)

        self.wait_for(replicated, f"all live nodes have the record at {target}")
        return target

    def write(self, value: str) -> None:
        """Commit a setting and wait until it is in the image of every live node."""

        def done() -> bool:
            leader = self[self.await_leader().leader_id]
            try:
                return set_broker_default(leader.endpoint, SETTING, value) == 0
            except WireError:
                return False  # perhaps done, perhaps not: setting it again does no harm

        self.wait_for(done, f"{SETTING}={value} is committed")
        self.wait_for(
            lambda: all(broker_default(m.endpoint, SETTING) == value for m in self.live),
            f"{SETTING}={value} is in all images",
        )

    def make_leader(self, node_id: int, of: Iterable[int] = (), attempts: int = 6) -> None:
        """Have this node lead a next epoch; the voters are three, ``of`` names them if not all.

        The two others are killed, the leader last. The one that comes back first has the shorter
        log, and waits an election timeout before it stands for election: the node that has been
        asking for its vote all the while wins.
        """
        voters = set(of) or set(self.members)
        for _ in range(attempts):
            self.start_all(voters)
            leader = self.await_leader().leader_id
            if leader == node_id:
                return
            self.await_replicated(voters)
            (other,) = voters - {node_id, leader}
            self[other].kill()
            self[leader].kill()
            self[other].start()
            self.await_leader()
        self.start_all(voters)
        assert self.await_leader().leader_id == node_id, self._tails()

    def make_kind_lead(self, kind: str) -> int:
        """Have a node of this kind lead, the one that does already if there is one; which."""
        self.start_all()
        leader = self.await_leader().leader_id
        if leader not in self.of_kind(kind):
            leader = self.of_kind(kind)[0]
            self.make_leader(leader)
        return leader

    def start_all(self, only: Iterable[int] = ()) -> None:
        """Start every node (of these) that does not run."""
        for node_id in set(only) or set(self.members):
            if not self[node_id].alive:
                self[node_id].start()

    def _tails(self) -> str:
        return "\n".join(
            f"--- node {m.node_id} ({type(m).__name__}, alive: {m.alive})\n{m.said[-_TAIL_CHARS:]}"
            for m in self
        )


def wait_for(
    condition: Callable[[], T | None],
    what: str,
    tails: Callable[[], str],
    timeout_s: float = WAIT_S,
    check: Callable[[], None] = lambda: None,
) -> T:
    """The first result that is true; fails with what ``tails`` tells when there is none.

    ``check`` raises when waiting has become pointless.
    """
    deadline_s = time.monotonic() + timeout_s
    while not (result := condition()):
        check()
        assert time.monotonic() < deadline_s, f"never happened: {what}\n{tails()}"
        time.sleep(_POLL_S)
    return result


@contextlib.contextmanager
def running(members: Iterable[Member]) -> Iterator[None]:
    """Nothing of these runs after this."""
    try:
        yield
    finally:
        for member in members:
            member.kill()
