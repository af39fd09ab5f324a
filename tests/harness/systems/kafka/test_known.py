"""What nodes of releases are known to do counts apart, and nothing else does."""

from __future__ import annotations

import pytest

from harness.systems.kafka.plugin import known_of
from harness.systems.kafka.releases import Release
from harness.verdict import Anomaly

BEGAN = "n2 began as candidate of epoch 1 (n2 seq 4): its disk has leader 1 and a vote for {}"


@pytest.mark.parametrize(
    ("version", "voted", "known"),
    [("4.3.1", "itself", True), ("4.3.1", "3", False), ("3.9.2", "itself", False)],
)
def test_a_loser_that_stands_again_is_known_since_both_are_kept(
    version: str, voted: str, known: bool
) -> None:
    anomaly = Anomaly("S31", BEGAN.format(voted) + " (n2 seq 1)")
    assert any(each.covers(anomaly) for each in known_of([Release(version)])) is known
