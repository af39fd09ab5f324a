"""Hosts with a real sshd each: network namespaces on a bridge, made for one test module."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.agent.processes import MARK_VARIABLE
from harness.processes.procfs import environment_of, processes

_NUMBERS = itertools.count()
NETWORK = f"10.{200 + os.getpid() // 250 % 50}.{os.getpid() % 250}"  # of this test process
GATEWAY = f"{NETWORK}.1"
_UP_S = 10.0
_CONFIG = """\
ListenAddress 0.0.0.0
HostKey {folder}/hostkey
PidFile {folder}/sshd.pid
AuthorizedKeysFile {keys}
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
PrintMotd no
"""


@dataclass(slots=True)
class SshdHost:
    """A host: its namespace, its address, its server."""

    name: str
    address: str
    folder: Path
    keys: Path
    server: subprocess.Popen[bytes] | None = None

    def up(self, *wrapper: str) -> None:
        """Start its server, by a wrapper, and wait until it answers."""
        sshd = shutil.which("sshd") or "/usr/sbin/sshd"
        config = self.folder / "sshd_config"
        config.write_text(_CONFIG.format(folder=self.folder, keys=self.keys))
        with (self.folder / "sshd.log").open("ab") as log:
            self.server = subprocess.Popen(
                ["ip", "netns", "exec", self.name, *wrapper, sshd, "-D", "-e", "-f", str(config)],
                stderr=log,
            )
        deadline = time.monotonic() + _UP_S
        scan = ["ssh-keyscan", "-T", "1", self.address]
        while not subprocess.run(scan, capture_output=True, check=False).stdout:
            assert time.monotonic() < deadline, (self.folder / "sshd.log").read_text()

    def down(self) -> None:
        """The host dies: all its processes at once, its server first. Idempotent."""
        pids = [int(pid) for pid in self.run("ip", "netns", "pids", self.name, inside=False)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.server is not None:
            self.server.wait(_UP_S)
            self.server = None

    def run(self, *argv: str, inside: bool = True) -> list[str]:
        """The lines that a command says on the host."""
        within = ["ip", "netns", "exec", self.name] if inside else []
        done = subprocess.run([*within, *argv], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    @property
    def chains(self) -> list[str]:
        """Rules that are there now."""
        return [line for line in self.run("iptables", "-S") if not line.startswith("-P")]

    @property
    def qdiscs(self) -> list[str]:
        """Queueing disciplines that are not the kernel's defaults."""
        return [line for line in self.run("tc", "qdisc", "show") if line.split()[2] != "0:"]

    @property
    def key(self) -> str:
        """Its public key, as a line of known_hosts."""
        kind, key, *_ = (self.folder / "hostkey.pub").read_text().split()
        return f"{self.address} {kind} {key}\n"


@dataclass(frozen=True, slots=True)
class Hosts:
    """Some hosts, and what a client needs to be let in."""

    hosts: tuple[SshdHost, ...]
    folder: Path
    key: Path

    def file(self, folder: Path, *extra: str, name: str = "hosts.toml") -> Path:
        """Write a hosts file; ``extra`` lines come first; what is left of runs is in ``folder``."""
        known = folder / "known_hosts"
        known.write_text("".join(host.key for host in self.hosts))
        there = folder / "there"
        there.mkdir(exist_ok=True)
        given = {line.partition("=")[0].strip() for line in extra}
        usual = {
            "key": str(self.key),
            "known_hosts": str(known),
            "python": sys.executable,
            "folder": str(there),
            "user": "root",
        }
        lines = [*extra, *(f'{k} = "{v}"' for k, v in usual.items() if k not in given)]
        lines += [f'[[host]]\nhost = "{host.address}"' for host in self.hosts]
        path = folder / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def left(self, folder: Path) -> list[str]:
        """What runs with the hosts file of ``folder`` have left: folders, processes, rules."""
        there = folder / "there"
        found = [str(path) for path in there.iterdir()] if there.is_dir() else []
        for pid in processes():
            variables = environment_of(pid)
            if MARK_VARIABLE in variables and str(there) in variables.get("PYTHONPATH", ""):
                found.append(f"pid {pid}: {variables[MARK_VARIABLE]}")
        there_now = [host for host in self.hosts if host.server]
        return found + [rule for host in there_now for rule in (*host.chains, *host.qdiscs)]


@contextlib.contextmanager
def sshd_hosts(folder: Path, count: int = 3) -> Iterator[Hosts]:
    """Make hosts; skips, with the reason, where that cannot be done."""
    if os.geteuid() != 0:
        pytest.skip("hosts of our own are network namespaces, and making these wants root")
    for tool in ("ip", "iptables", "ssh-keygen", "ssh-keyscan"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} here: apt-get install openssh-server iproute2 iptables")
    if shutil.which("sshd") is None and not Path("/usr/sbin/sshd").exists():
        pytest.skip("no sshd here: apt-get install openssh-server")
    Path("/run/sshd").mkdir(exist_ok=True)
    # another name each time: the kernel takes a while to forget a link whose namespace has gone
    switch = f"krs{os.getpid() % 100_000}n{next(_NUMBERS)}"
    with contextlib.ExitStack() as undo:
        _switch(switch, undo)
        key = folder / "key"
        _keygen(key)
        made = []
        for number in range(1, count + 1):
            host = SshdHost(
                f"{switch}-{number}",
                f"{NETWORK}.{number + 10}",
                folder / f"host{number}",
                folder / "key.pub",
            )
            host.folder.mkdir()
            _keygen(host.folder / "hostkey")
            _plug(switch, host, number, undo)
            undo.callback(host.down)
            host.up()
            made.append(host)
        yield Hosts(tuple(made), folder, key)


def _switch(name: str, undo: contextlib.ExitStack) -> None:
    """A bridge in a namespace of its own, where no firewall of this machine looks into it."""
    _space(name, undo)
    _ip("-n", name, "link", "add", "switch", "type", "bridge")
    _ip("-n", name, "link", "set", "switch", "up")
    _ip("link", "add", name, "type", "veth", "peer", "name", "uplink", "netns", name)
    _ip("-n", name, "link", "set", "uplink", "master", "switch", "up")
    _ip("addr", "add", f"{GATEWAY}/24", "dev", name)
    _ip("link", "set", name, "up")


def _plug(switch: str, host: SshdHost, number: int, undo: contextlib.ExitStack) -> None:
    _space(host.name, undo)
    port = f"port{number}"
    _ip("-n", switch, "link", "add", port, "type", "veth", "peer", "eth0", "netns", host.name)
    _ip("-n", switch, "link", "set", port, "master", "switch", "up")
    _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
    _ip("-n", host.name, "link", "set", "eth0", "up")
    _ip("-n", host.name, "link", "set", "lo", "up")


def _space(name: str, undo: contextlib.ExitStack) -> None:
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no network namespace can be made here: {done.stderr.strip()}")
    undo.callback(_ip, "netns", "del", name)  # and with it what is in it


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (arguments, done.stderr)


def _keygen(path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=10
    )
