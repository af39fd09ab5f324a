"""The watch reads committed batches from the other nodes when the leader's log lacks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from checkers.monitor.catalogue import invariants_for
from checkers.monitor.monitor import Monitor
from checkers.watches.invariants import Online
from harness.contracts.evidence import LogBatch
from tests.support.traces.traces import Trace


def written() -> Trace:
    """Node 1 leads, and commits four writes."""
    trace = Trace(3)
    trace.start()
    trace.elect(1, 1)
    for value in range(4):
        trace.write(1, "k0", value)
    return trace


@pytest.mark.parametrize("theirs", ["the same", "none", "another"])
def test_what_the_leaders_log_has_no_more_is_read_from_the_others(theirs: str) -> None:
    trace = written()
    log = trace.disks[1].log
    gone = log[3].base  # the leader's log has lost the third write within the turn that commits it

    def read(node: str, begin: int, below: int) -> Sequence[LogBatch]:
        found = [batch for batch in log if begin <= batch.base and batch.last < below]
        if node == "n1":
            return [] if begin == gone else [batch for batch in found if batch.base < gone]
        if theirs == "another":
            return [replace(batch, crc=batch.crc + 1) for batch in found]
        return found if theirs == "the same" else []

    online = Online(Monitor(invariants_for({}, checker="consensus")), read)
    events = sorted((e for told in trace.events.values() for e in told), key=lambda e: e["ts"])
    for event in events:
        online.feed(event)
    assert online.content.end == (log[-1].last + 1 if theirs == "the same" else gone)
