"""KAFKA-19497: a topic that was created and deleted stayed."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="ghost-topic",
    source="KAFKA-19497: a topic that is created and deleted within one delta is left behind in it "
    "(`TopicsDelta.replay(RemoveTopicRecord)`)",
    affected="4.1.2",
    fixed="4.2.0",
    breaks=("C8", "crash"),
    cannot="the workload `topics` deletes topics, but what is left is seen only by a "
    "ClearElrRecord of the same delta, and no workload changes min.insync.replicas, which writes "
    "one. It takes such changes in `topics` with ELR on, and observers that lag",
)
