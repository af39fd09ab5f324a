"""KAFKA-19850: a voter that was removed added itself again."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="returning-voter",
    source="KAFKA-19850: with controller.quorum.auto.join.enable a running voter that is removed "
    "adds itself again",
    affected="4.3.1",
    fixed=None,
    breaks=("S17",),
    known="docs/kafka.md, a removed voter that adds itself",
    cannot="no release up to 4.4.0 has it fixed; S17 names it where clients change the voters: "
    "`krucible sim --system kafka --kafka-version 4.4.0 --seed 7048`",
)
