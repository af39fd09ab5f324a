"""MetadataShell, Kafka's shell of snapshots: one JVM for all that is asked of one snapshot."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

METADATA_SHELL = "org.apache.kafka.shell.MetadataShell"

Ask = Callable[[str], str]  # a command, as ``ls /image``; what the shell prints
_PROMPT = ">> "
_STARTS = 6
_START_S = 45.0
_ANSWER_S = 120.0
_POLL_S = 0.02
_NO_IMAGE = "Optional.empty"  # of an image without records; a part of what is there may say it, too


class _Shell(NamedTuple):
    process: subprocess.Popen[str]
    out: Path

    def answers(self) -> list[str]:
        """Split what it printed at its prompts; the words of its start come first."""
        return self.out.read_text(encoding="utf-8").split(_PROMPT)[:-1]

    def await_answers(self, count: int, timeout_s: float) -> str | None:
        """The last of so many answers; None: it does not come."""
        deadline_s = time.monotonic() + timeout_s
        while len(found := self.answers()) < count:
            if self.process.poll() is not None or time.monotonic() > deadline_s:
                return None
            time.sleep(_POLL_S)
        return found[count - 1]


@contextmanager
def shell_of(argv: Sequence[str], snapshot: Path, folder: Path) -> Iterator[Ask]:
    """A shell on a copy of a snapshot, for it wants the lock of the directory that it lies in.

    It may wait for ever, when it had loaded the last records before it read where they end: then
    another one is started. On a busy machine it answers before the image is published to itself:
    then it is asked again.

    Args:
        argv: Runs MetadataShell.
        snapshot: What it is to read.
        folder: For the copy, and for what the shell prints.
    """
    place = folder / "snapshots"
    place.mkdir(parents=True, exist_ok=True)
    copied = shutil.copy(snapshot, place / snapshot.name)
    shell = _started([*argv, "--snapshot", str(copied)], folder / "shell.out")
    asked = 1  # its start answers, too

    def ask(command: str) -> str:
        nonlocal asked
        assert shell.process.stdin is not None
        deadline_s = time.monotonic() + _ANSWER_S
        while True:
            print(command, file=shell.process.stdin, flush=True)
            asked += 1
            said = shell.await_answers(asked, _ANSWER_S)
            assert said is not None, f"{command} is not answered: {shell.answers()}"
            if _is_there(said) or time.monotonic() > deadline_s:
                return said
            time.sleep(_POLL_S)

    try:
        yield ask
    finally:
        _end(shell.process)


def _is_there(said: str) -> bool:
    text = said.strip()
    return text not in ("", _NO_IMAGE) and "no such file or directory" not in text.lower()


def _started(argv: Sequence[str], out: Path) -> _Shell:
    for _ in range(_STARTS):
        with out.open("wb") as to:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=to, stderr=subprocess.STDOUT, text=True
            )
        shell = _Shell(process, out)
        if shell.await_answers(1, _START_S) is not None:
            return shell
        _end(process)
    raise AssertionError(f"{argv} does not start: {out.read_text(encoding='utf-8')}")


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
