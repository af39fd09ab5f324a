"""An image of Apache Kafka's own, as ``apache/kafka`` is: its own Java, its jars, another user.

It is made of what this host has, without a registry: a Java of jlink, and the jars of a release.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.envs.docker.engine import Engine
from harness.envs.docker.image import base_image
from harness.systems.kafka.distribution import KafkaDist

_DOCKERFILE = """\
FROM {base}
COPY java /opt/java/openjdk
COPY libs /opt/kafka/libs
ENV JAVA_HOME=/opt/java/openjdk PATH=/opt/java/openjdk/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER 1000
VOLUME ["/etc/kafka/secrets", "/etc/kafka/docker"]
ENTRYPOINT ["/bin/false"]
CMD ["/etc/kafka/docker/run"]
"""


@contextlib.contextmanager
def kafka_image(folder: Path, dist: KafkaDist) -> Iterator[str]:
    """Make such an image of a release, and give its name; it is removed at the end."""
    jlink = shutil.which("jlink")
    if jlink is None:
        pytest.skip("no jlink here: apt-get install openjdk-17-jdk-headless")
    folder.mkdir()
    modules = ["--add-modules", "ALL-MODULE-PATH", "--strip-debug", "--no-man-pages"]
    subprocess.run(
        [jlink, *modules, "--no-header-files", "--output", str(folder / "java")], check=True
    )
    shutil.copytree(dist.jars, folder / "libs")
    with contextlib.closing(Engine.connect()) as engine:
        text = _DOCKERFILE.format(base=base_image(engine))
    (folder / "Dockerfile").write_text(text)
    name = f"krucible-test-kafka-{os.getpid()}:{dist.release.version}"
    subprocess.run(["docker", "build", "--quiet", "--tag", name, str(folder)], check=True)
    try:
        yield name
    finally:
        subprocess.run(["docker", "rmi", "--force", name], check=True, capture_output=True)
