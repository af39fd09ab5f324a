"""Apache Kafka where nodes do not see this host's files: what of them its processes need.

In containers and on ssh hosts it is the release of this host, with our agent; or, with
``krucible.kafka.image``, an image's own Java and jars, as ``apache/kafka`` has them, with our agent
and our logging beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.contracts.hosts import JavaProgram
from harness.errors import UsageError
from harness.systems.kafka.distribution import JAVA_MIN, KafkaDist

IMAGE: Final = "krucible.kafka.image"  # that nodes run in; none: this host's jars are mounted
IMAGE_JARS: Final = "/opt/kafka/libs"  # where images of Kafka have them


def check_image(settings: Mapping[str, str]) -> None:
    """Raise UsageError for an image without a name."""
    if settings.get(IMAGE) == "":
        raise UsageError(f"--set {IMAGE}: want the name of an image, as apache/kafka:4.1.2")


def program_of(dist: KafkaDist, agent: Path | None, settings: Mapping[str, str]) -> JavaProgram:
    """Tell what the processes of a Kafka need; ``agent`` is its jar, if they have one."""
    image = settings.get(IMAGE)
    own = [] if agent is None else [agent.parent]
    quick = [dist.archive] if image is None and dist.archive.exists() else []
    return JavaProgram(
        java=dist.java,
        version_min=JAVA_MIN,
        files=(dist.jars, dist.logging, *own, *quick),
        image=image,
        in_image={dist.jars: IMAGE_JARS},
        image_has=(f"{IMAGE_JARS}/kafka-raft-{dist.release.version}.jar",),
    )
