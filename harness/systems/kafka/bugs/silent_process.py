"""KAFKA-14644: a process survived the end of its raft thread."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="silent-process",
    source="KAFKA-14644: after an I/O error of the metadata log the JVM lives on and says nothing",
    affected="3.4.0",
    fixed="3.4.1",
    breaks=("L2",),
    cannot="it is in what surrounds the raft client in a process (KafkaRaftManager), which the "
    "simulator has no part of; processes show it: `krucible run --system kafka --kafka-version "
    "3.4.0 --workload producer-ids --observers 0 --seed 11 --nemesis disk-io-error --pace long "
    "--time-limit 40` is invalid by L2, and with 3.4.1 valid",
)
