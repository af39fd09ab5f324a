"""Undoes mounts of ours once the harness is dead.

A mount is gone with its server and its node, which have entries of their own and are killed
first. Whoever else has entered its namespace keeps it there, dead: from them it is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.agent.mounts import detach, users
from harness.errors import EnvError
from harness.healing.heal import undoes


@undoes("mount")
def _unmount(run: str, what: Mapping[str, Any]) -> str:  # noqa: ARG001 - its source says it
    source, path = str(what["source"]), str(what["path"])
    there = list(users(source))
    for pid in there:
        try:
            detach(pid, source, path)
        except OSError as error:
            raise EnvError(f"process {pid} keeps {path} mounted: {error}") from error
    return "unmounted" if there else "it went with its server"
