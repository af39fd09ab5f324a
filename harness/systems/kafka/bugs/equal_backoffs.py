"""KAFKA-18345: candidates backed off for the same time."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="equal-backoffs",
    source="KAFKA-18345: the backoff of candidates is cut off at its maximum, so that nothing of "
    "it is random after some retries",
    affected="3.9.1",
    fixed="3.9.2",
    breaks=("L9",),
    setting={
        "workload": "register",
        "voters": 3,
        "observers": 0,
        "rate_hz": 5.0,
        "pace": "lasting",
        "nemeses": ("partition", "kill"),
        "settings": {
            "controller.quorum.election.timeout.ms": "300",
            "controller.quorum.election.backoff.max.ms": "300",
        },
    },
    narrowed="three voters, lasting cuts and kills, and the shortest timers of the swarm: the "
    "backoff is at its maximum only after some ten elections in vain",
    live={
        "workload": "producer-ids",
        "voters": 3,
        "observers": 0,
        "rate_hz": 5.0,
        "time_limit_s": 60.0,
        "pace": "lasting",
        "nemeses": ("partition", "kill"),
        "settings": {
            "controller.quorum.election.timeout.ms": "300",
            "controller.quorum.election.backoff.max.ms": "300",
        },
    },
)
