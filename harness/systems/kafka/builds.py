"""``fetch_builds`` gets the releases that a run starts, each with its agent.

``said_release`` reads which release a process says it is: Kafka's ``AppInfoParser`` logs that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.systems.kafka import agent
from harness.systems.kafka.distribution import KafkaDist, fetch_classes, ready
from harness.systems.kafka.releases import all_releases

_SAYS: Final = re.compile(rb"AppInfoParser[^\n]*: Kafka version: (\S+)\n")


@dataclass(frozen=True, slots=True)
class Build:
    """A release that can be started as processes; the agent is None where there shall be none."""

    dist: KafkaDist
    agent: Path | None


def fetch_builds(settings: Mapping[str, str]) -> dict[str, Build]:
    """Find all releases of a run, by what they are called, or fetch them.

    Raises:
        KafkaMissingError: One cannot be had; says what is missing.
    """
    found = {}
    for release in all_releases(settings):
        dist = ready(fetch_classes(release))
        found[str(release)] = Build(dist, agent.agent_jar(dist) if agent.is_on(settings) else None)
    return found


def said_release(log: Path, begin: int) -> str | None:
    """Tell what the process that logs from a byte on says of its release; None: nothing yet."""
    try:
        with log.open("rb") as file:
            file.seek(begin)
            found = _SAYS.search(file.read())
    except FileNotFoundError:
        return None
    return None if found is None else found[1].decode()
