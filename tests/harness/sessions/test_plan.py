"""The plan of a run: everything is resolved, or refused, before anything is begun."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from harness.contracts.nemesis import ChangesVoters, Fault
from harness.errors import UsageError
from harness.registry import workloads
from harness.sessions.plan import Plan, applicable, checkers_of
from harness.sessions.simulated import simulate
from harness.spec import SIM, RunSpec

SPEC = RunSpec(3, nemeses=("all",), time_limit_s=60.0)
KILL = Fault(4, "kill", 100, 200, {"target": "leader"}, 0.25)


@pytest.mark.parametrize("make", [Plan.of, Plan.simulated])
def test_the_same_spec_gives_the_same_plan(make: Any) -> None:
    plan, again = make(SPEC), make(SPEC)
    assert (plan.spec, plan.faults) == (again.spec, again.faults)
    assert len(plan.faults) > 2
    assert {fault.nemesis for fault in plan.faults} <= set(plan.nemeses) == set(plan.spec.nemeses)
    assert "all" not in plan.spec.nemeses, "families have become names"


def test_a_simulation_is_planned_wherever_its_options_say_that_it_runs() -> None:
    assert SPEC.env == "local"
    assert Plan.of(SPEC).spec.env == "local"
    assert Plan.simulated(SPEC).spec.env == SIM
    assert Plan.of(replace(SPEC, env=SIM)).faults == Plan.simulated(SPEC).faults


def test_the_plan_of_a_live_run_is_not_simulated() -> None:
    with pytest.raises(UsageError, match="env 'local': only a run with env 'sim' can be simulated"):
        simulate(Plan.of(SPEC))


@pytest.mark.parametrize("make", [Plan.of, Plan.simulated])
def test_a_given_schedule_says_which_nemeses_there_are(make: Any) -> None:
    plan = make(SPEC, iter([KILL]))
    assert plan.faults == (KILL,)
    assert plan.spec.nemeses == ("kill",)
    assert set(plan.nemeses) == {"kill"}


def test_the_words_of_nemesis_are_kept_where_they_were_no_names() -> None:
    assert Plan.of(SPEC).spec.asked == ("all",)
    mixed = replace(SPEC, nemeses=("kill", "partition"))
    assert Plan.of(mixed).spec.asked == ("kill", "partition")
    for names in (("kill",), ("kill", "pause"), ("none",), ()):
        assert Plan.of(replace(SPEC, nemeses=names)).spec.asked is None
    assert Plan.simulated(SPEC, asked_for=False).spec.asked is None, "they were only drawn"
    stored = Plan.of(SPEC).spec
    assert RunSpec.from_json(stored.to_json()) == stored
    again = Plan.of(stored, Plan.of(SPEC).faults)
    assert again.spec == stored, "a replay owes what the run owed"


def test_what_there_is_no_time_for_is_told_before_the_run() -> None:
    (note,) = Plan.of(replace(SPEC, time_limit_s=20.0)).notes
    told = re.fullmatch(
        r"(\d+) of the (\d+) kinds of fault of --nemesis all fit into --time-limit 20; "
        r"all of them need --time-limit ([\d.]+)",
        note,
    )
    assert told is not None, note
    assert int(told[1]) < int(told[2])
    enough = replace(SPEC, time_limit_s=float(told[3]))
    assert Plan.of(enough).notes == ()
    assert len({fault.nemesis for fault in Plan.of(enough).faults}) == int(told[2])
    (note,) = Plan.of(replace(SPEC, nemeses=("kill", "pause"), time_limit_s=5.0)).notes
    assert re.match(r"--time-limit 5 is too short for (kill|pause), which will come after", note)


def test_a_run_has_the_settings_that_its_workload_needs() -> None:
    """Unless it is given others, which the workload may refuse."""
    spec = replace(SPEC, workload="membership")
    assert Plan.of(spec).spec.settings == {"krucible.quorum": "dynamic"}
    static = replace(spec, settings={"krucible.quorum": "static"})
    with pytest.raises(
        UsageError, match=r"the quorum is static: add --set krucible\.quorum=dynamic"
    ):
        Plan.of(static)
    changing = {name for name, nemesis in Plan.of(spec).nemeses.items() if changes_voters(nemesis)}
    assert not changing, "the workload changes the voters itself"


def changes_voters(nemesis: object) -> bool:
    return isinstance(nemesis, ChangesVoters)


def test_only_what_was_asked_for_stays_where_it_does_not_fit() -> None:
    spec = replace(SPEC, observers=0, settings={"krucible.quorum": "static"})
    faults = (KILL, Fault(5, "membership", 500, 200, {}, 0.25))
    assert Plan.simulated(spec, faults).spec.nemeses == ("kill", "membership")
    assert Plan.simulated(spec, faults, asked_for=False).spec.nemeses == ("kill",)


@pytest.mark.parametrize("make", [Plan.of, Plan.simulated])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"system": "krafd"}, "no system is called 'krafd': did you mean 'kraft'"),
        ({"workload": "brokes"}, "no workload is called 'brokes'"),
        ({"pace": "slow"}, "slow"),
        ({"settings": {"node.id": "7"}}, "--set node.id: the harness sets it"),
    ],
)
@pytest.mark.parametrize("faults", [None, (KILL,)])
def test_mistakes_are_told_the_same_of_all_runs(
    make: Any, changed: dict[str, Any], message: str, faults: Any
) -> None:
    with pytest.raises(UsageError, match=message):
        make(replace(SPEC, **changed), faults)


@pytest.mark.parametrize("make", [Plan.of, Plan.simulated])
def test_an_unknown_nemesis_is_refused_in_options_and_in_a_schedule(make: Any) -> None:
    with pytest.raises(UsageError, match="no nemesis is called 'nonsense'"):
        make(replace(SPEC, nemeses=("nonsense",)))
    with pytest.raises(UsageError, match="no nemesis is called 'nonsense'"):
        make(SPEC, (KILL, replace(KILL, id=5, nemesis="nonsense")))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"workload": "topics", "observers": 0},
            "workload 'topics': controllers of Kafka answer no",
        ),
        (
            {"workload": "isr", "observers": 0},
            "workload 'isr': controllers of Kafka answer no Meta",
        ),
        (
            {"workload": "brokers", "env": "ssh", "settings": {"krucible.kafka.image": "kafka"}},
            "--env ssh: system 'kafka' works only with docker",
        ),
        ({"workload": "brokers", "env": "loca"}, "no environment is called 'loca'"),
        (
            {"workload": "describe", "env": SIM, "settings": {"krucible.kafka.version": "3.7.2"}},
            "system 'kafka' works only with admin, brokers, combined, cordons, directories, elr",
        ),
        (
            {"workload": "elr", "env": SIM, "settings": {"krucible.kafka.version": "3.3.2"}},
            "system 'kafka' works only with admin, brokers, isr, list-append, observers, ",
        ),
    ],
)
def test_a_system_says_what_it_goes_with(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Plan.of(replace(SPEC, system="kafka", **changed))


def test_checkers_are_asked_only_about_what_a_system_leaves() -> None:
    names = ["linearizable", "consensus", "observers", "log-scan"]
    assert applicable(replace(SPEC, system="atom"), names) == ["linearizable"]
    assert applicable(SPEC, names) == names


def test_the_checkers_are_the_workloads_the_systems_and_those_of_every_run() -> None:
    own = list(workloads.get("register")(SPEC).checkers)
    of_all = ["stats", "availability", "log-scan", "refusals", "unanswered", "coverage"]
    assert Plan.of(SPEC).checkers == own + of_all
    assert Plan.simulated(SPEC).checkers == [*own, "liveness", *of_all]
    assert Plan.simulated(SPEC, asked_for=False).checkers == [*own, "liveness", *of_all[:-1]]
    kafka = replace(SPEC, system="kafka", workload="brokers")
    named = checkers_of(kafka, workloads.get("brokers")(kafka))
    assert "consensus" in named
    assert "logs" not in named
    outside = replace(kafka, settings={"krucible.agent": "false"})
    named = checkers_of(outside, workloads.get("brokers")(outside))
    assert "logs" in named
    assert "consensus" not in named
