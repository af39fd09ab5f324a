"""The parts a node is made of; a seeded bug replaces one of them by a subclass."""

from __future__ import annotations

from dataclasses import dataclass, field

from node.broker.lifecycle import BrokerLifecycle
from node.controller.controller import QuorumController
from node.core.parts import CoreParts
from node.driver.controller_work import ControllerWork
from node.driver.effects import Effects
from node.driver.pump import Pump
from node.driver.snapshots import Snapshots
from node.driver.state_machine import StateMachine
from node.loading.loader import MetadataLoader
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
    pump: type[Pump] = Pump
    work: type[ControllerWork] = ControllerWork
    effects: type[Effects] = Effects
