"""KAFKA-19354: an observer stays at its bootstrap server."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="stuck-observer",
    source="KAFKA-19354: an observer whose fetch timeout is over asks a bootstrap server, and "
    "never the leader that this names",
    affected="4.1.2",
    fixed="4.2.0",
    breaks=("L8",),
    setting={
        "settings": {"krucible.quorum": "dynamic", "krucible.bootstrap.servers": "1"},
        "workload": "register",
        "voters": 3,
        "observers": 2,
        "rate_hz": 5.0,
        "time_limit_s": 10.0,
        "pace": "long",
        "nemeses": ("partition",),
    },
    narrowed="cuts, and nodes that know one bootstrap server: of several an observer finds the "
    "leader by chance, and until then asks for it without a pause, which takes much CPU",
    live={
        "settings": {"krucible.quorum": "dynamic", "krucible.bootstrap.servers": "1"},
        "workload": "producer-ids",
        "observers": 1,
        "rate_hz": 5.0,
        "time_limit_s": 40.0,
        "pace": "long",
        "nemeses": ("partition",),
    },
    live_breaks=("L2",),  # there all nodes are to follow within the time for recovery
)
