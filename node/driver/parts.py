"""The parts a node is made of; a seeded bug replaces one of them by a subclass."""

from __future__ import annotations

from dataclasses import dataclass

from node.controller.controller import QuorumController
from node.core.replica import Replica
from node.driver.node import Node
from node.log.quorum_state import ElectionStateStore


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The classes that ``start`` builds a node from."""

    replica: type[Replica] = Replica
    election_store: type[ElectionStateStore] = ElectionStateStore
    controller: type[QuorumController] = QuorumController
    node: type[Node] = Node
