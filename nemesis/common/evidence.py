"""Probes nodes and links, as JSON for the history and the report."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from harness.contracts.abilities import Releases
from harness.contracts.environment import Link, Probe
from harness.contracts.nemesis import Cluster

PROBE_TIMEOUT_S = 0.5
_RETRY_S = 0.05
_SILENT_STATES = ("gone", "T", "Z")  # such a process answers nobody, whatever the link does


def installed_releases(nodes: Iterable[str], cluster: Cluster) -> dict[str, str]:
    """Give the release of each of the nodes; none where the system has no releases."""
    system = cluster.system
    return (
        {node: system.node_release(node) for node in nodes} if isinstance(system, Releases) else {}
    )


async def answers(
    node: str, cluster: Cluster, *, timeout_s: float = PROBE_TIMEOUT_S
) -> dict[str, Any]:
    """Tell whether a node answers a request of the harness's own client."""
    passed, detail, elapsed_ms = await cluster.environment.ask(node, timeout_s=timeout_s)
    return {
        "saw": "request",
        "node": node,
        "answered": passed,
        "detail": detail,
        "elapsed_ms": round(elapsed_ms, 1),
    }


async def await_answer(node: str, cluster: Cluster, *, timeout_s: float) -> dict[str, Any]:
    """``answers``, tried again until it does or the time is up."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    while True:
        seen = await answers(node, cluster)
        if seen["answered"] or loop.time() >= deadline_s:
            return seen
        await asyncio.sleep(_RETRY_S)


async def probe_links(links: Iterable[Link], cluster: Cluster) -> list[Probe]:
    """Probe links, all at once."""
    net = cluster.environment.net
    tries = (net.probe(a, b, timeout_s=PROBE_TIMEOUT_S) for a, b in links)
    return list(await asyncio.gather(*tries))


async def await_links(links: Iterable[Link], cluster: Cluster, *, timeout_s: float) -> list[Probe]:
    """Probe links until all pass or the time is up; the last probe of each."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    last: dict[Link, Probe] = {}
    left = list(links)
    while left:
        for probe in await probe_links(left, cluster):
            last[probe.source, probe.destination] = probe
        left = [link for link in left if not last[link].passed]
        if loop.time() >= deadline_s:
            break
        await asyncio.sleep(_RETRY_S if left else 0)
    return list(last.values())


def can_answer(node: str, cluster: Cluster) -> bool:
    """Tell whether the node's process runs, so that a probe of it says something about the link."""
    return cluster.environment.process(node).state not in _SILENT_STATES


def sample_links(
    links: Iterable[Link], count: int, rng: Random, cluster: Cluster
) -> Sequence[Link]:
    """Choose some of the links, first those whose destination could answer."""
    ordered = sorted(links)
    rng.shuffle(ordered)
    ordered.sort(key=lambda link: not can_answer(link[1], cluster))
    return ordered[:count]
