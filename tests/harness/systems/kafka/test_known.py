"""Known oddities of releases count apart, and nothing else does."""

from __future__ import annotations

import pytest

from checkers.invariants.commits import FOUND
from checkers.invariants.controller_answers import BOTH_WAYS as KEEPS_MOVING
from checkers.invariants.controller_answers import SWITCHED_OFF as SWITCHES_OFF
from checkers.invariants.disks import EMPTY
from checkers.invariants.eligible import KEPT, SWITCHED_OFF
from checkers.invariants.images import BY_ELIGIBLE, BY_ORPHANS, BY_PASSWORDS
from checkers.invariants.leading import ALONE, NONE_OF_ITS_OWN
from checkers.invariants.metadata_log import BEHIND, BEHIND_AGAIN, BOTH_WAYS, SAME_INCARNATION
from checkers.invariants.security_answers import OF_NOBODY, TWICE
from checkers.liveness.plugin import UNHEARD
from harness.systems.kafka.known import known_of
from harness.systems.kafka.releases import Release
from harness.verdict import Anomaly

REFUSED = "it was refused"
AGAIN = " as it registers again"
PASSWORD = "credential SCRAM_SHA_256 u"

BY_ELR = ", the same but for eligible leaders, which were switched off,"
OF_TOPIC = "settings of ConfigResource(type=TOPIC, name='t0')"
BEGAN = "n2 began as candidate of epoch 1 (n2 seq 4): its disk has leader 1"
LOST = f"{BEGAN}, so that it had lost that election"
REMOVED = "Unexpected acknowledgement from non-voter"
FORGOT = (
    "Received request or response with leader OptionalInt[2] and epoch 1 which is inconsistent "
    "with current leader OptionalInt"
)
OTHER = f"{BEGAN} and a vote for 3"


def test_a_wait_is_known_in_runs_with_a_fault_of_the_clock_only() -> None:
    (wall,) = (each for each in known_of([Release("4.3.1")]) if each.invariant == "L9")
    assert wall.applies(("kill", "clock-strobe"))
    assert not wall.applies(("kill", "power"))
    assert not wall.applies(())


@pytest.mark.parametrize(
    ("version", "message", "known"),
    [("4.3.1", LOST, True), ("4.3.1", OTHER, False), ("3.9.2", LOST, False)],
)
def test_a_loser_that_stands_again_is_known_since_its_vote_is_kept(
    version: str, message: str, known: bool
) -> None:
    anomaly = Anomaly("S31", f"{message} (n2 seq 1)")
    assert any(each.covers(anomaly) for each in known_of([Release(version)])) is known


@pytest.mark.parametrize(("version", "follows"), [("4.1.2", True), ("4.2.1", False)])
def test_who_cannot_load_metadata_goes_on_with_an_old_image(version: str, follows: bool) -> None:
    fault = "ERROR Encountered nonfatal fault: Error loading metadata log record from offset 64"
    anomaly = Anomaly("crash", f"n4 printed the sign of a crash: {fault}")
    known = [each for each in known_of([Release(version)]) if each.covers(anomaly)]
    assert bool(known) is follows
    image = Anomaly("C8", "the image of n4 is 2e62, but the committed log folds to 4c18")
    delta = Anomaly("C9", "whoever follows the deltas of n4 has at offset 34")
    assert all(each.may_cause(image) and each.may_cause(delta) for each in known)


@pytest.mark.parametrize(
    ("invariant", "version", "known"),
    [("C8", "3.9.2", True), ("C8", "4.3.1", True), ("C8", "4.5.0", False), ("S22", "4.3.1", False)],
)
def test_settings_of_a_deleted_topic_are_known_of_releases_that_were_looked_at(
    invariant: str, version: str, known: bool
) -> None:
    anomaly = Anomaly(invariant, f"one is 1, but the log folds to 2{BY_ORPHANS}t0")
    assert any(each.covers(anomaly) for each in known_of([Release(version)])) is known


def test_an_exception_that_ends_a_controller_is_known_and_stays_red() -> None:
    told = "n4 printed the sign of a crash, fatal error, in line 20: CRITICAL fault: java.lang."
    removed = Anomaly("crash", f"{told}IllegalArgumentException: {REMOVED} 3")
    forgot = Anomaly("crash", f"{told}IllegalStateException: {FORGOT}.empty and epoch 1")
    two = Anomaly("crash", f"{told}IllegalStateException: {FORGOT}[3] and epoch 1")
    known = known_of([Release("4.3.1")])
    assert [any(each.covers(a) for each in known) for a in (removed, forgot, two)] == [
        True,
        True,
        False,
    ]
    assert not any(each.excuses(a) for each in known for a in (removed, forgot))


