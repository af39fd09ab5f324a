"""KAFKA-14857: images were published before all that is committed was read."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="early-image",
    source="KAFKA-14857: MetadataLoader publishes images before it has read up to the high "
    "watermark",
    affected="3.4.0",
    fixed="3.4.1",
    breaks=("C10",),
    setting={"workload": "admin", "voters": 3, "observers": 0},
    narrowed="the workload `admin`, whose nodes have much to read when they start again",
)
