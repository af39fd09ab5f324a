"""The controller does all that its interface says."""

from __future__ import annotations

import inspect
from random import Random

from node.controller.controller import QuorumController
from node.controller.interface import Controller


def test_the_controller_has_the_interface_that_the_driver_is_written_against() -> None:
    controller: Controller = QuorumController(rng=Random(1))  # mypy checks the types
    assert not controller.active
    for name, method in inspect.getmembers(Controller, inspect.isfunction):
        if not name.startswith("_"):
            real = getattr(QuorumController, name)
            assert list(inspect.signature(real).parameters) == list(
                inspect.signature(method).parameters
            ), name
