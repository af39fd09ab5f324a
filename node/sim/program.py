"""The program that hosts run when a node is our own."""

from __future__ import annotations

from functools import partial

from node import mutants
from node.config import NodeConfig
from node.driver.process import Running
from node.driver.world import World
from node.sim.host import Failed, Program


def program_of(config: NodeConfig) -> Program:
    """A node with this configuration."""
    return Program(config.node_id, config.fsync, partial(_running, config))


def _running(config: NodeConfig, world: World, failed: Failed) -> Running:
    return Running(config, mutants.planted(config.mutant), failed, world)
