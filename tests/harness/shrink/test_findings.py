"""``docs/findings.md``: what it says happens, and does not with the healthy node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.sessions import zoo
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.shrink.story import story
from harness.shrink.tries import EXACT
from harness.store.folder import Store
from krucible.meant import Meant, meant
from tests.support.places import ROOT

FOLDER = ROOT / "docs" / "findings"
FINDINGS = [("repeated-vote", "S11")]


def stored(name: str) -> Meant:
    return meant(str(FOLDER / name), {}, None, Store(Path("nowhere")))


@pytest.mark.parametrize(("name", "invariant"), FINDINGS)
def test_a_stored_finding_happens_as_its_story_tells(
    name: str, invariant: str, rewrite: bool
) -> None:
    found = stored(name)
    run = simulate(Plan.simulated(found.spec, found.faults), EXACT)
    (anomaly,) = [a for a in run.judgement.anomalies if a.invariant == invariant]
    lines, path = story(run.data, anomaly), FOLDER / name / "story.txt"
    if rewrite:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert lines == path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", [name for name, _ in FINDINGS])
def test_the_healthy_node_survives_it(name: str) -> None:
    found = stored(name)
    run = simulate(Plan.simulated(replace(found.spec, mutant=None, stop_at=None), found.faults))
    assert run.result.recovered
    assert not zoo.found(run)
