"""Modules of ours as programs, in a Python of their own."""

from __future__ import annotations

import sys


def module_argv(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module of ours with this Python.

    With ``-P`` nothing is imported from the folder that we were called in, whatever lies there.
    """
    return [sys.executable, "-P", "-m", module, *arguments]
