"""Judges that all go by one minimum of replicas in sync while leaders may be eligible: C13.

The controller knows by the minimum who is eligible, and a leader what it may acknowledge. Both need
the same number; so with eligible leader replicas no broker has a minimum of its own, and the
cluster has one. Source: KIP-966; ``ConfigurationControlManager`` of Kafka 4
(``maybeGenerateElrSafetyRecords``, and what it disallows since).
"""

from __future__ import annotations

from collections.abc import Iterator

from checkers.invariants.eligible import C13, MIN_ISR, is_enabled
from harness.verdict import Anomaly
from node.metadata import schemas as s
from node.metadata.features import ELR_VERSION
from node.metadata.image import BROKER, MetadataImage

OF_ALL = ""  # the name of the resource that stands for all brokers


class OneMinimum:
    """Judges batches that change a minimum of brokers, or whether leaders may be eligible.

    With which levels a log begins is not judged: it need not be that of a controller.
    """

    def __init__(self) -> None:
        self.checked = 0
        self._touched = False
        self._has_levels = False  # before the batch

    def record(self, record: s.MetadataRecord) -> None:
        """Take in a record of a batch."""
        match record:
            case s.ConfigRecord() if record.name == MIN_ISR and record.resource_type == BROKER:
                self._touched = True
            case s.FeatureLevelRecord() if record.name == ELR_VERSION and self._has_levels:
                self._touched = True
            case _:
                pass

    def after(self, image: MetadataImage, last: int) -> Iterator[Anomaly]:
        """Judge a batch, whose last offset it is, once it was applied."""
        touched, self._touched, self._has_levels = self._touched, False, bool(image.features)
        if not touched or not is_enabled(image):
            return
        self.checked += 1
        own = sorted(
            name
            for (kind, name), settings in image.configs.items()
            if kind == BROKER and name != OF_ALL and MIN_ISR in settings
        )
        if own:
            what = f"the broker(s) {', '.join(own)} have a {MIN_ISR} of their own"
            yield _anomaly(what, last, brokers=own)
        if MIN_ISR not in image.config((BROKER, OF_ALL)):
            yield _anomaly(f"the cluster has no {MIN_ISR}", last)


def _anomaly(what: str, last: int, **details: object) -> Anomaly:
    return Anomaly(
        C13.name,
        f"after offset {last} {what}, and leaders may be eligible: leaders and controllers go by"
        " different minima",
        details=details,
    )
