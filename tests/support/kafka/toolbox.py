"""One JVM in which Kafka's command line tools run one after the other: a JVM of its own for each
would take a second, and the tool a tenth of it.

The JVM is in a process of its own, this module's ``main``, which reads and writes lines of JSON.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from harness.systems.kafka.distribution import KafkaDist
from tests.support.places import ROOT

FAILED = 1
ERRORS = "errors"


class Toolbox:
    """Runs main classes of Kafka in a JVM that starts with the first one."""

    def __init__(self, dist: KafkaDist) -> None:
        self._dist = dist
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of what the JVM says
        self._process: subprocess.Popen[str] | None = None

    def run(self, main: str, arguments: list[str], timeout_s: float) -> tuple[int, str]:
        """The exit code of a tool, and what it printed; raises subprocess.TimeoutExpired."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps([main, arguments]), file=process.stdin, flush=True)
        if not select.select([process.stdout], [], [], timeout_s)[0]:
            self.close()
            raise subprocess.TimeoutExpired([main, *arguments], timeout_s)
        line = process.stdout.readline()
        assert line, f"the JVM of the tools ended in {main}: {self._ended()}"
        code, said = json.loads(line)
        return code, said

    def close(self) -> None:
        """End the JVM, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self) -> subprocess.Popen[str]:
        self._folder = tempfile.TemporaryDirectory(prefix="krucible-toolbox-")
        folder = Path(self._folder.name)
        argv = self._dist.argv("", log=folder / "tools.log", archive="-Xshare:auto")
        options = json.dumps(argv[1 : argv.index("-cp")])
        command = [sys.executable, "-m", __name__, str(self._dist.java), str(self._dist.jars)]
        with (folder / ERRORS).open("wb") as errors:
            return subprocess.Popen(
                [*command, options],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def _ended(self) -> str:
        """What the JVM said when it ended without being told to."""
        assert self._folder is not None
        said = (Path(self._folder.name) / ERRORS).read_text(errors="replace")
        self.close()
        return said


@cache
def toolbox_of(dist: KafkaDist) -> Toolbox:
    """The toolbox of a Kafka, for all of this process: its JVM ends with it, or when closed."""
    return Toolbox(dist)


# --------------------------------------------------------------------------- beside the JVM


class _LeftError(Exception):
    """Raised where a tool exits, through all of its frames."""


def main() -> None:
    """Run what standard input asks for until it ends."""
    java, jars, options = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what else prints, as a JVM does its warnings, is no answer
    import jpype  # noqa: PLC0415 - only this process has a JVM

    library = java.resolve().parent.parent / "lib" / "server" / "libjvm.so"
    jpype.startJVM(str(library), *options, classpath=[str(jars / "*")], convertStrings=True)
    codes: list[int] = []

    class Leave:
        """What Kafka's ``Exit`` does."""

        @jpype.JOverride  # type: ignore[untyped-decorator]
        def execute(self, code: int, _: str | None) -> None:
            """Note the code, and leave the tool."""
            codes.append(int(code))
            raise _LeftError

    leave: Any = jpype.JImplements("org.apache.kafka.common.utils.Exit$Procedure")(Leave)()
    leaving = jpype.JClass("org.apache.kafka.common.utils.Exit")
    leaving.setExitProcedure(leave)
    leaving.setHaltProcedure(leave)
    kept = jpype.JClass("java.io.ByteArrayOutputStream")()
    stream = jpype.JClass("java.io.PrintStream")(kept, True)  # one for all: Scala keeps the first
    system = jpype.JClass("java.lang.System")
    system.setOut(stream)
    system.setErr(stream)
    for line in sys.stdin:
        main_class, arguments = json.loads(line)
        codes.clear()
        kept.reset()
        try:
            jpype.JClass(main_class).main(jpype.JArray(jpype.JString)(arguments))
        except _LeftError:
            pass
        except jpype.JException as error:
            error.printStackTrace(stream)
            codes.append(FAILED)
        stream.flush()
        said = str(kept.toString("UTF-8"))
        answers.write(json.dumps([codes[0] if codes else 0, said]) + "\n")


if __name__ == "__main__":
    main()
