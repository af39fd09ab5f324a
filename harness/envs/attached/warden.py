"""The warden of a foreign cluster: says which node may be hit by what, and how many at a time.

A node is hit while its process stands still or is down by a fault of ours, or while links are cut
that its absence would explain: of all cut links together, the fewest nodes that explain them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

from harness.contracts.environment import Link
from harness.envs.attached.file import Radius


class Warden:
    """Counts what is hit, and refuses what the attach file does not allow."""

    def __init__(
        self,
        voters: Collection[str],
        allowed: Mapping[str, Collection[str]],
        radius: Radius,
    ) -> None:
        """Nothing is hit yet.

        Args:
            voters: Their names.
            allowed: By node, the faults that it may be given.
            radius: How much may be hit at a time.
        """
        self._voters = frozenset(voters)
        self._allowed = allowed
        self._radius = radius
        self._held: dict[str, str] = {}  # node -> by which fault its process is
        self._cuts: set[Link] = set()
        self._unsettled: set[str] = set()  # no fault holds them any more, and they are not back yet

    def hit(self) -> frozenset[str]:
        """The nodes that are hit now, or are not back yet."""
        return frozenset(self._held) | self._cover(self._cuts, self._held) | self._unsettled

    def unsettled(self) -> frozenset[str]:
        """The nodes that no fault holds any more, and that are not back yet."""
        return frozenset(self._unsettled)

    def settle(self, node: str) -> None:
        """The node is back: it answers, and has caught up."""
        self._unsettled.discard(node)

    def why_not_hold(self, fault: str, nodes: Sequence[str]) -> str | None:
        """Tell why these nodes' processes must not be given such a fault now; None: they may."""
        for node in nodes:
            if fault not in self._allowed.get(node, ()):
                return f"the attach file allows no {fault} of {node}"
            if node in self._held:
                return f"{node} is held by {self._held[node]} already"
            if any(node in link for link in self._cuts):
                return f"links of {node} are cut"
        return self._too_many({*self._held, *nodes}, self._cuts)

    def holds(self, node: str) -> bool:
        """Tell whether a fault holds a node's process now."""
        return node in self._held

    def hold(self, fault: str, node: str) -> None:
        """Count a node's process as held by such a fault."""
        self._held[node] = fault

    def release(self, node: str) -> None:
        """No fault holds it any more; it counts until it is back. Idempotent."""
        if self._held.pop(node, None) is not None:
            self._unsettled.add(node)

    def why_not_cut(self, links: Iterable[Link]) -> str | None:
        """Tell why links must not be cut now, beside those that are; None when they may."""
        wanted = {*self._cuts, *links}
        if down := sorted({node for link in wanted for node in link} & self._held.keys()):
            return f"{down[0]} is held by {self._held[down[0]]}"
        for node in sorted({receiver for _, receiver in wanted}):
            if "partition" not in self._allowed.get(node, ()):
                return f"the attach file allows no partition of {node}, where its rules would be"
        return self._too_many(self._held.keys(), wanted)

    def cut(self, links: Iterable[Link]) -> None:
        """Count links as cut."""
        self._cuts.update(links)

    def mend(self, links: Iterable[Link]) -> None:
        """They are whole; who was cut off counts until it is back."""
        before = self._cover(self._cuts, self._held)
        self._cuts.difference_update(links)
        self._unsettled |= before - self._cover(self._cuts, self._held)

    def _too_many(self, held: Collection[str], cuts: Collection[Link]) -> str | None:
        hit = {*held, *self._cover(cuts, held), *self._unsettled}
        if len(hit) > self._radius.nodes_at_once:
            return (
                f"it would hit {len(hit)} nodes at once ({', '.join(sorted(hit))}); the attach "
                f"file allows {self._radius.nodes_at_once}"
            )
        voters = hit & self._voters
        if not self._radius.majority and len(voters) > (len(self._voters) - 1) // 2:
            return (
                f"it would leave no majority of the {len(self._voters)} voters: "
                f"{', '.join(sorted(voters))} would be hit"
            )
        return None

    def _cover(self, cuts: Collection[Link], held: Collection[str]) -> frozenset[str]:
        """The fewest nodes, beside the held ones, of which each cut link has one; fewest voters."""
        left = [link for link in cuts if not set(link) & set(held)]
        nodes = sorted({node for link in left for node in link}, key=self._by_vote)
        for count in range(len(nodes) + 1):
            fit = [
                chosen
                for chosen in combinations(nodes, count)
                if all(set(link) & set(chosen) for link in left)
            ]
            if fit:
                return frozenset(min(fit, key=lambda chosen: len(self._voters & set(chosen))))
        return frozenset()

    def _by_vote(self, node: str) -> tuple[bool, str]:
        return node in self._voters, node
