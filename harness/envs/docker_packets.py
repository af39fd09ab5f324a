"""Links between containers that are slow, lossy, narrow, jammed or out of order.

The harness's side of ``docker_shaper``, which sits in a node's network and holds what comes in. It
is started when the first link to that node is to be shaped, and stays, idle, until the end.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.envs import docker_shaper
from harness.envs.docker_engine import Engine, in_thread
from harness.errors import EnvError
from harness.hosts import Shape
from harness.protocols import Link

QUEUED = "NFQUEUE"
_SOURCE = Path(docker_shaper.__file__).read_text(encoding="utf-8")
_IN_BACKGROUND = '"$@" >>"$0" 2>&1 </dev/null & '
_ANSWER_TIMEOUT_S = 10.0
_POLL_S = 0.005
_NO_COUNTERS = {"passed": 0, "lost": 0, "kept_back": 0}


class Shapers:
    """The shapers of a run, one for each node that needs it."""

    def __init__(self, engine: Engine, holders: Mapping[str, str], folder: Path) -> None:
        """Nothing is started.

        Args:
            engine: Where the containers are.
            holders: By node, the container of its network; ``folder/<node>`` is mounted there.
            folder: Gets a folder for each node.
        """
        self._engine = engine
        self._holders = holders
        self._folder = folder
        self._queues = {node: number for number, node in enumerate(holders)}
        self._versions: dict[str, int] = {}

    def rule(self, source: str) -> str:
        """What a firewall rule does with packets of a source that is shaped."""
        return f"-j {QUEUED} --queue-num {self._queues[source]} --queue-bypass"

    async def apply(self, node: str, shapes: Mapping[str, Shape]) -> None:
        """Let packets from these sources to the node be treated so, and all others not.

        Raises:
            EnvError: The shaper does not obey.
        """
        if node not in self._versions:
            if not shapes:
                return
            await self._start(node)
        version = self._versions[node] = self._versions[node] + 1
        wanted = {
            "version": version,
            "links": {source: asdict(shape) for source, shape in shapes.items()},
        }
        draft = self._folder / node / "shape.draft"
        draft.write_text(json.dumps(wanted), encoding="utf-8")
        draft.replace(self._folder / node / "shape.json")
        await self._await(node, version)

    def counters(self, link: Link) -> Mapping[str, int]:
        """What became of a link's packets while it was shaped, since the start."""
        source, destination = link
        told: Mapping[str, int] = self._told(destination).get("links", {}).get(source, {})
        return {**_NO_COUNTERS, **told}

    async def _start(self, node: str) -> None:
        log = str(self._folder / node / "shaper.log")
        arguments = [str(self._folder / node), node, json.dumps(self._queues)]
        program = ["python3", "-I", "-c", _SOURCE, *arguments]
        argv = ["sh", "-c", _IN_BACKGROUND, log, *program]
        code, said = await in_thread(self._engine.execute, self._holders[node], argv)
        if code:
            raise EnvError(f"cannot start the shaper of {node}: {said.strip()}")
        self._versions[node] = 0

    async def _await(self, node: str, version: int) -> None:
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while self._told(node).get("version", -1) < version:
            if time.monotonic() > deadline:
                log = self._folder / node / "shaper.log"
                last = log.read_text(encoding="utf-8").strip().rpartition("\n")[2]
                raise EnvError(
                    f"the shaper of {node} does not obey within {_ANSWER_TIMEOUT_S:g} s: "
                    f"{last or 'it says nothing'}; its log is {log}"
                )
            await asyncio.sleep(_POLL_S)

    def _told(self, node: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(
                (self._folder / node / "counters.json").read_text(encoding="utf-8")
            )
        except FileNotFoundError:
            return {}
        return found
