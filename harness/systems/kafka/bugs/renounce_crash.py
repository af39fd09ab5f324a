"""KAFKA-14946: a controller that renounced met a table without what was removed from it."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="renounce-crash",
    source="KAFKA-14946: a controller that takes back what it had removed ends with a "
    "NullPointerException as it renounces",
    affected="3.4.0",
    fixed="3.4.1",
    breaks=("S21",),
    setting={"workload": "brokers", "nemeses": ("partition-isolate-leader",)},
    narrowed="the workload `brokers`, and leaders that are cut off: they go on changing what never "
    "is committed, until they renounce",
)
