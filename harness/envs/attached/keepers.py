"""The keepers of a foreign cluster's nodes: an agent for each, here or over ssh.

A keeper here is a process of its own whose stdin we hold: whatever ends this harness closes it, and
the keeper mends its node. ``Remote`` is the same at the end of an ssh session.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from harness.envs.agents.archive import archive
from harness.envs.attached.file import Reach
from harness.envs.ssh.connect import connect, find_python
from harness.envs.ssh.remote import BEAT_S, CALL_TIMEOUT_S, Remote
from harness.errors import EnvError

SILENCE_S: Final = 20.0  # a keeper mends when it has not heard of us for so long
KEEP: Final = "keep"
_LINE_MAX = 4 << 20

Heard = Callable[[Mapping[str, Any]], None]


class Keeper(Protocol):
    """An agent that keeps one node."""

    lost: str | None  # why it cannot be reached any more, once it cannot

    async def call(
        self, do: str, *, within_s: float = CALL_TIMEOUT_S, **arguments: Any
    ) -> dict[str, Any]:
        """Have it do something; returns its answer, raises EnvError."""
        ...

    async def close(self) -> None:
        """Hang up; it mends what it has not been told to mend. Idempotent."""
        ...


async def keeper(reach: Reach, on_state: Heard, where: str) -> tuple[Keeper, str]:
    """Start the keeper of a node; with the Python that it runs on.

    Raises:
        EnvError: Its host cannot be reached, or runs no Python.
    """
    if reach.host is None:
        here = KeeperHere(where, on_state)
        await here.start()
        return here, sys.executable
    client = await asyncio.to_thread(connect, reach.host)
    remote = Remote(reach.host, client)
    remote.on_state = on_state
    try:
        python = (await asyncio.to_thread(find_python, client, reach.host, ())).path
        await remote.start(python, KEEP)
    except BaseException:
        await remote.close()
        raise
    return remote, python


class KeeperHere:
    """A keeper on this host."""

    def __init__(self, where: str, on_state: Heard = lambda _state: None) -> None:
        """Start nothing yet; ``where`` names the node in errors."""
        self.lost: str | None = None
        self._where = where
        self._on_state = on_state
        self._process: asyncio.subprocess.Process | None = None
        self._calls: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._next = 0
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with it

    async def start(self) -> None:
        """Start its process, which outlives a Ctrl-C and runs from memory without a name."""
        handle = os.memfd_create("krucible-agent", 0)
        try:
            os.write(handle, archive())
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-u",
                f"/proc/self/fd/{handle}",
                KEEP,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=self._said,
                pass_fds=(handle,),
                start_new_session=True,
                limit=_LINE_MAX,
            )
        finally:
            os.close(handle)
        self._tasks = [
            asyncio.create_task(self._read(self._process)),
            asyncio.create_task(self._beat()),
        ]

    async def call(
        self, do: str, *, within_s: float = CALL_TIMEOUT_S, **arguments: Any
    ) -> dict[str, Any]:
        """See ``Keeper``."""
        process = self._process
        if self.lost is not None or process is None or process.stdin is None:
            raise self._gone()
        self._next += 1
        number = self._next
        answer = self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            process.stdin.write(json.dumps({"id": number, "do": do, **arguments}).encode() + b"\n")
            async with asyncio.timeout(within_s):
                await process.stdin.drain()
                return dict(await answer)
        except TimeoutError as error:
            raise EnvError(
                f"{self._where}: its keeper did not {do} within {within_s:g} s"
            ) from error
        except OSError as error:
            raise self._gone() from error
        finally:
            self._calls.pop(number, None)

    async def close(self) -> None:
        """See ``Keeper``."""
        process, self._closing = self._process, True
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._process = None
        self._said.close()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None, "started with pipes"  # noqa: S101
        while line := await process.stdout.readline():
            message = json.loads(line)
            if "state" in message:
                self._on_state(message["state"])
                continue
            answer = self._calls.pop(message["id"], None)
            if answer is None or answer.done():
                continue
            if "error" in message:
                answer.set_exception(EnvError(f"{self._where}: {message['error']}"))
            else:
                answer.set_result(dict(message["ok"]))
        if not self._closing:
            self._said.seek(0)
            last = self._said.read().decode(errors="replace").strip().rpartition("\n")[2]
            self.lost = f"its keeper ended: {last or 'it was killed'}"
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(self._gone())

    async def _beat(self) -> None:
        while self.lost is None and not self._closing:
            with contextlib.suppress(EnvError):  # ``_read`` hears of its end
                await self.call("beat")
            await asyncio.sleep(BEAT_S)

    def _gone(self) -> EnvError:
        return EnvError(f"{self._where}: {self.lost or 'its keeper is not there'}")
