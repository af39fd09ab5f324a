"""KAFKA-19047: a broker that was fenced could not come back at once."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="refused-newcomer",
    source="KAFKA-19047: a controller that has just become active takes a fenced broker for one "
    "that it has heard of, and refuses it when it starts again",
    affected="4.0.2",
    fixed="4.1.2",
    breaks=("L10",),
    setting={
        "workload": "brokers",
        "voters": 3,
        "observers": 0,
        "rate_hz": 5.0,
        "time_limit_s": 40.0,
        "pace": "long",
        "nemeses": ("kill",),
        "settings": {"broker.session.timeout.ms": "2000", "krucible.quorum": "static"},
    },
    narrowed="the workload that plays brokers, at a rate at which one is silent for longer than a "
    "session, while controllers are killed",
)
