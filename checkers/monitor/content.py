"""Judges the committed log batch by batch, beside the nodes' own events.

The same serves a simulation, where both come as they happen, and a finished run, where all that
was said is taken in first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from checkers.committed.fold import BEGINNING, Folding, MakeFold, MetadataFold
from checkers.committed.left_out import LeftOut
from checkers.committed.orphans import Deletions
from checkers.committed.reference import Reference
from checkers.invariants.balance import Stretch
from checkers.invariants.controller_answers import C17, AnswerChecks
from checkers.invariants.images import ImageChecks
from checkers.invariants.lasting import Disk, Incarnation, Lasting
from checkers.invariants.metadata_log import MetadataWalk
from checkers.monitor.monitor import GATHERED
from checkers.replay.trace import Event
from harness.contracts.evidence import LogBatch
from harness.verdict import Anomaly

IMAGES, BROKERS = frozenset(GATHERED["images"]), frozenset(GATHERED["brokers"])
ANSWERS = frozenset((*GATHERED["answers"], *GATHERED["contacts"]))
WANTED = IMAGES | BROKERS | ANSWERS  # types of events; others matter only when something is due
NO_SETTINGS: Mapping[str, str] = {}


class Content:
    """C1 to C3, C5, C7, C8, C11, C13 to C15, C17, C18 and S19, as far as the log's records tell.

    A leader tells of a write (``alter``, ``let_go``) right after the high watermark that commits
    it, and before anybody else does anything: so a batch is folded at once, and walked only with
    the next event that is not of that moment.
    """

    def __init__(
        self,
        known: Reference = BEGINNING,
        make_fold: MakeFold = MetadataFold,
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        self._folding = Folding(known, make_fold)
        self.folded = self._folding.folded
        misfit = self.folded.misfit
        self.anomalies = [] if misfit is None else [Anomaly("C8", misfit)]
        self._deletions = Deletions(() if known.snapshot is None else known.snapshot.records)
        self._left_out = LeftOut()
        self.images = ImageChecks(self.folded, self._deletions, self._left_out)
        self._walk = MetadataWalk()
        self._answers = AnswerChecks(known, settings)
        if known.snapshot is not None:
            self._walk.begin(known.snapshot)
        self.end = known.begin or 0  # what is below was taken in
        self.unread: int | None = None  # the end of what is committed, if not all could be read
        self.due: list[LogBatch] = []  # to be walked with the next event, whatever that is
        self._moment: tuple[object, object] = (None, None)  # whose, and when, made them due

    @property
    def checked(self) -> Mapping[str, int]:
        """Tell how much each invariant examined."""
        counted = {"C8": self.images.checked, C17.name: self._answers.checked}
        return {**self._walk.checked, **counted}

    @property
    def stretches(self) -> Sequence[Stretch]:
        """Tell where in the log partitions were led by others than their first replicas."""
        return self._walk.balance.stretches

    @property
    def services(self) -> Sequence[Lasting[Incarnation]]:
        """Tell where in the log brokers were in service."""
        return self._walk.services.found

    @property
    def disks(self) -> Sequence[Lasting[Disk]]:
        """Tell where in the log brokers were known to have which disks."""
        return self._walk.disks.found

    def batch(self, batch: LogBatch, by: Event | None = None) -> list[Anomaly]:
        """Take in the next committed batch, and by which event it is known to be committed."""
        sane = self.folded.misfit is None
        self._folding.batch(batch)
        if self.folded.end == batch.last + 1:
            self._left_out.batch(batch, self._folding.state)
        self._deletions.batch(batch)
        self._answers.batch(batch)
        found = list(self.images.grown())
        if sane and self.folded.misfit is not None:
            found.append(Anomaly("C8", self.folded.misfit))
        self.end = batch.last + 1
        self.due.append(batch)
        if by is not None:
            self._moment = by["node"], by["ts"]
        return self._keep(found)

    def event(self, event: Event) -> list[Anomaly]:
        """Take in an event, whatever it is."""
        kind = event["t"]
        found: list[Anomaly] = []
        if self.due and (event["node"], event["ts"]) != self._moment:
            found += self._walked()
            found += self._answers.settle(event["ts"])
        if kind in IMAGES:
            found += self.images.feed(event)
        elif kind in BROKERS:
            found += self._walk.tell(event)
        elif kind in ANSWERS:
            self._answers.feed(event)
        return self._keep(found) if found else found

    def finish(self) -> None:
        """Judge what was waiting for more."""
        walked = self._walked()
        self._keep([*walked, *self._answers.settle(), *self.images.finish(), *self._walk.finish()])

    def _walked(self) -> Iterable[Anomaly]:
        due, self.due = self.due, []
        return [anomaly for batch in due for anomaly in self._walk.batch(batch)]

    def _keep(self, found: list[Anomaly]) -> list[Anomaly]:
        self.anomalies += found
        return found
