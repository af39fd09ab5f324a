"""A publisher that traces each change of a partition as the broker learns it.

Source: KRaft's partition records; what is needed to judge leaders, ISRs and their epochs.
"""

from __future__ import annotations

from node.loading.loader import Manifest, Trace
from node.metadata.delta import MetadataDelta
from node.metadata.image import MetadataImage


class IsrTrace:
    """Emits ``isr`` for each partition that a delta creates or changes; none for a full image."""

    changes_only = True

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def publish(self, delta: MetadataDelta, _: MetadataImage, manifest: Manifest) -> None:
        """Trace what changed."""
        for topic in delta.topics:
            for index, change in topic.partitions.items():
                state = change.after
                if state is None:
                    continue
                self._trace(
                    "isr",
                    {
                        "tp": [topic.id.hex, index],
                        "replicas": state.replicas,
                        "leader": state.leader,
                        "lep": state.leader_epoch,
                        "pep": state.partition_epoch,
                        "isr": state.isr,
                        "elr": state.eligible_leaders,
                        "off": manifest.provenance.offset,
                    },
                )
