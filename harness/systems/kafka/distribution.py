"""Apache Kafka itself, each release fetched once by Maven into a cache outside of the repository.

The cache is ``$KRUCIBLE_KAFKA_DIR``, else ``~/.cache/krucible``. It holds one folder per version
of what is fetched: the jars, the logging configuration, and an archive of loaded classes that
nearly halves the start of a JVM. A folder appears whole or not at all, and once for all processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.agent.java import java_version
from harness.systems.kafka.releases import DEFAULT, Release, line_of

LOG4J_VERSION = "2.24.3"
LOG4J_2_SINCE = (4, 0)  # older ones bring Log4j 1
DEPENDENCY_PLUGIN_VERSION = "3.8.1"
JAVA_MIN = 17
CACHE_VARIABLE = "KRUCIBLE_KAFKA_DIR"
REQUIRE_VARIABLE = "KRUCIBLE_REQUIRE_INTEROP"

SERVER = "kafka.Kafka"
STORAGE_TOOL = "kafka.tools.StorageTool"
STARTED = "Kafka Server started"
CONTROLLER_HEAP_MB = 96
BROKER_HEAP_MB = 256  # its log cleaner alone takes 128

_FETCH_TIMEOUT_S = 300
_WARM = "AAAAAAAAAAAAAAAAAAAAAQ"  # an id of a cluster; older releases take no other form
_START_TIMEOUT_S = 180  # of a JVM whose classes are read for the first time, on a busy host
_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xlog:disable")
_LEAVES_NOTHING = ("-XX:-UsePerfData",)  # a file in /tmp, which stays there when it is killed

_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}"
_EXCLUSION = "<exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion>"
_CONNECT = (
    "org.apache.kafka",
    "connect-runtime",
)  # a third of all jars, for tools that we do not run
_TO_LOG4J_1 = ("org.slf4j", "slf4j-reload4j")  # where logs go without our configuration
_KAFKA = "org.apache.kafka"
_NOT_THERE = f"ould not find artifact {_KAFKA}:kafka_2.13:"  # what Maven says
_LOG4J = "org.apache.logging.log4j"
_POM = (
    "<project><modelVersion>4.0.0</modelVersion>"
    "<groupId>krucible</groupId><artifactId>interop</artifactId><version>1</version>"
    "<packaging>pom</packaging><dependencies>{}</dependencies></project>\n"
)

LOG4J_CONFIG = """\
status = error
appender.main.type = File
appender.main.name = MAIN
appender.main.fileName = ${sys:krucible.log}
appender.main.layout.type = PatternLayout
appender.main.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
rootLogger.level = INFO
rootLogger.appenderRef.main.ref = MAIN
"""


def pom_of(version: str) -> str:
    """Tell Maven what is wanted of a release."""
    old = (_TO_LOG4J_1,) if line_of(version) < LOG4J_2_SINCE else ()
    # Only tests have a use for its shell, with the usual release; not all have one to be fetched.
    shell = ((_KAFKA, "kafka-shell", version, _without(*old)),) if version == DEFAULT else ()
    wanted = (
        (_KAFKA, "kafka_2.13", version, _without(*old)),
        (_KAFKA, "kafka-tools", version, _without(_CONNECT, *old)),
        *shell,
        (_LOG4J, "log4j-core", LOG4J_VERSION, ""),
        (_LOG4J, "log4j-slf4j-impl", LOG4J_VERSION, ""),
    )
    return _POM.format("".join(_DEPENDENCY.format(*each) + "</dependency>" for each in wanted))


def _without(*unwanted: tuple[str, str]) -> str:
    """Tell Maven not to bring what a dependency would; nothing, if there is nothing."""
    told = "".join(_EXCLUSION.format(*each) for each in unwanted)
    return f"<exclusions>{told}</exclusions>" if told else ""


class KafkaMissingError(Exception):
    """Raised when Kafka cannot be run here; says what is missing and how to get it."""


@dataclass(frozen=True)
class KafkaDist:
    """A Kafka that can be run: its cache folder and the ``java`` to run it with."""

    home: Path
    java: Path
    release: Release

    @property
    def jars(self) -> Path:
        """The folder of its jars, which is not in the cache for a build of one's own."""
        return self.release.jars or self.home / "lib"

    @property
    def logging(self) -> Path:
        """The configuration of what its processes print."""
        return self.home / "log4j2.properties"

    @property
    def archive(self) -> Path:
        """Loaded classes of a started server, for quick starts."""
        return self.home / "classes.jsa"

    def argv(
        self,
        main: str,
        *arguments: str | Path,
        log: Path,
        heap_mb: int = CONTROLLER_HEAP_MB,
        archive: str = "",
        agent: str = "",
        logs_its_end: bool = False,
    ) -> list[str]:
        """A command line that runs a main class of Kafka and logs into the file ``log``.

        ``agent`` is the JVM's option for one, if there is any. By default its log ends when it is
        told to stop, as Log4j does it.
        """
        if not archive and self.archive.exists():
            archive = f"-XX:SharedArchiveFile={self.archive}"
        return [
            str(self.java),
            *_QUICK_START,
            *_LEAVES_NOTHING,
            *filter(None, (archive, agent)),
            f"-Xmx{heap_mb}m",
            f"-Dlog4j2.configurationFile={self.logging}",
            f"-Dkrucible.log={log}",
            *(["-Dlog4j.shutdownHookEnabled=false"] if logs_its_end else []),
            "-cp",
            f"{self.jars}/*",
            main,
            *map(str, arguments),
        ]


def fetch(version: str = DEFAULT) -> KafkaDist:
    """Find a Kafka that can be started as processes in the cache, or fetch it.

    Raises:
        KafkaMissingError: There is no Java, no Maven, or Maven could not fetch it.
    """
    return ready(fetch_classes(Release(version)))


