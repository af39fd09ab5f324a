"""The promises of partitions in words: an entry for each name of an anomaly."""

from __future__ import annotations

from checkers.transactions.meanings import G1C, GARBAGE_READ, with_order
from harness.contracts.meaning import Meaning

INCONSISTENT_OFFSETS = Meaning(
    "inconsistent-offsets",
    title="",
    promise="An offset of a partition holds one record.",
    why=(
        "Two consumers read different records at one offset: copies of the partition differ, or an "
        "old one was overwritten."
    ),
    source="jepsen.tests.kafka",
)
DUPLICATE = Meaning(
    "duplicate",
    title="",
    promise="A record that was sent once is at one offset of its partition.",
    why=(
        "Consumers handle the record twice, although the producer is idempotent or sent it only "
        "once."
    ),
    source="jepsen.tests.kafka; KIP-98",
)
PRECOMMITTED_READ = Meaning(
    "precommitted-read",
    title="",
    promise="A transaction does not poll its own records before they are committed.",
    why="A client acts on records that may still be aborted.",
    source="jepsen.tests.kafka",
)
ABORTED_READ = Meaning(
    "aborted-read",
    title="",
    promise="No poll returns a record whose send failed or was aborted.",
    why="Consumers handle a record that its producer believes was never written, and sends again.",
    source="jepsen.tests.kafka; KIP-98",
)
LOST_WRITE = Meaning(
    "lost-write",
    title="",
    promise="A committed record is polled if later records of its partition are.",
    why=(
        "A producer was told that its record is safe, and consumers went past it: the message is "
        "lost."
    ),
    source="jepsen.tests.kafka",
)
UNSEEN = Meaning(
    "unseen",
    title="",
    promise="When the history ends, every acknowledged record has been polled.",
    why="The record may only be late, or it is lost; in both cases no consumer has handled it.",
    source="jepsen.tests.kafka",
)
INT_POLL_SKIP = Meaning(
    "int-poll-skip",
    title="",
    promise="One poll leaves out no record between two that it returns.",
    why="A consumer misses messages within one batch, and commits an offset behind them.",
    source="jepsen.tests.kafka",
)
POLL_SKIP = Meaning(
    "poll-skip",
    title="",
    promise="A consumer goes on where its last poll ended, without a gap.",
    why=(
        "Messages between two polls reach nobody in the group, although their offsets are "
        "committed."
    ),
    source="jepsen.tests.kafka",
)
INT_NONMONOTONIC_POLL = Meaning(
    "int-nonmonotonic-poll",
    title="",
    promise="One poll returns the records of a partition in the order of their offsets.",
    why="A consumer applies an older change on top of a newer one.",
    source="jepsen.tests.kafka",
)
NONMONOTONIC_POLL = Meaning(
    "nonmonotonic-poll",
    title="",
    promise="A consumer does not go back behind what it polled before.",
    why=(
        "A consumer handles messages again, or applies old ones after new ones, without a "
        "rebalance that explains it."
    ),
    source="jepsen.tests.kafka",
)
INT_NONMONOTONIC_SEND = Meaning(
    "int-nonmonotonic-send",
    title="",
    promise=(
        "Records that one transaction sends to a partition have offsets in the order in which it "
        "sent them."
    ),
    why="Consumers see the steps of one transaction in another order than its producer meant.",
    source="jepsen.tests.kafka",
)
NONMONOTONIC_SEND = Meaning(
    "nonmonotonic-send",
    title="",
    promise=(
        "Records that one producer sends to a partition have offsets in the order in which it sent "
        "them."
    ),
    why=(
        "Kafka's order per partition is what keyed topics rely on: without it an update is "
        "overtaken by the one before."
    ),
    source="jepsen.tests.kafka",
)
PARTITIONS = (
    INCONSISTENT_OFFSETS,
    DUPLICATE,
    PRECOMMITTED_READ,
    ABORTED_READ,
    LOST_WRITE,
    UNSEEN,
    INT_POLL_SKIP,
    POLL_SKIP,
    INT_NONMONOTONIC_POLL,
    NONMONOTONIC_POLL,
    INT_NONMONOTONIC_SEND,
    NONMONOTONIC_SEND,
    GARBAGE_READ,
    *with_order(G1C),
)
