"""KAFKA-15489: a leader that is cut off led on."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="endless-leader",
    source="KAFKA-15489: a leader from which no majority fetches claims the leadership without end",
    affected="3.6.2",
    fixed="3.7.2",
    breaks=("L4",),
    cannot="3.6 does not run in the simulator: the oldest that does, 3.7.2, has it fixed; whether "
    "the raft client of 3.6 fits the layer `to-3.8` was not tried",
)
