"""A standalone Spark cluster on loopback: one master, some workers, all stopped at the end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from pipeline.spark import LOOPBACK, java_home

START_S = 120
# Each of its JVMs lives for seconds: a second compiler would take a third of all that it does.
_BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Registering worker")
_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@contextmanager
def standalone_cluster(folder: Path, workers: int, cores: int = 1) -> Iterator[str]:
    """Start a cluster; gives the address of its master once all workers are registered."""
    environ = {
        **{name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"},
        "JAVA_HOME": str(java_home(folder / "java")),
        "JDK_JAVA_OPTIONS": _BRIEF,  # which the workers hand on to the executors
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYSPARK_PYTHON": sys.executable,
    }
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(_daemon(log, environ, "master.Master", "--port", "0"))
        address = _wait(log, _MASTER, 1)[0]
        for number in range(workers):
            work = folder / f"worker-{number}"
            options = ("--cores", str(cores), "--memory", "1g", "--work-dir", str(work), address)
            stack.enter_context(
                _daemon(folder / f"{number}.log", environ, "worker.Worker", *options)
            )
        _wait(log, _REGISTERED, workers)
        yield address


@contextmanager
def _daemon(log: Path, environ: dict[str, str], name: str, *options: str) -> Iterator[None]:
    command = [str(_CLASS), f"org.apache.spark.deploy.{name}"]
    command += ["--host", LOOPBACK, "--webui-port", "0", *options]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environ, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.kill()  # it keeps nothing; executors end when their worker is gone
        process.wait()


def _wait(log: Path, sign: re.Pattern[str], count: int) -> list[str]:
    """Wait until a log has told of something so often; gives what it said."""
    deadline = time.monotonic() + START_S
    while len(found := sign.findall(log.read_text(errors="replace"))) < count:
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.1)
    return found
