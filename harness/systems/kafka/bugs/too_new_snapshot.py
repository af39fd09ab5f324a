"""KAFKA-15271: a snapshot of a controller's memory had what came after its end."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="too-new-snapshot",
    source="KAFKA-15271: who iterates over an older state of a controller's memory is given "
    "elements that are newer, too; before 3.4 a controller makes its snapshots so",
    affected="3.3.2",
    fixed="3.5.2",
    breaks=("S22",),
    setting={"workload": "brokers", "voters": 3, "observers": 0},
    narrowed="the workload `brokers`: partitions whose leaders come and go while a controller "
    "makes a snapshot",
)
