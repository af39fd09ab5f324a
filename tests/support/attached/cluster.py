"""A cluster that somebody else runs, outside of any run of ours, and its attach file."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.processes.procfs import ProcessId, identify, processes, send_signal, state_of
from harness.systems.kafka.distribution import KafkaDist
from tests.support.kafka.calls import describe_quorum, serves_clients
from tests.support.kafka.cluster import Member, Quorum, running, wait_for
from tests.support.kafka.quorums import kafka_broker, our_broker, quorum_on_hosts
from tests.support.ssh.hosts import Hosts

WAIT_S = 90.0
GONE = ("gone", "Z")


@dataclass
class Foreign:
    """The cluster, and where its owner keeps its pid files."""

    folder: Path
    system: str
    quorum: Quorum
    brokers: Sequence[Member]
    hosts: Hosts | None = None  # of the controllers, in their order; else all are on this one

    @property
    def members(self) -> dict[int, Member]:
        """All nodes, by id."""
        return {m.node_id: m for m in (*self.quorum, *self.brokers)}

    def pid_file(self, id_: int) -> Path:
        """Where a node's pid is written."""
        return self.folder / f"{id_}.pid"

    def pid(self, id_: int) -> int:
        """The pid of a node's process, by its owner's file."""
        return int(self.pid_file(id_).read_text())

    def state(self, id_: int) -> str:
        """The state of that process: a letter, or gone."""
        return state_of(self.pid(id_))

    def identities(self) -> dict[int, ProcessId | None]:
        """Which process each node is."""
        return {id_: identify(self.pid(id_)) for id_ in self.members}

    def attach(
        self,
        allow: Mapping[int, Sequence[str]] | None = None,
        *,
        faults: str = "",
        guard: str = "",
        more: str = "",
    ) -> Path:
        """Write an attach file in which so much is allowed of the nodes; where it is."""
        ends = {id_: f"{m.endpoint.host}:{m.endpoint.port}" for id_, m in self.members.items()}
        first = next(iter(self.quorum)).node_id
        lines = [
            f'system = "{self.system}"',
            f'controllers = ["{ends[first]}"]',
            f"brokers = {[ends[m.node_id] for m in self.brokers[:1]]}",
            more,
            self._login(),
            f"[faults]\n{faults}",
            f"[guard]\n{guard}",
        ]
        for id_, families in (allow or {}).items():
            lines += [
                "[[node]]",
                f"id = {id_}",
                f'pid_file = "{self.pid_file(id_)}"',
                f"start = {json.dumps(self.start_command(id_))}",
                f"allow = {json.dumps(list(families))}",
            ]
            if self.hosts is not None:
                lines.append(f'ssh = "root@{self.members[id_].endpoint.host}"')
        path = self.folder / f"attach-{time.monotonic_ns()}.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def _login(self) -> str:
        """Write how its hosts let us in, as lines of an attach file."""
        if self.hosts is None:
            return ""
        known = self.folder / "known_hosts"
        known.write_text("".join(host.key for host in self.hosts.hosts))
        return f'[ssh]\nkey = "{self.hosts.key}"\nknown_hosts = "{known}"'

    def rules(self) -> list[str]:
        """List the firewall rules on its hosts."""
        return [] if self.hosts is None else [r for host in self.hosts.hosts for r in host.chains]

    def start_command(self, id_: int) -> list[str]:
        """How its owner starts a node: in the background, and its pid into the file."""
        argv = shlex.join(self.members[id_].argv)
        log = shlex.quote(str(self.folder / f"{id_}.log"))
        draft, file = (shlex.quote(str(self.pid_file(id_)) + end) for end in (".new", ""))
        script = f"{argv} >>{log} 2>&1 </dev/null & echo $! >{draft} && mv {draft} {file}"
        return ["sh", "-c", script]

    def wait_until(self, what: str, condition: object, timeout_s: float = WAIT_S) -> None:
        """Wait for a condition, a callable without arguments."""
        assert callable(condition)
        wait_for(condition, what, lambda: str(self.identities()), timeout_s)

    def await_well(self) -> None:
        """Wait until every node runs and somebody leads."""
        self.wait_until(
            "all nodes run and no link is cut",
            lambda: (
                all(self.state(i) not in (*GONE, "T") for i in self.members) and not self.rules()
            ),
        )
        ends = [member.endpoint for member in self.quorum]
        self.wait_until("somebody leads", lambda: any(map(describe_quorum, ends)))

    def end(self) -> None:
        """Kill whatever runs of it, whoever started that: its command names the folder."""
        for pid in list(processes()):
            who = identify(pid)
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                if who is not None and str(self.folder) in command and pid != os.getpid():
                    send_signal(who, signal.SIGCONT)
                    send_signal(who, signal.SIGKILL)


@contextlib.contextmanager
def foreign(
    folder: Path,
    dist: KafkaDist | None,
    *,
    controllers: int = 3,
    brokers: int = 1,
    hosts: Hosts | None = None,
) -> Iterator[Foreign]:
    """A cluster of Apache Kafka's nodes, or of ours where there is no ``dist``; up and led.

    With ``hosts``, each controller is on one of them; brokers are on this one, which they reach.
    """
    kind = "ours" if dist is None else "kafka"
    kinds = dict.fromkeys(range(1, controllers + 1), kind)
    make = our_broker if dist is None else kafka_broker
    barrier = {"read_barrier": "true"} if dist is None else {}  # else reads may be stale
    places = {} if hosts is None else dict(zip(kinds, hosts.hosts, strict=False))
    with quorum_on_hosts(dist, folder, kinds, places, barrier) as quorum:  # type: ignore[arg-type] # ours needs none
        quorum.start_all()
        ours = [make(dist, folder, 11 + n, quorum) for n in range(brokers)]  # type: ignore[arg-type]
        with running(ours):
            for broker in ours:
                broker.format()
                broker.start()
            found = Foreign(folder, "kraft" if dist is None else "kafka", quorum, ours, hosts)
            for id_, member in found.members.items():
                assert member.process is not None
                found.pid_file(id_).write_text(str(member.process.pid))
            quorum.await_leader()
            wait_for(
                lambda: {b.node_id for b in ours} <= set(_observers(quorum)),
                "the brokers follow",
                lambda: "",
            )
            wait_for(
                lambda: all(serves_clients(broker.endpoint) for broker in ours),
                "the brokers answer clients",
                lambda: "",
            )
            try:
                yield found
            finally:
                found.end()


def _observers(quorum: Quorum) -> frozenset[int]:
    view = quorum.leader()
    return frozenset() if view is None else view.observers
