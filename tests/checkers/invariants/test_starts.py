"""S37, of states that a process wrote and did not live to tell of; S25, of logs not fsynced yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from checkers.invariants.starts import HOLE, RecoveryAddsNothing, TruthfulStart
from checkers.monitor.monitor import Monitor
from harness.systems.kafka.known import known_of
from harness.systems.kafka.releases import Release
from tests.support.traces.traces import Trace


def standing() -> Trace:
    """Node 1 has led epoch 1; node 2 asks for votes in epoch 2, and node 3 has given it its own."""
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    trace.persist(2, 2, voted=2)
    trace.role(2, "candidate", voted=2, by=None)
    trace.emit(2, "votereq", pre=False, to=3)
    trace.persist(3, 2, voted=2)
    trace.grant(3, 2)
    return trace


def messages(trace: Trace) -> list[str]:
    monitor = Monitor([TruthfulStart()])
    return [anomaly.message for anomaly in monitor.feed_all(trace.run().events)]


def start_led_by_node_2(trace: Trace, node: int) -> None:
    trace.disks[node].leader = 2
    trace.start(node)


@pytest.mark.parametrize("told", [True, False])
def test_who_died_as_it_wrote_that_it_leads_may_tell_others_after_its_restart(told: bool) -> None:
    trace = standing()
    if told:
        start_led_by_node_2(trace, 2)  # as the leader that resigned: it answers with its own name
    start_led_by_node_2(trace, 3)
    assert len(messages(trace)) == (0 if told else 1)


def test_who_did_not_stand_cannot_have_written_that_it_leads() -> None:
    trace = standing()
    trace.disks[3].leader = 3
    trace.start(3)
    assert "n3 as the leader of epoch 2, which nobody has elected" in messages(trace)[0]


def test_who_died_as_it_wrote_that_it_stands_may_ask_after_its_restart() -> None:
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    for node in (2, 3):
        trace.disks[node].epoch, trace.disks[node].leader, trace.disks[node].voted = 2, None, 2
        trace.start(node)
    assert messages(trace) == []


@pytest.mark.parametrize("told", [True, False])
def test_a_leader_that_resigned_goes_on_to_an_epoch_for_which_nobody_has_asked(told: bool) -> None:
    trace = Trace(3)
    trace.start()
    trace.elect(2, 1)
    trace.start(2)
    trace.role(2, "resigned", leader=2, by=None)
    if told:
        trace.persist(2, 2)
        trace.role(2, "unattached", by=None)
    else:  # it dies as it writes that epoch
        trace.disks[2].epoch, trace.disks[2].leader, trace.disks[2].voted = 2, None, None
    trace.start(2)
    trace.persist(1, 2)  # it hears of the epoch
    trace.persist(1, 3, voted=3)
    trace.damage(1, "wipe")  # and gets an old copy of its disk
    trace.disks[1].epoch, trace.disks[1].voted = 2, None
    trace.start(1)
    assert messages(trace) == []


def test_who_did_not_lead_does_not_go_on_by_itself() -> None:
    trace = Trace(3)
    trace.start()
    trace.elect(2, 1)
    trace.disks[3].epoch, trace.disks[3].leader, trace.disks[3].voted = 2, None, None
    trace.start(3)
    assert "n3 started from epoch 2, which nobody has entered" in messages(trace)[0]


@pytest.mark.parametrize("told", ["old", "new", "other"])
def test_who_was_killed_as_it_wrote_starts_from_what_a_loss_of_power_may_leave(told: str) -> None:
    """Its rename was not fsynced: the file has the new content, and may have the old one again."""
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    trace.start(2)
    events = trace.events["n2"]
    place = max(i for i, each in enumerate(events) if each["t"] == "left" and _is_vote(each))
    (new,) = events[place]["may"]
    other = {**new, "leader": 3}
    may = {"old": [new, other], "new": [other, new], "other": [other]}[told]
    events[place] = {**events[place], "may": may}
    found = messages(trace)
    assert len(found) == (told == "other"), found


def _is_vote(event: Mapping[str, Any]) -> bool:
    return str(event["file"]) == "quorum-state"


def start_with_unflushed_tail(*, upto: int, flushed: int) -> list[str]:
    """Node 2 died before its newest batch was fsynced, and finds it in the page cache.

    Args:
        upto: Where its log would end after a loss of power, from the end that it has now.
        flushed: Up to where it says that its log is flushed, likewise.
    """
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    trace.store(2, trace.append(1))
    end = trace.disks[2].end
    trace.start(2)
    start = next(each for each in reversed(trace.events["n2"]) if each["t"] == "start")
    durable = trace.events["n2"][-1]
    assert durable["t"] == "durable"
    start["flushed"] = end + flushed
    durable["upto"] = end + upto
    if upto < 0:
        del durable["batches"][-1]
    monitor = Monitor([RecoveryAddsNothing()])
    return [anomaly.message for anomaly in monitor.feed_all(trace.run().events)]


def test_a_log_may_have_an_end_that_is_not_flushed_and_not_called_so() -> None:
    assert start_with_unflushed_tail(upto=-1, flushed=-1) == []
    assert start_with_unflushed_tail(upto=0, flushed=0) == []
    assert start_with_unflushed_tail(upto=0, flushed=-1) == []


def test_a_start_does_not_call_flushed_what_a_loss_of_power_would_take() -> None:
    (told,) = start_with_unflushed_tail(upto=-1, flushed=0)
    assert "started with a log up to" in told


def test_a_start_reads_its_log_to_the_end_that_is_durable() -> None:
    told = start_with_unflushed_tail(upto=1, flushed=0)
    assert "its disk has it up to" in told[0]


def test_a_cut_that_is_taken_back_in_part_leaves_a_hole() -> None:
    """As where it removed segments, and only their removal is taken back (seed 20935)."""
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    first = trace.append(1)
    trace.store(2, first)
    second = trace.append(1)
    trace.store(2, second)
    trace.flush(2)
    trace.truncate(2, first.base)
    trace.fetch(2, 1)
    trace.start(2)
    start = next(each for each in reversed(trace.events["n2"]) if each["t"] == "start")
    durable = trace.events["n2"][-1]
    start["leo"] = start["flushed"] = second.last + 1
    durable["upto"] = first.base
    (anomaly,) = Monitor([RecoveryAddsNothing()]).feed_all(trace.run().events)
    (known,) = [each for each in known_of([Release("4.4.0")]) if each.covers(anomaly)]
    assert anomaly.message.endswith(HOLE)
    assert known.red
