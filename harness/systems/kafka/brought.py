"""Apache Kafka where nodes do not see this host's files: what of them its processes need.

In containers and on ssh hosts it is the release of this host, with our agent; or, with
``krucible.kafka.image``, an image's own Java and jars, as ``apache/kafka`` has them, with our agent
and our logging beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from harness.contracts.hosts import JavaProgram
from harness.errors import UsageError
from harness.systems.kafka.builds import Build
from harness.systems.kafka.distribution import JAVA_MIN

IMAGE: Final = "krucible.kafka.image"  # that nodes run in; none: this host's jars are mounted
IMAGE_JARS: Final = "/opt/kafka/libs"  # where images of Kafka have them


def check_image(settings: Mapping[str, str]) -> None:
    """Raise UsageError for an image without a name."""
    if settings.get(IMAGE) == "":
        raise UsageError(f"--set {IMAGE}: want the name of an image, as apache/kafka:4.1.2")


def program_of(builds: Collection[Build], settings: Mapping[str, str]) -> JavaProgram:
    """Tell what the processes of a run's releases need; in an image there is one of them."""
    image = settings.get(IMAGE)
    dists = [build.dist for build in builds]
    agents = [build.agent.parent for build in builds if build.agent is not None]
    files = (file for dist in dists for file in (dist.jars, dist.logging))
    return JavaProgram(
        java=dists[0].java,
        version_min=JAVA_MIN,
        files=(*files, *agents),
        archives=tuple(dist.archive for dist in dists if dist.archive.exists()),
        image=image,
        in_image={dist.jars: IMAGE_JARS for dist in dists},
        image_has=tuple(f"{IMAGE_JARS}/kafka-raft-{dist.release.version}.jar" for dist in dists),
    )
