"""The Java files beside Kafka's classes, compiled once into the cache.

``java/seam`` has what Python and Java speak of, with types of the JDK alone. The layers for a
release are compiled against its jars: those of ``java/told``, which is what nodes tell, with those
of ``java/release`` for simulated nodes, or those of ``java/agent`` for live ones. Those of
``java/controller``, for whole controllers, and of ``java/images`` come with simulated nodes, and
the latter also with those of agents that tell of images. A JDK's javac does it,
else the compiler of Eclipse, which Maven brings and a plain Java runs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.agent.java import java_version
from harness.systems.kafka.distribution import KafkaDist, KafkaMissingError, fetch_jars
from harness.systems.kafka.layers import sources_of
from harness.systems.kafka.releases import IMAGES_SINCE

SOURCES = Path(__file__).parent / "java"
SEAM, TOLD, RELEASE = SOURCES / "seam", SOURCES / "told", SOURCES / "release"
CONTROLLER, AGENT, IMAGES = SOURCES / "controller", SOURCES / "agent", SOURCES / "images"
COMPILER = ("org.eclipse.jdt", "ecj", "3.37.0")
JAVA_LEVEL = "17"
# what Kafka logs goes to the simulation
_NOT_OURS = ("log4j-", "reload4j-", "slf4j-reload4j-", "slf4j-log4j12-")
_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Classes:
    """The place of the classes of a release."""

    seam: Path
    own: Path
    jars: tuple[Path, ...]


def classes(dist: KafkaDist) -> Classes:
    """Find the compiled classes for a Kafka, or compile them; raises KafkaMissingError."""
    jars = sorted(dist.jars.glob("*.jar"))
    kept = tuple(jar for jar in jars if not jar.name.startswith(_NOT_OURS))
    common = {path.relative_to(SEAM): path.read_text("utf-8") for path in SEAM.rglob("*.java")}
    of_all = dist.home.parent / f"kafka-seam-java{java_version(dist.java)}"
    seam = compiled(dist, of_all, common, ())
    sources = sources_of(dist.release.version, TOLD, RELEASE, CONTROLLER, IMAGES)
    own = compiled(dist, dist.home.with_name(f"{dist.home.name}-sim"), sources, (seam, *kept))
    return Classes(seam, own, kept)


def agent_classes(dist: KafkaDist, *others: Path) -> Path:
    """Find the compiled classes of the agent for a Kafka, or compile them against other jars, too.

    Raises KafkaMissingError.
    """
    roots = (IMAGES,) if dist.release.line >= IMAGES_SINCE else ()
    sources = sources_of(dist.release.version, TOLD, AGENT, *roots)
    jars = sorted(dist.jars.glob("*.jar"))
    return compiled(dist, dist.home.with_name(f"{dist.home.name}-agent"), sources, (*others, *jars))


def compiled(
    dist: KafkaDist, stem: Path, sources: Mapping[Path, str], against: Sequence[Path]
) -> Path:
    """Compile Java files into the cache, or find them there: ``stem`` and a hash of all.

    Args:
        dist: The Kafka whose Java runs the compiler, where there is no javac.
        stem: The folder, but for the hash.
        sources: The files, by their places in a tree of packages.
        against: The jars and folders of what they use.

    Raises:
        KafkaMissingError: It cannot be compiled; with what the compiler says.
    """
    digest = hashlib.sha256("\n".join(map(str, against)).encode())
    for place in sorted(sources):
        digest.update(sources[place].encode())
    home = stem.with_name(f"{stem.name}-{digest.hexdigest()[:12]}")
    if home.is_dir():
        return home
    with tempfile.TemporaryDirectory(prefix=".compile-", dir=home.parent) as scratch:
        made, read = Path(scratch) / "classes", Path(scratch) / "java"
        made.mkdir()
        for place, text in sources.items():
            (read / place).parent.mkdir(parents=True, exist_ok=True)
            (read / place).write_text(text, encoding="utf-8")
        path = os.pathsep.join(map(str, against))
        options = ["-nowarn", "-proc:none", "-d", str(made), "-cp", path or "."]
        argv = [*_compiler(dist), *options, *map(str, sorted(sources))]
        done = subprocess.run(
            argv, cwd=read, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise KafkaMissingError(
                f"javac failed for {stem.name}: {(done.stdout + done.stderr)[-2000:]}"
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
