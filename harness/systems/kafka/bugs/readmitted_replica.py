"""KAFKA-14617: a replica that restarted came back into the ISR."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="readmitted-replica",
    source="KAFKA-14617, KIP-903: AlterPartition readmits a replica that restarted and lost data",
    affected="3.4.1",
    fixed="3.5.2",
    breaks=("C5",),
    setting={"workload": "isr", "voters": 3, "observers": 1},
    narrowed="the workload `isr`, whose clients play brokers that start again, and leaders that "
    "know them still: the swarm draws it for a sixteenth of its seeds",
)
