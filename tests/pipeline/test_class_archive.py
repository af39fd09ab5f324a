"""What a JVM makes of Spark's classes is kept, and the next one maps it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline import class_archive
from pipeline.spark import java_home

# Says which archive the JVM has mapped, and how long its classes took to be had, in ms.
SESSION = """
import sys
from pathlib import Path
from pyspark import SparkContext
from pipeline.spark import spark_session
with spark_session(master="local[1]", brief=True, cache=Path(sys.argv[1])) as spark:
    assert spark.range(9).selectExpr("sum(id)").first()[0] == 36
    maps = Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text()
    print("mapped", *{line.split()[-1] for line in maps.splitlines() if ".jsa" in line})
process = SparkContext._gateway and SparkContext._gateway.proc
print("lives", process is not None)
"""


def session(cache: Path) -> list[str]:
    """The lines that a session with this cache says."""
    command = [sys.executable, "-W", "ignore", "-c", SESSION, str(cache)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return ended.stdout.splitlines()


def has_base(folder: Path) -> bool:
    return (java_home(folder) / class_archive._BASE).is_file()


@pytest.mark.spark
@pytest.mark.slow
def test_the_first_session_leaves_an_archive_that_the_next_one_maps(tmp_path: Path) -> None:
    if not has_base(tmp_path / "java"):
        pytest.skip("this Java has no archive of its own classes")
    cache = tmp_path / "cache"
    first = session(cache)
    (archive,) = cache.iterdir()
    assert str(archive) not in first[0]
    assert first[1] == "lives False", "it ends, so as to write the archive"
    assert session(cache)[0].split()[1:].count(str(archive)) == 1


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_an_archive_that_is_no_good_costs_nothing_but_time(tmp_path: Path) -> None:
    java = java_home(tmp_path / "java")
    cache = tmp_path / "cache"
    cache.mkdir()
    archive = cache / f"spark-{class_archive._key(java)}.jsa"
    archive.write_bytes(b"not an archive")
    told = session(cache)
    assert told[0].startswith("mapped")
    assert str(archive) not in told[0]
    assert all(line.split()[0] in ("mapped", "lives") for line in told), "not a word from Java"


def test_archives_that_nobody_uses_are_let_go(tmp_path: Path) -> None:
    draft, cache = tmp_path / "draft.jsa", tmp_path / "cache"
    cache.mkdir()
    old, used = cache / "spark-old.jsa", cache / "spark-used.jsa"
    for path in (draft, old, used):
        path.write_bytes(b"x")
    long_ago = time.time() - class_archive._UNUSED_S - 60
    os.utime(old, (long_ago, long_ago))
    class_archive._keep(draft, cache / "spark-new.jsa")
    assert {path.name for path in cache.iterdir()} == {"spark-new.jsa", "spark-used.jsa"}


def test_the_key_is_of_a_java_and_a_spark(tmp_path: Path) -> None:
    keys = set()
    for release in ('JAVA_VERSION="17.0.1"', 'JAVA_VERSION="17.0.2"'):
        (tmp_path / "release").write_text(release)
        keys.add(class_archive._key(tmp_path))
    assert len(keys) == 2
    assert class_archive._key(tmp_path) in keys
