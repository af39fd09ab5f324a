"""Anomalies in words: titles, what should be, what was found; the first screens of seeded bugs."""

from __future__ import annotations

import pytest

from harness.sessions.simulated import simulate
from harness.sessions.zoo import plan_of
from node import mutants
from reports.build import build_model
from reports.defects.naming import defect
from reports.defects.rule import Defect
from reports.findings import natural

FIRST_SCREENS = {
    "forgotten-vote": (
        "n2 forgot its vote at a restart, in epoch 1, at 2.1 s (S3)",
        "n2 starts from what it had written: epoch 1, leader n1, a vote for n1",
        "n2 started from epoch 1, no leader, no vote",
    ),
    "even-majority": (
        "n4 won epoch 1 with 2 of 4 votes, at 0.5 s (S6)",
        "3 votes of the voters [n1, n2, n3, n4]",
        "2 votes: [n3, n4]",
    ),
    "half-compared-logs": (
        "n3 voted in epoch 1 for n2, whose log is behind its own, at 6.1 s (S5)",
        "n3 refuses n2: it votes only for logs that end at 28 of epoch 1 or later",
        "n3 granted the vote; the log of n2 ends at 21 of epoch 1",
    ),
    "commit-without-majority": (
        "n1 committed up to offset 1 in epoch 1 with 1 of 3 voters, at 0.6 s (S13)",
        "2 of 3 voters have all below 1 on their disks",
        "1 had. Flushed: n1 1, n2 0, n3 0",
    ),
    "ack-before-commit": (
        "n1 acknowledged offset 7 before it was committed, at 0.6 s (S17)",
        "n1 waits for a high watermark above 7",
        "n1 answered at high watermark 1",
    ),
    "dirty-list": (
        "Read of r0 at n3 (op 400) returned 46 before that was committed, at 8.0 s (S34)",
        "The last committed value of r0: 45 (offset 110)",
        "46, not yet committed",
    ),
    "fetch-before-flush": (
        "n2 fetched at offset 1, but offset 0 was not yet on its disk, at 0.6 s (S16)",
        "n2 fetches at 0, or has all below 1 on its disk first",
        "n2 asked for 1, and a leader counts that as stored up to 1",
    ),
    "unconfirmed-read": (
        (
            "n2 answered a read in epoch 1 without asking a majority whether it still leads,"
            " at 0.7 s (S34)"
        ),
        "After the read came, 1 more of the voters [n1, n2, n3] confirm that n2 leads",
        "Those that did: none",
    ),
    "skipped-record": (
        "The image of n1 at offset 41 is not what the log says, at 2.8 s (C8)",
        "The state that the committed log comes to: digest 01b568cf5eab4f31",
        "n1 has a state with digest 39dc35ada03ce8bb",
    ),
    "late-divergence": (
        (
            "n2 served n1 from offset 30 on, and their logs differ before it, at 4.6 s (S8);"
            " 1 more anomaly"
        ),
        "n2 tells n1 where their logs part: n1 has a record of epoch 1 there",
        "n2 has offset 29 of epoch 2 (crc 8c2875b4)",
    ),
}


@pytest.mark.parametrize("name", FIRST_SCREENS)
def test_the_first_screen_says_who_where_and_what_should_have_been(name: str) -> None:
    mutant = mutants.get(name)
    assert mutant.scenario is not None
    seed = mutant.scenario.seeds[0]
    run = simulate(plan_of(mutant.scenario.to_json(), seed, name, tuple(mutant.breaks)))
    shown = build_model(run.data, run.judgement.to_json()).headline
    assert (shown.sentence, shown.expected, shown.found) == FIRST_SCREENS[name]


def test_a_message_that_no_rule_knows_is_its_own_title() -> None:
    assert defect("X9", "the moon fell on n3 (n3 seq 17)", {}) == Defect(
        "The moon fell on n3", "", ""
    )
    long = "the moon fell on n3, " + "and it fell " * 30
    told = defect("X9", long, {})
    assert told.title == "The moon fell on n3"
    assert told.found.startswith("The moon fell on n3, and it fell")


def test_a_vote_that_was_given_twice() -> None:
    message = "n2 voted twice in epoch 3: for n1 (n2 seq 4) and for n3 (n2 seq 9)"
    assert defect("S2", message, {}) == Defect(
        "n2 voted twice in epoch 3: for n1 and for n3",
        "n2 gives one vote in epoch 3, and n1 has it",
        "n2 voted for n1, and then for n3",
    )


def test_a_voter_set_that_was_missed() -> None:
    missed = (
        "n3 fetches (n3 seq 41) with the voters of offset 12, though its log has others at 14"
        " (n3 seq 37)"
    )
    assert defect("S28", missed, {}) == Defect(
        "n3 fetches by the voters of offset 12; its log has newer ones",
        "n3 goes by those of offset 14 as soon as they are in its log",
        "It went by those of offset 12",
    )
    led = (
        "n3 is elected (n3 seq 50) by the voters of offset 12, and those of 14 are in its log"
        " (n3 seq 37)"
    )
    assert defect("S28", led, {}) == Defect(
        "n3 was elected by the voters of offset 12, not by those of its log",
        "A majority of the voters of offset 14: these are in its log",
        "It counted those of offset 12",
    )


def test_ops_that_contradict_are_named_with_their_values() -> None:
    read = {"op": 8, "what": "read -> 17"}
    core = [{"op": 2, "what": "write 17"}, {"op": 5, "what": "write 18"}, read]
    blocked = {**read, "why": "the value is 18"}
    details = {
        "stuck": read,
        "minimal": True,
        "ops": core,
        "partials": [{"state": "18", "cannot_follow": [blocked]}],
    }
    told = defect("linearizability", "key 'k1': read -> 17 (op 8, process 3) cannot be", details)
    assert told == Defect(
        "read -> 17 (op 8) of key k1 contradicts write 17 (op 2) and write 18 (op 5)",
        "An answer that the ops before it explain: 18",
        "read -> 17 (op 8): the value is 18",
    )


def test_texts_of_a_message_are_not_looked_at_again() -> None:
    message = "{node} voted twice in epoch {#one}: for {two} and for {one}"
    assert defect("S2", message, {}).title == message


def test_names_are_sorted_as_people_do() -> None:
    assert sorted(["S10 a", "S2 b", "S1", "L3"], key=natural) == ["L3", "S1", "S2 b", "S10 a"]


def test_a_node_that_has_ended() -> None:
    message = (
        "n2 has ended (process 3: exit code 1), last heard of at 8.250 s: for that the wait for the"
        " cluster was given up, 0 ms after the last fault was healed"
    )
    assert defect("L8", message, {}) == Defect(
        "n2 has ended, and does not come back",
        "All nodes run once no fault is in force",
        "process 3: exit code 1, last heard of at 8.250 s; 0 ms after the last fault nobody waited"
        " for the others any more",
    )
