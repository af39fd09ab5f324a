"""Undo what a dead harness left on ssh hosts, should the supervisors there not have done it.

A supervisor cleans its host as soon as its harness is gone. ``krucible heal`` logs in all the same:
the supervisor may have been killed too, and only then is the journal's word the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.envs.ssh.hosts import Host
from harness.envs.ssh.remote import clean
from harness.errors import EnvError
from harness.healing.heal import undoes

HOST_ENTRY = "ssh host"
RULES_ENTRY = "ssh rules"
DISK_ENTRY, CLOCK_ENTRY = "ssh disk", "ssh clock"


def entry(host: Host, python: str, place: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a host for the journal; ``place``: folder, chain and mark of the run there."""
    return {"host": host.to_json(), "python": python, "place": dict(place)}


@undoes(HOST_ENTRY)
def clean_host(run: str, what: Mapping[str, Any]) -> str:
    """Kill the run's processes there, take its chain out, remove its folder."""
    place = what["place"]
    if not str(place["mark"]).startswith(f"{run}/"):
        raise EnvError(f"the journal's entry names {place['mark']} as its owner, not run {run}")
    done = clean(Host.from_json(what["host"]), str(what["python"]), place)
    found = [name for name, count in done.items() if count]
    return f"removed: {', '.join(found)}" if found else "already gone"


@undoes(RULES_ENTRY)
def _flush(run: str, what: Mapping[str, Any]) -> str:  # noqa: ARG001
    return "the rules go with their host's chain"


@undoes(DISK_ENTRY)
@undoes(CLOCK_ENTRY)
def _forget(run: str, what: Mapping[str, Any]) -> str:  # noqa: ARG001
    return "the order goes with its host's folder"
