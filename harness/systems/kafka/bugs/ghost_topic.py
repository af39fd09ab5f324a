"""KAFKA-19497: a topic that was created and deleted stayed."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="ghost-topic",
    source="KAFKA-19497: a topic that is created and deleted within one delta is left behind in it "
    "(`TopicsDelta.replay(RemoveTopicRecord)`)",
    affected="4.1.2",
    fixed="4.2.0",
    breaks=("L8", "C8"),
    setting={"workload": "elr", "voters": 3, "observers": 1, "nemeses": ("kill", "pause")},
    narrowed="the workload `elr`, whose clients make a topic, delete it and set the minimum of "
    "ISRs, while nodes are down: what is left is seen by a ClearElrRecord of the same delta only",
    live={
        "workload": "elr",
        "voters": 3,
        "observers": 1,
        "nemeses": ("kill",),
        "pace": "long",
        "time_limit_s": 60.0,
    },
    known="docs/kafka.md, a topic that came and went",
)
