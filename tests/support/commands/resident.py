"""A process that runs one command of krucible after the other.

A JVM can be started once in a process: commands that simulate Apache Kafka share it here, and the
classes that it has loaded, and each takes a fifth of what it would take alone.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from tests.support.commands.command import Ended, krucible
from tests.support.places import ROOT


@dataclass(frozen=True, slots=True)
class Resident:
    """The process; each call is one command in it."""

    process: subprocess.Popen[bytes]
    timeout_s: float

    def __call__(self, *arguments: object) -> Ended:
        """Run a command; fails when it takes too long, or when it ends the process."""
        asked, answers = self.process.stdin, self.process.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps([str(each) for each in arguments]).encode() + b"\n")
        asked.flush()
        ready, _, _ = select.select([answers], [], [], self.timeout_s)
        assert ready, f"{arguments} takes more than {self.timeout_s} s"
        line = answers.readline()
        assert line, f"{arguments} has ended its process"
        return Ended(*json.loads(line))


@contextmanager
def resident(timeout_s: float) -> Iterator[Resident]:
    """Start the process, and end it; a command may take so long."""
    argv = [sys.executable, "-m", __name__]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Resident(process, timeout_s)
        finally:
            process.kill()


def _serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    for line in asked:
        ended = krucible(*json.loads(line))
        answers.write(json.dumps([ended.code, ended.out, ended.err]).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what else is printed is no answer
        _serve(sys.stdin.buffer, answers)
