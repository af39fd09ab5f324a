"""Netem, the harness's side: the words for tc, and what its counts mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contracts.hosts import Shape
from harness.envs.links.netem import counters, handle_of, stages
from tests.support.live.stages import stage


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Shape(), []),
        (Shape(delay_ms=20), ["delay 20000us 0us"]),
        (Shape(delay_ms=20, jitter_ms=5), ["delay 22500us 2500us rate 10gbit"]),
        (Shape(loss=0.05), ["loss 5%"]),
        (Shape(duplicate=0.3, corrupt=0.125), ["duplicate 30% corrupt 12.5%"]),
        (Shape(jam_ms=300), ["slot 300ms 300ms"]),
        (Shape(bytes_per_s=4_000), ["rate 4000bps"]),
        (Shape(delay_ms=1, bytes_per_s=9), ["delay 1000us 0us rate 9bps"]),
        (Shape(keep_back=0.1, late_ms=50), ["delay 25000us 25000us reorder 90%"]),
        (Shape(loss=0.2, keep_back=0.1, late_ms=2), ["loss 20% delay 1000us 1000us reorder 90%"]),
        (
            Shape(delay_ms=5, loss=0.2, keep_back=1, late_ms=2),
            ["loss 20% delay 5000us 0us", "delay 1000us 1000us reorder 0%"],
        ),
    ],
)
def test_a_shape_is_said_in_netems_words(shape: Shape, words: list[str]) -> None:
    found = [" ".join(stage) for stage in stages(shape)]
    assert found == [f"limit 16384 {each}" for each in words]


@given(st.text())
def test_a_handle_is_of_its_mark_alone_and_leaves_room_for_those_of_the_netems(mark: str) -> None:
    handle = handle_of(mark)
    assert handle == handle_of(mark)
    assert 0x1000 <= handle < 0x7000


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ([], {}),
        ([stage(packets=7, bytes=70)], {"passed": 7, "bytes": 70}),
        ([stage(drops=3, options={"loss-random": {}})], {"lost": 3}),
        ([stage(packets=5, qlen=2, options={"delay": {}})], {"passed": 5, "held": 7}),
        (
            [stage(packets=9, qlen=1, requeues=8, options={"delay": {}, "reorder": {}})],
            {"passed": 9, "kept_back": 2, "held": 2},
        ),
        (
            [
                stage(packets=9, qlen=1, drops=2, options={"delay": {}}),
                stage(packets=9, requeues=4, options={"delay": {}, "reorder": {}}),
            ],
            {"passed": 9, "lost": 2, "kept_back": 5, "held": 10},
        ),
    ],
)
def test_what_the_kernel_counts_is_told_as_of_any_link(
    told: list[dict[str, Any]], meant: dict[str, int]
) -> None:
    assert {name: count for name, count in counters(told).items() if count} == meant
