"""KAFKA-14145: followers heard late of the high watermark."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="late-high-watermark",
    source="KAFKA-14145, KIP-1166: a follower hears of a new high watermark with the answer to its "
    "next Fetch, up to half a second late",
    affected="4.0.2",
    fixed="4.1.2",
    breaks=("L8",),
    setting={
        "workload": "register",
        "voters": 3,
        "observers": 1,
        "rate_hz": 5.0,
        "time_limit_s": 5.0,
        "nemeses": ("none",),
        "settings": {"metadata.max.idle.interval.ms": "500"},
    },
    narrowed="the raft client alone, and no faults: it is seen in peace, where nothing else is "
    "written",
    live={
        "workload": "producer-ids",
        "voters": 3,
        "observers": 0,
        "rate_hz": 5.0,
        "time_limit_s": 5.0,
        "settle_s": 10.0,
    },
    known="docs/kafka.md, followers before 4.1 hear late",
)
