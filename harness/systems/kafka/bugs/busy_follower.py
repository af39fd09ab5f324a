"""KAFKA-17751, KAFKA-19605: an idle voter polled without a pause."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="busy-follower",
    source="KAFKA-17751, in 4.1 once more, gone with the change for KAFKA-19605: a timer of "
    "UpdateRaftVoter that is over makes a voter poll with a timeout of 0 while a Fetch is open",
    affected="4.1.2",
    fixed="4.2.0",
    breaks=("L12",),
    known="docs/kafka.md, a busy follower",
)
