"""A harness that is killed at any moment leaves nothing on its ssh hosts, and touches nothing."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.commands.victim import kills, running
from tests.support.ssh.hosts import Hosts, SshdHost, sshd_hosts

pytestmark = pytest.mark.slow

KILLS = kills(1)
MOMENT_MAX_S = 18.0  # of start-up, faults, recovery and teardown
RULE = ("INPUT", "-p", "tcp", "--dport", "7", "-j", "DROP")
SMALL = {"env": "ssh", "voters": 3, "observers": 0, "rate": 60, "time-limit": 12}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with sshd_hosts(tmp_path_factory.mktemp("sshd")) as made:
        yield made


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_any_moment_no_host_keeps_anything_of_ours_and_all_else_stays(
    hosts: Hosts, tmp_path: Path, number: int
) -> None:
    file = hosts.file(tmp_path)
    with somebody_elses(hosts, tmp_path / "there") as theirs:
        options = {**SMALL, "hosts": file, "nemesis": "all", "seed": number}
        with running(tmp_path, options) as victim:
            before = theirs()
            victim.kill_within(MOMENT_MAX_S, f"moment {number}")
            victim.assert_healed()
            assert theirs() == before


# --------------------------------------------------------------------------- helpers


@contextlib.contextmanager
def somebody_elses(hosts: Hosts, folder: Path) -> Iterator[Callable[[], object]]:
    """A rule, a process and a file on a host that are nobody's of ours; how to look at all."""
    host = hosts.hosts[0]
    other = folder / "krucible-like"
    other.mkdir()
    (other / "file").write_text("theirs")
    host.run("iptables", "-A", *RULE)
    within = ["ip", "netns", "exec", host.name]
    with subprocess.Popen([*within, "sleep", "600"], cwd=other) as process:

        def look() -> object:
            """All that is on the hosts, but for their servers."""
            stands = process.poll() is None, (other / "file").read_text()
            return stands, sorted(hosts.left(folder.parent)), [_links(h) for h in hosts.hosts]

        try:
            yield look
        finally:
            process.kill()
            host.run("iptables", "-D", *RULE)


def _links(host: SshdHost) -> list[str]:
    """How its network treats packets."""
    return [line for line in host.run("ip", "-d", "link", "show", "eth0") if "qdisc" in line]
