"""Records where a run was made: the host, and the version and commit of krucible."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Provenance:
    """The host's name, the version, and the commit of the checkout; "" where there is none."""

    host: str
    version: str
    commit: str


@cache
def provenance() -> Provenance:
    """Look once at where this process runs."""
    return Provenance(platform.node(), version("krucible"), commit_of(_CHECKOUT))


def commit_of(checkout: Path) -> str:
    """The commit that is checked out in a folder, 40 hex digits; "" when it is no checkout."""
    git = checkout / ".git"
    head = _line(git / "HEAD")
    name = head.removeprefix("ref: ")
    found = head if name == head else _line(git / name) or _packed(git / "packed-refs", name)
    return found if _COMMIT.fullmatch(found) else ""


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # there is none: no checkout, or a branch that is packed
        return ""


def _packed(path: Path, name: str) -> str:
    lines = (line.split() for line in _line(path).splitlines())
    return next((words[0] for words in lines if words[1:] == [name]), "")
