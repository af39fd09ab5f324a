"""The liveness checker: what must come true after the last heal, and in peace."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from checkers.invariants.haste import FETCH_SETTING
from checkers.invariants.retention import BYTES_SETTING
from checkers.liveness.asking import SAME_PER_S_MAX, UPDATE
from checkers.liveness.cleaning import INTERVAL_SETTING
from checkers.liveness.elections import IN_VAIN_MAX
from checkers.liveness.peace import EVENTS_PER_S_MAX, HEARD_PER_S_MAX
from checkers.liveness.plugin import (
    AGAIN,
    ELECTION_SETTING,
    REQUEST_SETTING,
    SNAPSHOT_SETTING,
    UNHEARD,
    liveness,
)
from harness.contracts.evidence import LogBatch, LogSnapshot
from harness.history.ops import OpType
from harness.sessions.simulated import simulate
from harness.sessions.zoo import plan_of
from harness.spec import RunSpec
from harness.verdict import CheckResult, Valid
from node.mutants import get
from tests.support.histories.peaceful import PeacefulRun, S

ALIKE = {"cl_ep": 1, "cl_leo": 5, "my_ep": 1, "my_leo": 5}  # the logs in a vote


class Run(PeacefulRun):
    """It is judged by ``liveness``."""

    def judged(self) -> CheckResult:
        return liveness(self.data())

    def found(self) -> dict[str, str]:
        return {a.invariant: a.message for a in self.judged().anomalies}


@pytest.fixture
def run() -> Run:
    return Run()


def test_a_healthy_end_is_valid(run: Run) -> None:
    result = run.judged()
    assert (result.valid, result.anomalies) == (Valid.VALID, ())
    assert set(result.checked) == {f"L{i}" for i in range(1, 14)} - {"L11"}


def test_a_run_that_was_cut_short_is_unknown(run: Run) -> None:
    run.windows.clear()
    assert run.judged().valid is Valid.UNKNOWN


def test_nobody_leads(run: Run) -> None:
    run.recovered = False
    run.tell("n1", 9.5, "role", to="resigned", leader=None, why="check-quorum")
    assert "nobody leads: n1 resigned in epoch 3" in run.found()["L1"]


@pytest.mark.parametrize(
    ("times", "epochs", "follows", "is_told"),
    [(7, 1, False, True), (6, 1, False, False), (8, 2, False, False), (8, 1, True, False)],
)
def test_a_voter_that_is_granted_its_update_asks_no_more(
    run: Run, times: int, epochs: int, follows: bool, is_told: bool
) -> None:
    """But when it follows its leader anew (seed 70141 of the raft client)."""
    for n in range(times):
        if follows:
            run.tell("n2", 1 + n / 10, "role", ep=3, to="follower", leader=1, why="VoteResponse")
        granted = {"api": UPDATE, "peer": 2, "peer_dir": "bb", "req_ep": 3}
        run.tell("n1", 1 + n / 10, "rpc_ok", ep=3 + n % epochs, **granted)
    told = "n2 asked n1 to be updated as a voter over 6 times in epoch 3"
    assert run.found().get("L12", "").startswith(told) is is_told


@pytest.mark.parametrize(
    ("asked", "heard", "is_told"), [(3, False, True), (3, True, False), (2, False, False)]
)
def test_nobody_leads_and_a_voter_gets_no_requests(
    run: Run, asked: int, heard: bool, is_told: bool
) -> None:
    run.recovered = False
    run.tell("n1", 9.5, "role", to="prospective", leader=None, why="by itself")
    for _ in range(asked):
        run.tell("n1", 9.6, "votereq", pre=True, to=2)
    if heard:
        run.tell("n2", 9.7, "vote", pre=True, ok=False, cand=1, **ALIKE)
    told = f"; n1 asked n2 for its vote {asked} times{UNHEARD}"
    assert run.found()["L1"].endswith(told) is is_told


def test_a_leader_that_does_not_get_on(run: Run) -> None:
    run.recovered = False
    assert "n1 leads and makes no progress" in run.found()["L2"]


def test_a_node_that_does_not_catch_up(run: Run) -> None:
    run.recovered = False
    run.tell("n1", 9, "hwm", v=30)
    assert "n2 at -1" in run.found()["L8"]


def test_a_node_that_does_not_catch_up_as_it_follows_nobody_is_told_with_its_role(run: Run) -> None:
    run.recovered = False
    run.tell("n1", 9, "hwm", v=30)
    run.tell("n2", 9.5, "role", to="prospective", leader=1, why="by itself")
    assert "n2 at -1, prospective in epoch 3" in run.found()["L8"]


def test_a_node_that_has_ended_is_named_and_nobody_is_blamed_for_what_was_not_waited_for(
    run: Run,
) -> None:
    run.recovered, run.down = False, {"n2": "process 3: exit code 1"}
    run.events["n2"] = [event for event in run.events["n2"] if event["t"] != "hwm"]
    run.tell("n2", 8.25, "role", to="follower", leader=1, why="test")
    run.tell("n2", 8.5, "disk", what="bit-flip")  # a fault's word, not the node's
    run.tell("n1", 9.5, "role", to="resigned", leader=None, why="check-quorum")
    result = run.judged()
    assert run.found() == {
        "L8": "n2 has ended (process 3: exit code 1), last heard of at 8.250 s: for that the wait "
        "for the cluster was given up, 1000 ms after the last fault was healed"
    }
    assert (result.anomalies[0].details, result.checked["L8"]) == ({"nodes": ["n2"]}, 1)
    assert not result.checked.keys() & {"L1", "L2"}


def test_a_node_that_ended_and_told_nothing(run: Run) -> None:
    run.recovered, run.down = False, {"n2": "process 1: exit code 254"}
    run.events["n2"].clear()
    assert "n2 has ended (process 1: exit code 254), and never told of itself" in run.found()["L8"]


def test_a_simulated_node_that_dies_is_named() -> None:
    """A leader dies of a follower that has lost something (KAFKA-12181)."""
    scenario = get("backward-fetch").scenario
    assert scenario is not None
    run = simulate(plan_of(scenario.to_json(), scenario.seeds[0], "backward-fetch", stop_at=()))
    (result,) = (each for each in run.judgement.results if each.checker == "liveness")
    told = [each for each in result.anomalies if each.invariant in ("L1", "L2", "L8")]
    assert told
    for each in told:
        assert each.invariant == "L8"
        assert re.fullmatch(
            r"n\d has ended \(process \d+: exit code \d+\), last heard of at \d+\.\d{3} s: for that"
            r" the wait for the cluster was given up, 0 ms after the last fault was healed",
            each.message,
        ), each.message
    assert any(" is down since " in why for why in run.judgement.reasons["coverage"])


def test_an_election_in_peace(run: Run) -> None:
    run.tell("n2", 13, "role", ep=4, to="candidate", leader=None, why="fetch timeout")
    result = run.judged()
    assert run.found() == {
        "L3": "n2 became candidate in epoch 4 (fetch timeout) although nothing was wrong any more"
    }
    assert result.anomalies[0].time_ns == 13 * S


def test_what_happens_when_all_is_stopped_is_no_election_in_peace(run: Run) -> None:
    run.tell("n1", 16, "role", to="resigned", leader=None, why="shutdown")
    run.tell("n1", 16, "stop")
    assert run.found() == {}


def test_a_node_stuck_in_pre_votes(run: Run) -> None:
    run.tell("n3", 12, "role", to="prospective", leader=None, why="timeout")
    assert "n3 is still prospective after 5 s" in run.found()["L7"]


def test_a_node_that_stays_behind_in_peace(run: Run) -> None:
    run.tell("n1", 15, "hwm", v=22)
    assert "n2 at high watermark 20" in run.found()["L8"]
    run.tell("n1", 15.5, "hwm", v=21)
    assert run.found() == {}, "one step behind is on its way"


@pytest.mark.parametrize(("at_s", "late"), [(15.2, True), (15.7, False)])
def test_several_records_that_were_committed_just_now_are_on_their_way(
    run: Run, at_s: float, late: bool
) -> None:
    run.tell("n1", at_s, "hwm", v=24)
    assert ("L8" in run.found()) is late


def test_a_broker_that_stays_fenced(run: Run) -> None:
    run.tell("n4", 14, "hb", err=0, fenced=True)
    run.tell("n4", 15, "hb", err=None, fenced=None)
    assert "broker n4 is still fenced" in run.found()["L10"]


def test_a_broker_that_had_to_wait_for_its_registration_has_time_to_be_unfenced(run: Run) -> None:
    """The session of the process before it had not run out yet: it is refused until then."""
    run.tell("n4", 15.9, "reg", err=0, b_ep=7)
    run.tell("n4", 15.95, "hb", err=0, fenced=True)
    assert run.found() == {}
    run.events["n4"][-2]["rx_ns"] = 14 * S
    assert "broker n4 is still fenced" in run.found()["L10"]


@pytest.mark.parametrize(
    ("error", "told"),
    [(35, "it is refused with error 35"), (None, "nobody answers"), (101, None), (0, None)],
)
def test_a_broker_that_is_not_registered(run: Run, error: int | None, told: str | None) -> None:
    """As one whose levels of features a controller compared with nothing that it had said."""
    run.tell("n4", 12.5, "start")
    run.tell("n4", 13, "reg", err=error, b_ep=7)
    assert run.found() == (
        {} if told is None else {"L10": f"broker n4 is not registered after 3.5 s of peace: {told}"}
    )


@pytest.mark.parametrize(
    ("at_s", "waited_ms", "error", "told"),
    [
        (15.5, 3000, None, "nobody answered in 3000 ms"),
        (12.6, 100, 41, "it was refused with error 41 in 100 ms"),
        (15.5, 0, 0, None),
        (15.5, 5000, None, None),  # it asked when all had just been healed
    ],
)
def test_a_controller_that_is_not_registered(
    run: Run, at_s: float, waited_ms: int, error: int | None, told: str | None
) -> None:
    """As one whose requests nobody hears; all is healed at 9 s."""
    run.tell("n2", at_s, "creg", err=error, ms=waited_ms, inc_id="a1")
    said = "controller n2 asked to be registered 3.5 s after all was healed, and"
    assert run.found() == ({} if told is None else {"L10": f"{said} {told}"})
    run.tell("n2", 15.9, "creg", err=0, ms=3, inc_id="a1")
    assert run.found() == {}


def test_a_broker_that_does_not_register_anew(run: Run) -> None:
    run.tell("n4", 13, "start")
    assert run.found() == {
        "L10": "broker n4 is not registered after 3 s of peace: it has not asked"
    }
    run.tell("n4", 15, "start")
    assert run.found() == {}, "it has just begun"
    run.tell("n4", 12.9, "stop")
    run.events["n4"] = [e for e in run.events["n4"] if e["t"] != "start" or e["rx_ns"] < S]
    assert run.found() == {}, "it has stopped"


def test_a_broker_that_says_it_lives_and_never_registers(run: Run) -> None:
    run.events["n4"] = [e for e in run.events["n4"] if e["t"] != "hb"]
    run.tell("n4", 12.5, "start")
    run.tell("n4", 13, "hb", err=102, fenced=None)
    told = "broker n4 is not registered after 3.5 s of peace: it has not asked"
    assert run.found() == {"L10": told}


def test_a_broker_that_begins_to_run_and_never_asks(run: Run) -> None:
    """A change of our node by machine that had no broker ask anything had survived."""
    run.events["n4"] = [e for e in run.events["n4"] if e["t"] != "hb"]
    run.tell("n4", 12.5, "start")
    run.tell("n4", 12.6, "bstate", to="STARTING")
    told = "broker n4 is not registered after 3.5 s of peace: it has not asked"
    assert run.found() == {"L10": told}
    run.tell("n4", 14, "bstate", to="SHUTTING_DOWN")
    assert run.found() == {}


def test_an_observer_that_is_no_broker_need_not_be_registered(run: Run) -> None:
    run.events["n4"] = [e for e in run.events["n4"] if e["t"] != "hb"]
    assert run.found() == {}


def _say(run: Run, name: str, type_: str, times: int) -> None:
    run.events[name] += [
        {"t": type_, "node": int(name[1:]), "inc": 1, "ep": 3, "err": 1, "rx_ns": 13 * S + i}
        for i in range(times)
    ]


def test_a_node_that_spins(run: Run) -> None:
    _say(run, "n2", "hb", 5 * EVENTS_PER_S_MAX)
    assert "n2 told" in run.found()["L12"]


@pytest.mark.parametrize("heard", [HEARD_PER_S_MAX, 2 * HEARD_PER_S_MAX])
def test_a_leader_hears_the_fetches_of_all_others(run: Run, heard: int) -> None:
    """A leader of seven voters and five brokers that commits each 100 ms is asked 333 times a s."""
    others = len(run.events) - 1
    _say(run, "n1", "hb", 5 * (EVENTS_PER_S_MAX - 50 + heard * others))
    assert ("n1 told" in run.found().get("L12", "")) is (heard > HEARD_PER_S_MAX)


def test_a_leader_that_commits_nothing_in_peace_does_not_get_on(run: Run) -> None:
    run.events["n1"] = [e for e in run.events["n1"] if e["t"] != "hwm"]
    run.tell("n1", 8, "hwm", v=20)
    assert "n1 leads and has committed nothing in 5 s of peace" in run.found()["L2"]


@pytest.mark.parametrize(("after_s", "late"), [(0.1, False), (0.5, True)])
def test_who_hears_of_a_commit_only_with_the_next_one_is_late(
    run: Run, after_s: float, late: bool
) -> None:
    for node in run.events:
        as_: dict[str, Any] = {"as": "leader" if node == "n1" else "follower"}
        run.tell(node, 13 if node != "n3" else 13 + after_s, "hwm", v=21, **as_)
    assert ("L8" in run.found()) is late


@pytest.mark.parametrize(("due_bytes", "late"), [(200, True), (400, False)])
def test_a_log_that_outgrows_its_snapshot_is_overdue(due_bytes: int, late: bool) -> None:
    log = tuple(
        LogBatch(base=i, last=i, epoch=1, crc=i, control=False, records=()) for i in range(20)
    )
    told = Run().data()
    spec = RunSpec(1, settings={SNAPSHOT_SETTING: str(due_bytes)})
    snapshots = {"n1": (LogSnapshot(end=10, epoch=1, records=()),)}
    result = liveness(replace(told, spec=spec, logs={"n1": log}, snapshots=snapshots))
    assert [a.invariant for a in result.anomalies] == ["L11"] * late


@pytest.mark.parametrize(("image", "again"), [(None, True), (8, False), (15, True)])
def test_what_outgrew_its_snapshot_since_a_start_is_told_apart(
    image: int | None, *, again: bool
) -> None:
    """Kafka counts bytes from the first image of a process on: docs/findings.md."""
    log = tuple(
        LogBatch(base=i, last=i, epoch=1, crc=i, control=False, records=()) for i in range(20)
    )
    run = Run()
    run.tell("n1", 9, "start", leo=9)
    if image is not None:
        run.tell("n1", 9.1, "image", off=image, digest="0", kind="full")
        run.tell("n1", 9.2, "image", off=19, digest="0", kind="delta")
    spec = RunSpec(1, settings={SNAPSHOT_SETTING: "200"})
    snapshots = {"n1": (LogSnapshot(end=8, epoch=1, records=()),)}
    result = liveness(replace(run.data(), spec=spec, logs={"n1": log}, snapshots=snapshots))
    (found,) = [each for each in result.anomalies if each.invariant == "L11"]
    assert found.message.endswith(AGAIN) is again


@pytest.mark.parametrize(
    ("ends", "first", "told"),
    [
        ([10], 0, None),
        ([10, 15], 10, None),
        ([10, 15], 15, "n1 still has the snapshots of 10, though its log begins at 15"),
        ([0, 15], 15, None),
        ([10, 15], None, "n1 still has the snapshots of 10, though its log begins at 15"),
        ([15], None, None),
    ],
)
def test_snapshots_before_the_log_are_deleted(
    ends: list[int], first: int | None, told: str | None
) -> None:
    log = () if first is None else (LogBatch(first, 20, 1, 1, control=False, records=()),)
    snapshots = {"n1": tuple(LogSnapshot(end, 1, ()) for end in ends)}
    result = liveness(replace(Run().data(), logs={"n1": log}, snapshots=snapshots))
    assert [a.message for a in result.anomalies] == [told] * (told is not None)
    assert result.checked["L11"] == 1


@pytest.mark.parametrize(
    ("sizes", "settings", "start", "told"),
    [
        ([60, 50], {}, 5, "n1 kept snapshots that end at 10, 20 through 5 s of peace"),
        ([60, 50, 1], {}, 5, "n1 kept snapshots that end at 10, 20, 30 through 5 s of peace"),
        ([50, 50], {}, 5, None),
        ([60, 50], {}, 20, None),  # the log may not begin later
        ([110], {}, 5, None),
        ([60, 50], {INTERVAL_SETTING: "60000"}, 5, None),
        ([60, 50], {BYTES_SETTING: "-1"}, 5, None),
    ],
)
def test_snapshots_that_are_too_large_together(
    sizes: list[int], settings: dict[str, str], start: int, told: str | None
) -> None:
    run = Run()
    run.tell("n1", 8, "start", log_start=start)
    snapshots = []
    for place, size in enumerate(sizes, 1):
        run.tell("n1", 8 + place / 2, "snap", op="freeze", id=[10 * place, 1], size=size)
        snapshots.append(LogSnapshot(10 * place, 1, ()))
    spec = RunSpec(1, settings={BYTES_SETTING: "100", INTERVAL_SETTING: "500", **settings})
    log = (LogBatch(5, 40, 1, 1, control=False, records=()),)
    data = replace(run.data(), spec=spec, logs={"n1": log}, snapshots={"n1": tuple(snapshots)})
    found = [a.message for a in liveness(data).anomalies if a.invariant == "L11"]
    assert [message.split(":")[0] for message in found] == [told] * (told is not None)
    run.tell("n1", 12, "start", log_start=start)
    late = replace(data, events=run.data().events)
    assert [a for a in liveness(late).anomalies if a.invariant == "L11"] == []


# --------------------------------------------------------------------------- L4, L5, L6


def test_an_old_leader_that_never_steps_down(run: Run) -> None:
    run.tell("n3", 8, "role", ep=2, to="leader", leader=3, why="test")
    assert "n3 still leads epoch 2 after 5 s of peace" in run.found()["L4"]


@pytest.mark.parametrize(
    ("ended", "what"),
    [
        (("ok", 10.5), None),
        (("fail", 10.5), None),
        (("info", 10.5), "info after 0.2 s"),
        (("ok", 13.0), "ok after 2.7 s"),
        (None, "no answer at all"),
    ],
)
def test_an_op_in_peace_has_its_answer_soon(
    run: Run, ended: tuple[OpType, float] | None, what: str | None
) -> None:
    run.op(9.5, "invoke", 1, f="write", value=1)  # invoked before: it may end in any way
    run.op(10.4, "info", 1, f="write", value=1)
    run.op(10.3, "invoke", 0, f="write", value=2)
    if ended is not None:
        run.op(ended[1], ended[0], 0, f="write", value=2)
    found = run.found()
    assert run.judged().checked["L5"] == 1
    assert ("L5" in found) is (what is not None)
    assert what is None or what in found["L5"]


@pytest.mark.parametrize(
    ("ops", "late"),
    [
        ((9.0, 10.3), False),  # the answer of who was the controller before
        ((10.3,), True),  # nothing from before to go by
        ((9.0, 10.3, 10.6), True),  # it was told already
    ],
)
def test_who_was_the_controller_before_may_be_asked_once(
    run: Run, ops: tuple[float, ...], late: bool
) -> None:
    """Seed 703593 of producer-ids, whose answers cannot say that nothing was written."""
    for at_s in ops:
        run.op(at_s, "invoke", 0, f="allocate")
        run.op(at_s + 0.1, "info", 0, f="allocate", error="not-controller")
    assert ("L5" in run.found()) is late


@pytest.mark.parametrize(("off", "pending"), [(19, False), (20, True), (None, False)])
def test_a_voter_change_is_committed_or_gone(run: Run, off: int | None, pending: bool) -> None:
    run.tell("n2", 5, "voters", off=off, set=[[1, None]], revert=False)
    assert ("L6" in run.found()) is pending


# --------------------------------------------------------------------------- L9


def stand(run: Run, epochs: range, *, every_s: float = 0.5) -> None:
    """Two voters stand at a time, from 3 s on, and neither wins."""
    for place, epoch in enumerate(epochs):
        for node in ("n2", "n3"):
            run.tell(
                node, 3 + place * every_s, "role", ep=epoch, to="candidate", leader=None, why="test"
            )
    for node in ("n2", "n3"):
        run.tell(node, 8.5, "role", ep=epochs[-1] + 1, to="follower", leader=1, why="test")


@pytest.mark.parametrize(("times", "found"), [(IN_VAIN_MAX, False), (IN_VAIN_MAX + 1, True)])
def test_candidates_in_lock_step(run: Run, times: int, found: bool) -> None:
    run.fault("kill", 2, 8)
    stand(run, range(4, 4 + times))
    assert run.judged().checked["L9"] == times
    assert ("L9" in run.found()) is found
    if found:
        assert "epoch 4: n2, n3; epoch 5: n2, n3" in run.found()["L9"]


@pytest.mark.parametrize(
    ("down", "found"),
    [
        (["n1"], True),
        pytest.param(["n1", "n3"], False, id="a majority is down"),
        pytest.param(["n1", "n4"], True, id="a voter and a broker are"),
    ],
)
def test_elections_are_in_vain_while_a_majority_is_down(
    run: Run, down: list[str], found: bool
) -> None:
    for place, node in enumerate(down):
        run.fault("kill", 2 + place / 10, 8 + place / 10, node)
    stand(run, range(4, 4 + IN_VAIN_MAX + 1))
    assert ("L9" in run.found()) is found


@pytest.mark.parametrize(
    ("refusing", "ahead", "found"),
    [
        pytest.param([1, 3], True, False, id="a majority has more"),
        pytest.param([1], True, True, id="a minority has more"),
        pytest.param([1, 3], False, True, id="nobody has more"),
    ],
)
def test_who_is_behind_may_stand_in_vain(
    run: Run, refusing: list[int], ahead: bool, found: bool
) -> None:
    """Kafka before 4.0 has no pre-votes (3.9.2, seed 9013 of ``isr``)."""
    for place, epoch in enumerate(range(4, 5 + IN_VAIN_MAX)):
        at_s = 3 + place * 0.5
        run.tell("n2", at_s, "role", ep=epoch, to="candidate", leader=None, why="test")
        logs = {"cl_ep": 2, "cl_leo": 5, "my_ep": 3 if ahead else 2, "my_leo": 5}
        for node in refusing:
            run.tell(f"n{node}", at_s, "vote", ep=epoch, ok=False, pre=False, cand=2, **logs)
    run.tell("n2", 8.5, "role", ep=9, to="follower", leader=1, why="test")
    assert ("L9" in run.found()) is found


def test_an_election_that_is_won_ends_the_row(run: Run) -> None:
    stand(run, range(4, 10))
    run.tell("n2", 4.1, "elected", ep=6, es=1)
    assert run.found() == {}


@pytest.mark.parametrize(
    "nemesis",
    [
        pytest.param("slow-links", id="links that are not as they should be"),
        pytest.param("gone-from-here", id="a fault that nobody knows"),
    ],
)
def test_elections_may_be_in_vain_while_more_is_wrong_than_crashes(run: Run, nemesis: str) -> None:
    run.fault(nemesis, 2, 6)
    stand(run, range(4, 11))
    assert run.found() == {}


def test_each_crash_may_cost_elections(run: Run) -> None:
    stand(run, range(4, 10))
    run.fault("kill", 4.2, 6)
    assert run.found() == {}
    run.ops.clear()
    assert "L9" in run.found()
    run.tell("n2", 4.3, "start")
    assert run.found() == {}


# --------------------------------------------------------------------------- L13


def fetch(run: Run, *, to: int = 1, res: str = "ok", off: int = 20) -> None:
    """n2 fetches from n1, which takes it; both are heard of later."""
    run.tell("n2", 12, "fetch_tx", off=off, to=to)
    run.tell("n1", 12.1, "fetch_rx", **{"from": 2}, off=off, res=res)
    run.tell("n2", 15, "flush", upto=1)
    run.tell("n1", 15, "flush", upto=1)


def test_a_fetch_that_nobody_answers(run: Run) -> None:
    fetch(run)
    assert run.judged().checked["L13"] == 1
    assert "0.8 s later n2 still waits" in run.found()["L13"]


@pytest.mark.parametrize(
    ("had_s", "answered_s", "late"),
    [
        (11.9, 12.15, False),
        (11.9, 12.3, True),
        (12.3, 12.35, False),
        (12.3, 12.5, True),
        (None, 12.8, False),
    ],
)
def test_a_fetch_waits_only_while_the_leader_has_no_records_for_it(
    run: Run, had_s: float | None, answered_s: float, late: bool
) -> None:
    fetch(run)
    if had_s is not None:
        run.tell("n1", had_s, "append", base=20, last=22, bep=3, h=1, src="leader")
    run.tell("n2", answered_s, "fetch_tx", off=23, to=1)
    assert ("L13" in run.found()) is late


def test_records_of_an_epoch_before_are_no_reason_to_answer(run: Run) -> None:
    """The leader may have cut them off since."""
    fetch(run)
    run.tell("n1", 2, "append", ep=2, base=20, last=22, bep=2, h=1, src="leader")
    run.tell("n2", 12.7, "fetch_tx", off=20, to=1)
    assert "L13" not in run.found()


@pytest.mark.parametrize("type_", ["fetch_tx", "role", "snap", "stop"])
def test_what_a_fetcher_does_next_shows_that_it_waits_no_more(run: Run, type_: str) -> None:
    fetch(run)
    more = {"to": "follower", "leader": 1, "why": "test"} if type_ == "role" else {"to": 3}
    run.tell("n2", 12.7, type_, off=21, **more)
    assert "L13" not in run.found()


def test_a_fetch_that_was_refused_or_is_not_known_to_have_come_needs_no_answer(run: Run) -> None:
    fetch(run, res="FENCED_LEADER_EPOCH")
    run.tell("n3", 12, "fetch_tx", off=20, to=None)
    assert run.judged().checked["L13"] == 0


@pytest.mark.parametrize(("nemesis", "found"), [("partition-one-way", False), ("membership", True)])
def test_answers_are_due_where_links_are_as_they_should_be(
    run: Run, nemesis: str, found: bool
) -> None:
    fetch(run)
    run.fault(nemesis, 11.5, 13)
    assert ("L13" in run.found()) is found


def appends(run: Run, pause_s: float, count: int = 25) -> None:
    """n2 gets records so many times, and asks for more a while later."""
    for number in range(count):
        at_s = 12 + number / 10
        more = {"base": number, "last": number, "bep": 1, "h": 1}
        run.tell("n2", at_s, "append", **more, src="follower")
        run.tell("n2", at_s + pause_s, "fetch_tx", off=number + 1, to=None)


@pytest.mark.parametrize("pause_s", [0, 0.009])
def test_who_got_records_asks_for_more_at_once(run: Run, pause_s: float) -> None:
    appends(run, pause_s)
    assert run.judged().checked["L13"] == 24, "nobody heard of it after the last"
    assert "L13" not in run.found()


def test_who_mostly_makes_a_pause_first_is_told(run: Run) -> None:
    appends(run, 0.02)
    assert "n2 appended what it had fetched 25 times, and 25 times " in run.found()["L13"]


@pytest.mark.parametrize("count", [12, 19])
def test_a_few_pauses_say_nothing(run: Run, count: int) -> None:
    appends(run, 0.02, count)
    assert "L13" not in run.found()


def test_a_pause_under_a_fault_of_the_disk_says_nothing(run: Run) -> None:
    appends(run, 0.02)
    run.fault("disk-slow", 11.5, 15)
    assert "L13" not in run.found()


def test_who_dies_answers_nobody(run: Run) -> None:
    fetch(run)
    run.events["n1"] = [e for e in run.events["n1"] if e["rx_ns"] < 12.5 * S]
    run.tell("n1", 13, "start", inc=2)
    run.tell("n1", 15, "role", inc=2, to="leader", leader=1, why="test")
    assert run.judged().checked["L13"] == 0


# --------------------------------------------------------------------------- L7, of the whole run


def elect(run: Run, *, until_s: float, since_s: float | None = 3) -> dict[str, str]:
    """n3 is unattached from 3 s on; timers end within a second."""
    if since_s is not None:
        run.tell("n3", since_s, "role", to="unattached", leader=None, why="test")
    run.tell("n3", until_s, "role", to="follower", leader=1, why="test")
    spec = RunSpec(1, settings={ELECTION_SETTING: "500"})
    return {a.invariant: a.message for a in liveness(replace(run.data(), spec=spec)).anomalies}


@pytest.mark.parametrize(("until_s", "stuck"), [(4.2, False), (4.4, True)])
def test_a_voter_that_does_not_stand_is_stuck(run: Run, until_s: float, stuck: bool) -> None:
    assert ("L7" in elect(run, until_s=until_s)) is stuck


@pytest.mark.parametrize(("ok", "pre", "stuck"), [(1, 0, False), (0, 0, True), (1, 1, True)])
def test_only_a_vote_that_was_given_buys_time(run: Run, ok: int, pre: int, stuck: bool) -> None:
    run.tell("n3", 3.9, "vote", ok=bool(ok), pre=bool(pre), cand=1, **ALIKE)
    assert ("L7" in elect(run, until_s=4.9)) is stuck


@pytest.mark.parametrize(("nemesis", "stuck"), [("pause", False), ("partition-one-way", True)])
def test_a_timer_goes_on_unless_its_process_or_clock_is_stopped(
    run: Run, nemesis: str, stuck: bool
) -> None:
    run.fault(nemesis, 3.5, 6)
    assert ("L7" in elect(run, until_s=7)) is stuck


@pytest.mark.parametrize(
    ("end", "stuck"),
    [
        pytest.param({"to": "candidate", "backoff_ms": 600}, False, id="it says so"),
        pytest.param({"to": "candidate", "backoff_ms": 100}, True, id="not for that long"),
        pytest.param({"to": "prospective"}, True, id="it does not back off"),
        pytest.param({"to": "follower"}, False, id="it may have, when it heard of a leader"),
    ],
)
def test_a_candidate_may_back_off(run: Run, end: dict[str, Any], stuck: bool) -> None:
    run.tell("n3", 3, "role", to="candidate", leader=None, why="test")
    run.tell("n3", 4.8, "role", leader=None, why="test", **end)
    assert ("L7" in elect(run, until_s=4.9, since_s=None)) is stuck


@pytest.mark.parametrize(("since_s", "stuck"), [(16.1, False), (15.9, False), (14.0, True)])
def test_a_leader_that_is_stopped_may_wait_for_another(
    run: Run, since_s: float, stuck: bool
) -> None:
    """Nodes are stopped when the peace is over, at 16 s."""
    run.tell("n3", since_s, "role", to="resigned", leader=3, why="test")
    run.tell("n3", 20, "fetch_rx", res="ok")
    assert ("L7" in elect(run, until_s=20.1, since_s=None)) is stuck


def test_the_dead_are_not_stuck(run: Run) -> None:
    run.tell("n3", 4, "flush", upto=1)
    run.tell("n3", 8, "start")
    assert elect(run, until_s=8.1) == {}


def is_deserted(run: Run, *, until_s: float) -> bool:
    """Tell whether n3 follows n1 for too long, from 1 s on until it stands.

    It waits for 1 s, and answers may take 0.5 s.
    """
    run.tell("n3", until_s, "role", to="prospective", leader=None, why="test")
    settings = {ELECTION_SETTING: "5000", FETCH_SETTING: "1000", REQUEST_SETTING: "500"}
    spec = RunSpec(1, settings=settings)
    anomalies = liveness(replace(run.data(), spec=spec)).anomalies
    return any(a.message.startswith("n3 followed n1 in epoch 3 for ") for a in anomalies)


@pytest.mark.parametrize(("until_s", "stuck"), [(4.7, False), (4.9, True)])
def test_a_follower_that_hears_of_no_leader_stands(run: Run, until_s: float, stuck: bool) -> None:
    for at_s in (2.2, 3):
        run.tell("n1", at_s, "fetch_rx", **{"from": 3}, off=1, res="ok")
    run.tell("n1", 4, "fetch_rx", **{"from": 3}, off=1, res="FENCED_LEADER_EPOCH")
    run.tell("n1", 4, "fetch_rx", **{"from": 2}, off=1, res="ok")
    run.tell("n3", 4, "fetch_tx", off=1, to=1)
    assert is_deserted(run, until_s=until_s) is stuck


@pytest.mark.parametrize(("until_s", "stuck"), [(3.9, False), (4.1, True)])
def test_a_chunk_of_a_snapshot_is_as_good_as_a_fetch(run: Run, until_s: float, stuck: bool) -> None:
    run.tell("n1", 2.2, "rpc_ok", api="FetchSnapshot", peer=3)
    assert is_deserted(run, until_s=until_s) is stuck


@pytest.mark.parametrize(("until_s", "stuck"), [(3.4, False), (3.6, True)])
@pytest.mark.parametrize(
    ("type_", "fields"),
    [
        ("append", {"base": 1, "last": 1, "bep": 3, "h": 1, "src": "follower"}),
        ("rpc_ok", {"api": "BeginQuorumEpoch"}),
        ("snap", {"op": "load", "id": (5, 3)}),
    ],
)
def test_what_a_follower_does_by_an_answer_shows_that_it_hears(
    run: Run, type_: str, fields: dict[str, Any], until_s: float, stuck: bool
) -> None:
    run.tell("n3", 2.2, type_, **fields)
    assert is_deserted(run, until_s=until_s) is stuck


@pytest.mark.parametrize(("nemesis", "stuck"), [("pause", False), ("partition-one-way", True)])
def test_a_follower_whose_process_is_stopped_does_not_stand(
    run: Run, nemesis: str, stuck: bool
) -> None:
    run.fault(nemesis, 1.5, 4)
    assert is_deserted(run, until_s=4.5) is stuck


def test_a_follower_that_is_killed_or_stopped_is_not_stuck(run: Run) -> None:
    run.tell("n3", 1.5, "flush", upto=1)
    run.tell("n3", 8, "start", inc=2)
    assert not is_deserted(run, until_s=8.1)


# --------------------------------------------------------------------------- L12, of the whole run


@pytest.mark.parametrize(
    ("count", "step", "found"),
    [
        pytest.param(SAME_PER_S_MAX, 0, False, id="as backoffs let it"),
        pytest.param(SAME_PER_S_MAX + 1, 0, True, id="without a backoff"),
        pytest.param(3 * SAME_PER_S_MAX, 1, False, id="new questions"),
    ],
)
@pytest.mark.parametrize("kind", ["fetch_tx", "votereq"])
def test_the_same_question_over_and_over(
    run: Run, kind: str, count: int, step: int, found: bool
) -> None:
    asked = [
        {"t": kind, "node": 2, "inc": 1, "ep": i * step, "off": 5, "pre": True, "to": None}
        | {"rx_ns": 3 * S + i}
        for i in range(count)
    ]
    run.events["n2"] = sorted([*run.events["n2"], *asked], key=lambda e: e["rx_ns"])
    assert ("L12" in run.found()) is found
