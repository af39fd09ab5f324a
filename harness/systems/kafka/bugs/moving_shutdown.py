"""KAFKA-14292: a controlled shutdown waited for a moving offset."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="moving-shutdown",
    source="KAFKA-14292: a broker that stops while metadata is written is let go late: the offset "
    "that it waits for moves at each heartbeat",
    affected="3.3.1",
    fixed="3.3.2",
    breaks=("L10",),
    cannot="whole controllers before 3.4 do not run in the simulator; the workload `brokers` above "
    "processes of 3.3.1 did not show it in 40 s: a shutdown there begins when little is written",
)
