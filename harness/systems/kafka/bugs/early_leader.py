"""KAFKA-15345: a leader was told that it leads before its epoch was committed."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="early-leader",
    source="KAFKA-15345: a leader with an empty log, or whose state machine has applied all of it, "
    "is told that it leads before the first record of its epoch is committed",
    affected="3.3.2",
    fixed="3.7.2",
    breaks=("S21",),
    setting={
        "workload": "register",
        "voters": 3,
        "observers": 0,
        "rate_hz": 5.0,
        "time_limit_s": 2.0,
        "nemeses": ("none",),
    },
    narrowed="the raft client alone, and no faults: the first leader of a cluster shows it",
    known="docs/kafka.md, a leader before 3.6 is told early",
)
