"""Odd requests: our node refuses them or does no harm, whichever of them comes."""

from __future__ import annotations

from typing import Any

import pytest

from harness.contracts.nemesis import Injection
from harness.kafka.odd.controllers import OF_CONTROLLERS
from harness.kafka.odd.saying import UNANSWERED, everything
from harness.sessions.simulated import SimRun, simulate
from harness.sessions.zoo import plan_of
from harness.verdict import Valid
from nemesis.odd_requests import ODD
from node.catalogue.scenario import Scenario, fault


def played(*faults: dict[str, Any]) -> tuple[SimRun, Injection, dict[str, str]]:
    """Play faults; the run, the last one's injection, and what was answered, by request."""
    scenario = Scenario(faults=faults, time_limit_s=4.0)
    run = simulate(plan_of(scenario.to_json(), 1, None, ()))
    injection = run.result.faults[len(faults) - 1].injection  # it comes once more if it was skipped
    answers = {each["said"]: each["answer"] for each in injection.evidence if each["saw"] == ODD}
    return run, injection, answers


def odd(target: str, requests: list[str]) -> dict[str, Any]:
    """Ask a node of a kind."""
    return fault("odd-requests", 1.5, 0.5, target=target, requests=requests)


@pytest.mark.parametrize("target", ["leader", "follower"])
def test_a_node_refuses_what_makes_no_sense_and_goes_on(target: str) -> None:
    run, _, answers = played(odd(target, list(everything())))
    assert set(answers) == set(everything())
    assert run.verdict is Valid.VALID, run.judgement.reasons
    wrong = {w: a for w, a in answers.items() if "unknown_server" in a or a.startswith(UNANSWERED)}
    assert wrong == {}
    assert answers["Vote cluster_id = other"] == "inconsistent_cluster_id"
    assert answers["Vote topics = empty"] == "invalid_request"


def test_a_controller_refuses_what_makes_no_sense_and_goes_on() -> None:
    """It bears registrations of any kind: whoever says so may be a broker."""
    words = [
        f"{name} {place} = {value}"
        for name, base in OF_CONTROLLERS.items()
        for place, value in base.choices()
    ]
    run, _, answers = played(odd("leader", words))
    assert run.verdict is Valid.VALID, run.judgement.reasons
    wrong = {w: a for w, a in answers.items() if "unknown_server" in a or a.startswith(UNANSWERED)}
    assert wrong == {}
    assert answers["ElectLeaders election_type = most"] == "invalid_request"


def test_who_is_down_hears_nothing() -> None:
    down = fault("kill", 0.5, 2.5, target="all")
    _, injection, answers = played(down, odd("one", ["Vote topics = empty"]))
    assert (injection.outcome, answers) == ("skipped", {})
    assert injection.reason == "no leader says in which epoch the quorum is"
