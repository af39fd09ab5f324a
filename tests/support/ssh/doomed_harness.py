"""A harness to be killed: processes on ssh hosts, one frozen, a cut and a slow link, a slow disk.

Run as a process: ``doomed_harness.py FOLDER``, with the hosts file in the environment. Prints
``ready`` when all is installed.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from random import Random

from harness.contracts.hosts import Disks, Packets, Shape
from harness.envs.ssh.plugin import Ssh
from harness.healing.journal import Journal

# Two processes. No vfork, as subprocess has it: a child that is stopped before its exec leaves its
# parent in state D for as long, and nobody could tell that this has stopped.
SLEEP = "import os, time; os.fork(); time.sleep(99)"


async def main() -> None:
    folder = Path(sys.argv[1])
    journal = Journal.open("doomed", folder=folder / "state")
    environment = Ssh(folder / "run", journal)
    nodes = ("n1", "n2", "n3")
    environment.expect({Disks}, Random(1))
    await environment.setup(nodes)
    for node in nodes:
        await environment.start(node, [sys.executable, "-c", SLEEP], env={})
    await environment.signal("n2", signal.SIGSTOP)
    await environment.net.cut([("n1", "n2"), ("n2", "n1")])
    assert isinstance(environment.net, Packets)
    await environment.net.shape(1, [("n1", "n3")], Shape(delay_ms=50))
    await environment.disks.slow_fsync("n1", 50)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.sleep(99)


if __name__ == "__main__":
    asyncio.run(main())
