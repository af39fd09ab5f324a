"""A stranger of another cluster: nobody listens, and nothing comes of it."""

from __future__ import annotations

from harness.kafka import stranger
from harness.sessions.simulated import simulate
from harness.sessions.zoo import plan_of
from harness.verdict import Valid
from node.catalogue.scenario import Scenario, fault


def test_every_voter_refuses_all_that_a_stranger_says() -> None:
    """KIP-595: INCONSISTENT_CLUSTER_ID, whatever it is and whoever is asked."""
    visit = Scenario(faults=(fault("stranger", 1, 0.5, target="all"),), time_limit_s=2.0)
    run = simulate(plan_of(visit.to_json(), 1, None, ()))
    (report,) = run.result.faults
    talks = [e for e in report.injection.evidence if e["saw"] == "stranger"]
    assert sorted(talk["node"] for talk in talks) == ["n1", "n2", "n3"]
    assert {talk["epoch"] for talk in talks} == {1}
    refused = dict.fromkeys(stranger.requests(0), "INCONSISTENT_CLUSTER_ID")
    assert [talk["answers"] for talk in talks] == [refused] * 3
    assert run.verdict is Valid.VALID, run.judgement.reasons


def test_nobody_is_there_to_listen() -> None:
    """A node that is down answers nobody; the fault says so, and ends."""
    visit = Scenario(
        faults=(
            fault("kill", 0.5, 2.5, target="follower"),
            fault("stranger", 1.5, 0.5, target="all"),
        ),
        time_limit_s=4.0,
    )
    run = simulate(plan_of(visit.to_json(), 1, None, ()))
    killed, report = run.result.faults
    (down,) = killed.injection.targets
    answers = {
        talk["node"]: set(talk["answers"].values())
        for talk in report.injection.evidence
        if talk["saw"] == "stranger"
    }
    assert all(text.startswith("no connection: ") for text in answers.pop(down))
    assert list(answers.values()) == [{"INCONSISTENT_CLUSTER_ID"}] * 2
    assert run.verdict is Valid.VALID, run.judgement.reasons


def test_one_whom_nobody_hears_was_not_there() -> None:
    """What no node answered is no evidence of anything."""
    visit = Scenario(
        faults=(fault("kill", 0.5, 2.5, target="all"), fault("stranger", 1.5, 0.5, target="all")),
        time_limit_s=4.0,
    )
    run = simulate(plan_of(visit.to_json(), 1, None, ()))
    report = run.result.faults[1]
    assert (report.injection.outcome, report.healed_ns) == ("skipped", None)
    assert report.injection.reason == "no voter answered the stranger: n1, n2, n3"
    assert run.verdict is Valid.VALID, run.judgement.reasons
