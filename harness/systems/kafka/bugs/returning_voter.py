"""KAFKA-19850: a voter that was removed added itself again."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="returning-voter",
    source="KAFKA-19850: with controller.quorum.auto.join.enable a running voter that is removed "
    "adds itself again",
    affected="4.3.1",
    fixed=None,
    breaks=("S17",),
    cannot="no release up to 4.3.1 has it fixed, and KIP-853's answer to it is to stop the node "
    "first; it takes an invariant for who asked for a change of the voters",
)
