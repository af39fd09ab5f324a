"""JVMs in containers: what is mounted, what an image brings, and what is said when it cannot."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.contracts.hosts import JavaProgram
from harness.envs.docker.engine import Engine
from harness.envs.docker.heal import RUN_LABEL
from harness.envs.docker.image import ensure
from harness.envs.docker.java import JavaHere
from harness.errors import EnvError
from tests.support.docker.cluster import need_engine

NAME = f"krucible-test-java-{os.getpid()}"
LABELS = {RUN_LABEL: NAME, "krucible.state": "/nowhere"}


def fake_java(folder: Path, said: str) -> Path:
    """A program in the place of ``java``, which says its version so."""
    java = folder / "jvm" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{said}\n")
    java.chmod(0o755)
    return java


def test_an_image_has_its_own_java_and_jars_and_gets_the_rest(tmp_path: Path) -> None:
    java, jars, rest = tmp_path / "java", tmp_path / "lib", tmp_path / "agent"
    program = JavaProgram(
        java, 17, (jars, rest), image="kafka:1", in_image={jars: "/opt/kafka/libs"}
    )
    here = JavaHere(program)
    assert here.mounts == [rest]
    argv = [str(java), "-cp", f"{jars}/*", f"-javaagent:{rest}/a.jar"]
    there = ["java", "-cp", "/opt/kafka/libs/*", f"-javaagent:{rest}/a.jar"]
    assert list(map(here.translate, argv)) == there


@pytest.fixture(name="engine")
def _engine() -> Iterator[Engine]:
    need_engine()
    with contextlib.closing(Engine.connect()) as engine:
        yield engine
        engine.remove(NAME)


@pytest.mark.docker
@pytest.mark.slow
def test_a_java_of_this_host_is_tried_before_nodes_start(engine: Engine, tmp_path: Path) -> None:
    java = fake_java(tmp_path, 'echo "openjdk version \\"17.0.1\\""')
    library, image = tmp_path / "out" / "lib.so", ensure(engine)
    library.parent.mkdir()
    JavaHere(JavaProgram(java, 17, ())).check(engine, NAME, image, LABELS, library)
    assert library.read_bytes().startswith(b"\x7fELF"), "the image's libfaketime"


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize(
    ("says", "in_image", "said"),
    [
        ('echo "openjdk version \\"11.0.1\\""', False, "has Java 11: want 17 or newer"),
        ("echo no such C library; exit 1", False, "no Java runs in image krucible-node:"),
        ("exit 0", True, "want an image with java on its path"),
    ],
)
def test_a_java_that_will_not_do_says_why(
    engine: Engine, tmp_path: Path, says: str, in_image: bool, said: str
) -> None:
    java, image = fake_java(tmp_path, says), ensure(engine)
    program = JavaProgram(java, 17, (), image=image if in_image else None)
    with pytest.raises(EnvError, match=re.escape(said)):
        JavaHere(program).check(engine, NAME, image, LABELS, tmp_path / "lib.so")
