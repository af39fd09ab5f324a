"""The outbox gathers the effects of one step, in the order in which they must be run."""

from __future__ import annotations

from typing import Any

from node.core import effects as fx


class Outbox:
    """An outbox holds what a step wants done; all handlers of a replica write into the same."""

    def __init__(self, epoch: int) -> None:
        self.effects: list[fx.Effect] = []
        self.epoch = epoch  # of the present role, for the trace

    def emit(self, *effects: fx.Effect) -> None:
        """Add effects after those that are there."""
        self.effects.extend(effects)

    def trace(self, type_: str, **fields: Any) -> None:
        """Add an event of the present epoch for the trace."""
        self.effects.append(fx.Trace(type_, self.epoch, fields))

    def take(self) -> list[fx.Effect]:
        """Hand out all effects and begin anew."""
        effects, self.effects = self.effects, []
        return effects
