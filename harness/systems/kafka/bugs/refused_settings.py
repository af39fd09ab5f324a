"""KAFKA-14612: a topic that was refused left its settings in the log."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="refused-settings",
    source="KAFKA-14612: CreateTopics writes the settings of a topic that it refuses",
    affected="3.3.2",
    fixed="3.4.0",
    breaks=("C17",),
    setting={"workload": "admin", "voters": 3, "observers": 0},
    narrowed="the workload `admin`, whose clients ask for topics with settings and with replicas "
    "that cannot be",
)
