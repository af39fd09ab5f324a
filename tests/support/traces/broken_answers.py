"""Answers that do not follow from what the node had, by the invariant that each breaks.

Each changes the trace of three voters, node 1 leading epoch 1 with two committed batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.traces.traces import Trace


def refuse_a_vote_that_is_still_to_give(trace: Trace) -> None:
    trace.persist(2, 2)
    trace.role(2, "unattached")
    trace.grant(2, 3, ok=False)


def refuse_a_vote_that_it_gave(trace: Trace) -> None:
    trace.persist(2, 2)
    trace.role(2, "unattached")
    trace.persist(2, 2, voted=3)
    trace.grant(2, 3)
    trace.grant(2, 3, ok=False)


def refuse_a_pre_vote_as_prospective(trace: Trace) -> None:
    trace.role(2, "prospective")
    trace.grant(2, 3, ok=False, pre=True)


def have_a_prefix_cut(trace: Trace) -> None:
    trace.served(2, 1, res="diverging")


def send_a_snapshot_to_who_is_served_by_the_log(trace: Trace) -> None:
    trace.served(2, 1, res="snapshot")


def serve_a_log_that_is_longer(trace: Trace) -> None:
    trace.served(2, 1, off=trace.disks[1].end + 1)


def serve_a_log_that_ends_with_another_epoch(trace: Trace) -> None:
    trace.served(2, 1, last_ep=0)


def refuse_a_new_voter_as_one_already(trace: Trace) -> None:
    trace.emit(1, "rpc_err", api="AddVoter", peer=9, req_ep=None, code=126)


def send_to_an_older_snapshot(trace: Trace) -> None:
    trace.freeze(1)
    trace.served(3, 1, off=0, last_ep=0, res="snapshot", end=1)


def hold_against_the_winner_that_another_one_got_the_vote(trace: Trace) -> None:
    trace.persist(2, 2, voted=1)
    trace.role(2, "unattached", voted=1)
    trace.emit(2, "rpc_err", api="BeginQuorumEpoch", peer=3, req_ep=2, code=42)


def answer_a_leader_as_only_leaders_can(trace: Trace) -> None:
    trace.emit(2, "rpc_err", api="EndQuorumEpoch", peer=3, req_ep=2, code=75)


def take_word_of_a_second_leader(trace: Trace) -> None:
    trace.emit(2, "rpc_ok", api="EndQuorumEpoch", peer=3, peer_dir=None, req_ep=1)


def refuse_its_own_cluster(trace: Trace) -> None:
    trace.emit(2, "rpc_err", api="Fetch", peer=3, req_ep=1, code=104, foreign=False)


def refuse_what_is_addressed_to_it(trace: Trace) -> None:
    own = (2, trace.disks[2].dir)
    trace.emit(2, "rpc_err", api="BeginQuorumEpoch", peer=1, req_ep=1, code=125, voter=own)


def answer_a_vote_for_another_disk(trace: Trace) -> None:
    trace.grant(2, 3, ok=False)["voter"] = (2, "0" * 32)


def refuse_a_vote_for_a_log_that_can_be(trace: Trace) -> None:
    trace.grant(2, 3, ok=False, pre=True)["err"] = 42


def accept_a_vote_for_a_log_that_cannot_be(trace: Trace) -> None:
    trace.grant(2, 3, ok=False)["cl_ep"] = 1


def _chunk(trace: Trace, code: int, **changes: Any) -> None:
    frozen = trace.freeze(1)["id"]
    asked = {"api": "FetchSnapshot", "peer": 3, "req_ep": 1, "snap": frozen, "pos": 0} | changes
    if code:
        trace.emit(1, "rpc_err", code=code, **asked)
    else:
        trace.emit(1, "rpc_ok", peer_dir=trace.disks[3].dir, **asked)


def deny_a_snapshot(trace: Trace) -> None:
    _chunk(trace, 98)


def refuse_a_position_inside(trace: Trace) -> None:
    _chunk(trace, 99, pos=99)


def serve_beyond_the_end(trace: Trace) -> None:
    _chunk(trace, 0, pos=100)


def serve_the_bootstrap_snapshot(trace: Trace) -> None:
    _chunk(trace, 0, snap=[0, 0])


def _not_removed(trace: Trace, code: int) -> None:
    trace.change_voters(1, 1, 2, 3)
    asked: dict[str, Any] = {"api": "RemoveVoter", "peer": 2, "peer_dir": trace.disks[2].dir}
    trace.emit(1, "rpc_err", req_ep=None, code=code, **asked)


def deny_a_voter(trace: Trace) -> None:
    _not_removed(trace, 127)


def remove_a_voter_with_another_disk(trace: Trace) -> None:
    for _ in range(2):  # the directories were not known before
        trace.change_voters(1, 1, 2, 3)
    trace.emit(1, "rpc_ok", api="RemoveVoter", peer=2, peer_dir="0" * 32, req_ep=None)


def call_one_of_three_the_last(trace: Trace) -> None:
    _not_removed(trace, 42)


def call_voters_with_directories_static(trace: Trace) -> None:
    _not_removed(trace, 35)


ANSWER_BREAKS: list[tuple[str, Callable[[Trace], Any]]] = [
    ("S38", refuse_a_vote_that_is_still_to_give),
    ("S38", refuse_a_vote_that_it_gave),
    ("S38", refuse_a_pre_vote_as_prospective),
    ("S38", have_a_prefix_cut),
    ("S38", send_a_snapshot_to_who_is_served_by_the_log),
    ("S38", serve_a_log_that_is_longer),
    ("S38", serve_a_log_that_ends_with_another_epoch),
    ("S38", refuse_a_new_voter_as_one_already),
    ("S38", send_to_an_older_snapshot),
    ("S38", hold_against_the_winner_that_another_one_got_the_vote),
    ("S38", answer_a_leader_as_only_leaders_can),
    ("S38", take_word_of_a_second_leader),
    ("S38", refuse_its_own_cluster),
    ("S38", refuse_what_is_addressed_to_it),
    ("S38", answer_a_vote_for_another_disk),
    ("S38", refuse_a_vote_for_a_log_that_can_be),
    ("S38", accept_a_vote_for_a_log_that_cannot_be),
    ("S38", deny_a_snapshot),
    ("S38", refuse_a_position_inside),
    ("S38", serve_beyond_the_end),
    ("S38", serve_the_bootstrap_snapshot),
    ("S38", deny_a_voter),
    ("S38", remove_a_voter_with_another_disk),
    ("S38", call_one_of_three_the_last),
    ("S38", call_voters_with_directories_static),
]
