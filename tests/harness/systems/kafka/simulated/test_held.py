"""Held frees what a killed process had before the next one of its node begins."""

from __future__ import annotations

from harness.systems.kafka.simulated.held import Held


def test_who_was_killed_lets_go_before_the_next_process_begins() -> None:
    told: list[str] = []
    with Held() as held:
        held.begin("n1", lambda: told.append("first"))
        held.begin("n2", lambda: told.append("other"))
        held.begin("n1", lambda: told.append("second"))
        assert told == ["first"]
    assert sorted(told) == ["first", "other", "second"]
