"""KAFKA-14617: a replica that restarted came back into the ISR."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="readmitted-replica",
    source="KAFKA-14617, KIP-903: AlterPartition readmits a replica that restarted and lost data",
    affected="3.4.1",
    fixed="3.5.2",
    breaks=("C5",),
    cannot="whole controllers before 3.7 do not run in the simulator; above them it takes the "
    "workload `isr` with a broker that restarts though nobody let it go",
)
