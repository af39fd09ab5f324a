"""Nodes that are stopped and started again and again, with real processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.live.scene import SPEC, LiveScene, play

FAST = replace(SPEC, settings={"metadata.max.idle.interval.ms": "50"})


def test_restarts_in_good_order_and_in_a_storm_are_over_after_the_heal(tmp_path: Path) -> None:
    async def main(scene: LiveScene) -> None:
        await _stop(scene)
        await _rolling(scene)
        await _storm(scene)

    play(tmp_path, main, FAST, frozenset())


async def _stop(scene: LiveScene) -> None:
    old = await scene.leader()
    stop = await scene.inject("stop", target="leader")
    (seen,) = stop.saw("process")
    assert (seen["gone"], seen["error"]) == (True, None)
    assert "exit code 0" in seen["detail"]
    assert scene.events("stop", old)[-1]["why"] == "signal"
    assert await scene.leader() != old
    healed = await stop.heal()
    assert (healed["restarted"], healed["killed"]) == ([old], [])
    assert scene.env.process(old).pid is not None


async def _rolling(scene: LiveScene) -> None:
    before = _pids(scene)
    rolling = await scene.inject("rolling-restart", pause_ms=0, down_ms=0)
    healed = await rolling.heal()
    assert healed["unstarted"] == []
    assert 1 <= healed["cycles"] <= len(scene.system.nodes), "it ends where it is"
    changed = [node for node, pid in _pids(scene).items() if pid != before[node]]
    assert len(changed) == healed["cycles"]
    await _quiet(scene)


async def _storm(scene: LiveScene) -> None:
    before = _pids(scene)
    storm = await scene.inject("restart-storm", target="follower", up_ms=20, down_ms=0)
    (node,) = storm.injection.targets
    assert storm.saw("process")[0]["gone"]
    begun = len(scene.events("start", node))
    while len(scene.events("start", node)) < begun + 2:  # again and again
        await scene.leader()
    healed = await storm.heal()
    assert healed["cycles"] > 1
    assert [n for n, pid in _pids(scene).items() if pid != before[n]] == [node]
    await _quiet(scene)


async def _quiet(scene: LiveScene) -> None:
    """Nobody is restarted any more, and what is committed from now on all have."""
    now = _pids(scene)
    assert await scene.system.await_recovery(20.0)
    assert _pids(scene) == now


def _pids(scene: LiveScene) -> dict[str, int | None]:
    return {node: scene.env.process(node).pid for node in scene.system.nodes}
