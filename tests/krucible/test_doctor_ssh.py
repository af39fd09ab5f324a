"""``krucible doctor --hosts``: what it says of hosts with a real sshd, and that nothing stays."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from harness.envs.ssh.hosts import Host
from harness.verdict import EXIT_HARNESS, EXIT_USAGE
from krucible.doctor.finding import Finding
from krucible.doctor.ssh import _packets, examine_hosts
from tests.support.commands.process import COMMAND, environ
from tests.support.ssh.hosts import sshd_hosts

pytestmark = pytest.mark.slow


def test_each_host_is_told_whether_it_is_reached_and_known_and_what_it_lacks(
    tmp_path: Path,
) -> None:
    (tmp_path / "hosts").mkdir()
    with sshd_hosts(tmp_path / "hosts") as hosts:
        fine, weak, stranger = hosts.hosts
        weak.down()
        weak.up("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin")
        file = hosts.file(tmp_path)
        (tmp_path / "known_hosts").write_text(fine.key + weak.key)
        found = {finding.name: finding for finding in examine_hosts(file)}
        assert [name for name in found if fine.address in name] == [
            f"root@{fine.address}{what}"
            for what in ("", " python", " partitions", " disks of JVMs", " packets", " clocks")
        ]
        assert found[f"root@{fine.address}"] == Finding(
            f"root@{fine.address}", "ok", "answers, its key is known"
        )
        assert found[f"root@{fine.address} partitions"].status == "ok"
        lacks = found[f"root@{weak.address} partitions"]
        assert lacks.status == "warn"
        assert "apt-get install iptables" in str(lacks.remedy)
        unknown = found[f"root@{stranger.address}"]
        assert unknown.status == "bad"
        assert f"ssh-keyscan {stranger.address} >> {tmp_path}/known_hosts" in unknown.detail
        code, said = doctor(tmp_path, file)
        assert code == EXIT_HARNESS
        assert {f["name"] for f in json.loads(said)} > found.keys()
        port_in_use = {f.name: f for f in examine_hosts(hosts.file(tmp_path, "node_port = 22"))}
        assert "a node cannot listen on" in port_in_use[f"root@{fine.address} node"].detail
        assert hosts.left(tmp_path) == []


def test_a_file_that_is_not_there_is_told_before_anything_is_looked_at(tmp_path: Path) -> None:
    code, said = doctor(tmp_path, tmp_path / "none.txt")
    assert (code, "none.txt" in said) == (EXIT_USAGE, True)


@pytest.mark.parametrize(
    ("netem", "queue", "status", "said"),
    [
        (None, None, "ok", "netem works; so does NFQUEUE"),
        (None, "no NFQUEUE", "ok", "netem works"),
        ("no such kind", None, "ok", "NFQUEUE works; no netem: no such kind"),
        ("no such kind", "no NFQUEUE", "warn", "no NFQUEUE; and no netem: no such kind"),
    ],
)
def test_what_shapes_links_on_a_host_is_named(
    netem: str | None, queue: str | None, status: str, said: str
) -> None:
    finding = _packets(Host("there"), {"netem": netem, "queue": queue})
    assert (finding.name, finding.status, finding.detail) == ("there packets", status, said)
    assert (finding.remedy is None) == (netem is None)


def doctor(folder: Path, hosts: Path) -> tuple[int, str]:
    done = subprocess.run(
        [*COMMAND, "doctor", "--hosts", str(hosts), "--json"],
        env=environ(folder / "state"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr
