"""Other versions of Python on this machine that have what simulations need."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.commands.source import project
from tests.support.places import ROOT

VARIABLE = "KRUCIBLE_PYTHONS"  # paths of interpreters, separated as in $PATH
_PROBE_TIMEOUT_S = 60
_PROBE = """
import sys
from importlib.metadata import version
for name in sys.argv[1:]:
    version(name)
print(f"{sys.version_info.major}.{sys.version_info.minor}")
"""


class PythonMissingError(Exception):
    """Raised when there is no such Python here; says how to get it."""


def find(version: str) -> Path:
    """An interpreter of a version, as ``3.12``, that has all that the project needs.

    Looked for in ``$KRUCIBLE_PYTHONS`` when that is set, else in ``.venv-VERSION`` and on the path.

    Raises:
        PythonMissingError: There is none.
    """
    for path in _candidates(version):
        if _version(path) == version:
            return path
    raise PythonMissingError(
        f"Python {version} with all that we need is missing: .ci/pythons {version} makes"
        f" .venv-{version} of one that is installed; or name interpreters in ${VARIABLE}"
    )


def _candidates(version: str) -> Iterator[Path]:
    named = os.environ.get(VARIABLE)
    if named is not None:
        yield from (Path(path) for path in named.split(os.pathsep) if path)
        return
    yield ROOT / f".venv-{version}" / "bin" / "python"
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)


def _version(python: Path) -> str | None:
    """Its version, or None when something that the project needs cannot be found by it."""
    needed = [wanted.partition(">")[0] for wanted in project()["project"]["dependencies"]]
    try:
        done = subprocess.run(
            [python, "-c", _PROBE, *needed],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
