"""The links of a local environment: the harness's side of the relay process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.contracts.environment import Address, Link, Probe
from harness.envs.links import relay
from harness.envs.links.tcp_probe import ask
from harness.envs.nodes.names import check_known
from harness.errors import EnvError
from harness.healing.journal import Journal
from harness.processes.procfs import identify
from harness.processes.python import module_argv

CLIENT = "client"  # the harness's own clients, as the end of a link
_ANSWER_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of links: where it connects from, where it listens, where others reach it."""

    name: str
    source: str  # it connects from here
    outgoing: str  # the relay connects from here on its behalf
    bind: Address | None = None  # it listens here; None: it does not
    advertised: Address | None = None  # the relay listens here for it


class RelayNet:
    """``Net`` over one relay process; see ``harness.envs.links.relay`` for what a cut means."""

    def __init__(self, journal: Journal, log: Path) -> None:
        self._journal = journal
        self._log = log
        self._ends: dict[str, Endpoint] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._entry: int | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._cuts: dict[Link, int] = {}  # cut link -> its journal entry

    async def start(self, endpoints: Iterable[Endpoint], environ: Mapping[str, str]) -> None:
        """Start the relay and open every node's advertised address.

        Raises:
            EnvError: The relay does not come up, or an address is taken.
        """
        self._ends = {end.name: end for end in endpoints}
        await self._spawn(environ)
        await self._command(
            "configure",
            names={end.source: end.name for end in self._ends.values()},
            outgoing={end.name: end.outgoing for end in self._ends.values()},
        )
        for end in self._ends.values():
            await self._listen(end)

    async def move(self, end: Endpoint) -> None:
        """Make a node listen, and be reached, at another address; its old one is given up."""
        self._ends[end.name] = end
        await self._listen(end)

    async def _listen(self, end: Endpoint) -> None:
        if end.bind is not None and end.advertised is not None:
            await self._command(
                "listen",
                node=end.name,
                listen=[end.advertised.host, end.advertised.port],
                target=[end.bind.host, end.bind.port],
            )

    async def stop(self) -> None:
        """Stop the relay; every connection through it is closed. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            await self._end(process)
        entries = set(self._cuts.values())
        if self._entry is not None:
            entries.add(self._entry)
        self._entry = None
        self._cuts.clear()
        for entry in entries:
            await asyncio.to_thread(self._journal.undone, entry)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.write(json.dumps({"id": 0, "do": "bye"}).encode() + b"\n")
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reader is not None:
            await self._reader

    async def cut(self, links: Iterable[Link]) -> None:
        """Hold all data on these directed links; journalled before it takes effect."""
        fresh = [link for link in dict.fromkeys(links) if link not in self._cuts]
        for link in fresh:
            check_known(self._ends, *link)
        if not fresh:
            return
        entry = await self._journal.announce("cut", links=[list(link) for link in fresh])
        self._cuts.update(dict.fromkeys(fresh, entry))
        await self._command("cut", links=[list(link) for link in fresh])

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Let held and new data through again: on these links, or on all. Idempotent."""
        chosen = list(self._cuts) if links is None else list(dict.fromkeys(links))
        for link in chosen:
            check_known(self._ends, *link)
        await self._command("heal", links=[list(link) for link in chosen])
        entries = {self._cuts.pop(link) for link in chosen if link in self._cuts}
        for entry in entries - set(self._cuts.values()):
            await asyncio.to_thread(self._journal.undone, entry)

    def cuts(self) -> frozenset[Link]:
        """The links cut at present."""
        return frozenset(self._cuts)

    async def probe(self, source: str, destination: str, *, timeout_s: float = 0.5) -> Probe:
        """Send one ApiVersions request from ``source``'s own address and wait for any answer."""
        check_known(self._ends, source, destination)
        address = self._ends[destination].advertised
        if address is None:
            raise EnvError(
                f"cannot probe {destination!r}: the node has no address that it listens on"
            )
        passed, detail, elapsed_ms = await ask(
            address, source=self._ends[source].source, timeout_s=timeout_s
        )
        return Probe(source, destination, passed, detail, elapsed_ms)

    async def stats(self) -> Mapping[Link, Mapping[str, int]]:
        """Per link: connections, bytes, held_bytes, blocked_connects since the start.

        ``open`` and ``blocked`` are connections at present. Of bytes held by now only those are
        counted that reached this host's kernel; a sender that was pushed back has more.
        """
        rows = await self._command("stats")
        return {(row["link"][0], row["link"][1]): _counters(row) for row in rows}

    # ---- the process

    async def _spawn(self, environ: Mapping[str, str]) -> None:
        self._entry = await self._journal.announce("process", node="relay")
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *module_argv(relay.__name__),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=dict(environ),
                start_new_session=True,  # Ctrl-C must reach the harness only
                limit=1 << 20,
            )
        self._process = process
        who = identify(process.pid)
        if who is not None:
            await asyncio.to_thread(self._journal.update, self._entry, pid=who.pid, start=who.start)
        self._reader = asyncio.create_task(self._read_answers(process))

    async def _command(self, do: str, **arguments: Any) -> Any:
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            raise EnvError(f"cannot {do}: the relay does not run; its log is {self._log}")
        number = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        request = {"id": number, "do": do, "with": arguments}
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                await process.stdin.drain()
                return await future
        except TimeoutError:
            raise EnvError(
                f"the relay does not answer {do!r} within {_ANSWER_TIMEOUT_S:g} s; "
                f"its log is {self._log}"
            ) from None
        except OSError as error:
            raise EnvError(f"the relay is gone ({error}); its log is {self._log}") from error
        finally:
            self._waiting.pop(number, None)

    async def _read_answers(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        while line := await process.stdout.readline():
            answer = json.loads(line)
            future = self._waiting.get(answer["id"])
            if future is None or future.done():
                continue
            if "error" in answer:
                future.set_exception(EnvError(f"the relay cannot {answer['error']}"))
            else:
                future.set_result(answer["result"])
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(EnvError(f"the relay is gone; its log is {self._log}"))


def _counters(row: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(value) for name, value in row.items() if name != "link"}
