"""A harness to be killed: three frozen or running processes on ssh hosts, and a cut link.

Run as a process: ``sshd_harness.py FOLDER``, with the hosts file in the environment. Prints
``ready`` when all is installed.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from harness.envs.ssh import Ssh
from harness.journal import Journal

SLEEP = (
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(99)'])"
)


async def main() -> None:
    folder = Path(sys.argv[1])
    journal = Journal.open("doomed", folder=folder / "state")
    environment = Ssh(folder / "run", journal)
    nodes = ("n1", "n2", "n3")
    await environment.setup(nodes)
    for node in nodes:
        await environment.start(node, [sys.executable, "-c", SLEEP], env={})
    await environment.signal("n2", signal.SIGSTOP)
    await environment.net.cut([("n1", "n2"), ("n2", "n1")])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.sleep(99)


if __name__ == "__main__":
    asyncio.run(main())
