"""What is missing to simulate Kafka, and that all else works without it."""

from __future__ import annotations

import pytest

from harness.systems.kafka.distribution import KafkaMissingError
from harness.systems.kafka.releases import DEFAULT, Release
from harness.systems.kafka.simulated import jvm
from tests.support.commands.command import krucible


def test_one_line_says_that_the_bridge_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "is_there", lambda: False)
    assert jvm.missing() == (
        "JPype1 is missing, to run Kafka in the simulator: pip install 'krucible[kafka]'"
    )


def test_one_line_says_that_java_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(_: Release) -> None:
        raise KafkaMissingError("Java 17 or newer is missing: install default-jre-headless")

    monkeypatch.setattr(jvm, "is_there", lambda: True)
    monkeypatch.setattr(jvm, "_distribution", fetch)
    told = jvm.missing(Release(DEFAULT))
    assert told is not None
    assert told.startswith("Java 17 or newer is missing")
    assert "\n" not in told


def test_a_simulation_says_it_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "is_there", lambda: False)
    done = krucible("sim", "--system", "kafka", "--seed", "1")
    assert done.code == 254
    assert "JPype1 is missing" in done.complaint


def test_the_slow_compiler_is_for_many_simulations() -> None:
    assert set(jvm.options(1)) - set(jvm.options(jvm.MANY)) == set(jvm.BRIEF)
    assert jvm.options(jvm.MANY - 1) == jvm.options(1)
