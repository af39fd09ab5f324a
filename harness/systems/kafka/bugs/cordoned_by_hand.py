"""The controller lets an administrator assign a replica by hand to a cordoned broker."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="cordoned-by-hand",
    source="KAFKA-20832: CreateTopics, CreatePartitions and AlterPartitionReassignments with "
    "replicas that somebody chose do not ask whether a broker is cordoned",
    affected="4.3.1",
    fixed="4.4.0",
    breaks=("C18",),
    setting={
        "workload": "cordons",
        "voters": 1,
        "observers": 1,
        "rate_hz": 20.0,
        "time_limit_s": 20.0,
        "nemeses": ("none",),
    },
    narrowed="the workload `cordons`, whose brokers tell that they are cordoned",
)
