"""What a run of Apache Kafka's nodes shows in whatever environment: faults, events, judgement."""

from __future__ import annotations

import json

from tests.support.commands.process import Ran

ALWAYS = ("S1", "S2", "S3", "S6", "S7", "S9", "S17", "S25", "L4")  # decided in every run


def judged_from_inside(ran: Ran) -> None:
    """Hold that a run is valid, its faults have evidence, and its nodes told what they did."""
    assert ran.code in (0, 2), ran.explain()  # 2: too short for each to be installed
    assert (ran.summary["system"], ran.summary["harness_error"]) == ("valid", None), ran.explain()
    injected = [op.value for op in ran.nemesis_ops("inject", "outcome")]
    installed = [value for value in injected if value["outcome"] == "installed"]
    assert len(installed) >= 2, injected
    assert all(value["evidence"] for value in installed)
    assert [value for value in injected if value["outcome"] == "failed"] == []
    decided = checked(ran)
    assert all(decided[name] for name in ALWAYS), decided
    assert {"candidate", "leader", "follower"} <= roles(ran)
    assert "highest epoch" in (ran.run_dir.path / "report.html").read_text()  # on its lanes


def checked(ran: Ran) -> dict[str, int]:
    """How often each invariant of the events was decided."""
    told = json.loads((ran.run_dir.path / "results.json").read_bytes())
    (found,) = (each["checked"] for each in told["results"] if each["checker"] == "consensus")
    return dict(found)


def roles(ran: Ran) -> set[str]:
    """What the agents in the JVMs say that their nodes were."""
    files = (ran.run_dir.path / "events").glob("*.jsonl")
    events = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert all(event["missing"] == [] for event in events if event["t"] == "agent")
    return {event["to"] for event in events if event["t"] == "role"}
