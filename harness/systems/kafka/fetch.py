"""Fetches all that runs of a release need: ``python -m harness.systems.kafka.fetch [VERSION]``."""

from __future__ import annotations

import sys

from harness.errors import UsageError
from harness.systems.kafka.agent import agent_jar
from harness.systems.kafka.distribution import KafkaMissingError, fetch_classes, ready
from harness.systems.kafka.releases import DEFAULT, Release, released


def main(version: str) -> None:
    """Fetch a release and make its agent; the default one starts quickly."""
    release = Release(released(version))
    found = fetch_classes(release)
    agent_jar(found)
    home = (ready(found) if version == DEFAULT else found).home
    sys.stdout.write(f"Apache Kafka {version} is in {home}\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1] if sys.argv[1:] else DEFAULT)
    except (KafkaMissingError, UsageError) as missing:
        sys.exit(str(missing))
