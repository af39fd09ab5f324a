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


ANSWER_BREAKS: list[tuple[str, Callable[[Trace], Any]]] = [
    ("S38", refuse_a_vote_that_is_still_to_give),
    ("S38", refuse_a_vote_that_it_gave),
    ("S38", refuse_a_pre_vote_as_prospective),
    ("S38", have_a_prefix_cut),
    ("S38", send_a_snapshot_to_who_is_served_by_the_log),
    ("S38", serve_a_log_that_is_longer),
    ("S38", serve_a_log_that_ends_with_another_epoch),
    ("S38", refuse_a_new_voter_as_one_already),
]
