"""The JVM inside this process, and Kafka's releases in it, each in a class loader of its own.

A JVM can be started once in a process, and none survives a fork: whoever simulates in processes of
its own must fork them before the first simulation of Kafka, or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from harness.errors import EnvError
from harness.processes.outlook import expected
from harness.systems.kafka.compiled import Classes, classes
from harness.systems.kafka.distribution import KafkaDist, KafkaMissingError, fetch_classes
from harness.systems.kafka.releases import Release
from harness.systems.kafka.simulated.bridge import bridge, is_there
from node.wire.api import ApiRange, ApiTable, table

APIS: Final = "org.apache.kafka.raft.SimApis"
REPLICA: Final = "org.apache.kafka.raft.SimReplica"
OPTIONS: Final = (
    "-Xmx768m",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xrs",  # signals are Python's
    "-XX:+DisableAttachMechanism",  # else -Xrs has a socket made in /tmp, which a killed JVM leaves
    "-Xlog:disable",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    # for ``Chance``: compiled code has the salt in it, and some is compiled before we come
    "-XX:CompileCommand=quiet",
    *(
        f"-XX:CompileCommand=exclude,java/util/ImmutableCollections${name},*"
        for name in ("Set12$1", "SetN$SetNIterator", "MapN$MapNIterator", "MapN$1")
    ),
)
# Without the slow compiler (C2), and without the profile that it needs of all code before.
BRIEF: Final = ("-XX:TieredStopAtLevel=1",)
MANY: Final = 40  # simulations: with fewer C2 costs more than it saves
_started: list[int] = []  # in which process
_patches: list[Path] = []


def missing(*releases: Release) -> str | None:
    """Say in one line what is missing to simulate releases, and how to get it; None: nothing."""
    if not is_there():
        return "JPype1 is missing, to run Kafka in the simulator: pip install 'krucible[kafka]'"
    try:
        for each in releases:
            _distribution(each)
    except KafkaMissingError as error:
        return f"{error}; then `make kafka`"
    return None


@cache
def _distribution(release: Release) -> KafkaDist:
    return fetch_classes(release)


class Loaded:
    """A release of Kafka in the JVM of this process, beside others."""

    def __init__(self, found: Classes) -> None:
        jpype = self._jpype = bridge()
        url = jpype.JClass("java.net.URLClassLoader")
        paths = [found.own, *_patches, *found.jars]
        urls = [jpype.JClass("java.io.File")(str(path)).toURI().toURL() for path in paths]
        loader = url(jpype.JArray(jpype.JClass("java.net.URL"))(urls), _system_loader(jpype))
        replica = jpype.JClass("java.lang.Class").forName(REPLICA, True, loader)
        self._make = replica.getDeclaredConstructors()[0]
        told = jpype.JClass("java.lang.Class").forName(APIS, True, loader)
        versions = [int(each) for each in told.getMethod("versions").invoke(None)]
        self._recode = told.getMethod("recode", *_types(jpype))
        rows = zip(*[iter(versions)] * 3, strict=True)
        self.apis: ApiTable = table(ApiRange(*row) for row in rows)

    def replica(
        self, settings: Mapping[str, str], identity: Mapping[str, str], disk: object
    ) -> Any:
        """A ``krucible.Replica`` of this release, with a ``krucible.Disk``."""
        jpype = self._jpype
        return self._make.newInstance(_map(jpype, settings), _map(jpype, identity), disk)

    def class_of(self, name: str) -> Any:
        """One of its classes, by the whole name."""
        loader = self._make.getDeclaringClass().getClassLoader()
        return self._jpype.JClass("java.lang.Class").forName(name, True, loader)

    def recode(
        self, api_key: int, was: int, wanted: int, body: bytes, *, is_request: bool
    ) -> bytes | None:
        """Write a request or an answer in another version; None: it cannot be said in that."""
        jpype = self._jpype
        args = (
            jpype.JBoolean(is_request),
            *(jpype.JShort(each) for each in (api_key, was, wanted)),
            jpype.JArray(jpype.JByte)(body),
        )
        made = self._recode.invoke(None, *args)
        return None if made is None else bytes(made)


def patch(folder: Path) -> None:
    """Have classes of a folder in the place of those of Kafka's jars, in releases loaded later."""
    _patches.append(folder)


@cache
def loaded(release: Release) -> Loaded:
    """Load a release, which is fetched if need be; starts the JVM. Raises EnvError."""
    why = missing(release)
    if why is not None:
        raise EnvError(why)
    try:
        found = classes(_distribution(release))
    except KafkaMissingError as error:
        raise EnvError(f"Apache Kafka {release} does not go in the simulator: {error}") from error
    _start(found.seam, _distribution(release).java)
    return Loaded(found)


def options(simulations: int) -> tuple[str, ...]:
    """Give the options of a JVM that is to serve so many simulations."""
    return OPTIONS if simulations >= MANY else (*OPTIONS, *BRIEF)


def _start(seam: Path, java: Path) -> None:
    jpype = bridge()
    if _started == [os.getpid()]:
        return
    if _started:
        raise EnvError("this process was forked from one with a JVM: it cannot simulate Kafka")
    if jpype.isJVMStarted():
        raise EnvError("this process has a JVM already, which krucible did not start")
    library = java.resolve().parent.parent / "lib" / "server" / "libjvm.so"
    path = str(library) if library.exists() else jpype.getDefaultJVMPath()
    jpype.startJVM(path, *options(expected()), classpath=[str(seam)], convertStrings=False)
    _started.append(os.getpid())
    jpype.JClass("krucible.Chance").fix()


def _system_loader(jpype: Any) -> Any:
    return jpype.JClass("java.lang.ClassLoader").getSystemClassLoader()


def _types(jpype: Any) -> Any:
    """Name the arguments of ``recode``, as Java looks for them."""
    short = jpype.JClass("java.lang.Short").TYPE
    return (
        jpype.JClass("java.lang.Boolean").TYPE,
        short,
        short,
        short,
        jpype.JArray(jpype.JByte).class_,
    )


def _map(jpype: Any, values: Mapping[str, str]) -> Any:
    made = jpype.JClass("java.util.HashMap")()
    for key, value in values.items():
        made.put(key, value)
    return cast("Any", made)
