"""Apache Kafka's command line tools, and their output as data."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness.systems.kafka.distribution import KafkaDist
from tests.support.kafka.quorum_files import TOO_EARLY
from tests.support.kafka.shell import METADATA_SHELL, Ask, shell_of
from tests.support.kafka.toolbox import toolbox_of

METADATA_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
DUMP_LOG_SEGMENTS = "kafka.tools.DumpLogSegments"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
FEATURES = "org.apache.kafka.tools.FeatureCommand"

# A tool that was told of no controller, since none has registered yet, asks nobody any more.
TOLD_OF_NOBODY = "Timed out waiting for a node assignment"

# A leader whose connection to the node that it is to add has just been closed gives up.
NOT_REACHED = "API_VERSIONS returned an error BROKER_NOT_AVAILABLE"

_TIMEOUT_S = 180
_POLL_S = 0.1
_NUMBER = re.compile(r"-?\d+")
_FIELD = re.compile(r"(\w+): (\S+)")
_CONTENT = re.compile(
    r"headerKeys: \[\] (?:payload: (?P<data>.*)|(?P<kind>\w+):? (?P<control>\{.*))$"
)


class Through(NamedTuple):
    """Whom a tool is to ask: an option of it, and the addresses of controllers or of brokers."""

    option: str
    addresses: str


def asking(where: str | Through) -> Through:
    """The options that name whom to ask; addresses alone are those of controllers."""
    return where if isinstance(where, Through) else Through("--bootstrap-controller", where)


@dataclass(frozen=True)
class DumpedBatch:
    """A batch as DumpLogSegments prints it, with its records."""

    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    is_control: bool
    is_valid: bool
    records: list[DumpedRecord]


@dataclass(frozen=True)
class DumpedRecord:
    """A record: its type is Kafka's constant (TOPIC_RECORD) or a control record's name."""

    offset: int
    type: str
    version: int
    fields: dict[str, Any]


@dataclass(frozen=True)
class KafkaTools:
    """Runs tools, by their main classes, in the JVM of its toolbox."""

    dist: KafkaDist
    folder: Path

    def run(
        self,
        main: str,
        *arguments: str | Path,
        succeeds: bool | None = True,
        timeout_s: float = _TIMEOUT_S,
    ) -> str:
        """What the tool prints on stdout and stderr; fails the test when its exit code is wrong.

        With ``succeeds`` None any exit code is right. A controller that has not read yet which
        metadata.version is finalized is asked again, and so is one that no controller had
        registered with, or that did not reach the node which it is to add. Raises
        subprocess.TimeoutExpired.
        """
        toolbox, argv = toolbox_of(self.dist), list(map(str, arguments))
        deadline_s = time.monotonic() + timeout_s
        code, said = toolbox.run(main, argv, timeout_s)
        while (
            code != 0
            and any(each in said for each in (TOO_EARLY, TOLD_OF_NOBODY, NOT_REACHED))
            and time.monotonic() < deadline_s
        ):
            time.sleep(_POLL_S)
            code, said = toolbox.run(main, argv, timeout_s)
        told = f"{main} {' '.join(map(str, arguments))}\n{said}"
        assert succeeds in (None, code == 0), told
        return said

    def quorum_status(self, where: str | Through) -> dict[str, str]:
        """``describe --status``: its lines, by title."""
        said = self.run(METADATA_QUORUM, *asking(where), "describe", "--status")
        lines = (line.partition(":") for line in said.splitlines() if ":" in line)
        return {title.strip(): value.strip() for title, _, value in lines}

    def quorum_replication(self, where: str | Through) -> list[dict[str, str]]:
        """``describe --replication``: its table, a row per replica."""
        said = self.run(METADATA_QUORUM, *asking(where), "describe", "--replication")
        head, *rows = (line.split("\t") for line in said.splitlines() if line.strip())
        titles = [title.strip() for title in head]
        return [dict(zip(titles, map(str.strip, row), strict=False)) for row in rows]

    def add_controller(self, where: str | Through, config: Path) -> str:
        """Make the controller with that configuration, which is running, a voter."""
        return self.run(
            METADATA_QUORUM,
            *("--command-config", config),
            *asking(where),
            "add-controller",
        )

    def remove_controller(self, where: str | Through, node_id: int, directory_id: str) -> str:
        """Make a voter a controller that is none."""
        return self.run(
            METADATA_QUORUM,
            *asking(where),
            "remove-controller",
            *("--controller-id", str(node_id)),
            *("--controller-directory-id", directory_id),
        )

    def shell(self, snapshot: Path) -> AbstractContextManager[Ask]:
        """MetadataShell on a snapshot, in a JVM of its own."""
        folder = self.folder / "shell"
        argv = self.dist.argv(METADATA_SHELL, log=self.folder / "shell.log")
        return shell_of(argv, snapshot, folder)

    def dump(self, *segments: Path) -> list[DumpedBatch]:
        """DumpLogSegments with the decoder of metadata records."""
        files = ",".join(map(str, segments))
        said = self.run(DUMP_LOG_SEGMENTS, "--cluster-metadata-decoder", "--files", files)
        return list(parse_dump(said))


def parse_dump(said: str) -> Iterator[DumpedBatch]:
    """The batches in the output of DumpLogSegments; AssertionError on a line that it is not."""
    batch: DumpedBatch | None = None
    for line in said.splitlines():
        if line.startswith("| "):
            assert batch is not None, line
            batch.records.append(_record(line))
        elif line.startswith("baseOffset:"):
            if batch is not None:
                yield batch
            batch = _batch(line)
        else:
            assert not line or line.startswith(("Dumping ", "Log starting offset:", "Snapshot ")), (
                f"DumpLogSegments complains: {line}"
            )
    if batch is not None:
        yield batch


def _batch(line: str) -> DumpedBatch:
    fields = dict(_FIELD.findall(line))
    return DumpedBatch(
        base_offset=int(fields["baseOffset"]),
        last_offset=int(fields["lastOffset"]),
        epoch=int(fields["partitionLeaderEpoch"]),
        crc=int(fields["crc"]),
        is_control=fields["isControl"] == "true",
        is_valid=fields["isvalid"] == "true",
        records=[],
    )


def _record(line: str) -> DumpedRecord:
    match = _CONTENT.search(line)
    offset = _NUMBER.search(line)
    assert match is not None, f"not understood: {line}"
    assert offset is not None, f"not understood: {line}"
    if match["kind"]:
        content = json.loads(match["control"])
        return DumpedRecord(int(offset[0]), match["kind"], content.pop("version"), content)
    payload = json.loads(match["data"])
    return DumpedRecord(int(offset[0]), payload["type"], payload["version"], payload["data"])
