"""Keeps what checkers take for right as it is, while the node of the same process is changed."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

ASKING: Final = "checkers.invariants.controller_answers"
SHARED: Final = "node.metadata"  # values that node and checkers exchange; it is not mutated


def keep() -> None:
    """Import the controller that C17 asks what is due, and let others import the node anew.

    That controller goes on with the modules that it was imported with. Call it before a change is
    planted, and before anything else imports the node.
    """
    asking = import_module(ASKING)
    asking.Answering(asking.MetadataImage(), asking.ControllerConfig())  # imports all that serve
    node = sys.modules["node"]
    for name in list(sys.modules):
        if name.startswith("node.") and not f"{name}.".startswith(f"{SHARED}."):
            del sys.modules[name]
            vars(node).pop(name.removeprefix("node."), None)  # or ``from node import`` finds it
