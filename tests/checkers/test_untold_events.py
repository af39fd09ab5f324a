"""Nodes whose agent cannot tell events of some types: what these decide is undecided, loudly."""

from __future__ import annotations

import pytest

from checkers.consensus import consensus
from harness.verdict import Valid
from tests.support.traces.traces import Trace


def trace_without(*missing: str) -> Trace:
    """A healthy trace, in which no node tells of those types, and each says so."""
    trace = Trace(3)
    trace.start()
    for node in (1, 2, 3):
        trace.emit(node, "agent", missing=list(missing))
    trace.elect(1, 1)
    trace.replicate(1)
    trace.commit(1)
    trace.write(1, "r0", 1)
    for name, events in trace.events.items():
        told = [event for event in events if event["t"] not in missing]
        trace.events[name] = [{**event, "seq": seq} for seq, event in enumerate(told, start=1)]
    return trace


def test_an_agent_that_tells_all_leaves_nothing_undecided() -> None:
    result = consensus(trace_without().run())
    assert result.valid is Valid.VALID
    assert "undecided" not in result.stats


@pytest.mark.parametrize(
    ("missing", "undecided", "decided"),
    [
        ("qs", {"S1", "S2", "S3", "S4", "S25", "S38"}, {"S6", "S7", "S13", "S16"}),
        ("vote", {"S2", "S3", "S5", "S6", "S38"}, {"S1", "S7", "S13", "S16"}),
        ("fetch_rx", {"L4", "S29", "S31"}, {"S1", "S2", "S3", "S13", "S16"}),
        ("claim", {"S21"}, {"S1", "S2", "S3", "S13", "S16"}),
    ],
)
def test_what_nobody_tells_leaves_those_undecided_that_go_by_it(
    missing: str, undecided: set[str], decided: set[str]
) -> None:
    result = consensus(trace_without(missing).run())
    assert result.valid is Valid.UNKNOWN
    assert not result.anomalies
    named = result.stats["undecided"]
    assert undecided <= set(named)
    assert not decided & set(named)
    assert all(result.checked[name] for name in decided)
    assert result.reason is not None
    assert f"n1 does not tell of {missing}" in result.reason
    assert f"undecided: {', '.join(named)}" in result.reason


@pytest.mark.parametrize("missing", ["append", "flush", "hwm", "voters"])
def test_a_log_of_which_something_is_untold_is_not_concluded_from(missing: str) -> None:
    result = consensus(trace_without(missing).run())
    assert result.valid is Valid.UNKNOWN
    assert not result.anomalies
