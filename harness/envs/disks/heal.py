"""Undoes faults of nodes' disks and clocks once the harness is dead."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.envs.clocks.traces import TRACES_ENTRY, remove_traces
from harness.healing.heal import undoes
from harness.processes.procfs import ProcessId

_ORDERS = ("trouble.json", "clock")


@undoes("disk")
@undoes("clock")
def _well_again(run: str, what: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Take the order away; the process that obeyed it is killed by its own entry."""
    for name in _ORDERS:
        (Path(str(what["folder"])) / name).unlink(missing_ok=True)
    return "the order was removed"


@undoes(TRACES_ENTRY)
def remove_clock_traces(run: str, what: Mapping[str, Any]) -> str:  # noqa: ARG001
    """The process is dead: its own entry is a later one, and was undone before."""
    if "pid" not in what:
        return "it never started"
    remove_traces(ProcessId(int(what["pid"]), int(what["start"])), Path(str(what["folder"])))
    return "removed"
