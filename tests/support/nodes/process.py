"""One real ``krucible-node`` process of a test, the lone voter of its quorum."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from node.core.types import Endpoint
from node.driver.process import EXIT_FATAL
from node.log.layout import partition_dir, segment_name
from node.wire.connection import Connection
from node.wire.errors import WireError
from tests.support.live.cluster import eventually
from tests.support.nodes.driver import CLUSTER, free_port, settings_of, until

__all__ = ["EXIT_FATAL", "NodeProcess", "node_process", "until"]


@dataclass
class NodeProcess:
    """A node that can be started again and again on one directory."""

    folder: Path
    settings: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    _logs: list[Path] = field(default_factory=list)

    @classmethod
    def formatted(cls, folder: Path, **settings: str) -> NodeProcess:
        """Format a directory through the command."""
        base = settings_of(folder, voters={1: free_port()})
        node = cls(folder, base | {k.replace("_", "."): v for k, v in settings.items()})
        node.config.write_text("".join(f"{k}={v}\n" for k, v in node.settings.items()))
        done = node.command("format", "--cluster-id", CLUSTER)
        assert done.returncode == 0, done.stderr
        return node

    @property
    def config(self) -> Path:
        return self.folder / "node.properties"

    @property
    def segment(self) -> Path:
        """The first segment of the log."""
        return partition_dir(Path(self.settings["log.dirs"])) / segment_name(0)

    @property
    def endpoint(self) -> Endpoint:
        host, _, port = self.settings["listeners"].removeprefix("CONTROLLER://").rpartition(":")
        return Endpoint(host, int(port))

    @property
    def log(self) -> str:
        """What the last incarnation printed."""
        return self._logs[-1].read_text()

    @property
    def events(self) -> Iterator[dict[str, Any]]:
        """The events of all incarnations; a kill may have torn the last line of one."""
        for line in Path(self.settings["krucible.trace.file"]).read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def command(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "node", verb, "--config", str(self.config), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )

    async def start(self) -> None:
        """Start, and wait until it answers."""
        self.starts += 1
        self._logs.append(self.folder / f"output-{self.starts}.log")
        self.process = self._spawn()
        while True:
            assert self.process.poll() is None, self.log
            try:
                connection = await Connection.open(self.endpoint)
            except WireError:
                await asyncio.sleep(0.02)
                continue
            connection.close()
            await connection.wait_closed()
            return

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self._logs[-1].open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "node", "run", "--config", str(self.config)],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    async def ended(self, timeout_s: float = 10.0) -> int:
        """Wait for the end of the process; its exit code."""
        process = self.process
        assert process is not None
        await eventually(lambda: process.poll() is not None, "the process ended", timeout_s)
        return int(process.returncode)

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        await self.signal(signal.SIGKILL)

    async def signal(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return await self.ended()

    def stop(self) -> None:
        """Leave nothing running."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=10)


@contextlib.asynccontextmanager
async def node_process(folder: Path, **settings: str) -> AsyncIterator[NodeProcess]:
    """A formatted node, not started yet."""
    node = NodeProcess.formatted(folder, **settings)
    try:
        yield node
    finally:
        node.stop()
