"""The gate of a container: its program begins once something was put under it.

A file system of ours can be mounted only where the container's mount namespace is there already,
and has to be there before the program opens a file. So the container's shell waits for a line on a
fifo in the node's folder.
"""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Final

from harness.envs.docker.config import GATE
from harness.envs.docker.process import Contained
from harness.errors import NodeStartError

_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.01


def close_gate(folder: Path) -> None:
    """Make the fifo, before the container begins."""
    (folder / GATE).unlink(missing_ok=True)
    os.mkfifo(folder / GATE, 0o600)


async def open_gate(folder: Path, process: Contained) -> None:
    """Let the program begin, and remove the fifo.

    Raises:
        NodeStartError: The container ended, or never came to the gate.
    """
    fifo = folder / GATE
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            while not _opened(fifo):
                if process.ended.done():
                    raise NodeStartError(f"{process.id} ended before its program began")
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise NodeStartError(
            f"the shell of {process.container} did not come so far as to begin in {_TIMEOUT_S:g} s"
        ) from None
    finally:
        fifo.unlink(missing_ok=True)


def _opened(fifo: Path) -> bool:
    """Write the line, if somebody waits for it."""
    try:
        end = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    try:
        os.write(end, b"go\n")
    finally:
        os.close(end)
    return True
