"""Seams of nodes' processes: what each is started with, so that disk and clock are in our hands."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random

from harness.contracts.hosts import Clocks, Disks, Power
from harness.envs.clocks.orders import NodeClocks
from harness.envs.disks.orders import NodeDisks
from harness.envs.disks.power import NodePower
from harness.envs.nodes.hands import NodeHands
from harness.envs.nodes.processes import NodeProcesses
from harness.healing.journal import Journal


@dataclass(frozen=True, slots=True)
class Seams:
    """The disks, the power and the clocks of an environment's nodes."""

    disks: NodeDisks
    power: NodePower
    clocks: NodeClocks

    @staticmethod
    def of(
        journal: Journal,
        hands: NodeHands,
        processes: NodeProcesses,
        faketime: Callable[[str], str | None],
        entries: tuple[str, str] = ("disk", "clock"),
    ) -> Seams:
        """The seams of nodes; none is used yet.

        Args:
            journal: Of the run.
            hands: Reach the files of its nodes.
            processes: The nodes'.
            faketime: Tells by node where its process finds libfaketime; None: nowhere.
            entries: The kinds of journal entries of disks and of clocks.
        """
        disk_entry, clock_entry = entries
        disks = NodeDisks(journal, hands, processes, entry=disk_entry)
        clocks = NodeClocks(journal, hands, processes, faketime, entry=clock_entry)
        return Seams(disks, NodePower(disks, processes), clocks)

    @property
    def parts(self) -> tuple[NodeDisks, NodePower, NodeClocks]:
        """Give the disks, the power and the clocks."""
        return self.disks, self.power, self.clocks

    def expect(self, abilities: Collection[type], rng: Random) -> None:
        """Use them for what a run's faults may ask; ``rng`` decides what hosts do by chance."""
        if {Disks, Power} & set(abilities):
            self.disks.use()
            self.power.use(rng)
        if Clocks in abilities:
            self.clocks.use()

    async def environ(self, node: str) -> dict[str, str]:
        """Give the environment variables of a node's next process; asked just before its start."""
        return self.disks.environ(node) | await self.clocks.environ(node)
