"""More single events that break one promise of a trace with one leader, by invariant.

Each changes the trace of three voters, node 1 leading epoch 1 with two committed batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.contracts.evidence import LogBatch
from tests.support.traces.traces import MS, VOTERS_RECORD, Event, Trace, register_record


def last(trace: Trace, node: int, type_: str) -> Event:
    """The newest event of a type."""
    return next(e for e in reversed(trace.events[f"n{node}"]) if e["t"] == type_)


def vote_for_a_shorter_log(trace: Trace) -> None:
    trace.append(1)
    trace.replicate(1, 2)
    trace.persist(2, 2, voted=3)
    trace.grant(2, 3)


def vote_for_a_longer_log_of_an_older_epoch(trace: Trace) -> None:
    end = trace.disks[2].end
    trace.persist(2, 3)
    trace.store(2, LogBatch(end, end, 2, 5, False, ()))
    trace.append(1)
    trace.append(1)
    trace.replicate(1, 3)
    trace.grant(2, 3, pre=True)


def vote_with_a_log_that_is_not_its_own(trace: Trace) -> None:
    trace.grant(2, 3, pre=True)["my_leo"] -= 1


def win_without_a_committed_record(trace: Trace) -> None:
    trace.truncate(3, trace.disks[3].end - 1)
    trace.elect(3, 2, voters=[1, 2])


def win_with_another_record_instead(trace: Trace) -> None:
    trace.start(3)
    trace.truncate(3, trace.disks[3].end - 1)
    trace.persist(3, 1)
    trace.store(3, LogBatch(trace.disks[3].end, trace.disks[3].end, 1, 77, False, ()))
    trace.elect(3, 2, voters=[1, 2])


def leader_truncates(trace: Trace) -> None:
    trace.append(1)
    trace.truncate(1, trace.disks[1].end - 1)


def leader_leaves_a_gap(trace: Trace) -> None:
    end = trace.disks[1].end + 1
    trace.store(1, LogBatch(end, end, 1, 5, False, ()), src="leader")


def leader_installs_a_snapshot(trace: Trace) -> None:
    trace.freeze(2)
    trace.install(1, 2)


def begin_a_reign_with_data(trace: Trace) -> None:
    trace.elect(2, 2)
    event = next(e for e in reversed(trace.events["n2"]) if e["t"] == "append")
    event["ctl"] = False


def write_without_leading(trace: Trace) -> None:
    trace.role(1, "resigned")
    trace.append(1)


def high_watermark_inside_of_a_batch(trace: Trace) -> None:
    trace.append(1, register_record("r0", 5), register_record("r0", 6))
    trace.replicate(1)
    trace.flush(1)
    trace.raise_hwm(1, trace.disks[1].end - 1, as_="leader", acks=[], voters=[1, 2, 3])


def truncate_inside_of_a_batch(trace: Trace) -> None:
    trace.append(1, register_record("r0", 5), register_record("r0", 6))
    trace.replicate(1)
    trace.truncate(2, trace.disks[2].end - 1)


def stop_applying_inside_of_a_batch(trace: Trace) -> None:
    trace.append(1, register_record("r0", 5), register_record("r0", 6))
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    last(trace, 2, "apply")["off"] -= 1


def skip_records(trace: Trace) -> None:
    trace.write(1, "r0", 2)
    last(trace, 2, "apply")["n"] -= 1


def apply_records_twice(trace: Trace) -> None:
    trace.emit(2, "apply", off=trace.disks[2].hwm, n=1, st="x")


def apply_before_the_commit(trace: Trace) -> None:
    trace.append(1)
    trace.replicate(1)
    trace.emit(2, "apply", off=trace.disks[2].end, n=1, st="x")


def begin_anew_without_a_snapshot(trace: Trace) -> None:
    trace.start(2)
    trace.disks[2].applied = 1
    trace.commit(1)


def claim_before_the_epoch_is_applied(trace: Trace) -> None:
    trace.elect(2, 2)
    trace.emit(2, "claim", applied=last(trace, 2, "elected")["es"])


def claim_after_resigning(trace: Trace) -> None:
    trace.role(1, "resigned")
    trace.emit(1, "claim", applied=trace.disks[1].applied)


def keep_what_was_not_committed(trace: Trace) -> None:
    trace.role(1, "resigned")
    last(trace, 1, "renounce")["kept"] = 2


def answer_a_read_by_fetches_from_before(trace: Trace) -> None:
    answered = trace.read(1)
    answered["asked"] = last(trace, 1, "fetch_rx")["seq"]


def answer_a_read_by_a_refused_fetch(trace: Trace) -> None:
    trace.read(1, 2)
    last(trace, 1, "fetch_rx")["res"] = "UNKNOWN_LEADER_EPOCH"


def load_a_snapshot_while_active(trace: Trace) -> None:
    trace.freeze(2)
    trace.install(1, 2)


def lose_what_was_flushed(trace: Trace) -> None:
    trace.append(1)
    trace.replicate(1, 2)
    trace.disks[2].log.pop()
    trace.start(2)


def take_up_an_old_reign(trace: Trace) -> None:
    trace.start(1)
    trace.append(1)


def write_before_its_reign_is_on_disk(trace: Trace) -> None:
    trace.persist(2, 2, voted=2)
    trace.role(2, "candidate", voted=2, by=None)
    trace.role(2, "leader", leader=2)
    trace.append(2)


def win_an_old_reign_again(trace: Trace) -> None:
    trace.start(1)
    trace.emit(1, "elected", grants=[1, 2], voters=[1, 2, 3], es=trace.disks[1].end)


def freeze_at_another_level(trace: Trace) -> None:
    trace.freeze(1)
    trace.freeze(2, kv=1)


def run_twice_at_once(trace: Trace) -> None:
    before = trace.now_ns - 20 * MS
    trace.start(2)
    last(trace, 2, "start")["ts"] = before


def refuse_a_newer_epoch_as_fenced(trace: Trace) -> None:
    trace.emit(2, "rpc_err", api="Vote", peer=3, req_ep=2, code=74)


def refuse_an_older_epoch_as_unknown(trace: Trace) -> None:
    trace.emit(2, "rpc_err", api="Fetch", peer=3, req_ep=0, code=75)


def answer_another_epoch_with_not_leader(trace: Trace) -> None:
    trace.emit(2, "rpc_err", api="Fetch", peer=3, req_ep=0, code=6)


def lead_and_deny_it(trace: Trace) -> None:
    trace.emit(1, "rpc_err", api="Fetch", peer=3, req_ep=1, code=6)


def go_by_voters_once_they_are_committed(trace: Trace) -> None:
    keys = [(node, trace.disks[node].dir) for node in (1, 2, 3)]
    trace.emit(1, "voters", off=trace.disks[1].hwm - 1, set=keys, revert=False)


def serve_a_newer_epoch(trace: Trace) -> None:
    trace.served(2, 1, req_ep=2)


def serve_an_older_epoch(trace: Trace) -> None:
    trace.served(2, 1, req_ep=0, res="diverging")


def serve_another_cluster(trace: Trace) -> None:
    trace.served(2, 1, foreign=True)


def follow_an_older_leader(trace: Trace) -> None:
    trace.emit(2, "rpc_ok", api="BeginQuorumEpoch", peer=3, peer_dir=None, req_ep=0)


def follow_another_cluster(trace: Trace) -> None:
    trace.emit(2, "rpc_ok", api="RemoveVoter", peer=3, peer_dir=None, req_ep=None, foreign=True)


def answer_a_vote_in_another_epoch(trace: Trace) -> None:
    trace.grant(2, 3, ok=False)["req_ep"] += 1


def raise_the_epoch_beyond_that_of_a_pre_vote(trace: Trace) -> None:
    trace.persist(2, 2)
    trace.grant(2, 3, ok=False, pre=True)["req_ep"] = 1


def raise_the_epoch_for_a_pre_vote(trace: Trace) -> None:
    trace.role(2, "prospective", ep=2)


def write_a_pre_vote(trace: Trace) -> None:
    trace.persist(2, 2, voted=3)
    trace.grant(2, 3, pre=True)


def support_another_than_the_leader(trace: Trace) -> None:
    trace.replicate(2)
    trace.grant(2, 3, pre=True)


def observer_wants_to_lead(trace: Trace) -> None:
    trace.change_voters(1, 1, 2)
    trace.replicate(1)
    trace.flush(1)
    trace.commit(1)
    trace.role(3, "prospective")


def count_who_is_no_voter(trace: Trace) -> None:
    trace.change_voters(1, 1, 2)
    trace.replicate(1)
    trace.heard(1, 2, 3)


def count_who_has_not_fetched(trace: Trace) -> None:
    trace.now_ns += 2500 * MS
    trace.heard(1, 2, 3)
    trace.fetch(2, 1)
    trace.heard(1, 3)


def count_a_voters_other_disk(trace: Trace) -> None:
    trace.now_ns += 2500 * MS
    trace.heard(1, 2, 3)
    trace.served(2, 1, from_dir="ab" * 16)
    trace.heard(1, 2)


def count_a_fetch_that_diverged(trace: Trace) -> None:
    trace.now_ns += 2500 * MS
    trace.heard(1, 2, 3)
    trace.served(2, 1, res="diverging")
    trace.heard(1, 2)


def count_too_few(trace: Trace) -> None:
    trace.fetch(1, 1)
    trace.heard(1, 1)


def lead_alone(trace: Trace) -> None:
    for _ in range(14):
        trace.now_ns += 500 * MS
        trace.append(1)


def lead_by_observers(trace: Trace) -> None:
    trace.change_voters(1, 1, 2)
    trace.replicate(1)
    trace.commit(1)
    for _ in range(14):
        trace.now_ns += 500 * MS
        trace.fetch(3, 1)


def lead_by_another_disk(trace: Trace) -> None:
    trace.change_voters(1, 1, 2, 3)
    for _ in range(14):
        trace.now_ns += 500 * MS
        trace.served(2, 1, from_dir="ab" * 16)


def lead_after_having_been_alone(trace: Trace) -> None:
    trace.change_voters(1, 1)  # alone, and then not any more
    trace.now_ns += 9000 * MS
    trace.change_voters(1, 1, 2)
    for _ in range(14):
        trace.now_ns += 500 * MS
        trace.append(1)


def resign_in_spite_of_a_majority(trace: Trace) -> None:
    trace.heard(1, 2, 3, ok=False)["since_ms"] = 500


def obey_a_fetch(trace: Trace) -> None:
    trace.persist(2, 2)
    trace.role(2, "unattached", by="FetchRequest")


def follow_a_candidate(trace: Trace) -> None:
    trace.persist(2, 2, leader=3)
    trace.role(2, "follower", leader=3, by="VoteRequest")


def leave_out_an_epoch(trace: Trace) -> None:
    trace.persist(2, 3, voted=2)
    trace.role(2, "candidate", voted=2, by=None)


def follow_another_than_it_was_told(trace: Trace) -> None:
    trace.persist(2, 2, leader=1)
    trace.role(2, "follower", leader=1, by="BeginQuorumEpochRequest")
    trace.emit(2, "rpc_ok", api="BeginQuorumEpoch", peer=3, peer_dir=None, req_ep=2)


def put_off_an_election_for_a_vote_it_refused(trace: Trace) -> None:
    trace.grant(2, 3, ok=False)["due"] = (5_000, 5_800)


def put_off_an_election_for_a_pre_vote(trace: Trace) -> None:
    trace.grant(2, 3, pre=True)["due"] = (5_000, 5_800)


def stand_out_of_turn(trace: Trace) -> None:
    order = [(node, trace.disks[node].dir) for node in (3, 2)]
    told: dict[str, Any] = {"preferred": order, "backoff_ms": 1_000, "wait_ms": 0}
    trace.emit(2, "rpc_ok", api="EndQuorumEpoch", peer=1, peer_dir=None, req_ep=1, **told)


def add_who_has_fetched_nothing(trace: Trace) -> None:
    keys = [*[(node, trace.disks[node].dir) for node in (1, 2, 3)], (4, "ab" * 16)]
    trace.append(1, {"type": VOTERS_RECORD, "fields": {"voters": keys}}, control=True)


def tell_of_a_voter_before_it_is_committed(trace: Trace) -> None:
    batch = trace.change_voters(1, 1, 2)
    trace.emit(1, "ack", api="RemoveVoter", off=batch.last, hwm=trace.disks[1].hwm)


MORE_BREAKS: list[tuple[str, Callable[[Trace], Any]]] = [
    ("S5", vote_for_a_shorter_log),
    ("S5", vote_for_a_longer_log_of_an_older_epoch),
    ("S5", vote_with_a_log_that_is_not_its_own),
    ("S11", win_without_a_committed_record),
    ("S11", win_with_another_record_instead),
    ("S12", leader_truncates),
    ("S12", leader_leaves_a_gap),
    ("S12", leader_installs_a_snapshot),
    ("S12", begin_a_reign_with_data),
    ("S12", write_without_leading),
    ("S19", high_watermark_inside_of_a_batch),
    ("S19", truncate_inside_of_a_batch),
    ("S19", stop_applying_inside_of_a_batch),
    ("S20", skip_records),
    ("S20", apply_records_twice),
    ("S20", apply_before_the_commit),
    ("S20", begin_anew_without_a_snapshot),
    ("S21", claim_before_the_epoch_is_applied),
    ("S21", claim_after_resigning),
    ("S21", keep_what_was_not_committed),
    ("S21", load_a_snapshot_while_active),
    ("S34", answer_a_read_by_fetches_from_before),
    ("S34", answer_a_read_by_a_refused_fetch),
    ("S22", freeze_at_another_level),
    ("S25", lose_what_was_flushed),
    ("S26", take_up_an_old_reign),
    ("S26", win_an_old_reign_again),
    ("S26", write_before_its_reign_is_on_disk),
    ("S29", run_twice_at_once),
    ("S29", count_who_is_no_voter),
    ("S29", count_who_has_not_fetched),
    ("S29", count_a_voters_other_disk),
    ("S29", count_a_fetch_that_diverged),
    ("S29", count_too_few),
    ("S31", obey_a_fetch),
    ("S31", follow_a_candidate),
    ("S31", leave_out_an_epoch),
    ("S31", follow_another_than_it_was_told),
    ("L9", put_off_an_election_for_a_vote_it_refused),
    ("L9", put_off_an_election_for_a_pre_vote),
    ("L9", stand_out_of_turn),
    ("S27", add_who_has_fetched_nothing),
    ("S17", tell_of_a_voter_before_it_is_committed),
    ("L4", lead_alone),
    ("L4", lead_by_observers),
    ("L4", lead_by_another_disk),
    ("L4", lead_after_having_been_alone),
    ("L4", resign_in_spite_of_a_majority),
    ("S31", refuse_a_newer_epoch_as_fenced),
    ("S31", refuse_an_older_epoch_as_unknown),
    ("S31", answer_another_epoch_with_not_leader),
    ("S28", go_by_voters_once_they_are_committed),
    ("S31", lead_and_deny_it),
    ("S31", serve_a_newer_epoch),
    ("S31", serve_an_older_epoch),
    ("S31", serve_another_cluster),
    ("S31", follow_an_older_leader),
    ("S31", follow_another_cluster),
    ("S31", answer_a_vote_in_another_epoch),
    ("S32", raise_the_epoch_beyond_that_of_a_pre_vote),
    ("S32", raise_the_epoch_for_a_pre_vote),
    ("S32", write_a_pre_vote),
    ("S32", support_another_than_the_leader),
    ("S33", observer_wants_to_lead),
]
