"""Nodes go over to other releases: they leave in good order, and others start on their disks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from harness.contracts.abilities import Releases
from harness.contracts.nemesis import Cluster, Fault
from harness.errors import HarnessError
from harness.registry import systems
from harness.spec import RunSpec
from nemesis.common import claims
from nemesis.common.evidence import installed_releases
from nemesis.common.hosts import has, needs_kill
from nemesis.common.leaving import GONE_S, end_late, leave
from nemesis.common.restarts import restart

# A fault is installed, and healed, in a minute at most; JVMs start slowly on a busy host.
TURN_S: Final = 12.0  # for another fault that has a node between two releases
START_S: Final = 20.0  # for a process to answer: a heal looks after one that is slower
SAID_S: Final = 5.0  # for a log to arrive from another host
CHANGE: Final = ("release", "*")  # what the fault holds whose nodes are between two releases
_POLL_S: Final = 0.05


def why_one_release(spec: RunSpec) -> str | None:
    """Tell why no node of a run can have another release; None when one can."""
    if not has(Releases, systems.get(spec.system)):
        return f"system {spec.system!r} has no releases"
    return systems.traits(spec.system).of(spec).why_not(Releases, spec)


def needs_releases(cluster: Cluster) -> str | None:
    """Tell why nodes cannot go over to another release; None when they can."""
    if not isinstance(cluster.system, Releases):
        return f"system {cluster.system.name!r} has no releases"
    return needs_kill(cluster)


def releasing(cluster: Cluster) -> Releases:
    """Give the system as one with releases; raises HarnessError."""
    system = cluster.system
    if not isinstance(system, Releases):
        raise HarnessError(f"system {system.name!r} has no releases")
    return system


async def change(
    fault: Fault,
    pids: Mapping[str, int | None],
    releases: Mapping[str, str],
    cluster: Cluster,
    *,
    must: bool = False,
) -> list[Mapping[str, Any]]:
    """End processes in good order, and start others of these releases; returns what was seen.

    One fault does so at a time, as operators do; nothing is done and seen when its turn does not
    come, unless it ``must``. A node stays what it is where it may not go over any more, for a level
    of a feature was finalised that the release does not know.

    Args:
        fault: Whose work it is.
        pids: The nodes, with the pid of the process that each has; None: it is down.
        releases: To which release each of them goes.
        cluster: Where.
        must: It is a heal, and other faults have had their time.
    """
    came = await claims.claim_when_free(cluster, fault.id, CHANGE, timeout_s=TURN_S)
    if not (came or must):
        return []
    try:
        return await _change(pids, releases, cluster)
    finally:
        claims.release(cluster, fault.id, [CHANGE])


async def _change(
    pids: Mapping[str, int | None], releases: Mapping[str, str], cluster: Cluster
) -> list[Mapping[str, Any]]:
    system = releasing(cluster)
    before = installed_releases(pids, cluster)
    running = [node for node, pid in pids.items() if pid is not None]
    left = await asyncio.gather(*(leave(node, cluster, GONE_S) for node in running))
    late = await end_late(pids, cluster)
    kept = []
    for node, release in releases.items():
        if release in system.other_releases(node):
            system.install(node, release)
        elif release != before[node]:
            kept.append(node)
    back = await _started(pids, cluster)
    told = {
        "before": before,
        "wanted": dict(releases),
        "after": installed_releases(pids, cluster),
        "kept": kept,
        "says": await said(pids, cluster),
    }
    return [*left, {"saw": "releases", **told, "killed": late, **back}]


async def _started(pids: Mapping[str, int | None], cluster: Cluster) -> dict[str, Any]:
    """Start those that are down; one that does not answer in time is there, and its heal's."""
    try:
        async with asyncio.timeout(START_S):
            return await restart(pids, cluster)
    except TimeoutError:
        slow = dict.fromkeys(pids, f"no answer within {START_S:g} s")
        return {"restarted": list(pids), "failed_to_start": slow, "nodes": []}


async def said(nodes: Iterable[str], cluster: Cluster) -> dict[str, str | None]:
    """Give what each node's process says of its release; None: it died first, or says nothing."""
    system = releasing(cluster)
    if not system.says_releases():
        return {}
    answers = await asyncio.gather(*(_said(node, system, cluster) for node in nodes))
    return dict(answers)


async def _said(node: str, system: Releases, cluster: Cluster) -> tuple[str, str | None]:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + SAID_S
    while (told := system.said_release(node)) is None:
        if cluster.environment.process(node).pid is None or loop.time() >= deadline_s:
            break
        await asyncio.sleep(_POLL_S)
    return node, told


def why_not_changed(seen: Iterable[Mapping[str, Any]]) -> str | None:
    """Tell which nodes say to be of another release than they should be; None when all are.

    ``seen`` is what ``change`` has returned.
    """
    told = [each for each in seen if each["saw"] == "releases"]
    kept = [
        f"{node} stays of {each['after'][node]}, for a level was finalised that "
        f"{each['wanted'][node]} does not know"
        for each in told
        for node in each["kept"]
    ]
    others_say = [
        f"{node} says that it is of {says}, not of {each['after'][node]}"
        for each in told
        for node, says in each["says"].items()
        if says is not None and says != each["after"][node].partition(" ")[0]
    ]
    return "; ".join(kept + others_say) or None
