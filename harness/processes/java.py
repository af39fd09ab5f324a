"""Finds the version of a ``java``."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

_VERSION: Final = re.compile(r'version "(\d+)')
_ASK_TIMEOUT_S: Final = 15.0


def java_version(java: Path) -> int | None:
    """The major version that a ``java`` says it has, None when it does not run."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(said.stderr + said.stdout)
    return int(match[1]) if match else None
