"""KAFKA-14617: a replica that restarted came back into the ISR."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="readmitted-replica",
    source="KAFKA-14617, KIP-903: AlterPartition readmits a replica that restarted and lost data",
    affected="3.4.1",
    fixed="3.5.2",
    breaks=("C5",),
    cannot="whole controllers before 3.7 do not run in the simulator; processes show it: "
    "`krucible run --system kafka --kafka-version 3.4.1 --workload isr --observers 1 --seed 8 "
    "--nemesis none --time-limit 40` is invalid by C5, and with 3.5.2 valid",
)
