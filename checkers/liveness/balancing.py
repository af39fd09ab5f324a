"""L14: leaders go back to preferred replicas by themselves.

A stretch of the log is judged that lies in one reign, while no fault was at work but crashes: its
partition could have been led by its first replica for longer than two balancing intervals.
Source: KAFKA-13682; the settings of ``ENABLE_SETTING`` and ``INTERVAL_SETTING``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from checkers.invariants.balance import L14, Stretch
from checkers.invariants.local_reads import CommitTimes
from checkers.liveness.calm import Calm
from harness.contracts.checker import RunData
from harness.verdict import Anomaly

ENABLE_SETTING: Final = "auto.leader.rebalance.enable"
INTERVAL_SETTING: Final = "leader.imbalance.check.interval.seconds"
INTERVAL_S: Final = 300  # where that is not set
GRACE_NS: Final = 1_000_000_000  # beside two intervals: for elections, and for their commit


def led_by_others(
    stretches: Iterable[Stretch], commits: CommitTimes, run: RunData
) -> tuple[int, list[Anomaly]]:
    """Find the partitions that did not go back in time, where nothing was wrong but crashes.

    Args:
        stretches: Where in the log they could have gone back.
        commits: When each offset was committed.
        run: The run, for its faults and settings.

    Returns:
        How many were looked at for long enough, and what was found.
    """
    settings = run.spec.settings
    if settings.get(ENABLE_SETTING, "true") != "true":
        return 0, []
    calm = Calm.of(run.history)
    interval_ns = int(settings.get(INTERVAL_SETTING, INTERVAL_S)) * 1_000_000_000
    late, checked = list[Anomaly](), 0
    for each in stretches:
        begin_ns, end_ns = commits.of(each.begin), commits.of(each.end)
        if begin_ns is None or end_ns is None or not calm.covers(begin_ns, end_ns):
            continue
        checked += 1
        if end_ns - begin_ns > 2 * interval_ns + GRACE_NS:
            late.append(_anomaly(each, interval_ns, begin_ns, end_ns))
    return checked, late


def _anomaly(stretch: Stretch, interval_ns: int, begin_ns: int, end_ns: int) -> Anomaly:
    state = stretch.state
    return Anomaly(
        L14.name,
        f"partition {stretch.name} of the replicas {list(state.replicas)} was led by"
        f" {state.leader} from offset {stretch.begin} to {stretch.end}, which are"
        f" {(end_ns - begin_ns) / 1e9:.1f} s of epoch {stretch.epoch}: its first"
        f" replica was in sync and in service, and is to be elected within"
        f" {interval_ns / 1e9:g} s",
        details={"epoch": stretch.epoch},
        time_ns=end_ns,
    )
