"""KAFKA-14292: a controlled shutdown waited for a moving offset."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="moving-shutdown",
    source="KAFKA-14292: a broker that stops while metadata is written is let go late: the offset "
    "that it waits for moves at each heartbeat",
    affected="3.3.1",
    fixed="3.3.2",
    breaks=("L10",),
    setting={"workload": "brokers", "voters": 3, "observers": 0},
    narrowed="the workload `brokers`, whose clients play brokers that lead and stop; what is "
    "written meanwhile is the swarm's",
)
