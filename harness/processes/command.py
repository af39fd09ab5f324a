"""Other commands of ours as processes: what one of them breaks is told, and ends nothing else."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shlex
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from harness.verdict import EXIT_HARNESS

GRACE_S: Final = 60.0  # from being asked to end until being killed
TOLD_MAX: Final = 400  # characters of what a command has complained of
_PR_SET_PDEATHSIG: Final = 1  # Linux, linux/prctl.h
PARENT: Final = "KRUCIBLE_PARENT"  # the variable that names who has begun a command, by its pid


@dataclass(frozen=True, slots=True)
class Answer:
    """The output of a command, or the reason why there is none."""

    code: int
    value: dict[str, Any]
    broken: str | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A command line whose verbs print one JSON object: an argv, which verb and options follow.

    Its main function calls ``end_with_parent``.
    """

    argv: tuple[str, ...]

    def line(self, *words: object) -> str:
        """The command line with these words, quoted for a shell, as a person copies it."""
        return shlex.join((*self.argv, *map(str, words)))

    def run(self, arguments: Sequence[str], limit_s: float) -> Answer:
        """Do as ``ask``, outside of an event loop. Ctrl-C ends the command, too."""
        return asyncio.run(self.ask(arguments, limit_s))

    async def ask(self, arguments: Sequence[str], limit_s: float | None = None) -> Answer:
        """Run a command with ``--json``; one that takes longer is ended, then killed.

        Its whole process group goes with it. Whoever stops waiting ends it in good order first.
        """
        process = await asyncio.create_subprocess_exec(
            *self.argv,
            *arguments,
            "--json",
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
            env={**os.environ, PARENT: str(os.getpid())},
        )
        try:
            async with asyncio.timeout(limit_s):
                out, err = await process.communicate()
        except TimeoutError:
            await _end(process)
            why = f"krucible {arguments[0]}: stopped: it took more than {limit_s:g} s"
            return Answer(EXIT_HARNESS, {}, why)
        except BaseException:
            await _end(process)
            raise
        assert process.returncode is not None  # noqa: S101 - its output has ended; it was awaited
        return _answer(arguments[0], process.returncode, out, err)


KRUCIBLE: Final = Program(("krucible",))  # the command line by its bare name


def end_with_parent() -> None:
    """Have this process asked to end with the one that has begun it as a ``Program``, if any has.

    The processes that this one begins are told nothing of it.
    """
    parent = os.environ.pop(PARENT, None)
    if parent is not None:
        end_with(int(parent))


def end_with(parent: int) -> None:
    """Have this process asked to end as soon as that parent is gone, however it went.

    Else what a killed night has begun would go on, and again beside it when the night is resumed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != parent:
        sys.exit(EXIT_HARNESS)


def _answer(verb: str, code: int, out: bytes, err: bytes) -> Answer:
    try:
        value = msgspec.json.decode(out.strip().rpartition(b"\n")[2])
    except msgspec.DecodeError:
        value = None
    if isinstance(value, dict):
        return Answer(code, value)
    told = err.decode(errors="replace").strip()[-TOLD_MAX:]
    return Answer(code, {}, f"krucible {verb} exited with {code}: {told}")


async def _end(process: Process) -> None:
    """Ask it to end in good order, then kill all that it has begun."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(GRACE_S):
            await process.communicate()
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