@pytest.mark.parametrize(
    "fault",
    [
        "unregisterBroker: event failed with NumberFormatException",
        "incrementalAlterConfigs: event failed with NullPointerException",
        "RuntimeException: Topic ID zA2 existed in isrMembers, but not in the topics map.",
    ],
)
def test_elections_may_follow_from_a_controller_that_fails_again_and_again(fault: str) -> None:
    """Seed 9013 of ``admin``, 4.4.0: each leader gives up a second after it was elected."""
    election = Anomaly("L3", "n2 became resigned in epoch 12 although nothing was wrong any more")
    crash = Anomaly("crash", f"n1 printed the sign of a crash, internal error, in line 4: {fault}")
    causes = [each for each in known_of([Release("4.4.0")]) if each.covers(crash)]
    assert causes
    assert all(each.may_cause(election) for each in causes)


def test_what_is_told_with_its_cause_is_known_and_stays_red() -> None:
    lost = "without the committed offsets 82-82 of epoch 40"
    told = [
        Anomaly("S11", f"n1 won epoch 41{ALONE} (n1 seq 18) {lost}"),
        Anomaly("S16", f"n1 fetched at offset 127 with only 126 on its disk (n1 seq 27){FOUND}"),
        Anomaly("C1", f"broker 1001 is registered at offset 12 with epoch 10{BEHIND}"),
    ]
    known = known_of([Release("4.3.1")])
    assert all(any(each.covers(a) for each in known) for a in told)
    assert not any(each.excuses(a) for each in known for a in told)
    others = [
        Anomaly("S11", f"n1 won epoch 41 (n1 seq 18) {lost}"),
        Anomaly("S16", "n1 fetched at offset 127 with only 126 on its disk (n1 seq 27)"),
    ]
    assert not any(each.covers(a) for each in known for a in others)


def test_a_missed_change_of_the_voters_is_known_until_somebody_is_elected_by_it() -> None:
    known = known_of([Release("4.3.1")])
    why = "though its log has others at 148 (n3 seq 3137)"
    missed = Anomaly("S28", f"n3 fetches (n3 seq 3141) with the voters of offset 120, {why}")
    led = Anomaly(
        "S28",
        "n3 is elected (n3 seq 3190) by the voters of offset 120, and those of 148 are in its log"
        " (n3 seq 3137)",
    )
    assert any(each.excuses(missed) for each in known)
    assert any(each.covers(led) for each in known)
    assert not any(each.excuses(led) for each in known)


@pytest.mark.parametrize(("version", "known"), [("3.3.2", True), ("3.7.2", False)])
def test_a_snapshot_that_may_be_lost_is_known_before_3_5_2(version: str, known: bool) -> None:
    name = "00000000000000000022-0000000001.checkpoint"
    told = [
        Anomaly("S35", "n2 said that its snapshot at 22 is on disk (n2 seq 9): a loss of power"),
        Anomaly("S36", f"a loss of power could leave in {name} of n2 half of a write (n2 seq 8)"),
        Anomaly("S23", "snapshot 22-1 on n2's disk is not whole: at byte 0: only 1 bytes of it"),
    ]
    others = [
        Anomaly("S35", "n2 said that its log is on disk below 22 (n2 seq 9): a loss of power"),
        Anomaly("S36", "a loss of power could leave in quorum-state of n2 half of a write"),
    ]
    found = known_of([Release(version)])
    assert all(any(each.covers(a) for each in found) is known for a in told)
    assert not any(each.covers(a) for each in found for a in others)


@pytest.mark.parametrize(("version", "known"), [("3.4.1", True), ("3.5.2", False)])
def test_a_replica_that_comes_back_into_an_isr_is_known_before_3_5(
    version: str, known: bool
) -> None:
    why = "which had already registered again, with 18"
    told = Anomaly("C5", f"the change of partition p0 by op 35 took broker 2 by epoch 4, {why}")
    found = [each for each in known_of([Release(version)]) if each.covers(told)]
    assert [each.red for each in found] == [True] * known, "it stays an anomaly"


