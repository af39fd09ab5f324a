"""Processes of nodes on ssh hosts, by the supervisors there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from harness.contracts.environment import ProcessState
from harness.envs.nodes.names import known
from harness.envs.processes.running import STOPPED
from harness.envs.ssh.place import Place
from harness.errors import EnvError

_SIGKILL, _SIGCONT, _SIGSTOP = 9, 18, 19  # as all hosts number them


class HostProcesses:
    """``NodeProcesses`` on the nodes' hosts."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        """Start nothing yet; ``places`` are the run's, once it is set up."""
        self._places = places

    def state(self, node: str) -> ProcessState:
        """See ``NodeProcesses``; what the host's kernel said last: news takes some 30 ms.

        Raises:
            EnvError: The host is lost: nobody can know.
        """
        place = known(self._places, node)
        if place.remote.lost is not None:
            raise place.remote.gone()
        return place.state

    async def signal(self, node: str, signal_number: int) -> None:
        """See ``Environment``; the whole group gets it."""
        place = known(self._places, node)
        try:
            place.take_state(await place.remote.call("signal", number=int(signal_number)))
        except EnvError:
            if place.remote.lost is None:  # it may have ended just before: whoever asks must know
                place.take_state(await place.remote.call("state"))
            raise

    async def end(self, node: str) -> None:
        """See ``NodeProcesses``."""
        await self._kill(node, {"do": "signal", "number": _SIGKILL})

    async def cut(self, node: str) -> None:
        """See ``NodeProcesses``; a fault disk in the process itself ends with it."""
        await self._kill(node, {"do": "cut"})

    async def _kill(self, node: str, order: Mapping[str, Any]) -> None:
        place = known(self._places, node)
        if place.state.pid is None:
            return
        try:
            place.take_state(await place.remote.call(**order))
        except EnvError:
            place.take_state(await place.remote.call("state"))
            if place.state.pid is not None:
                raise  # else it ended just before

    @asynccontextmanager
    async def frozen(self, node: str) -> AsyncIterator[None]:
        """See ``NodeProcesses``."""
        place = known(self._places, node)
        if place.state.pid is None or place.state.state == STOPPED:
            yield
            return
        await self.signal(node, _SIGSTOP)
        try:
            await place.remote.call("hold", held=True)
            try:
                yield
            finally:
                await place.remote.call("hold", held=False)
        finally:
            await self.signal(node, _SIGCONT)
