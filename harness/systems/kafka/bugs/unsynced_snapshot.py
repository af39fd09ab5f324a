"""KAFKA-15312: a snapshot got its name before its content was on the disk."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="unsynced-snapshot",
    source="KAFKA-15312: a snapshot is renamed before it is fsynced, so that a loss of power may "
    "leave an empty file in its place",
    affected="3.3.2",
    fixed="3.7.2",
    breaks=("S35", "S36"),
    setting={
        "workload": "register",
        "voters": 3,
        "observers": 0,
        "rate_hz": 20.0,
        "time_limit_s": 5.0,
        "nemeses": ("none",),
    },
    narrowed="the raft client alone, and no faults, not even a loss of power: what one would leave "
    "is looked at all the time",
    known="docs/kafka.md, a snapshot before 3.5.2 is named too early",
)
