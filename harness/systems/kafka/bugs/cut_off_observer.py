"""An observer that hears from nobody polls without a pause."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="cut-off-observer",
    source="ours, since the change for KAFKA-19354: an observer whose fetch timeout is over polls "
    "with a timeout of 0 while its Fetch is under way",
    affected="4.3.1",
    fixed=None,
    breaks=("L12",),
    cannot="no release up to 4.3.1 has it fixed, and 4.1.2 does not have it yet: docs/kafka.md",
)