@pytest.mark.parametrize(
    ("invariant", "message", "version", "known"),
    [
        ("C2", f"broker 1, fenced{AGAIN}, leads 1 partitions at offset 6", "3.6.2", True),
        ("C2", f"broker 1, fenced{AGAIN}, leads 1 partitions at offset 6", "3.7.2", False),
        ("C2", "broker 1, fenced, leads 1 partitions at offset 6", "3.6.2", False),
        (
            "C2",
            "broker 2 is registered anew at offset 6, and in sync in partition t-0",
            "3.5.2",
            True,
        ),
        (
            "C2",
            "broker 2 is registered anew at offset 6, and in sync in partition t-0",
            "4.0.2",
            False,
        ),
        ("C1", f"broker 2 is registered at offset 6 with epoch 5{BEHIND_AGAIN}", "3.5.2", True),
        ("C1", f"broker 2 is registered at offset 6 with epoch 5{BEHIND_AGAIN}", "3.9.2", False),
        ("L9", "n2 lost 5 elections in a row and waited exactly 300 ms after each", "3.8.1", True),
        ("L9", "n2 lost 5 elections in a row and waited exactly 300 ms after each", "3.9.1", False),
    ],
)
def test_what_brokers_and_candidates_of_old_releases_do_is_known(
    invariant: str, message: str, version: str, known: bool
) -> None:
    anomaly = Anomaly(invariant, message)
    assert any(each.excuses(anomaly) for each in known_of([Release(version)])) is known


@pytest.mark.parametrize(("version", "known"), [("3.3.2", True), ("3.4.0", False)])
def test_what_controllers_before_3_4_write_is_known(version: str, known: bool) -> None:
    found = [each for each in known_of([Release(version)]) if each.applies(("kill",))]
    sha = Anomaly("S22", "snapshot 84-20 has sha 79 at n4 (n4 seq 197) and 53 at n7 (n7 seq 112)")
    size = Anomaly("S22", "snapshot 84-20 has size 79 at n4 (n4 seq 197) and 53 at n7 (n7 seq 1)")
    assert any(each.excuses(sha) for each in found) is known
    assert [each.red for each in found if each.covers(size)] == [True] * known

    kept = Anomaly("C16", "n3 has settings of ConfigResource(type=TOPIC, name='t') is {a=1}")
    told = next(each for each in found if each.covers(kept))
    assert told.red
    assert told.finding.endswith("settings of a refused topic") is known


@pytest.mark.parametrize(("version", "known"), [("3.5.2", True), ("3.6.2", False)])
def test_older_snapshots_are_known_before_3_6(version: str, known: bool) -> None:
    told = Anomaly("S22", "n1 made a snapshot that ends at 48, and had one that ends at 180")
    assert any(each.excuses(told) for each in known_of([Release(version)])) is known


@pytest.mark.parametrize("version", ["3.4.1", "3.5.2"])
def test_a_state_after_a_snapshot_that_was_lost_is_known_and_stays_red(version: str) -> None:
    told = Anomaly("S22", "snapshot 84-20 has sha 79 at n4 (n4 seq 197) and 53 at n7 (n7 seq 112)")
    found = [each for each in known_of([Release(version)]) if each.covers(told)]
    assert [each.red for each in found] == [True] * (version == "3.4.1")
    assert not any(each.applies(("kill",)) for each in found), "only a loss of power"


@pytest.mark.parametrize(("version", "known"), [("3.7.2", True), ("3.9.2", False)])
def test_another_epoch_for_the_same_incarnation_is_known_before_3_9(
    version: str, known: bool
) -> None:
    said = "broker 2 is registered at offset 6 with epoch 6, before it had 1"
    kept, other = Anomaly("C1", f"{said}{SAME_INCARNATION}"), Anomaly("C1", said)
    assert any(each.covers(kept) for each in known_of([Release(version)])) is known
    assert not any(each.covers(other) for each in known_of([Release(version)]))


