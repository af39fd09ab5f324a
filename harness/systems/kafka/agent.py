"""The agent in Apache Kafka's live nodes: a jar for ``-javaagent``, and its options.

It weaves calls into a few dozen of Kafka's methods (``java/agent``, by Byte Buddy), which write the
events of ``node/trace.py`` into a file: each is handed to the kernel before anybody can see its
effect, so that SIGKILL loses none. A process says itself which hooks have not taken hold.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.systems.kafka.compiled import agent_classes
from harness.systems.kafka.distribution import KafkaDist, fetch_jars

BYTE_BUDDY: Final = ("net.bytebuddy", "byte-buddy", "1.17.5")
SETTING: Final = "krucible.agent"  # false: nodes are seen from outside only
WITHOUT: Final = "krucible.agent.without"  # hooks that are left out, for a proof
FORCE: Final = "krucible.agent.force"  # what Kafka is made to do wrong, for a proof
WRONGS: Final = (
    "vote-twice",
    "early-acknowledgement",
    "deep-truncation",
    "falling-high-watermark",
    "early-snapshot",
    "forgotten-setting",
    "forgotten-in-memory",
    "needless-refusal",
)
_JAR: Final = "krucible-agent.jar"
_OPTIONS: Final = "agent.properties"
_MANIFEST: Final = (
    "Manifest-Version: 1.0\r\nPremain-Class: krucible.agent.Agent\r\nClass-Path: {}\r\n\r\n"
)


def is_on(settings: Mapping[str, str]) -> bool:
    """Tell whether the nodes of a run have the agent."""
    return settings.get(SETTING, "true") == "true"


def agent_jar(dist: KafkaDist) -> Path:
    """Find the agent for a Kafka, or make it; raises KafkaMissingError."""
    library = next(fetch_jars("byte-buddy", [BYTE_BUDDY]).glob("byte-buddy-*.jar"))
    classes = agent_classes(dist, library)
    home = classes.with_name(f"{classes.name}-jar")
    if not home.is_dir():
        with tempfile.TemporaryDirectory(prefix=".agent-", dir=home.parent) as scratch:
            made = Path(scratch) / home.name
            made.mkdir()
            shutil.copy(library, made)
            _pack(classes, made / _JAR, library.name)
            try:
                made.rename(home)
            except OSError:
                if not home.is_dir():  # else another process was faster
                    raise
    return home / _JAR


def _pack(classes: Path, jar: Path, library: str) -> None:
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", _MANIFEST.format(library))
        for path in sorted(classes.rglob("*.class")):
            archive.write(path, path.relative_to(classes))


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of one node's agent: its event file, the folder of its metadata log."""

    file: Path
    log: Path
    roles: str
    settings: Mapping[str, str]

    def option(self, jar: Path, folder: Path) -> str:
        """Write them into a folder of the node's; returns the JVM's option."""
        told = {
            "file": self.file,
            "log": self.log,
            "roles": self.roles,
            "without": self.settings.get(WITHOUT, ""),
            "force": self.settings.get(FORCE, ""),
        }
        path = folder / _OPTIONS
        lines = (f"{name}={_escaped(str(value))}\n" for name, value in told.items())
        path.write_text("".join(lines), encoding="utf-8")
        return f"-javaagent:{os.fspath(jar)}={path}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")  # java.util.Properties takes it for the begin of an escape
