"""Features: what a run showed, whatever its nodes are called and whenever it was."""

from collections.abc import Mapping
from typing import Any

from harness.clock import NS_PER_MS
from harness.explore.features import Seen, features
from harness.history.ops import NEMESIS, History, Op

BEGAN_MS = 5_000
Event = dict[str, Any]


def event(node: int, at_ms: int, type_: str, epoch: int = 1, **fields: Any) -> Event:
    return {"node": node, "ts": at_ms * NS_PER_MS, "t": type_, "ep": epoch, **fields}


def role(node: int, at_ms: int, was: str, to: str, epoch: int = 1) -> Event:
    return event(node, at_ms, "role", epoch, **{"from": was, "to": to, "by": None})


def election(first: int, second: int, shift_ms: int = 0) -> Mapping[str, list[Event]]:
    """One node leads, the other follows and votes; which is which is the caller's choice."""
    begin = BEGAN_MS + shift_ms
    return {
        f"n{first}": [
            event(first, 100, "start", 0, leo=10),
            role(first, begin + 10, "unattached", "candidate"),
            event(first, begin + 30, "elected", grants=[first, second], voters=[[1], [2]], es=10),
            role(first, begin + 31, "candidate", "leader"),
        ],
        f"n{second}": [
            event(second, 101, "start", 0, leo=8),
            event(second, begin + 20, "vote", pre=False, ok=True, err=0, cand=first),
            role(second, begin + 40, "unattached", "follower"),
            event(second, begin + 50, "trunc", was=8, to=3),
        ],
    }


def seen(events: Mapping[str, list[Event]], ops: tuple[Op, ...] = ()) -> Seen:
    checked = {"S1": 9, "L2": 0, "keys": 3}
    return features(events, History(ops), ("n1", "n2"), checked, BEGAN_MS * NS_PER_MS)


def test_names_of_nodes_and_times_make_no_difference() -> None:
    assert set(seen(election(1, 2))) == set(seen(election(2, 1, shift_ms=777)))


def test_what_is_told_of_a_run() -> None:
    found = seen(election(1, 2))
    assert found["then started: start > role unattached candidate None +1"] == 10
    assert found["rpc vote False True 0: candidate asks started"] == 20
    assert found["near candidates 1"] == 10
    assert found["near uncommitted at election 4"] == 30  # 10 records, none known as committed
    assert found["near votes to spare 0"] == 30
    assert found["near cut 3"] == 50  # 5 records
    assert found["state follower:010 leader:000 under no fault"] == 40
    assert found["judged S1 2"] == 0
    assert not [name for name in found if name.startswith(("judged L2", "judged keys"))]


def test_what_comes_before_the_schedule_gives_no_features() -> None:
    assert not [name for name in seen(election(1, 2)) if name.endswith("> start +0")]


def test_states_name_the_one_fault_in_force() -> None:
    def fault(id_: int, at_ms: int, f: str, **value: Any) -> Op:
        op_at = (BEGAN_MS + at_ms) * NS_PER_MS
        return Op(0, op_at, NEMESIS, "info", f, {"id": id_, "nemesis": "kill", **value})

    both = (
        fault(1, 0, "inject", outcome="installed"),
        fault(2, 35, "inject", outcome="installed"),
        fault(1, 45, "heal", evidence={"up": True}),
        fault(2, 46, "heal", evidence={"up": True}),
    )
    under = {
        at_ms: name.partition(" under ")[2]
        for name, at_ms in seen(election(1, 2), both).items()
        if name.startswith("state")
    }
    assert under == {10: "kill", 30: "kill", 31: "kill", 40: "several faults", 50: "no fault"}


def test_events_of_the_harness_have_no_epoch() -> None:
    events = election(1, 2)
    wiped = event(2, BEGAN_MS + 60, "disk", what="wiped")
    del wiped["ep"]
    events["n2"].append(wiped)
    assert seen(events)["then follower: trunc > disk +0"] == 60
