"""Processes on ssh hosts, as far as their supervisors have told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from harness.envs.ssh.place import Place
from harness.envs.ssh.processes import HostProcesses
from harness.errors import EnvError

ENDED = {"state": "gone", "pid": None, "detail": "pid 7 ended: exit code 0"}


@dataclass
class Supervisor:
    """Refuses signals to a process that has ended, which nobody here has heard of yet."""

    lost: str | None = None
    asked: list[str] = field(default_factory=list)

    async def call(self, do: str, **_: object) -> Mapping[str, Any]:
        self.asked.append(do)
        if do == "signal":
            raise EnvError("host h: pid 7 ended: exit code 0")
        return ENDED


@dataclass
class Told:
    """Stands for a place, of which only its supervisor and its state matter here."""

    remote: Supervisor
    states: list[Mapping[str, Any]] = field(default_factory=list)

    def take_state(self, state: Mapping[str, Any]) -> None:
        self.states.append(state)


@pytest.mark.parametrize("lost", [None, "the host is lost"])
def test_who_has_ended_just_before_a_signal_is_known_to_have(lost: str | None) -> None:
    place = Told(Supervisor(lost))
    processes = HostProcesses({"n1": cast("Place", place)})
    with pytest.raises(EnvError, match="pid 7 ended"):
        asyncio.run(processes.signal("n1", 9))
    assert place.states == ([ENDED] if lost is None else [])
