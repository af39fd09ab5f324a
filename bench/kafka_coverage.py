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
from dataclasses import dataclass
from typing import Final

from bench.support.executed import OF_KAFKA, classes, counters, executed
from bench.support.figures import say, table
from harness.systems.kafka.distribution import fetch_classes
from harness.systems.kafka.releases import KNOWN, Release

HEAD: Final = ("package", "lines", "come to", "branches", "come to")
SHOWN_MIN: Final = 3  # lines of a method


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


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", default=KNOWN[-1], help="release of Apache Kafka")
    parser.add_argument("--seeds", default="1..100", help="as krucible sim takes them")
    parser.add_argument("--workload", help="of all seeds; else as each draws it")
    arguments = parser.parse_args()
    dist = fetch_classes(Release(arguments.version))
    say(f"playing seeds {arguments.seeds} of {arguments.version}")
    workload = ("--workload", arguments.workload) if arguments.workload else ()
    root = executed(dist, "--seeds", arguments.seeds, *workload)
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
