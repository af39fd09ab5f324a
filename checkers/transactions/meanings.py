"""The promises of transactions in words: an entry for each name of an anomaly."""

from __future__ import annotations

from dataclasses import replace

from harness.contracts.meaning import Meaning

G0 = Meaning(
    "G0",
    title="write cycle",
    promise="Transactions write in one order: none writes both before and after another one.",
    why=(
        "Two transactions overwrite each other in parts. What is left is a mix that neither of "
        "them wrote."
    ),
    source="Adya, Weak Consistency, 1999; Elle",
)
G1A = Meaning(
    "G1a",
    title="aborted read",
    promise="No transaction reads what a transaction wrote that was refused.",
    why="A client acts on a value that was never there, since its writer was told that it failed.",
    source="Adya, Weak Consistency, 1999; Elle",
)
G1B = Meaning(
    "G1b",
    title="intermediate read",
    promise="No transaction reads a state that its writer had not finished with.",
    why=(
        "A client sees half of a change, such as money that has left one account and is on no "
        "other."
    ),
    source="Adya, Weak Consistency, 1999; Elle",
)
G1C = Meaning(
    "G1c",
    title="circular information flow",
    promise=(
        "Information flows one way: no two transactions each see what the other wrote, directly or "
        "through others."
    ),
    why=(
        "Each of the two seems to have run before the other. No order explains what clients saw, "
        "so no log or audit can."
    ),
    source="Adya, Weak Consistency, 1999; Elle",
)
G_SINGLE = Meaning(
    "G-single",
    title="read skew",
    promise=(
        "A transaction reads the state of one moment: it does not see some effects of another "
        "transaction and miss others."
    ),
    why=(
        "Totals and checks over several keys are wrong: a client adds up two values that were "
        "never there together."
    ),
    source="Adya, Weak Consistency, 1999; Elle",
)
G_NONADJACENT = Meaning(
    "G-nonadjacent",
    title="long fork",
    promise="All readers see the writes of others in the same order.",
    why=(
        "Two clients see two changes in opposite orders, and each decides by another history of "
        "the same data."
    ),
    source="Cerone and Gotsman, Analysing Snapshot Isolation, 2016; Elle",
)
G2_ITEM = Meaning(
    "G2-item",
    title="write skew",
    promise="Of transactions that each read what another one overwrites, not all succeed.",
    why=(
        "Each of two clients checks a rule and changes something else, and together they break "
        "the rule, such as that somebody is always on call."
    ),
    source="Adya, Weak Consistency, 1999; Elle",
)
DIRTY_UPDATE = Meaning(
    "dirty-update",
    title="",
    promise="No transaction builds on what a transaction wrote that was refused.",
    why=(
        "A value that was refused becomes part of one that was confirmed, and can no longer be "
        "taken out."
    ),
    source="Elle",
)
DUPLICATE_ELEMENTS = Meaning(
    "duplicate-elements",
    title="",
    promise="An element that was appended once is in its list once.",
    why=(
        "A retry inside of the system was applied twice: an order is placed or a message sent a "
        "second time."
    ),
    source="Elle",
)
GARBAGE_READ = Meaning(
    "garbage-read",
    title="",
    promise="A read returns only what somebody wrote.",
    why=(
        "Clients get values that come from nowhere: of other keys, of torn writes, or of memory "
        "that was used again."
    ),
    source="Elle; jepsen.tests.kafka",
)
FUTURE_READ = Meaning(
    "future-read",
    title="",
    promise="A transaction does not read what it writes only later.",
    why=(
        "A transaction acts on its own result before it has computed it, so running it again gives "
        "something else."
    ),
    source="Elle",
)
INCOMPATIBLE_ORDER = Meaning(
    "incompatible-order",
    title="",
    promise="All reads of a list agree on the order of its elements.",
    why=(
        "Two clients see two versions of one list of which neither is the beginning of the other: "
        "a write was lost, or the copies differ."
    ),
    source="Elle",
)
INTERNAL = Meaning(
    "internal",
    title="",
    promise="A transaction sees its own earlier reads and writes.",
    why="A client that writes a value and reads it back in the same transaction gets another one.",
    source="Elle",
)
LOST_UPDATE = Meaning(
    "lost-update",
    title="",
    promise="Of transactions that read the same version of a key and change it, only one succeeds.",
    why="Two clients add to one value at the same time, and the change of one of them is gone.",
    source="Adya, Weak Consistency, 1999; Elle",
)


def with_order(cycle: Meaning) -> tuple[Meaning, Meaning, Meaning]:
    """A cycle, and the same where the order of each process, or that of time, is one of its steps.

    Their names are those of the cycle with ``-process`` and ``-realtime``.
    """
    return (
        cycle,
        replace(
            cycle,
            name=f"{cycle.name}-process",
            title=f"{cycle.title}, by process",
            promise=f"{cycle.promise} The order in which each client did its operations counts.",
            why="A client does not find what it did itself before, or finds it undone.",
        ),
        replace(
            cycle,
            name=f"{cycle.name}-realtime",
            title=f"{cycle.title}, by time",
            promise=f"{cycle.promise} What had ended before another operation began comes first.",
            why="What was confirmed to one client is not there for another one who asks later.",
        ),
    )


TRANSACTIONS = (
    *with_order(G0),
    G1A,
    G1B,
    *with_order(G1C),
    *with_order(G_SINGLE),
    *with_order(G_NONADJACENT),
    *with_order(G2_ITEM),
    DIRTY_UPDATE,
    DUPLICATE_ELEMENTS,
    GARBAGE_READ,
    FUTURE_READ,
    INCOMPATIBLE_ORDER,
    INTERNAL,
    LOST_UPDATE,
)
