"""When a node was last heard of."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.timeline.heard import last_heard_ns


@pytest.mark.parametrize(
    ("events", "at_ns"),
    [
        ([], None),
        ([{"t": "start", "rx_ns": 5}, {"t": "role", "rx_ns": 7}], 7),
        ([{"t": "start", "rx_ns": 5}, {"t": "disk", "rx_ns": 9}], 5),  # a fault told that
        ([{"t": "start"}], None),
    ],
)
def test_the_last_event_of_the_node_counts(events: list[dict[str, Any]], at_ns: int | None) -> None:
    assert last_heard_ns(events) == at_ns
