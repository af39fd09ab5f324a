"""Brings a program of the JVM to ssh hosts: what a host has already stays where it is.

A folder or file that lies on a host under the same path, with the same content, is used there; all
others go into the run's own folder, and with it at the end. Java itself is the host's own.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.contracts.hosts import JavaProgram
from harness.envs.clocks.jvm_attach import AttachError
from harness.envs.clocks.library import hide
from harness.envs.ssh.files import archive
from harness.envs.ssh.place import Place
from harness.errors import EnvError
from harness.processes.procfs import ProcessId

FOLDER: Final = "java"  # in the run's folder on a host
LIBRARY: Final = "libfaketime.so"  # in it: a copy of the host's, for JVMs
_PART_BYTES_MAX: Final = 4 << 20  # of what is sent at once
_BRING_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class JavaThere:
    """A program of the JVM as a host has it: what its paths of this host are there."""

    paths: Mapping[str, str] = field(default_factory=dict)
    library: str | None = None  # libfaketime for JVMs

    def translate(self, part: str) -> str:
        """Tell what a part of a command line is on the host."""
        for path, there in self.paths.items():
            part = part.replace(path, there)
        return part


async def digests(program: JavaProgram) -> dict[Path, dict[Path, str]]:
    """By folder or file that a program needs: the SHA-256 of each file in it."""
    return {path: await asyncio.to_thread(_digests_in, path) for path in program.files}


def _digests_in(path: Path) -> dict[Path, str]:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


async def bring_to(
    place: Place, program: JavaProgram, known: Mapping[Path, Mapping[Path, str]]
) -> JavaThere:
    """Bring a program to a host; ``known`` is what ``digests`` says of it.

    Raises:
        EnvError: There is no Java that will do, or the host is lost; says what to do.
    """
    call = place.remote.call
    java = await call("java", named=place.host.java, version_min=program.version_min)
    paths = {str(program.java): str(java["java"])}
    wanted = {str(file): digest for files in known.values() for file, digest in files.items()}
    lacks = set((await call("lacking", within_s=_BRING_S, files=wanted))["lacks"])
    for number, path in enumerate(program.files):
        if lacks & set(map(str, known[path])):
            into = f"{FOLDER}/{number}"
            for part in _parts(path, sorted(known[path])):
                data = await asyncio.to_thread(archive, part)
                await call("put", within_s=_BRING_S, data=data, into=into)
            there = f"{place.what['folder']}/{into}"
            paths[str(path)] = there if path.is_dir() else f"{there}/{path.name}"
    return JavaThere(paths, await _library(place))


def _parts(path: Path, files: list[Path]) -> Iterator[list[tuple[str, bytes]]]:
    """The files, by their names in the folder, in parts of a size that can be sent."""
    part, size = list[tuple[str, bytes]](), 0
    top = path if path.is_dir() else path.parent
    for file in files:
        content = file.read_bytes()
        if part and size + len(content) > _PART_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append((str(file.relative_to(top)), content))
        size += len(content)
    yield part


async def _library(place: Place) -> str | None:
    """Make the copy of the host's libfaketime there that JVMs need; None: it has none."""
    if place.faketime is None:
        return None
    found = base64.b64decode((await place.remote.call("faketime"))["library"])
    data = archive([(LIBRARY, hide(found))])
    await place.remote.call("put", data=data, into=FOLDER)
    return f"{place.what['folder']}/{FOLDER}/{LIBRARY}"


async def ask_there(place: Place, jvm: ProcessId, command: str, *, timeout_s: float) -> str:
    """Do as ``jvm_attach.ask``, where the JVM is; raises AttachError."""
    try:
        asked: dict[str, Any] = {"pid": jvm.pid, "command": command, "timeout_s": timeout_s}
        return str((await place.remote.call("ask_jvm", **asked))["said"])
    except EnvError as error:
        raise AttachError(str(error)) from error
