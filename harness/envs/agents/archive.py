"""The agent as one archive that any Python of 3.11 or newer runs: all of ``harness.agent``.

The same code makes the same bytes: nothing is compressed, and files have no time of their own. How
it comes to where it runs is the environment's to say; see ``Agents`` and ``Remote``.
"""

from __future__ import annotations

import functools
import io
import shlex
import zipfile
from importlib import resources
from typing import Final

from harness import agent

_PACKAGES: Final = (agent.__name__.partition(".")[0], agent.__name__.replace(".", "/"))
_MAIN = f"from {agent.__name__}.__main__ import main\n\nmain()\n"
_TIME = (1980, 1, 1, 0, 0, 0)  # the first that the format knows
_MODE = 0o644 << 16
_BOOT = """\
import os, sys
agent, left = os.memfd_create("krucible-agent", 0), {size}
while left:
    more = os.read(0, left)
    if not more:
        sys.exit()
    left -= os.write(agent, more)
os.execv(sys.executable, [sys.executable, "-I", "-u", f"/proc/self/fd/{{agent}}", {verb!r}])
"""


@functools.cache
def archive() -> bytes:
    """Make the archive: ``python3 ARCHIVE VERB``; see ``harness.agent.__main__``."""
    files = {"__main__.py": _MAIN.encode(), f"{_PACKAGES[0]}/__init__.py": b""}
    for file in resources.files(agent).iterdir():
        if file.name.endswith(".py"):
            files[f"{_PACKAGES[1]}/{file.name}"] = file.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as into:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system, entry.external_attr = 3, _MODE  # Unix, whoever makes it
            into.writestr(entry, content)
    return buffer.getvalue()


def from_stdin(python: str, verb: str) -> str:
    """Make the shell command that reads the archive from its stdin and becomes the agent.

    The archive is then in memory that has no name and goes with the last process that has it open:
    whenever the connection breaks, nothing of it is left. What comes after it on stdin is the
    verb's.
    """
    boot = _BOOT.format(size=len(archive()), verb=verb)
    return f"exec {shlex.quote(python)} -I -c {shlex.quote(boot)}"
