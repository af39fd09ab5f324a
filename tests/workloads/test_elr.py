"""``elr``, ``reassign``, ``directories``, ``levels``: brokers, disks and features come and go."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.spec import RunSpec
from harness.verdict import Valid
from node.metadata.features import ELR_VERSION
from workloads.elr import SETTINGS

SPEC = RunSpec(
    seed=1,
    workload="elr",
    nemeses=("kill",),
    observers=1,
    time_limit_s=20,
    rate_hz=20,
    concurrency=5,
    settings=SETTINGS,
)


def test_a_healthy_cluster_keeps_who_has_all_messages() -> None:
    run = simulate(Plan.simulated(SPEC))
    assert run.verdict is Valid.VALID, run.judgement.reasons
    done = Counter(op.f for op in run.data.history.clients() if op.type == "ok")
    assert {"alter", "describe", "min-isr", "crash", "silence", "restart"} <= done.keys()
    judged = next(each for each in run.judgement.results if each.checker == "observers")
    assert judged.checked["C13"] > 50
    states = [r["fields"] for batch in run.data.logs["n1"] for r in batch.records]
    assert any(fields.get("eligible_leader_replicas") for fields in states)


def test_a_healthy_cluster_moves_replicas_and_loses_none() -> None:
    run = simulate(Plan.simulated(replace(SPEC, seed=2, workload="reassign")))
    assert run.verdict is Valid.VALID, run.judgement.reasons
    done = Counter(op.f for op in run.data.history.clients() if op.type == "ok")
    assert {"alter", "describe", "reassign", "min-isr", "crash"} <= done.keys()
    records = [r["fields"] for batch in run.data.logs["n1"] for r in batch.records]
    assert any(fields.get("adding_replicas") for fields in records), "a move begins"
    assert any(fields.get("adding_replicas") == [] for fields in records), "and ends"


def test_a_healthy_cluster_is_led_by_nobody_whose_disk_is_gone() -> None:
    run = simulate(Plan.simulated(replace(SPEC, seed=3, workload="directories")))
    assert run.verdict is Valid.VALID, run.judgement.reasons
    done = Counter(op.f for op in run.data.history.clients() if op.type == "ok")
    wanted = {"alter", "describe", "place", "fail-disk", "mend-disks", "replace-disk", "crash"}
    assert wanted <= done.keys()
    judged = next(each for each in run.judgement.results if each.checker == "observers")
    assert judged.checked["C15"] > 50
    records = [r["fields"] for batch in run.data.logs["n1"] for r in batch.records]
    assert any(fields.get("directories") for fields in records), "replicas move"
    failed = [f for f in records if f.get("log_dirs") and "incarnation_id" not in f]
    assert failed, "a disk fails while its broker is in service"


def test_a_healthy_cluster_forgets_who_was_eligible_when_the_feature_was_off() -> None:
    run = simulate(Plan.simulated(replace(SPEC, workload="levels")))
    assert run.verdict is Valid.VALID, run.judgement.reasons
    asked = [op.value for op in run.data.history.clients() if (op.f, op.type) == ("level", "ok")]
    eligible = [each["level"] for each in asked if each["feature"] == ELR_VERSION]
    assert {0, 1} <= set(eligible)
    records = [r["type"] for batch in run.data.logs["n1"] for r in batch.records]
    assert "ClearElrRecord" in records
