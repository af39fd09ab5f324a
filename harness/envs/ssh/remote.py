"""The harness's end of a supervisor on an ssh host: commands out, answers and news in.

A thread reads what comes, so that the event loop never waits for the network; what it reads is
bounded, and anything that is no message ends the connection. A beat every second shows each side
that the other one is there.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from harness.envs.agents.archive import archive, from_stdin
from harness.envs.ssh.connect import connect
from harness.envs.ssh.hosts import Host
from harness.errors import EnvError

if TYPE_CHECKING:  # see connect
    import paramiko

BEAT_S: Final = 1.0
LOST_S: Final = 10.0  # so long without a sign of life, and a host is lost
SILENCE_S: Final = 30.0  # longer than LOST_S, so that the harness notices first
_BEATS_MISSED = 2
CALL_TIMEOUT_S: Final = 30.0
_LINE_MAX = 4 << 20
_STDERR_MAX = 1 << 16


class Remote:
    """A supervisor that runs on a host."""

    def __init__(self, host: Host, client: paramiko.SSHClient) -> None:
        """Take over a client that is logged in; it is closed with this."""
        self.host = host
        self.lost: str | None = None  # why the host is, once it is
        self.on_file: Callable[[str, bytes], None] = lambda _name, _data: None
        self.on_state: Callable[[Mapping[str, Any]], None] = lambda _state: None
        self._client = client
        self._channel: paramiko.Channel | None = None
        self._loop = asyncio.get_running_loop()
        self._sending = threading.Lock()
        self._calls: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._spools: dict[int, BinaryIO] = {}  # of calls that send parts of an archive
        self._next = 0
        self._heard_s = self._loop.time()
        self._reader: asyncio.Future[None] | None = None  # done when nothing is read any more
        self._beats: asyncio.Task[None] | None = None
        self._closing = False

    async def start(self, python: str, verb: str = "supervise") -> None:
        """Start the agent with a verb: the supervisor, if not another; raises EnvError."""
        try:
            await asyncio.to_thread(self._open, python, verb)
        except BaseException as error:
            self._lose(str(error) or type(error).__name__)
            raise
        # A thread of its own: as many hosts as the loop has threads would take them all.
        self._reader = self._loop.create_future()
        threading.Thread(target=self._read, name=f"reads {self.host}", daemon=True).start()
        self._beats = asyncio.create_task(self._beat())

    async def call(
        self,
        do: str,
        *,
        within_s: float = CALL_TIMEOUT_S,
        spool: BinaryIO | None = None,
        **arguments: Any,
    ) -> dict[str, Any]:
        """Have the supervisor do something; returns its answer. An archive is written to ``spool``.

        Raises:
            EnvError: It refuses, the host is lost, or no answer comes in time.
        """
        if self.lost is not None:
            raise self.gone()
        self._next += 1
        number = self._next
        answer = self._calls[number] = self._loop.create_future()
        if spool is not None:
            self._spools[number] = spool
        try:
            line = json.dumps({"id": number, "do": do, **arguments}).encode() + b"\n"
            await asyncio.to_thread(self._send, line)
            async with asyncio.timeout(within_s):
                return dict(await answer)
        except TimeoutError as error:
            raise EnvError(f"host {self.host} did not {do} within {within_s:g} s") from error
        finally:
            self._calls.pop(number, None)
            self._spools.pop(number, None)

    async def fetch(
        self, into: BinaryIO, do: str = "fetch", *, timeout_s: float, **arguments: Any
    ) -> dict[str, Any]:
        """Have it send what it has of the node; the archive is written to ``into``."""
        return await self.call(do, within_s=timeout_s, spool=into, **arguments)

    async def close(self) -> None:
        """Hang up, which ends the supervisor if it still runs. Idempotent."""
        self._closing = True
        if self._beats is not None:
            self._beats.cancel()
            await asyncio.wait({self._beats})
        await asyncio.to_thread(self._client.close)
        if self._reader is not None:
            await asyncio.wait({self._reader})

    def gone(self) -> EnvError:
        """The error of a host that is lost."""
        return EnvError(f"host {self.host} is lost: {self.lost}")

    # ---- the connection

    def _open(self, python: str, verb: str) -> None:
        import paramiko  # noqa: PLC0415 - see connect

        try:
            transport = self._client.get_transport()
            if transport is None:
                raise EnvError(f"host {self.host} closed the connection")
            channel = transport.open_session(timeout=CALL_TIMEOUT_S)
            channel.settimeout(BEAT_S)
            channel.exec_command(from_stdin(python, verb))
            self._channel = channel
            self._send(archive())
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise EnvError(f"host {self.host} cannot run a command: {error}") from error

    def _send(self, data: bytes) -> None:
        assert self._channel is not None, "started before used"  # noqa: S101
        try:
            with self._sending:
                self._send_all(self._channel, data)
        except OSError as error:
            self._loop.call_soon_threadsafe(self._lose, str(error) or type(error).__name__)
            raise EnvError(f"host {self.host} is lost: {error}") from error

    def _send_all(self, channel: paramiko.Channel, data: bytes) -> None:
        left = memoryview(data)
        while left:
            with contextlib.suppress(TimeoutError):  # a full window; whether it lives, beats tell
                left = left[channel.send(bytes(left[: 1 << 15])) :]
            if self.lost is not None:
                raise OSError(self.lost)

    def _read(self) -> None:
        """Read to the end of the connection, in a thread."""
        assert self._channel is not None, "started before read"  # noqa: S101
        channel, why = self._channel, "the connection was closed"
        try:
            self._read_lines(channel)
            if channel.recv_stderr_ready():
                said = channel.recv_stderr(_STDERR_MAX).decode(errors="replace").strip()
                why += f"; {said.splitlines()[-1] if said else ''}"
        except (OSError, EOFError) as error:
            why = f"{type(error).__name__}: {error}"
        except ValueError as error:
            why = f"its supervisor sent what cannot be read: {error}"
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            self._loop.call_soon_threadsafe(self._read_all, why)

    def _read_all(self, why: str) -> None:
        self._lose(why)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _read_lines(self, channel: paramiko.Channel) -> None:
        rest = b""
        while not self._closing and self.lost is None:
            try:
                data = channel.recv(1 << 17)
            except TimeoutError:
                continue
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > _LINE_MAX:
                raise ValueError(f"a line of more than {_LINE_MAX} bytes")
            for line in lines:
                self._loop.call_soon_threadsafe(self._heard, json.loads(line))

    def _heard(self, message: Any) -> None:
        self._heard_s = self._loop.time()
        try:
            self._take(message)
        except (KeyError, TypeError, AttributeError, binascii.Error) as error:
            self._lose(f"its supervisor sent what cannot be read: {type(error).__name__}: {error}")

    def _take(self, message: Mapping[str, Any]) -> None:
        if "id" in message:
            answer = self._calls.pop(message["id"], None)
            if answer is None or answer.done():
                return
            if "error" in message:
                answer.set_exception(EnvError(f"host {self.host}: {message['error']}"))
            else:
                answer.set_result(dict(message["ok"]))
        elif "part" in message:
            spool = self._spools.get(message["of"])
            if spool is not None:
                spool.write(base64.b64decode(message["part"]))
        elif "file" in message:
            self.on_file(str(message["file"]), base64.b64decode(message["data"]))
        else:
            self.on_state(message["state"])

    def _lose(self, why: str) -> None:
        if self.lost is not None or self._closing:
            return
        self.lost = why
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(self.gone())
                answer.exception()  # who asked may have given up

    async def _beat(self) -> None:
        missed = 0  # in turn: one alone may be our own fault, when this process did not run
        while self.lost is None:
            asked_s = self._loop.time()
            try:
                await self.call("beat", within_s=LOST_S / _BEATS_MISSED)
                missed = 0
            except EnvError:
                missed = 0 if self._heard_s > asked_s else missed + 1
            if missed == _BEATS_MISSED:
                self._lose(f"no sign of life for {LOST_S:g} s")
            await asyncio.sleep(BEAT_S)


def clean(
    host: Host,
    python: str,
    what: Mapping[str, Any],
    *,
    verb: str = "supervise",
    do: str = "clean",
) -> dict[str, Any]:
    """Undo from outside what a run did on a host: see the supervisor's ``clean``.

    Args:
        host: The host.
        python: Its Python.
        what: What the order takes.
        verb: Of the agent that is started for that.
        do: The order.

    Raises:
        EnvError: The host cannot be reached, or something is still there.
    """

    async def tidy() -> dict[str, Any]:
        remote = Remote(host, await asyncio.to_thread(connect, host))
        try:
            await remote.start(python, verb)
            return await remote.call(do, **what)
        finally:
            await remote.close()

    return asyncio.run(tidy())
