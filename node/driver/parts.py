"""The parts a node is made of; a seeded bug replaces one of them by a subclass."""

from __future__ import annotations

from dataclasses import dataclass, field

from node.broker.lifecycle import BrokerLifecycle
from node.broker.loader import MetadataLoader
from node.controller.controller import QuorumController
from node.core.parts import CoreParts
from node.driver.node import Node
from node.driver.snapshots import Snapshots
from node.driver.state_machine import StateMachine
from node.log.file_log import FileLog
from node.log.quorum_state import ElectionStateStore


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The classes that ``build`` makes a node from."""

    core: CoreParts = field(default_factory=CoreParts)
    election_store: type[ElectionStateStore] = ElectionStateStore
    log: type[FileLog] = FileLog
    controller: type[QuorumController] = QuorumController
    machine: type[StateMachine] = StateMachine
    loader: type[MetadataLoader] = MetadataLoader
    snapshots: type[Snapshots] = Snapshots
    lifecycle: type[BrokerLifecycle] = BrokerLifecycle
    node: type[Node] = Node
