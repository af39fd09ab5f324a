"""Checks the cluster of an attach file as a run of ours would find it; nothing is done to it.

The cluster is asked who its nodes are, and a keeper looks at each node that the file reaches and is
gone again. What keeps a run from beginning is ``bad``; what keeps faults from nodes is ``warn``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.contracts.environment import Address
from harness.envs.attached.file import AttachFile, Reach
from harness.envs.attached.keepers import SILENCE_S, keeper
from harness.envs.links.tcp_probe import ask
from harness.errors import EnvError
from harness.kafka.survey import Place, Survey
from krucible.arguments import look_at
from krucible.doctor.finding import Finding

_SEE = "do what the message says; docs/attach.md tells what a cluster needs"
_ASK_S = 2.0


def examine_attached(path: Path) -> list[Finding]:
    """Look at the cluster of a file; changes nothing there.

    Raises:
        UsageError: The file cannot be read, or something in it is wrong.
    """
    try:
        file, found = look_at(path)
    except EnvError as error:
        return [Finding("cluster", "bad", str(error), _SEE)]
    nodes = asyncio.run(_look_at_all(file, found))
    return [_cluster(file, found), *_gaps(found), *nodes, _limits(file)]


def _cluster(file: AttachFile, found: Survey) -> Finding:
    voters = ", ".join(str(place.id) for place in found.voters)
    others = ", ".join(str(place.id) for place in found.places if not place.voter) or "none"
    detail = (
        f"{file.system} {found.cluster_id}: voters {voters}; other nodes {others}; "
        f"{found.view.leader_id} leads in epoch {found.view.epoch}"
    )
    return Finding("cluster", "ok", detail)


def _gaps(found: Survey) -> Iterator[Finding]:
    for address in found.silent:
        yield Finding(f"{address}", "warn", "does not answer", "start it, or correct the file")
    if found.unplaced:
        ids = ", ".join(map(str, found.unplaced))
        yield Finding(
            "nodes", "warn", f"nobody told where {ids} are", "name one of them under brokers"
        )


def _limits(file: AttachFile) -> Finding:
    radius, guards = file.radius, file.guards
    if not file.allowed:
        return Finding("faults", "warn", "none are allowed", "allow some: see docs/attach.md")
    voters = "a majority of the voters, too" if radius.majority else "never a majority of voters"
    ends = {
        "no leader for": guards.no_leader_s,
        "more under-replicated partitions for": guards.under_replicated_s,
        "a node that is lost without us for": guards.unreachable_s,
    }
    told = "; ".join(f"{what} {after:g} s" for what, after in ends.items() if after is not None)
    most = f"at most {radius.nodes_at_once} nodes at once, {voters}"
    return Finding("faults", "ok", f"{most}; a run ends at: {told or 'nothing'}")


async def _look_at_all(file: AttachFile, found: Survey) -> list[Finding]:
    looks = (
        _look_at_node(f"n{number}", place, file.nodes.get(place.id))
        for number, place in enumerate(found.places, start=1)
    )
    return [finding for findings in await asyncio.gather(*looks) for finding in findings]


async def _look_at_node(name: str, place: Place, reach: Reach | None) -> list[Finding]:
    findings = [await _answers(f"{name} ({place})", place.address)]
    title = f"{name} faults"
    if reach is None or not reach.allow:
        why = "the file does not reach it" if reach is None else f"{reach}: nothing is allowed"
        return [*findings, Finding(title, "ok", f"none: {why}")]
    try:
        begun = await _begin(name, reach)
    except EnvError as error:
        return [*findings, Finding(title, "bad", str(error), _SEE)]
    allowed = ", ".join(sorted(reach.allow))
    if begun["signal"] is not None:
        return [*findings, Finding(title, "bad", f"{reach}: {begun['signal']}", _SEE)]
    detail = f"{allowed}; {begun['state']['detail']}; {reach}"
    findings.append(Finding(title, "ok", detail))
    if "partition" in reach.allow and begun["filter"] is not None:
        remedy = "be root there, with iptables and nsenter; or allow no partition"
        findings.append(Finding(f"{name} links", "warn", str(begun["filter"]), remedy))
    return findings


async def _answers(title: str, address: Address) -> Finding:
    passed, detail, elapsed_ms = await ask(address, source=None, timeout_s=_ASK_S)
    if passed:
        return Finding(title, "ok", f"{detail} after {elapsed_ms:.0f} ms")
    return Finding(title, "bad", detail, "see that it runs, and can be reached from here")


async def _begin(name: str, reach: Reach) -> dict[str, Any]:
    """Start a keeper, ask it what it could do there, and end it."""
    hand, _ = await keeper(reach, lambda _state: None, f"{name} ({reach})")
    try:
        begun = await hand.call("begin", target=reach.target(), silence_s=SILENCE_S)
        await hand.call("end")
    finally:
        await hand.close()
    return begun
