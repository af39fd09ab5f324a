"""A node's process in a container, as the kernel of this host sees it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from harness.errors import EnvError
from harness.processes.procfs import GONE, PROC, ProcessId, identify, state_of

CGROUPS = Path("/sys/fs/cgroup")
_DEAD = (GONE, "Z")
_FROZEN = "T"
_SIGNALLED = 128  # an exit code above it: ended by the signal of the rest


class Contained:
    """The first process of a running container; ``ended`` is done when the kernel says so."""

    def __init__(self, container: str, pid: int) -> None:
        """Watch a process of this host. Needs a running loop.

        Raises:
            ProcessLookupError: It has ended already.
            EnvError: This host's kernel has no such process: the Engine is not on this host.
        """
        self.container = container
        self._loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(pid)
        who = identify(pid)
        if who is None:
            os.close(self._pidfd)
            raise ProcessLookupError(pid)
        self.id: ProcessId = who
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.told_frozen = False  # the Engine's word, where the kernel's cannot be read
        self._loop.add_reader(self._pidfd, self._end)

    @property
    def state(self) -> str:
        """Give the process's state: a letter of /proc, ``T`` when frozen, ``gone`` once it ended.

        For the kernel a frozen process sleeps; what matters is that it does not run.
        """
        if self.ended.done() or (now := state_of(self.id.pid)) in _DEAD:
            return GONE
        frozen = is_frozen(self.id.pid)
        return _FROZEN if frozen or (frozen is None and self.told_frozen) else now

    def _end(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.ended.set_result(None)


def is_frozen(pid: int) -> bool | None:
    """Tell whether the process's cgroup (v1 or v2) is frozen; None when that cannot be read."""
    try:
        lines = (PROC / str(pid) / "cgroup").read_text().splitlines()
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if "freezer" in controllers.split(","):
                state = (CGROUPS / "freezer" / path.lstrip("/") / "freezer.state").read_text()
                return state.strip() == "FROZEN"
        for line in lines:
            if line.startswith("0::"):
                events = (CGROUPS / line[4:] / "cgroup.events").read_text().split()
                return events[events.index("frozen") + 1] == "1"
    except (OSError, ValueError):
        return None
    return None


def describe_end(who: ProcessId, state: dict[str, object] | None) -> str:
    """Describe how a container's process ended, from what the Engine remembers of it."""
    if state is None:
        return f"{who} ended: its container was removed"
    if state.get("OOMKilled"):
        return f"{who} ended: killed, out of memory"
    code = int(str(state.get("ExitCode", 0)))
    if code > _SIGNALLED and code - _SIGNALLED in set(signal.Signals):
        return f"{who} ended: killed by {signal.Signals(code - _SIGNALLED).name}"
    return f"{who} ended: exit code {code}"


def not_of_this_host(pid: int) -> EnvError:
    """The Engine speaks of a process that this host's /proc does not have."""
    return EnvError(
        f"the Docker Engine started a process {pid} that is not in {PROC} here: it runs in a "
        f"virtual machine or another pid namespace; krucible must run on the Engine's own host"
    )
