"""The Java files beside Kafka's classes, compiled once into the cache.

``java/seam`` has what Python and Java speak of, with types of the JDK alone; the layers of
``java/release`` that are for a release are compiled against its jars. A JDK's javac does it, else
the compiler of Eclipse, which Maven brings and a plain Java runs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.systems.kafka.distribution import (
    KAFKA_VERSION,
    KafkaDist,
    KafkaMissingError,
    fetch_jars,
)
from harness.systems.kafka.simulated.layers import sources_of

SOURCES = Path(__file__).parent.parent / "java"
SEAM, RELEASE = SOURCES / "seam", SOURCES / "release"
COMPILER = ("org.eclipse.jdt", "ecj", "3.37.0")
JAVA_LEVEL = "17"
_NOT_OURS = ("log4j-",)  # what Kafka logs goes to the simulation
_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Classes:
    """The place of the classes of a release."""

    seam: Path
    own: Path
    jars: tuple[Path, ...]


def classes(dist: KafkaDist) -> Classes:
    """Find the compiled classes for a Kafka, or compile them; raises KafkaMissingError."""
    jars = sorted((dist.home / "lib").glob("*.jar"))
    kept = tuple(jar for jar in jars if not jar.name.startswith(_NOT_OURS))
    seam = _compiled(dist, "seam", sorted(SEAM.rglob("*.java")), ())
    own = _compiled(dist, "sim", sources_of(RELEASE, KAFKA_VERSION), (seam, *kept))
    return Classes(seam, own, kept)


def _compiled(dist: KafkaDist, name: str, sources: Sequence[Path], against: Sequence[Path]) -> Path:
    digest = hashlib.sha256("\n".join(map(str, against)).encode())
    for source in sources:
        digest.update(source.read_bytes())
    home = dist.home.parent / f"{dist.home.name}-{name}-{digest.hexdigest()[:12]}"
    if home.is_dir():
        return home
    with tempfile.TemporaryDirectory(prefix=".compile-", dir=home.parent) as scratch:
        made = Path(scratch) / "classes"
        made.mkdir()
        path = os.pathsep.join(map(str, against))
        options = ["-nowarn", "-proc:none", "-d", str(made), "-cp", path or "."]
        argv = [*_compiler(dist), *options, *map(str, sources)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise KafkaMissingError(
                f"javac failed on {name}: {(done.stdout + done.stderr)[-2000:]}"
            )
        try:
            made.rename(home)
        except OSError:
            if not home.is_dir():  # else another process was faster
                raise
    return home


def _compiler(dist: KafkaDist) -> list[str]:
    javac = shutil.which("javac")
    if javac is not None:
        return [javac, "--release", JAVA_LEVEL]
    folder = fetch_jars("ecj", [COMPILER])
    jar = next(folder.glob("ecj-*.jar"))
    return [str(dist.java), "-jar", str(jar), f"-{JAVA_LEVEL}"]
