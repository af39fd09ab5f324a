"""Checks what this host has and lacks, and says what to do about it.

Each check really tries the thing and returns one finding. ``bad`` means that not even a run with
local processes can work here; ``warn`` names what will be missing.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness.envs.local.loopback import Block
from harness.errors import EnvError
from harness.healing.heal import leftovers
from harness.healing.journal import state_folder
from harness.processes.procfs import PROC, identify
from krucible.doctor import environments as doctor_hosts
from krucible.doctor.finding import Finding

PYTHON_MIN = (3, 11)
JAVA_MIN = 17
FSYNC_SAMPLES = 50
FSYNC_SLOW_MS = 10.0
CORES_MIN = 2
DESCRIPTORS_MIN = 4096
NODES_USUAL = 7
_COMMAND_TIMEOUT_S = 15
_CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FAKETIME_LIBRARIES = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)


def examine(folder: Path | None = None) -> list[Finding]:
    """Look at everything, in a second or two; changes nothing.

    Args:
        folder: Where runs would be stored, for the disk check; None: the current folder.
    """
    disk = Path.cwd() if folder is None else folder
    checks: list[Callable[[], Finding]] = [
        check_python,
        check_cores,
        check_proc,
        check_loopback,
        check_descriptors,
        check_state,
        lambda: check_fsync(disk),
        check_java,
        check_chromium,
        check_faketime,
        *doctor_hosts.checks(),
        check_leftovers,
    ]
    return [check() for check in checks]


# --------------------------------------------------------------------------- needed by every run


def check_python() -> Finding:
    """Python is new enough."""
    detail = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info >= PYTHON_MIN:
        return Finding("python", "ok", detail)
    wanted = ".".join(map(str, PYTHON_MIN))
    return Finding("python", "bad", detail, f"install Python {wanted} or newer")


def check_cores() -> Finding:
    """Check that there are enough cores, so that nodes and harness do not starve each other."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    detail = f"{cores} usable"
    if cores and cores >= CORES_MIN:
        return Finding("cores", "ok", detail)
    return Finding("cores", "warn", detail, "use a low --rate, or elections will be slow to settle")


def check_proc() -> Finding:
    """Processes can be identified and signalled without a race."""
    me = identify(os.getpid())
    if me is None:
        return Finding(
            "processes", "bad", f"cannot read {PROC}/self/stat", "run on Linux with /proc mounted"
        )
    try:
        os.close(os.pidfd_open(me.pid))
    except (OSError, AttributeError) as error:
        return Finding("processes", "bad", f"pidfd_open: {error}", "use Linux 5.3 or newer")
    return Finding("processes", "ok", f"/proc and pidfd work, kernel {platform.release()}")


def check_loopback() -> Finding:
    """A run's loopback addresses can be bound."""
    try:
        block = Block.reserve(NODES_USUAL)
    except EnvError as error:
        return Finding("loopback", "bad", str(error), "run on Linux, and end what holds the ports")
    first = f"{block.node(1)}:{block.port}"
    block.release()
    return Finding("loopback", "ok", f"addresses for {NODES_USUAL} nodes are free from {first}")


def check_descriptors() -> Finding:
    """Enough files may be open for long cuts, during which connections pile up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    detail = f"{soft} open files, at most {hard}"
    if hard == resource.RLIM_INFINITY or hard >= DESCRIPTORS_MIN:
        return Finding("descriptors", "ok", detail)
    return Finding("descriptors", "warn", detail, f"raise it: ulimit -Hn {DESCRIPTORS_MIN}")


def check_state() -> Finding:
    """The heal journal can be written."""
    folder = state_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Finding(
            "heal journal",
            "bad",
            f"{folder}: {error.strerror}",
            "set KRUCIBLE_STATE to a folder that can be written",
        )
    return Finding("heal journal", "ok", str(folder))


def check_fsync(folder: Path) -> Finding:
    """The disk of the store is quick enough that nodes do not wait for it all the time."""
    try:
        times_ms = _fsync_times_ms(folder)
    except OSError as error:
        return Finding(
            "disk", "bad", f"{folder}: {error.strerror}", "choose another folder: --store DIR"
        )
    median_ms = statistics.median(times_ms)
    detail = (
        f"{folder}: fsync median {median_ms:.2f} ms, slowest {max(times_ms):.1f} ms "
        f"of {len(times_ms)}"
    )
    if median_ms < FSYNC_SLOW_MS:
        return Finding("disk", "ok", detail)
    return Finding(
        "disk", "warn", detail, "put the store on a faster disk: --store DIR, e.g. on a tmpfs"
    )


# --------------------------------------------------------------------------- needed by some runs


def check_java() -> Finding:
    """A Java new enough for Spark (``krucible analyze``) and for Apache Kafka."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    remedy = f"for krucible analyze and Apache Kafka: install a Java {JAVA_MIN}+ runtime"
    if java is None:
        return Finding("java", "warn", "no java on PATH, and JAVA_HOME is not set", remedy)
    output = _output([java, "-version"])
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    if match is None:
        return Finding("java", "warn", f"{java} does not work: {_first_line(output)}", remedy)
    if int(match[1]) < JAVA_MIN:
        return Finding("java", "warn", f"{java} is version {match[1]}", remedy)
    return Finding("java", "ok", f"{java}: {_first_line(output)}")


def check_chromium() -> Finding:
    """A browser for the tests of the reports."""
    named = os.environ.get("CHROMIUM")
    found = named or next(filter(None, map(shutil.which, _CHROMIUM_NAMES)), None)
    remedy = "only the browser tests need it: install chromium, or set CHROMIUM to its path"
    if found is None:
        return Finding("chromium", "warn", "not on PATH", remedy)
    output = _output([found, "--version"])
    if not re.search(r"\d+\.\d+", output):
        return Finding("chromium", "warn", f"{found}: {_first_line(output)}", remedy)
    return Finding("chromium", "ok", f"{found}: {_first_line(output)}")


def check_faketime() -> Finding:
    """The library that moves a single process's clock."""
    libraries = [
        path for pattern in _FAKETIME_LIBRARIES for path in sorted(Path("/").glob(pattern[1:]))
    ]
    if libraries:
        return Finding("faketime", "ok", str(libraries[0]))
    return Finding(
        "faketime", "warn", "libfaketime is not installed", "for clock faults: install faketime"
    )


def check_leftovers() -> Finding:
    """No dead run has left processes or faults behind."""
    found = leftovers()
    if not found:
        return Finding("leftovers", "ok", "none")
    kinds = sorted({f"{item.kind} of run {item.run}" for item in found})
    return Finding("leftovers", "warn", f"{len(found)}: {', '.join(kinds)}", "krucible heal")


# --------------------------------------------------------------------------- helpers


def _fsync_times_ms(folder: Path) -> list[float]:
    times_ms = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(FSYNC_SAMPLES):
            file.write(b"x" * 512)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            times_ms.append((time.perf_counter() - began) * 1000)
    return times_ms


def _output(argv: list[str]) -> str:
    """Tell what a command says on either stream; its failure in words."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False
        )
    except OSError as error:
        return str(error.strerror)
    except subprocess.TimeoutExpired:
        return f"no answer within {_COMMAND_TIMEOUT_S} s"
    return done.stdout + done.stderr


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0] or "it printed nothing"
