"""KAFKA-15489: a leader that is cut off led on."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="endless-leader",
    source="KAFKA-15489: a leader from which no majority fetches claims the leadership without end",
    affected="3.6.2",
    fixed="3.7.2",
    breaks=("L4",),
    cannot="releases before 3.9 do not run in the simulator: it takes a layer `to-3.8` in which "
    "the raft client has its constructor of 15 arguments and RaftConfig, and voters are ids",
)
