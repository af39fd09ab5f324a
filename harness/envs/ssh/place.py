"""A node's host during a run: the way there, the node's folder there, and its mirror here."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from harness.contracts.environment import Address, ProcessState
from harness.envs.disks.fuse import server
from harness.envs.ssh.files import Outbox, unpack
from harness.envs.ssh.hosts import Host
from harness.envs.ssh.remote import Remote
from harness.processes.procfs import GONE
from node.faults.hands import DATA, FAULTS

FOLLOWED: Final = ("events.jsonl",)  # files of a node's folder that are fetched as they grow
_FETCH_TIMEOUT_S = 120.0


@dataclass(slots=True)
class Place:
    """A node's host during the run."""

    node: str
    host: Host
    address: Address
    remote: Remote
    python: str
    what: dict[str, Any]  # folder, chain and mark there
    entry: int  # of the journal
    outbox: Outbox
    mirror: Path  # of the node's folder
    state: ProcessState = field(default=ProcessState(None, GONE, "never started"))
    files: dict[str, BinaryIO] = field(default_factory=dict)
    faketime: str | None = None  # where its libfaketime is
    no_mounts: str | None = None  # why no file system of ours can be put under the node
    starts: int = 0  # of the node's process
    _known: dict[str, list[int]] = field(default_factory=dict)  # files of its data, by their stamps
    _mirroring: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def folder(self) -> str:
        """The node's folder on its host."""
        return f"{self.what['folder']}/node"

    def take_state(self, state: Mapping[str, Any]) -> None:
        """Take over the supervisor's word on the node's process."""
        pid = state["pid"]
        self.state = ProcessState(
            None if pid is None else int(pid), str(state["state"]), str(state["detail"])
        )

    def append(self, name: str, data: bytes) -> None:
        """A piece of the node's log (its name is empty) or of a file that it follows."""
        if name not in ("", *FOLLOWED):
            raise KeyError(name)
        if name not in self.files:
            self.files[name] = (self.mirror / name).open("ab", buffering=0)
        self.files[name].write(data)

    async def mount(self, run: str, lies_about: str | None) -> None:
        """Put a file system of ours under the node's next process; see ``MountsDisks``.

        Raises:
            EnvError: It does not come up; says what its server says.
        """
        data, faults = (f"{self.folder}/{name}" for name in (DATA, FAULTS))
        source = f"krucible:{run}:{self.node}"
        await self.remote.call(
            "mount",
            argv=[self.python, "-P", "-m", server.__name__, data, faults, source, lies_about or ""],
            source=source,
            folders=[data, faults],
            log=f"{faults}/{server.LOG}",
            power_lost=server.POWER_LOST,
        )
        await self.remote.call("mounted")

    async def refresh(self) -> None:
        """Bring here what is new of the node's data; what is gone there is gone here, too."""
        data = self.mirror / DATA
        with tempfile.TemporaryFile() as spool:
            async with self._mirroring:
                there = await self.remote.fetch(
                    spool, "refresh", timeout_s=_FETCH_TIMEOUT_S, below=DATA, known=self._known
                )
                await asyncio.to_thread(unpack, spool, data)
                self._known = dict(there["stamps"])
                self.outbox.mirrored(data, self._known)

    async def fetch(self) -> list[str]:
        """Bring the node's folder here, once nothing writes to it any more.

        Returns:
            Why file systems of ours ended under it that nothing had ended.
        """
        with tempfile.TemporaryFile() as spool:
            done = await self.remote.fetch(spool, timeout_s=_FETCH_TIMEOUT_S)
            if spool.tell():
                shutil.rmtree(self.mirror / DATA, ignore_errors=True)  # what it has lost stays lost
                await asyncio.to_thread(unpack, spool, self.mirror)
        return list(done["broken"])
