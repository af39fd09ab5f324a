"""Controllers of ours as units of a real systemd, one on each of a few ssh hosts.

A host is a network namespace (``tests.support.ssh.hosts``); in it systemd is the first process of a
pid namespace, with folders of its own for units and for what runs, and starts sshd and the node.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from node.core.types import Endpoint
from tests.support.attached.controllers import attach_file, format_controller
from tests.support.kafka.calls import describe_quorum
from tests.support.kafka.cluster import wait_for
from tests.support.ssh.hosts import Hosts, SshdHost, sshd_hosts

PORT = 9093
UNIT = "node.service"
_SYSTEMD = Path("/lib/systemd/systemd")
_TRIED = (
    *("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--cgroup", "--uts", "--ipc"),
    *("mount", "-t", "cgroup2", "none", "/sys/fs/cgroup"),
)
# Its control groups are below one of ours, and none of this host's own units may run there.
_APART = """\
set -e
group=$1; shift
mount -t cgroup2 none /sys/fs/cgroup
mkdir /sys/fs/cgroup/$group
echo $$ >/sys/fs/cgroup/$group/cgroup.procs
umount /sys/fs/cgroup
exec unshare --mount --pid --fork --mount-proc --cgroup --uts --ipc sh -c "$BOOT" sh "$@"
"""
_BOOT = """\
set -e
units=$1; shift
for folder in /run /lib/systemd/system /lib/systemd/system-generators /etc/systemd/system; do
    mount -t tmpfs tmpfs $folder
done
mkdir -p /run/sshd
cp "$units"/* /etc/systemd/system/
{ printf '[Unit]\\nDefaultDependencies=no\\n[Service]\\nExecStart='; echo "$*"; } \
    >/etc/systemd/system/sshd.service
printf '[Unit]\\nDefaultDependencies=no\\nWants=sshd.service\\n' >/etc/systemd/system/host.target
export container=other
exec /lib/systemd/systemd --system --unit=host.target --log-target=null
"""
_REMOVE = """\
mount -t cgroup2 none /sys/fs/cgroup && find /sys/fs/cgroup/$1 -depth -type d -exec rmdir {} +
"""


@dataclass(frozen=True)
class Units:
    """The hosts of one cluster, by node id; each has its node in a unit of the same name."""

    folder: Path
    made: Hosts
    hosts: dict[int, SshdHost]
    ends: dict[int, Endpoint]

    def ask(self, id_: int, *words: str) -> str:
        """Ask systemctl on a host, and give its answer; raises CalledProcessError."""
        return self.do(id_, "systemctl", *words)

    def do(self, id_: int, *argv: str) -> str:
        """Run a program on a host, and give what it says; raises CalledProcessError."""
        inside = ["nsenter", "--target", str(self._init(id_)), "--mount", "--pid", *argv]
        return subprocess.run(inside, capture_output=True, text=True, check=True).stdout.strip()

    def status(self, id_: int) -> str:
        """Tell the state of a unit as systemd has it (active, failed, ...), or: frozen."""
        active = self.ask(id_, "show", "--property=ActiveState", "--value", UNIT)
        if active != "active":
            return active
        pid = self.ask(id_, "show", "--property=MainPID", "--value", UNIT)
        stat = self.do(id_, "cat", f"/proc/{pid}/stat")
        return "frozen" if stat.rpartition(")")[2].split()[0] == "T" else active

    def _init(self, id_: int) -> int:
        """Find the pid that a host's systemd has here."""
        host = self.hosts[id_]
        assert host.server is not None
        server = host.server.pid
        (init,) = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        return int(init)

    def attach(self, allow: Sequence[str], guard: str) -> Path:
        """Write an attach file in which so much is allowed of every node, and tell where it is."""
        nodes = {id_: {"unit": UNIT, "ssh": f"root@{end.host}"} for id_, end in self.ends.items()}
        known = self.folder / "known_hosts"
        known.write_text("".join(host.key for host in self.made.hosts))
        login = {"key": str(self.made.key), "known_hosts": str(known), "python": sys.executable}
        return attach_file(self.folder, self.ends, nodes, allow, guard, login)

    def await_well(self) -> None:
        """Wait until all run, no link is cut, and somebody leads."""
        wait_for(
            lambda: (
                all(self.status(i) == "active" and not h.chains for i, h in self.hosts.items())
                and any(map(describe_quorum, self.ends.values()))
            ),
            "the units are as they were",
            lambda: str({i: self.status(i) for i in self.hosts}),
        )


@contextlib.contextmanager
def units(folder: Path, restart: str) -> Iterator[Units]:
    """Start controllers in units, and wait for a leader; ``restart`` is as in a unit's file.

    Skips, with the reason, where there is no systemd.
    """
    if not _SYSTEMD.exists() or shutil.which("systemctl") is None:
        pytest.skip("no systemd here: apt-get install systemd")
    tried = subprocess.run(_TRIED, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no systemd of our own can run here: {tried.stderr.strip()}")
    with sshd_hosts(folder) as made, contextlib.ExitStack() as undo:
        hosts = dict(enumerate(made.hosts, start=1))
        ends = {id_: Endpoint(host.address, PORT) for id_, host in hosts.items()}
        voters = ",".join(f"{n}@{end.host}:{end.port}" for n, end in ends.items())
        for id_, host in hosts.items():
            config = format_controller(folder / f"n{id_}", id_, ends[id_], voters)
            wanted = folder / f"units{id_}"
            wanted.mkdir()
            (wanted / UNIT).write_text(_unit(config, restart))
            host.down()
            undo.callback(_remove, host.name)
            undo.callback(host.down)
            boot = ["env", f"BOOT={_BOOT}", "sh", "-c", _APART, "sh", host.name, str(wanted)]
            host.up(*boot)
        found = Units(folder, made, hosts, ends)
        for id_ in hosts:
            found.ask(id_, "start", UNIT)
        found.await_well()
        yield found


def _unit(config: Path, restart: str) -> str:
    program = f"{sys.executable} -m node run --config {config}"
    lines = [
        "[Unit]",
        "DefaultDependencies=no",
        "[Service]",
        f"ExecStart={program}",
        f"Restart={restart}",
        "SuccessExitStatus=143",
    ]
    lines += [f"Environment=PATH={os.environ['PATH']}", f"WorkingDirectory={config.parent}"]
    return "\n".join(lines) + "\n"


def _remove(group: str) -> None:
    inside = ["unshare", "--mount", "sh", "-c", _REMOVE, "sh", group]
    said = ""

    def is_gone() -> bool:
        nonlocal said
        done = subprocess.run(inside, capture_output=True, text=True, check=False)
        said = done.stderr
        return done.returncode == 0

    wait_for(is_gone, "its control groups are empty, and gone", lambda: said)
