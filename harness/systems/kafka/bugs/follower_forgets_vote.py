"""KIP-996 came with followers that keep their vote."""

from harness.contracts.released import ReleasedBug

BUG = ReleasedBug(
    name="follower-forgets-vote",
    source="ours; mended with KIP-996: a follower writes the leader of its epoch in the place of "
    "its vote, and no more knows for whom it voted",
    affected="3.9.2",
    fixed="4.0.1",
    breaks=("S3",),
    live={
        "workload": "producer-ids",
        "voters": 3,
        "observers": 0,
        "time_limit_s": 30.0,
        "nemeses": ("partition", "kill"),
    },
    known="docs/kafka.md, a follower before 4.0 forgets its vote",
)
