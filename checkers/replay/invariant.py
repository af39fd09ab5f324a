"""The base of every invariant: a name, the events it listens to, a judgement of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from checkers.replay.trace import Event
from checkers.replay.world import World
from harness.contracts.evidence import LogBatch
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly

FinalLogs = Mapping[str, Sequence[LogBatch]]


class Invariant(ABC):
    """One statement of the catalogue; ``checked`` counts what it really examined.

    The first line of the subclass's docstring says what it judges, ``meaning`` what the invariant
    promises and why that matters; those who judge one invariant together share it. It also ``uses``
    what events of other types changed in the world, beside those of a log. ``feed`` sees the world
    as it was just before the event. Every subclass in a module of ``checkers.invariants``
    is found by ``monitor``.
    """

    name: ClassVar[str]
    meaning: ClassVar[Meaning]
    listens: ClassVar[tuple[str, ...]]
    uses: ClassVar[tuple[str, ...]] = ()
    checker: ClassVar[str] = "consensus"  # that tells of it
    timed: ClassVar[bool] = False  # by the nodes' clocks, of which none may run fast or slow

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """One for nodes with these settings; by default they do not matter."""
        del settings
        return cls()

    def __init__(self) -> None:
        self.checked = 0
        self._reported: set[Hashable] = set()

    @abstractmethod
    def feed(self, event: Event, world: World) -> Iterable[Anomaly]:
        """Tell what the event breaks."""

    def finish(self, logs: FinalLogs, world: World) -> Iterator[Anomaly]:
        """Judge the logs found on the disks after the run; by default nothing is asked."""
        del logs, world
        return iter(())

    def _once(self, what: Hashable) -> bool:
        """Tell whether ``what`` is reported for the first time."""
        if what in self._reported:
            return False
        self._reported.add(what)
        return True

    def _anomaly(self, message: str, *events: Event | None, **details: Any) -> Anomaly:
        """An anomaly of this invariant; it became visible with the last of the events."""
        shown = tuple(dict(event) for event in events if event is not None)
        time_ns = shown[-1].get("rx_ns") if shown else None
        return Anomaly(
            self.name,
            message,
            events=shown,
            details=details,
            time_ns=time_ns if isinstance(time_ns, int) else None,
        )
