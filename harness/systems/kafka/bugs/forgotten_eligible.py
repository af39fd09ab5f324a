"""A broker that tells of a directory makes a partition forget its eligible leaders."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="forgotten-eligible",
    source="ours; mended without a number (apache/kafka#20716): AssignReplicasToDirs is worked out "
    "as if eligible leaders were switched off, so that the partition forgets its own",
    affected="4.2.1",
    fixed="4.3.1",
    breaks=("C17",),
    setting={
        "workload": "directories",
        "voters": 1,
        "observers": 1,
        "rate_hz": 20.0,
        "time_limit_s": 20.0,
        "nemeses": ("none",),
    },
    narrowed="the workload `directories`, whose brokers leave ISRs that are too small, and tell "
    "of directories",
)
