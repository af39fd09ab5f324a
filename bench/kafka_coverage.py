"""Measure how much of Apache Kafka's own code the swarm comes to, and what it never enters.

    python bench/kafka_coverage.py [--version 4.4.0] [--seeds 1..100] [--workload NAME]

Seeds of the generic swarm are simulated with JaCoCo's agent in the JVM, one after the other. What
is never entered can have any bug: a table tells the lines and branches of each package of the raft
client, the controller and the image that were come to, and a list names methods of three lines and
more that were not. Seeds may be red (docs/findings.md); that is nothing to this program. Prints one
JSON object as the last line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET  # JaCoCo's own report, which we have just had written
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.kafka_mutation import FOLDERS, OF_KAFKA, jars_of
from bench.support.figures import say, table
from harness.systems.kafka.distribution import KafkaDist, fetch_classes, fetch_jars
from harness.systems.kafka.releases import KNOWN, Release

JACOCO: Final = "org.jacoco"
VERSION: Final = "0.8.13"
MAIN: Final = "org.jacoco.cli.internal.Main"
AGENT: Final = "jacocoagent.jar"  # in the jar of the agent
HEAD: Final = ("package", "lines", "come to", "branches", "come to")
SHOWN_MIN: Final = 3  # lines of a method
OF_BROKERS: Final = ("raft/internals/KafkaRaftLog", "metadata/KRaftMetadataCache")  # not simulated


@dataclass(slots=True)
class Count:
    """How many lines and branches there are, and how many were come to."""

    lines: int = 0
    lines_reached: int = 0
    branches: int = 0
    branches_reached: int = 0

    def add(self, counters: dict[str, tuple[int, int]]) -> None:
        """Count more: how many were missed and reached, by JaCoCo's kinds."""
        for kind in ("LINE", "BRANCH"):
            missed, reached = counters.get(kind, (0, 0))
            if kind == "LINE":
                self.lines += missed + reached
                self.lines_reached += reached
            else:
                self.branches += missed + reached
                self.branches_reached += reached


def played(agent: Path, data: Path, arguments: argparse.Namespace) -> None:
    """Simulate the seeds; what was executed is in ``data`` then."""
    told = f"-javaagent:{agent}=destfile={data},includes=org.apache.kafka.*"
    with tempfile.TemporaryDirectory(prefix="krucible-coverage-") as store:
        argv = [sys.executable, "-m", "krucible", "sim", "--system", "kafka", "--jobs", "1"]
        argv += ["--kafka-version", arguments.version, "--seeds", arguments.seeds]
        argv += ["--store", store]
        argv += ["--workload", arguments.workload] if arguments.workload else []
        environment = {**os.environ, "JAVA_TOOL_OPTIONS": told}
        subprocess.run(argv, env=environment, stdout=sys.stderr, check=False)
    if not data.exists():
        sys.exit("nothing was simulated: see above")


def report(dist: KafkaDist, cli: Path, data: Path, folder: Path) -> ET.Element:
    """Have JaCoCo write its report, and read it."""
    place = folder / "report.xml"
    jars = [part for jar in jars_of(dist) for part in ("--classfiles", str(jar))]
    argv = [
        str(dist.java),
        "-cp",
        f"{cli}/*",
        MAIN,
        "report",
        str(data),
        *jars,
        "--xml",
        str(place),
    ]
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    return ET.parse(place).getroot()  # noqa: S314


def counters(element: ET.Element) -> dict[str, tuple[int, int]]:
    """Give missed and reached of an element, by kind."""
    return {
        each.attrib["type"]: (int(each.attrib["missed"]), int(each.attrib["covered"]))
        for each in element.findall("counter")
    }


def classes(root: ET.Element) -> Iterator[tuple[str, ET.Element]]:
    """Give the classes that are looked at, each with its package."""
    for package in root.iter("package"):
        folder = package.attrib["name"].removeprefix(OF_KAFKA)
        if folder in FOLDERS:
            for each in package.findall("class"):
                name = each.attrib["name"].removeprefix(OF_KAFKA)
                if "Metrics" not in name and not name.startswith(OF_BROKERS):
                    yield folder, each


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", default=KNOWN[-1], help="release of Apache Kafka")
    parser.add_argument("--seeds", default="1..100", help="as krucible sim takes them")
    parser.add_argument("--workload", help="of all seeds; else as each draws it")
    arguments = parser.parse_args()
    dist = fetch_classes(Release(arguments.version))
    cli = fetch_jars("jacoco-cli", [(JACOCO, "org.jacoco.cli", VERSION)])
    of_agent = fetch_jars("jacoco-agent", [(JACOCO, "org.jacoco.agent", VERSION)])
    with tempfile.TemporaryDirectory(prefix="krucible-coverage-") as scratch:
        folder = Path(scratch)
        with zipfile.ZipFile(next(of_agent.glob("org.jacoco.agent-*.jar"))) as jar:
            jar.extract(AGENT, folder)
        say(f"playing seeds {arguments.seeds} of {arguments.version}")
        played(folder / AGENT, folder / "executed", arguments)
        root = report(dist, cli, folder / "executed", folder)
    by_package: dict[str, Count] = {}
    total, never = Count(), list[tuple[int, str]]()
    for package, each in classes(root):
        by_package.setdefault(package, Count()).add(counters(each))
        total.add(counters(each))
        name = each.attrib["name"].removeprefix(OF_KAFKA)
        for method in each.findall("method"):
            missed, reached = counters(method).get("LINE", (0, 0))
            if reached == 0 and missed >= SHOWN_MIN:
                never.append((missed, f"{name}.{method.attrib['name']}"))
    rows = [*sorted(by_package.items()), ("all", total)]
    print(
        table(
            HEAD,
            [
                (
                    *(name, f"{c.lines:,}", f"{c.lines_reached / max(1, c.lines):.0%}"),
                    *(f"{c.branches:,}", f"{c.branches_reached / max(1, c.branches):.0%}"),
                )
                for name, c in rows
            ],
        )
    )
    print("never entered:")
    for lines, name in sorted(never, key=lambda each: (-each[0], each[1])):
        print(f"  {lines:>4} {name}")
    told = {"lines": total.lines, "lines_reached": total.lines_reached}
    told |= {"branches": total.branches, "branches_reached": total.branches_reached}
    print(json.dumps({"version": arguments.version, "seeds": arguments.seeds, **told}))


if __name__ == "__main__":
    main()
