"""The swarm draws some settings for simulated nodes of Apache Kafka alone."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.sessions.swarm import draw
from harness.systems.kafka.releases import VERSION
from harness.systems.kafka.settings import FETCH_TIMEOUT, FETCH_WAIT_MS, REQUEST_TIMEOUT

AT_ONCE = "controller.quorum.fetch.snapshot.max.bytes"
SNAPSHOT_INTERVAL = "metadata.log.max.snapshot.interval.ms"
SEEDS = range(60)


def drawn(seed: int, version: str, **settings: str) -> dict[str, str]:
    spec = draw(seed, {"system": "kafka", "settings": {VERSION: version, **settings}})
    return dict(spec.settings)


@pytest.mark.parametrize(("version", "may"), [("4.2.1", False), ("4.3.1", True), ("4.4.0", True)])
def test_followers_ask_for_less_at_once_where_they_can(version: str, *, may: bool) -> None:
    found = [drawn(seed, version) for seed in SEEDS]
    assert any(AT_ONCE in settings for settings in found) is may
    if may:
        assert {settings[AT_ONCE] for settings in found} == {"1048576", "100", "1000"}


def test_most_clusters_make_snapshots_by_size_alone() -> None:
    counted = Counter(drawn(seed, "4.4.0")[SNAPSHOT_INTERVAL] for seed in SEEDS)
    assert counted["3600000"] > counted["1500"] > 0


def test_a_request_may_take_as_long_as_a_fetch_or_half_or_twice() -> None:
    found = [drawn(seed, "4.4.0") for seed in SEEDS]
    ratios = {int(each[REQUEST_TIMEOUT]) / int(each[FETCH_TIMEOUT]) for each in found}
    assert ratios == {0.5, 1.0, 2.0}
    shortest = min(int(each[REQUEST_TIMEOUT]) for each in found)
    assert shortest > FETCH_WAIT_MS, "or no Fetch without news is ever answered in time"


@pytest.mark.parametrize("asked", ["soon", "-1", "400"])
def test_a_wait_that_makes_no_sense_is_left_to_kafka(asked: str) -> None:
    usual = draw(1, {"system": "kraft"}).settings[REQUEST_TIMEOUT]
    assert drawn(1, "4.4.0", **{FETCH_TIMEOUT: asked})[REQUEST_TIMEOUT] == usual


def test_what_is_asked_for_is_not_drawn() -> None:
    asked = {REQUEST_TIMEOUT: "777", AT_ONCE: "5"}
    for seed in SEEDS:
        settings = drawn(seed, "4.4.0", **asked)
        assert {name: settings[name] for name in asked} == asked
