"""A nemesis installs one kind of fault and heals it; a fault is data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, Protocol, runtime_checkable

from harness.contracts.environment import Environment
from harness.contracts.system import System
from harness.moments.trigger import Trigger
from harness.spec import RunSpec


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of a schedule: data, so that it can be saved, replayed and cut down.

    Times are milliseconds since the schedule's start. ``params`` names targets by role or by size
    ("leader", "minority"), never by what happened to be true in one run; ``draw`` is a number
    in [0, 1) that decides what the params leave open (which follower). A ``late`` one is played
    when all others are over and healed, in the order of ``at_ms``, whatever the time is then. One
    with a ``trigger`` waits for its moment from ``at_ms`` on, and may never strike; a target
    ``event`` is the node at which the moment came.
    """

    id: int
    nemesis: str
    at_ms: int
    duration_ms: int
    params: Mapping[str, Any] = field(default_factory=dict)
    draw: float = 0.0
    late: bool = False
    trigger: Trigger | None = None

    def to_json(self) -> dict[str, Any]:
        """The fault as a JSON object."""
        fields = {
            "id": self.id,
            "nemesis": self.nemesis,
            "at_ms": self.at_ms,
            "duration_ms": self.duration_ms,
            "params": dict(self.params),
            "draw": self.draw,
        }
        if self.late:
            fields["late"] = True
        if self.trigger is not None:
            fields["trigger"] = self.trigger.to_json()
        return fields


@dataclass(frozen=True, slots=True)
class Injection:
    """The outcome of a fault: installed with evidence, skipped or failed with the reason."""

    outcome: Literal["installed", "skipped", "failed"]
    targets: tuple[str, ...] = ()
    reason: str | None = None
    evidence: tuple[Mapping[str, Any], ...] = ()  # what was seen, from inside: JSON objects
    undo: Any = None  # the nemesis's own note of what to heal

    def to_json(self) -> dict[str, Any]:
        """The injection as a JSON object, without the undo note."""
        return {
            "outcome": self.outcome,
            "targets": list(self.targets),
            "reason": self.reason,
            "evidence": [dict(e) for e in self.evidence],
        }


@dataclass(frozen=True, slots=True)
class Cluster:
    """Everything that a nemesis may touch."""

    system: System
    environment: Environment


@runtime_checkable
class Chooses(Protocol):
    """A nemesis that knows runs in which it could never be installed."""

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell why a run with such options is one; None when it may be installed in it."""
        ...


@runtime_checkable
class Asks(Protocol):
    """A nemesis that asks environments for abilities which they have to prepare for."""

    asks: Collection[type]  # protocols of ``contracts.hosts``


@runtime_checkable
class NamedOnly(Protocol):
    """A nemesis that is played only if its name or family is asked for: ``all`` leaves it out."""

    named_only: bool


@runtime_checkable
class Lasting(Protocol):
    """A nemesis that is played once, from a run's first second to its last."""

    lasting: bool


@runtime_checkable
class ChangesVoters(Protocol):
    """A nemesis that takes voters away and gives them back: clients must not do so, too."""

    changes_voters: bool


class Nemesis(Protocol):
    """One kind of fault; made by ``factory()``. ``family`` groups kinds for ``--nemesis``."""

    family: str

    def available(self, cluster: Cluster) -> str | None:
        """Return None when the nemesis can be used here, else the reason why not."""
        ...

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw the parameters of one fault."""
        ...

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Install the fault and look whether it took hold; one that did not is an outcome."""
        ...

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Undo it and look whether it is gone; returns the evidence.

        Raises:
            SystemStuckError: What is left to do is the system's, which does not do it: that is its
                own failure, and the run is judged.
            Exception: It is not gone: nothing can be judged when all tries have ended so.
        """
        ...
