"""Real nodes as child processes on loopback, for the benches: start, look at, stop."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from harness.contracts.environment import Address
from harness.kafka.route import Cluster
from harness.systems.kafka.distribution import SERVER, KafkaDist
from node.log.disk import FileDisk
from node.log.meta_properties import format_directory, random_id
from node.wire.network import Sockets

HOST = "127.77.210.1"
CLUSTER_ID = "oF6mE8-pQ6ejdxVRWSZ1fA"
KAFKA_HEAP_MB = 3072
KAFKA_FLAGS = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Xms256m")
STOP_TIMEOUT_S = 30.0
ROOT = Path(__file__).resolve().parents[2]
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def log_dir(folder: Path, node_id: int) -> Path:
    """Give the folder in which a node of a quorum in ``folder`` keeps its log."""
    return folder / f"n{node_id}"


def format_node(folder: Path, node_id: int) -> None:
    """Make the log directory of a node."""
    format_directory(
        FileDisk(),
        log_dir(folder, node_id),
        cluster_id=CLUSTER_ID,
        node_id=node_id,
        directory_id=random_id(Random(node_id)),
    )


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def rss_bytes(process: subprocess.Popen[bytes]) -> int:
    """Memory that a process has resident now."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


KAFKA_SETTINGS = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.leader.rebalance.enable": "false",
}


@dataclass
class Quorum:
    """Voters 1, 2, 3... of static membership in ``folder``, formatted by the caller."""

    folder: Path
    ports: Mapping[int, int]
    settings: Mapping[str, str] = field(default_factory=dict)
    profile: Path | None = None  # folder of cProfile's files
    kafka: KafkaDist | None = None  # the voters are its controllers, not nodes of ours
    agents: dict[int, str] = field(default_factory=dict)  # options of their JVMs
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        folder: Path,
        voters: int,
        settings: Mapping[str, str] | None = None,
        profile: Path | None = None,
    ) -> Quorum:
        """A quorum on free ports, not started."""
        ports = {node_id: free_port() for node_id in range(1, voters + 1)}
        return cls(folder, ports, settings or {}, profile)

    @property
    def cluster(self) -> Cluster:
        """Give the quorum's addresses, for clients."""
        return Cluster(
            {f"n{i}": Address(HOST, port) for i, port in self.ports.items()},
            {i: f"n{i}" for i in self.ports},
            Sockets(),
        )

    def start(self, node_id: int) -> subprocess.Popen[bytes]:
        """Start one voter."""
        settings = {
            "node.id": str(node_id),
            "process.roles": "controller",
            "controller.quorum.voters": ",".join(f"{i}@{HOST}:{p}" for i, p in self.ports.items()),
            "listeners": f"CONTROLLER://{HOST}:{self.ports[node_id]}",
            "log.dirs": str(log_dir(self.folder, node_id)),
            **(KAFKA_SETTINGS if self.kafka else {"krucible.brokers": "101,102,103"}),
            **{key: value.format(node=node_id) for key, value in self.settings.items()},
        }
        config = self.folder / f"n{node_id}.properties"
        config.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        argv = self._kafka_argv(node_id, config) if self.kafka else self._argv(node_id, config)
        with (self.folder / f"n{node_id}.out").open("ab") as output:
            process = subprocess.Popen(argv, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        self.processes[node_id] = process
        return process

    def _argv(self, node_id: int, config: Path) -> list[str]:
        program = ["-m", "node"]
        if self.profile is not None:
            output_file = self.profile / f"{self.folder.name}-{node_id}"
            program = ["-m", "cProfile", "-o", str(output_file), *program]
        return [sys.executable, *program, "run", "--config", str(config)]

    def _kafka_argv(self, node_id: int, config: Path) -> list[str]:
        """Give Kafka's command line as for production: with its full compiler and collector."""
        assert self.kafka is not None
        log = self.folder / f"n{node_id}.log"
        agent = self.agents.get(node_id, "")
        java, *flags = self.kafka.argv(SERVER, config, log=log, heap_mb=KAFKA_HEAP_MB, agent=agent)
        quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        return [java, *KAFKA_FLAGS, *[flag for flag in flags if flag not in quick]]

    def kill(self, node_id: int) -> None:
        """SIGKILL, and wait until it is gone."""
        process = self.processes.pop(node_id)
        process.kill()
        process.wait(timeout=STOP_TIMEOUT_S)

    def stop(self) -> None:
        """SIGTERM to all, and wait until they are gone."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        try:
            for process in self.processes.values():
                process.wait(timeout=STOP_TIMEOUT_S)
        finally:
            for process in self.processes.values():
                process.kill()  # what has not ended by now
            self.processes.clear()
