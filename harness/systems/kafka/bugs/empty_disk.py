"""KAFKA-14077: a voter came back with an empty disk."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="empty-disk",
    source="KAFKA-14077: a voter of a static quorum that comes back with an empty disk counts as "
    "the one that it was before",
    affected="4.3.1",
    fixed=None,
    breaks=("S29", "S9"),
    cannot="no release has it fixed for static quorums; those of KIP-853 do not have it",
)
