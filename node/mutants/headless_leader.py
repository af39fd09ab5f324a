"""A leader without a controller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from node.catalogue.scenario import Scenario
from node.controller.operations import ControllerResult
from node.driver.controller_work import ControllerWork, no_answer
from node.driver.parts import NodeParts
from node.mutants import mutant

T = TypeVar("T")


class HeadlessWork(ControllerWork):
    """Has an operation that fails, and renounces without resigning."""

    def _operate(
        self,
        name: str,
        operate: Callable[[], ControllerResult[T]],
        done: Callable[[], None] = no_answer,
    ) -> ControllerResult[T] | None:
        if name == "NoOp" and self.controller is not None and self.controller.active:
            raise RuntimeError("an operation failed")
        return super()._operate(name, operate, done)

    def _give_up(self) -> None:
        self.renounce()


@mutant(
    "headless-leader",
    breaks=("L2", "L5", "S21"),
    source="KAFKA-13104: the controller renounced and its node led on",
    scenario=Scenario(),
)
def headless_leader(parts: NodeParts) -> NodeParts:
    """After an operation has failed the controller renounces, but its node stays leader."""
    return replace(parts, work=HeadlessWork)
