"""The guard of a foreign cluster: polls it all the time, and says when a run must let go of it.

A cluster without a leader, with partitions that stay under-replicated, or with a node that cannot
be reached though no fault of ours holds it, is not to be hit any further.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from harness.contracts.environment import Address
from harness.envs.attached.plugin import AttachedHosts
from harness.kafka.quorum import QuorumView
from harness.kafka.survey import under_replicated
from node.wire.network import Network

ASK_S: Final = 1.0


class Guard:
    """Watches one cluster during one run."""

    def __init__(
        self,
        ask_quorum: Callable[..., Awaitable[QuorumView | None]],
        brokers: Sequence[Address],
        hosts: AttachedHosts,
        network: Network,
    ) -> None:
        """Ask nobody yet.

        Args:
            ask_quorum: Tells what the leader says; None without one. Takes ``timeout_s``.
            brokers: Where brokers listen, for the question after partitions.
            hosts: Which nodes there are, what of them is ours, and the limits.
            network: The way to the cluster.
        """
        self._ask_quorum = ask_quorum
        self._brokers = brokers
        self._hosts = hosts
        self._network = network
        self._usual = 0  # partitions that were under-replicated before the run
        self._committed = 0  # below this offset all was, at the look before
        self._since: dict[str, float] = {}  # what is wrong -> since when, on the loop's clock

    async def first_look(self) -> str | None:
        """Tell what is wrong before anything is done; None: nothing."""
        for node in self._hosts.nodes:
            passed, detail, _ = await self._hosts.ask(node, timeout_s=ASK_S)
            if not passed:
                return f"{node} at {self._hosts.address(node)} cannot be reached: {detail}"
        self._usual = await self._count() or 0
        return None

    async def until_unsafe(self) -> str:
        """Return, with the reason, as soon as a limit of the file is exceeded."""
        while True:
            if (reason := await self.look()) is not None:
                return reason
            await asyncio.sleep(self._hosts.guards.poll_s)

    async def look(self) -> str | None:
        """Ask once; the reason why the run must end now, or None."""
        guards, hosts = self._hosts.guards, self._hosts
        if (lost := hosts.lost()) is not None:
            return lost
        busy = hosts.busy()
        view, short, answers = await asyncio.gather(
            self._ask_quorum(timeout_s=ASK_S),
            self._count(),
            asyncio.gather(*(hosts.ask(node, timeout_s=ASK_S) for node in hosts.nodes)),
        )
        wrong = {"no leader is known": (view is None, guards.no_leader_s)}
        if short is not None:
            more = f"more partitions are under-replicated than the {self._usual} before the run"
            wrong[more] = (short > self._usual, guards.under_replicated_s)
        for node, (passed, _, _) in zip(hosts.nodes, answers, strict=True):
            if passed and node in hosts.unsettled() and self._has_caught_up(node, view):
                hosts.settle(node)
            alone = not passed and node not in busy and node not in hosts.busy()
            wrong[f"{node} cannot be reached, and no fault of ours holds it"] = (
                alone,
                guards.unreachable_s,
            )
        if view is not None and view.high_watermark is not None:
            self._committed = view.high_watermark
        return self._exceeded(wrong)

    def _has_caught_up(self, node: str, view: QuorumView | None) -> bool:
        """Tell whether it has what was committed at the look before; more comes all the time."""
        there = None if view is None else view.nodes.get(self._hosts.id_of(node))
        return there is not None and (there.log_end or 0) >= self._committed

    def _exceeded(self, wrong: dict[str, tuple[bool, float | None]]) -> str | None:
        now = asyncio.get_running_loop().time()
        for what, (is_so, limit_s) in wrong.items():
            if not is_so:
                self._since.pop(what, None)
                continue
            lasted_s = now - self._since.setdefault(what, now)
            if limit_s is not None and lasted_s > limit_s:
                return f"{what} for {lasted_s:.1f} s; the file allows {limit_s:g} s"
        return None

    async def _count(self) -> int | None:
        """Count the under-replicated partitions, by the first broker that answers."""
        for address in self._brokers:
            found = await under_replicated(address, self._network, timeout_s=ASK_S)
            if found is not None:
                return found
        return None
