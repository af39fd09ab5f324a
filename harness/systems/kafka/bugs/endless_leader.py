"""KAFKA-15489: a leader that is cut off led on."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="endless-leader",
    source="KAFKA-15489: a leader from which no majority fetches claims the leadership without end",
    affected="3.3.2",
    fixed="3.7.2",
    breaks=("L4",),
    setting={
        "workload": "register",
        "voters": 3,
        "observers": 0,
        "rate_hz": 5.0,
        "time_limit_s": 15.0,
        "pace": "long",
        "nemeses": ("partition-isolate-leader",),
    },
    narrowed="the raft client alone, and lasting cuts of the leader",
    known="docs/kafka.md, a cut-off leader before 3.7 leads on",
)
