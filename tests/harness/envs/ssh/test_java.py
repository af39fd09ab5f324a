"""A program of the JVM for ssh hosts: its files, and what its paths are there."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from harness.contracts.hosts import JavaProgram
from harness.envs.ssh.java import JavaThere, digests


def test_a_program_is_known_by_the_content_of_all_its_files(tmp_path: Path) -> None:
    jars, logging = tmp_path / "lib", tmp_path / "log4j2.properties"
    jars.mkdir()
    (jars / "a.jar").write_bytes(b"a")
    logging.write_bytes(b"l")
    found = asyncio.run(digests(JavaProgram(Path("/java"), 17, (jars, logging))))
    assert found == {
        jars: {jars / "a.jar": hashlib.sha256(b"a").hexdigest()},
        logging: {logging: hashlib.sha256(b"l").hexdigest()},
    }


def test_a_command_line_names_what_the_host_has() -> None:
    there = JavaThere({"/jvm/bin/java": "/opt/java", "/cache/lib": "/var/tmp/run/java/0"})
    argv = ["/jvm/bin/java", "-Xmx96m", "-cp", "/cache/lib/*", "kafka.Kafka"]
    assert list(map(there.translate, argv)) == [
        "/opt/java",
        "-Xmx96m",
        "-cp",
        "/var/tmp/run/java/0/*",
        "kafka.Kafka",
    ]
