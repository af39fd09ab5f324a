"""Undo what a dead harness did to a foreign cluster, should its keepers not have done it.

A keeper mends its node as soon as its harness is gone. ``krucible heal`` starts another one all the
same: the keeper may have been killed, too, and only then is the journal's word the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from harness.envs.attached.file import Reach
from harness.envs.attached.keepers import KEEP, KeeperHere
from harness.envs.ssh.hosts import Host
from harness.envs.ssh.remote import clean
from harness.healing.heal import undoes

PAUSE_ENTRY: Final = "attached pause"
END_ENTRY: Final = "attached end"
RULES_ENTRY: Final = "attached rules"
_MEND_S = 120.0  # a node that was told to end in good order takes its time
_NOTHING: Final[Mapping[str, Any]] = {"chain": None, "paused": None, "ended": None}


def entry(reach: Reach, python: str, **what: Any) -> dict[str, Any]:
    """Describe a node for the journal, with what is to be undone."""
    host = None if reach.host is None else reach.host.to_json()
    return {"id": reach.id, "target": reach.target(), "host": host, "python": python, **what}


@undoes(PAUSE_ENTRY)
def _resume(run: str, what: Mapping[str, Any]) -> str:  # noqa: ARG001
    return _mend(what, paused=what["who"])


@undoes(END_ENTRY)
def _start(run: str, what: Mapping[str, Any]) -> str:  # noqa: ARG001
    return _mend(what, ended=what["who"])


@undoes(RULES_ENTRY)
def _remove_rules(run: str, what: Mapping[str, Any]) -> str:  # noqa: ARG001
    return "; ".join(_mend(each, chain=each["chain"]) for each in what["nodes"])


def _mend(what: Mapping[str, Any], **undo: Any) -> str:
    """Have a keeper undo it; raises EnvError when it is still there."""
    order = {"target": what["target"], **_NOTHING, **undo}
    if what["host"] is None:
        done = asyncio.run(_here(order))
    else:
        host = Host.from_json(what["host"])
        done = clean(host, str(what["python"]), order, verb=KEEP, do="mend")
    found = [name for name, was in done.items() if was]
    return f"{', '.join(found)}" if found else "already well"


async def _here(order: Mapping[str, Any]) -> dict[str, Any]:
    keeper = KeeperHere(f"node {order['target']}")
    await keeper.start()
    try:
        return await keeper.call("mend", within_s=_MEND_S, **order)
    finally:
        await keeper.close()
