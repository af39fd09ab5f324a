"""What the checkers say of a cluster of real processes, by all that its nodes have traced."""

from __future__ import annotations

from checkers.monitor.catalogue import invariants_for
from checkers.monitor.monitor import Monitor
from tests.support.nodes.cluster import NodeCluster


def assert_sound(cluster: NodeCluster, *wanted: str) -> None:
    """No invariant of the quorum or of its brokers is broken, and those ``wanted`` were tested.

    Stops all nodes first: what one knows must be in the traces of those it has it from.
    """
    cluster.stop()
    settings = next(iter(cluster.nodes.values())).settings
    monitor = Monitor(invariants_for(settings))
    events = {f"n{node.id}": node.events for node in cluster.nodes.values()}
    anomalies = [*monitor.feed_all(events), *monitor.finish({})]
    assert not anomalies, "\n".join(f"{a.invariant}: {a.message}" for a in anomalies)
    assert monitor.gaps == []
    untested = [name for name in wanted if not monitor.checked[name]]
    assert not untested, monitor.checked