@pytest.mark.parametrize(
    ("version", "of_release"),
    [
        ("3.3.2", {"S21", "S12", "L4"}),
        ("3.6.2", {"L4"}),
        ("3.7.2", set()),
        ("4.3.1", set()),
    ],
)
def test_the_first_releases_begin_to_lead_early_and_lead_on(
    version: str, of_release: set[str]
) -> None:
    began = "the controller of n2 became active in epoch 1, which began at offset 7, having applied"
    told = [
        Anomaly("S21", f"{began} 7{NONE_OF_ITS_OWN} (n2 seq 13)"),
        Anomaly("L4", "n2 still leads epoch 1 (n2 seq 99), though no majority of the voters ()"),
        Anomaly(
            "S12",
            "the record at offset 0 in the log of n1 is FeatureLevelRecord and no LeaderChange: n2",
        ),
        Anomaly(
            "S12",
            "the record at offset 1 in the log of n1 does not begin the epoch, which is at"
            " offset 0: n3 was elected for epoch 1 (n3 seq 12)",
        ),
        Anomaly("S12", "n3 began its reign with a batch of epoch 1 at offset 0 that is no control"),
    ]
    behind = Anomaly("S21", f"{began} 5 (n2 seq 13)")
    at_rest = Anomaly("L4", "n2 still leads epoch 1 after 5 s of peace, in which another leads")
    known = known_of([Release(version)])
    found = [a for a in (*told, behind, at_rest) if any(each.excuses(a) for each in known)]
    assert {a.invariant for a in found} == of_release
    assert all(a in told for a in found)


@pytest.mark.parametrize(
    ("invariant", "message", "version", "known", "red"),
    [
        (
            "C14",
            "are in service and have all messages, but nobody may lead it any more",
            v,
            k,
            False,
        )
        for v, k in (("4.1.2", True), ("4.3.1", True), ("4.5.0", False))
    ]
    + [
        (
            "crash",
            "Topic ID x existed in isrMembers, but not in the topics map.",
            "4.3.1",
            True,
            True,
        ),
        ("crash", "exception while renouncing leadership", "3.4.0", True, True),
        ("crash", "exception while renouncing leadership", "3.5.2", False, False),
        ("crash", "Error loading metadata log record from offset 53", "4.1.2", True, True),
        ("crash", "Error loading metadata log record from offset 53", "4.2.0", False, False),
        ("C14", "are in service and eligible", "4.3.1", False, False),
        ("C13", f"may lack acknowledged messages{KEPT}; [1] have all", "4.3.1", True, True),
        ("C13", "may lack acknowledged messages; [1] have all", "4.3.1", False, False),
        ("C15", f"broker 2 is elected to lead t-0, {EMPTY}: ...", "3.7.2", True, True),
        ("C15", f"broker 2 is elected to lead t-0, {EMPTY}: ...", "4.3.1", True, True),
        ("C15", "broker 2 leads partition t-0 after offset 7, though", "4.3.1", False, False),
        ("S29", "n1 counted [n2], of whom some are voters no more, but", "4.3.1", True, False),
        ("S29", "n1 counted [n2], but of the voters", "4.3.1", False, False),
        ("C8", f"the image of n1 at offset 7 is 1, but 2{BY_ELIGIBLE}", "4.3.1", True, False),
        ("C8", "the image of n1 at offset 7 is 1, but 2", "4.3.1", False, False),
        ("C14", f"are in service {SWITCHED_OFF}: ...", "4.3.1", True, True),
        ("C17", "n1 answered AssignReplicasToDirsRequest v0 (n1 seq 5, ...", "4.2.1", True, True),
        ("C17", "n1 answered AssignReplicasToDirsRequest v0 (n1 seq 5, ...", "4.3.1", False, False),
        ("C17", "is ClearElrRecord, where PartitionChangeRecord is due", "4.3.1", True, False),
        (
            "C17",
            "is 3, where 4 is due; some who are eligible are no replicas",
            "4.3.1",
            True,
            False,
        ),
        ("C17", "error_code is 3, where 4 is due", "4.3.1", False, False),
        ("crash", "registerBroker: event failed with NumberFormatException", "4.4.0", True, True),
        ("C17", f"error_code is 0, where 95 is due; {SWITCHES_OFF}", "4.3.1", True, False),
        ("C17", f"[0].leader is -2, where 2 is due; {KEEPS_MOVING}", "4.4.0", True, False),
        ("C3", f"partition t-0 after offset 7 has {BOTH_WAYS} [3]: ...", "4.4.0", True, False),
        ("C17", f"...: {REFUSED}, and kraft.version, which was 0, is 1", "4.4.0", True, True),
        ("C17", f"n1 answered CreateAclsRequest v3 (...: {OF_NOBODY}; ...", "3.7.2", True, False),
        ("C17", f"n1 answered CreateAclsRequest v3 (...: {OF_NOBODY}; ...", "3.9.2", False, False),
        ("C17", f"n1 answered AlterClientQuotasRequest v1 (...: {TWICE}; ...", "4.4.0", True, True),
        ("C16", "has in memory at offset 9 brokersToElrs of 2 has t-0", "4.3.1", True, False),
        ("C16", "has in memory at offset 9 brokersToIsrs of 2 has t-0", "4.3.1", False, False),
        ("C16", f"at offset 9 {OF_TOPIC} is {{a=1}}, not null", "4.3.1", True, True),
        ("C16", f"at offset 9 {OF_TOPIC} is {{a=1}}, not null", "4.5.0", False, False),
        ("C16", "has in memory at offset 9 brokersToElrs of 2 has t-0", "4.5.0", False, False),
        ("C16", f"has in memory at offset 9 {PASSWORD} is true, not null", "3.7.2", True, True),
        ("C16", f"has in memory at offset 9 {PASSWORD} is null, not true", "3.7.2", False, False),
        ("C9", f"has at offset 9 {PASSWORD} is x, not null", "4.3.1", True, True),
        ("C9", f"has at offset 9 {PASSWORD} is null, not x", "4.3.1", False, False),
        ("C9", "has at offset 9 partition t-0 is", "4.3.1", False, False),
        ("C9", f"has at offset 9 partition{BY_ELR} t-0 is", "4.3.1", True, False),
        ("C8", f"the image of n1 at offset 7 is 1, but 2{BY_PASSWORDS}", "4.3.1", True, True),
        ("C11", "token t, which was taken back, exists again at 8", "4.3.1", True, True),
        ("crash", "leader 2 and epoch 1 since it matches the local node.id", "4.3.1", True, True),
    ],
)
def test_findings_are_known_by_what_is_told_of_them(
    invariant: str, message: str, version: str, *, known: bool, red: bool
) -> None:
    found = [k for k in known_of([Release(version)]) if k.covers(Anomaly(invariant, message))]
    assert bool(found) is known
    assert any(each.red for each in found) is red


