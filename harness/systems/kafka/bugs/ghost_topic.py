"""KAFKA-19497: a topic that was created and deleted stayed."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="ghost-topic",
    source="KAFKA-19497: a topic that is created and deleted within one delta is left behind in it "
    "(`TopicsDelta.replay(RemoveTopicRecord)`)",
    affected="4.1.2",
    fixed="4.2.0",
    breaks=("C8", "crash"),
    cannot="no workload of Kafka's controllers deletes topics; and what is left is seen only by a "
    "ClearElrRecord of the same delta. It takes DeleteTopics and a change of min.insync.replicas "
    "with ELR on in the workload `brokers`, and observers that lag",
)
