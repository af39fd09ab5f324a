"""Java on an ssh host: which one is taken, and which files are there already."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from harness.agent.firewall import Refused
from harness.agent.java import ask_jvm, find_java, lacking, version_in


def a_java(folder: Path, version: str) -> str:
    java = folder / version / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return str(java)


def test_the_first_java_that_is_new_enough_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = a_java(tmp_path, "11.0.2"), a_java(tmp_path, "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(Path(old).parents[1]))
    monkeypatch.setenv("PATH", str(Path(new).parent))
    assert find_java(None, 17) == (new, 21)
    with pytest.raises(Refused, match=f"no Java 17 or newer \\({old} is version 11\\): apt-get"):
        find_java(old, 17)


def test_files_are_there_only_with_the_same_content(tmp_path: Path) -> None:
    same, other, none = (tmp_path / name for name in ("same", "other", "none"))
    for file in (same, other):
        file.write_bytes(b"jar")
    digest = hashlib.sha256(b"jar").hexdigest()
    wanted = {str(same): digest, str(other): digest[::-1], str(none): digest}
    assert lacking(wanted) == [str(other), str(none)]


def test_a_process_that_handles_no_sigquit_is_not_sent_it() -> None:
    with pytest.raises(Refused, match="is still starting"):
        ask_jvm(os.getpid(), "VM.uptime -date", 1.0)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', 17),
        ('java version "21" 2023-09-19 LTS', 21),
        ("sh: 1: java: not found", None),
    ],
)
def test_a_java_says_its_version(said: str, version: int | None) -> None:
    assert version_in(said) == version
