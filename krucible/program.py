"""The command line as a program: as other processes begin it, and as a person types it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import krucible
from harness.processes.command import Program
from harness.processes.python import module_argv

NAME = krucible.__name__


def program() -> Program:
    """Name this very command line, as this Python would begin it again in any folder."""
    return Program(tuple(module_argv(NAME)))


def typed() -> Program:
    """Name this command line as a person can type it in any folder.

    That is its bare name where the shell finds this very script by it, else the script's path;
    without a script, Python with the module.
    """
    called = Path(sys.argv[0])
    script = called if called.name == NAME else Path(sys.executable).with_name(NAME)
    if not script.is_file():
        return program()
    on_path = shutil.which(NAME)
    if on_path is not None and Path(on_path).samefile(script):
        return Program((NAME,))
    return Program((str(script.absolute()),))
