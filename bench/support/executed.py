"""Runs simulations under JaCoCo, and tells which lines of Kafka's classes they executed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET  # JaCoCo's own report, which we have just had written
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.systems.kafka.distribution import KafkaDist, fetch_jars

JACOCO: Final = "org.jacoco"
VERSION: Final = "0.8.13"
MAIN: Final = "org.jacoco.cli.internal.Main"
AGENT: Final = "jacocoagent.jar"  # in the jar of the agent
OF_KAFKA: Final = "org/apache/kafka/"
FOLDERS: Final = (
    *("raft", "raft/internals", "snapshot", "timeline", "controller", "image", "image/loader"),
    *("image/publisher", "metadata", "metadata/placement"),
)
JARS: Final = ("kafka-raft", "kafka-metadata", "kafka-server-common")
OF_BROKERS: Final = ("raft/internals/KafkaRaftLog", "metadata/KRaftMetadataCache")  # not simulated


def jars_of(dist: KafkaDist) -> list[Path]:
    """Give the jars of the raft client, the controller and the image."""
    return [jar for jar in sorted(dist.jars.glob("*.jar")) if jar.name.startswith(JARS)]


def executed(dist: KafkaDist, *options: str) -> ET.Element:
    """Simulate with options of ``krucible sim``, one seed after the other; the report's root."""
    cli = fetch_jars("jacoco-cli", [(JACOCO, "org.jacoco.cli", VERSION)])
    of_agent = fetch_jars("jacoco-agent", [(JACOCO, "org.jacoco.agent", VERSION)])
    with tempfile.TemporaryDirectory(prefix="krucible-coverage-") as scratch:
        folder = Path(scratch)
        with zipfile.ZipFile(next(of_agent.glob("org.jacoco.agent-*.jar"))) as jar:
            jar.extract(AGENT, folder)
        data = folder / "executed"
        told = f"-javaagent:{folder / AGENT}=destfile={data},includes=org.apache.kafka.*"
        argv = [sys.executable, "-m", "krucible", "sim", "--system", "kafka", "--jobs", "1"]
        argv += ["--kafka-version", dist.release.version, "--store", str(folder / "store")]
        environment = {**os.environ, "JAVA_TOOL_OPTIONS": told}
        subprocess.run([*argv, *options], env=environment, stdout=sys.stderr, check=False)
        if not data.exists():
            sys.exit("nothing was simulated: see above")
        return _report(dist, cli, data, folder / "report.xml")


def _report(dist: KafkaDist, cli: Path, data: Path, place: Path) -> ET.Element:
    jars = [part for jar in jars_of(dist) for part in ("--classfiles", str(jar))]
    options = ["report", str(data), *jars, "--xml", str(place)]
    argv = [str(dist.java), "-cp", f"{cli}/*", MAIN, *options]
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
    for package in _packages(root):
        for each in package.findall("class"):
            name = each.attrib["name"].removeprefix(OF_KAFKA)
            if "Metrics" not in name and not name.startswith(OF_BROKERS):
                yield package.attrib["name"].removeprefix(OF_KAFKA), each


def lines(root: ET.Element) -> set[tuple[str, int]]:
    """Give the lines that were executed: the whole name of a class, as in a/b/C, and the number."""
    found = set[tuple[str, int]]()
    for package in _packages(root):
        hit = {
            source.attrib["name"]: [
                int(line.attrib["nr"])
                for line in source.findall("line")
                if line.attrib["ci"] != "0"
            ]
            for source in package.findall("sourcefile")
        }
        for each in package.findall("class"):
            found |= {(each.attrib["name"], n) for n in hit.get(each.attrib["sourcefilename"], ())}
    return found


def _packages(root: ET.Element) -> Iterator[ET.Element]:
    for package in root.iter("package"):
        if package.attrib["name"].removeprefix(OF_KAFKA) in FOLDERS:
            yield package