def ready(dist: KafkaDist) -> KafkaDist:
    """See to it that processes of a Kafka start quickly; raises KafkaMissingError."""
    if not dist.archive.exists():
        with _locked(dist.home.parent / ".lock"):
            if not dist.archive.exists():  # it remembers where its jars lie: after the renaming
                _archive_classes(dist)
    return dist


def fetch_classes(release: Release) -> KafkaDist:
    """Find the jars of a Kafka in the cache, or fetch them; raises KafkaMissingError."""
    java = _java()
    wanted = pom_of(release.version) if release.jars is None else _look_of(release.jars)
    tag = hashlib.sha256((wanted + LOG4J_CONFIG).encode()).hexdigest()[:8]
    kind = "kafka" if release.jars is None else "own"
    home = cache_folder() / f"{kind}-{release.version}-{tag}-java{java_version(java)}"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        with _locked(home.parent / ".lock"):
            if not home.is_dir():
                _make(home, wanted if release.jars is None else None, f"Apache Kafka {release}")
    return KafkaDist(home, java, release)


def _look_of(jars: Path) -> str:
    """Tell one state of a folder from another: it may be built again and again."""
    stats = ((jar, jar.stat()) for jar in sorted(jars.glob("*.jar")))
    return "\n".join(f"{jar} {stat.st_size} {stat.st_mtime_ns}" for jar, stat in stats)


def fetch_jars(name: str, wanted: Sequence[tuple[str, str, str]]) -> Path:
    """Find other jars (group, artifact, version) in the cache by a name, or fetch them.

    Raises:
        KafkaMissingError: There is no Maven, or it could not fetch them.
    """
    rows = "".join(_DEPENDENCY.format(*each, "") + "</dependency>" for each in wanted)
    pom = _POM.format(rows)
    tag = hashlib.sha256(pom.encode()).hexdigest()[:8]
    home = cache_folder() / f"{name}-{tag}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with _locked(home.parent / ".lock"):
        if not home.is_dir():
            _make(home, pom, name)
    return home / "lib"


def cache_folder() -> Path:
    """Tell where fetched versions of Kafka are kept."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "krucible"


def _java() -> Path:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    if java := shutil.which("java"):
        found.append(Path(java).resolve())
    for candidate in found:
        if (java_version(candidate) or 0) >= JAVA_MIN:
            return candidate
    raise KafkaMissingError(f"Java {JAVA_MIN} or newer is missing: install default-jre-headless")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(home: Path, pom: str | None, what: str) -> None:
    """Fetch into a folder of another name and rename it when it is complete; no pom: no jars."""
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home.parent) as scratch:
        made = Path(scratch) / home.name
        made.mkdir()
        (made / "log4j2.properties").write_text(LOG4J_CONFIG, encoding="utf-8")
        if pom is not None:
            (made / "pom.xml").write_text(pom, encoding="utf-8")
            _resolve(made, what)
        made.rename(home)


def _resolve(folder: Path, what: str) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise KafkaMissingError(f"Maven is missing, to fetch {what}: install maven")
    sys.stderr.write(f"fetching {what} through Maven into the cache, once\n")
    goal = f"org.apache.maven.plugins:maven-dependency-plugin:{DEPENDENCY_PLUGIN_VERSION}"
    argv = [mvn, "-q", "-B", f"{goal}:copy-dependencies", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            [*argv, f"-DoutputDirectory={folder / 'lib'}"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KafkaMissingError(f"Maven did not fetch {what} in {_FETCH_TIMEOUT_S} s") from None
    if _NOT_THERE in done.stdout:
        raise KafkaMissingError(f"Maven finds no {what}: look at the version")
    if done.returncode != 0 or not (folder / "lib").is_dir():
        raise KafkaMissingError(
            f"Maven could not fetch {what} (is the network there?): " + done.stdout.strip()[-500:]
        )


# --------------------------------------------------------------------------- quick starts


def _archive_classes(dist: KafkaDist) -> None:
    """Run a server once, in good order, and keep its loaded classes."""
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=dist.home) as scratch:
        folder = Path(scratch)
        made = folder / "classes.jsa"
        config = folder / "server.properties"
        config.write_text(_warm_config(folder), encoding="utf-8")
        log = folder / "server.log"
        _quietly(dist.argv(STORAGE_TOOL, "format", "-t", _WARM, "-c", config, log=log))
        option = f"-XX:ArchiveClassesAtExit={made}"
        argv = dist.argv(SERVER, config, log=log, heap_mb=BROKER_HEAP_MB, archive=option)
        server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _await_line(log, STARTED, server)
            server.send_signal(signal.SIGTERM)
            server.wait(_START_TIMEOUT_S)
        except TimeoutError as error:
            raise KafkaMissingError(f"Kafka {dist.release} does not start: {error}") from error
        finally:
            server.kill()
            server.wait()
        made.rename(dist.archive)


def _warm_config(folder: Path) -> str:
    broker, controller = _free_ports(2)
    return (
        "process.roles=broker,controller\nnode.id=1\n"
        f"listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
        f"log.dirs={folder / 'data'}\n"
    )


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _quietly(argv: Sequence[str]) -> None:
    subprocess.run(argv, capture_output=True, timeout=_START_TIMEOUT_S, check=True)


def _await_line(log: Path, line: str, server: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while not (log.exists() and line in log.read_text(encoding="utf-8")):
        if server.poll() is not None or time.monotonic() > deadline_s:
            raise TimeoutError(log.read_text(encoding="utf-8")[-500:] if log.exists() else "no log")
        time.sleep(0.02)
