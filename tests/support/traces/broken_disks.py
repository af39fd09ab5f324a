"""Claims of a node that its simulated disk gives the lie to, by the invariant that each breaks.

Each changes the trace of three voters, node 1 leading epoch 1 with two committed batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.contracts.evidence import LogBatch
from tests.support.traces.traces import Trace


def flush_too_much(trace: Trace) -> None:
    trace.append(1)
    trace.durable(1, trace.disks[1].end, upto=trace.disks[1].end - 1)
    trace.emit(1, "flush", upto=trace.disks[1].end)


def fetch_what_may_be_lost(trace: Trace) -> None:
    trace.durable(2, trace.disks[2].end, upto=trace.disks[2].end - 1)
    trace.fetch(2, 1)


def fetch_with_what_was_cut(trace: Trace) -> None:
    trace.append(1)
    batch = trace.disks[1].log[-1]
    trace.store(2, batch)
    trace.truncate(2, batch.base)
    back = [[batch.base, batch.last, batch.epoch, batch.crc]]
    trace.durable(2, batch.base, back=back)
    trace.fetch(2, 1)


def write_another_batch_than_it_tells(trace: Trace) -> None:
    trace.append(1)
    last = trace.disks[1].log[-1]
    trace.durable(1, last.base, batches=[[last.base, last.last, last.epoch, last.crc + 1]])


def keep_what_was_cut(trace: Trace) -> None:
    trace.append(1)
    batch = trace.disks[1].log[-1]
    trace.store(2, batch)
    trace.truncate(2, batch.base)
    batches = [[batch.base, batch.last, batch.epoch, batch.crc]]
    trace.durable(2, batch.base, upto=batch.last + 1, batches=batches)


def tell_of_a_vote_that_may_be_lost(trace: Trace) -> None:
    was, now = state(1, leader=1), state(2, voted=3)
    trace.left(2, "quorum-state", was, now)
    trace.disks[2].epoch = 2
    trace.emit(2, "qs", leader=None, voted=3, voted_dir=f"{3:032x}")


def tell_of_a_snapshot_that_may_be_lost(trace: Trace) -> None:
    frozen = trace.freeze(1)
    end, epoch = frozen["id"]
    name = f"{end:020d}-{epoch:010d}.checkpoint"
    trace.left(1, name, None, {"size": frozen["size"], "sha": frozen["sha"]})
    fields = {key: frozen[key] for key in ("id", "size", "sha", "kv", "voters")}
    trace.emit(1, "snap", op="freeze", **fields)


def leave_half_of_a_vote(trace: Trace) -> None:
    trace.left(2, "quorum-state", state(2), torn=True)


def leave_what_cannot_be_read(trace: Trace) -> None:
    trace.left(2, "quorum-state", {"bad": "no field leaderEpoch"})


def write_epoch_and_vote_one_by_one(trace: Trace) -> None:
    was = trace.left(2, "quorum-state", state(1, leader=1))["may"][0]
    trace.left(2, "quorum-state", {**was, "ep": 2})
    trace.persist(2, 2, voted=3)


def write_a_vote_without_its_directory(trace: Trace) -> None:
    trace.change_voters(1, 1, 2, 3)
    trace.replicate(1, 2)
    trace.left(2, "quorum-state", {**state(2), "voted": 3})
    trace.disks[2].epoch, trace.disks[2].voted = 2, 3
    told: dict[str, Any] = {"leader": None, "voted": 3, "voted_dir": trace.disks[3].dir}
    trace.emit(2, "qs", **told)


def become_another_node(trace: Trace) -> None:
    meta = {"cluster": "c", "node": 2, "dir": trace.disks[2].dir}
    trace.left(2, "meta.properties", meta)
    trace.left(2, "meta.properties", {**meta, "dir": "0" * 32})


def leave_epochs_that_fall(trace: Trace) -> None:
    trace.left(2, "leader-epoch-checkpoint", {"epochs": [[2, 0], [1, 3]]})


def start_from_a_vote_that_is_not_on_the_disk(trace: Trace) -> None:
    trace.start(2)
    del trace.events["n2"][-2:]
    trace.disks[2].seq -= 2
    trace.left(2, "quorum-state", {**state(1, leader=1), "voted": 3})
    trace.durable(2, 0)


def start_without_the_file(trace: Trace) -> None:
    trace.start(2)
    del trace.events["n2"][-2:]
    trace.disks[2].seq -= 2
    trace.left(2, "quorum-state", None)
    trace.durable(2, 0)


def start_from_an_epoch_that_nobody_entered(trace: Trace) -> None:
    trace.disks[2].epoch, trace.disks[2].leader, trace.disks[2].voted = 7, None, None
    trace.start(2)


def start_from_a_leader_that_nobody_elected(trace: Trace) -> None:
    trace.emit(3, "votereq", 2, pre=False, to=2)
    trace.disks[2].epoch, trace.disks[2].leader, trace.disks[2].voted = 2, 3, None
    trace.start(2)


def start_from_a_vote_that_nobody_asked_for(trace: Trace) -> None:
    trace.emit(3, "votereq", 2, pre=False, to=2)
    trace.disks[2].epoch, trace.disks[2].leader, trace.disks[2].voted = 2, None, 1
    trace.start(2)


def start_with_a_batch_that_nobody_wrote(trace: Trace) -> None:
    end = trace.disks[2].end
    trace.disks[2].log.append(LogBatch(end, end, 1, 12345, False, ()))
    trace.start(2)


def start_with_what_was_cut(trace: Trace) -> None:
    trace.append(1)
    batch = trace.disks[1].log[-1]
    trace.store(2, batch)
    trace.truncate(2, batch.base)
    trace.fetch(2, 1)  # so the cut was made
    trace.disks[2].log.append(batch)
    trace.start(2)


def start_with_less_than_it_says(trace: Trace) -> None:
    trace.start(2)
    last = trace.events["n2"][-1]
    last["upto"] -= 1
    del last["batches"][-1]


def state(epoch: int, leader: int | None = None, voted: int | None = None) -> dict[str, Any]:
    """The fields of an election state; who follows n1 in epoch 1 has voted for it."""
    voted = 1 if leader == 1 and voted is None else voted
    directory = None if voted is None else f"{voted:032x}"
    return {"ep": epoch, "leader": leader, "voted": voted, "voted_dir": directory}


DISK_BREAKS: list[tuple[str, Callable[[Trace], Any]]] = [
    ("S35", flush_too_much),
    ("S35", fetch_what_may_be_lost),
    ("S35", fetch_with_what_was_cut),
    ("S35", write_another_batch_than_it_tells),
    ("S35", keep_what_was_cut),
    ("S35", tell_of_a_vote_that_may_be_lost),
    ("S35", tell_of_a_snapshot_that_may_be_lost),
    ("S36", leave_half_of_a_vote),
    ("S36", leave_what_cannot_be_read),
    ("S36", write_epoch_and_vote_one_by_one),
    ("S36", write_a_vote_without_its_directory),
    ("S36", become_another_node),
    ("S36", leave_epochs_that_fall),
    ("S37", start_from_a_vote_that_is_not_on_the_disk),
    ("S37", start_without_the_file),
    ("S37", start_from_an_epoch_that_nobody_entered),
    ("S37", start_from_a_leader_that_nobody_elected),
    ("S37", start_from_a_vote_that_nobody_asked_for),
    ("S25", start_with_a_batch_that_nobody_wrote),
    ("S25", start_with_what_was_cut),
    ("S25", start_with_less_than_it_says),
]