def test_a_voter_that_gets_no_requests_is_known_when_one_was_moved() -> None:
    told = f"nobody leads: n1 unattached, ...; n2 asked n1 for its vote 40 times{UNHEARD}"
    (known,) = [one for one in known_of([Release("4.4.0")]) if one.covers(Anomaly("L1", told))]
    assert known.red
    assert known.applies({"kill", "move-voter"})
    assert not known.applies({"kill"})


def test_a_leader_that_stands_still_is_known_after_faults_of_its_clock_alone() -> None:
    still = Anomaly(
        "L2", "20021 ms after the last fault was healed n2 leads and makes no progress: x"
    )
    resigned = Anomaly(
        "L1", "20022 ms after the last fault was healed nobody leads: n1 resigned in epoch 1"
    )
    behind = Anomaly(
        "L8",
        "20003 ms after the last fault was healed not all have what n2 has committed, 348: n3 at 74"
        ", resigned in epoch 4, n6 at 74",
    )
    waiting = Anomaly(
        "L8",
        "20026 ms after the last fault was healed not all have what n2 has committed, 137: n3 at 21"
        ", prospective in epoch 2",
    )
    away = Anomaly(
        "L6",
        "n2 did not come back as a voter in peace: REQUEST_TIMED_OUT: New voter ReplicaKey(id=2, "
        "directoryId=PIeUN4lLRaymvaVbOsv2UA) is not ready to receive requests",
    )
    alone = Anomaly(
        "L2",
        "20.002 s after the last heal, with all nodes running, no leader was there that commits and"
        " that all nodes follow; n2 took none of the 7 Fetches that n1 sent to it",
    )
    lacking = Anomaly(
        "L8",
        "n1 ended at high watermark 0, but 352 was committed by n2, 5.1 s before the end; n2 took"
        " none of the 18 Fetches that n1 sent to it",
    )
    for each in (still, resigned, behind, waiting, away, alone, lacking):
        (known,) = [one for one in known_of([Release("4.3.1")]) if one.covers(each)]
        assert known.red, "nothing is written for as long as the clock went back"
        assert known.applies({"kill", "clock-strobe"})
        assert not known.applies({"kill"})
