"""Keeps what a JVM makes of Spark's classes for the next one: a class-data archive (JEP 350).

To read and to verify some ten thousand classes is a good part of what a short analysis costs. The
first JVM of a Java and a Spark writes the archive when it ends, later ones map it into memory. A
JVM that finds it wanting in any way goes on without.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark
from pyspark import SparkContext

CACHE: Final = Path(".cache", "krucible")  # below the home of the user
_BASE: Final = Path("lib", "server", "classes.jsa")  # of Java's own classes: without it, no other
_SILENT: Final = "-Xlog:disable -Xlog:all=error:stderr"
_UNUSED_S: Final = 30 * 86_400.0
_EXIT_S: Final = 120.0


@contextmanager
def class_archive(java_home: Path, cache: Path, folder: Path) -> Iterator[str]:
    """Options for the JVM that is started in the ``with`` block, and stopped at its end.

    Args:
        java_home: Of that JVM.
        cache: Where archives are kept. One that cannot be written costs time, and nothing else.
        folder: An archive is written here first.
    """
    if SparkContext._gateway is not None or not (java_home / _BASE).is_file():  # noqa: SLF001
        yield ""
        return
    archive = cache / f"spark-{_key(java_home)}.jsa"
    try:
        os.utime(archive)  # it is in use
    except OSError:
        draft = folder / archive.name
        try:
            yield f"-XX:ArchiveClassesAtExit={draft} {_SILENT}"
        except BaseException:
            end_java(at_once=True)  # who waits for an error waits for no archive
            raise
        end_java()
        with suppress(OSError):
            _keep(draft, archive)
    else:
        yield f"-XX:SharedArchiveFile={archive} {_SILENT}"


def end_java(*, at_once: bool = False) -> None:
    """End the JVM of this process, and wait until it has; the next session starts another."""
    gateway = SparkContext._gateway  # noqa: SLF001 - nobody else knows it
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    process: subprocess.Popen[bytes] = gateway.proc
    gateway.shutdown()
    if at_once:
        process.kill()
    if process.stdin is not None:
        process.stdin.close()  # it goes when nobody can write to it any more
    try:
        process.wait(_EXIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _key(java_home: Path) -> str:
    """A name for this Java and this Spark."""
    jars = Path(pyspark.__file__).parent / "jars"
    release = java_home / "release"
    told = [str(java_home), str(jars), pyspark.__version__, str(jars.stat().st_mtime_ns)]
    told.append(release.read_text(encoding="utf-8") if release.is_file() else "")
    return hashlib.blake2b("\n".join(told).encode(), digest_size=8).hexdigest()


def _keep(draft: Path, archive: Path) -> None:
    """Move a whole archive to its place, and let go of those that nobody uses any more."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    beside = archive.with_name(f".{archive.name}.{os.getpid()}.tmp")
    try:
        shutil.move(draft, beside)
        beside.replace(archive)
    finally:
        beside.unlink(missing_ok=True)
    now_s = archive.stat().st_mtime
    for other in archive.parent.glob("spark-*.jsa"):
        if other.stat().st_mtime < now_s - _UNUSED_S:
            other.unlink()
