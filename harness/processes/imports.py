"""Keeps modules from being imported although they are there."""

from __future__ import annotations

import sys


def without_hypothesis() -> None:
    """Keep this process from importing hypothesis; for processes that are ours alone.

    kio looks for it and, where it is installed, has it draw up tables of all Unicode in the working
    folder: a second of every process, for nothing.
    """
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
