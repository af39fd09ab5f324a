"""The command line as a program that other processes begin."""

from __future__ import annotations

import sys

import krucible
from harness.processes.command import Program


def program() -> Program:
    """Name this very command line, as this Python would begin it again."""
    return Program((sys.executable, "-m", krucible.__name__))
