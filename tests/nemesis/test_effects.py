"""What killed, frozen and cut off nodes mean to the quorum, and that it is over after the heal.

Faults of hosts (power, disks, clocks, membership, links) are in ``test_nemesis_sim``.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.live.tried_fault import TriedFault
from tests.support.simulated.scene import SPEC, Scene, play

LONG_S = 4.0  # for elections: a fetch timeout, and some tries


def epoch(scene: Scene) -> int:
    """The latest epoch that anybody has come to lead."""
    return max(int(e["ep"]) for e in scene.kinds("elected"))


async def new_leader(scene: Scene, old: str) -> str:
    """Who leads once it is somebody else."""
    async with asyncio.timeout(20.0):
        while (name := await scene.leader()) == old:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.05)
    return name


async def lags(scene: Scene, node: str) -> bool:
    """Whether a node's log stands still for a while in which the leader's grows."""
    before = scene.last_offsets()
    await asyncio.sleep(LONG_S)
    now = scene.last_offsets()
    assert max(now.values()) > max(before.values()), "the others go on"
    return now[node] == before[node]


async def healed(scene: Scene, fault: TriedFault) -> dict[str, Any]:
    """Heal it; the leader stays, and all logs grow again."""
    seen = await fault.heal()
    at = epoch(scene)
    for node in scene.system.nodes:
        assert not await lags(scene, node)
    assert epoch(scene) == at, "no more elections"
    return seen


@pytest.mark.parametrize(
    ("nemesis", "params"),
    [
        ("kill", {"target": "leader"}),
        ("pause", {"target": "leader"}),
        ("partition-isolate-leader", {"target": "leader"}),
        ("partition-isolate-one", {"target": "leader"}),
        ("partition-halves", {"leader": "minority"}),
        ("partition-one-way", {"target": "leader", "direction": "mute"}),
        ("partition-one-way", {"target": "leader", "direction": "deaf"}),
    ],
)
def test_who_loses_its_leader_elects_another_one_and_keeps_it_after_the_heal(
    nemesis: str, params: dict[str, Any]
) -> None:
    async def main(scene: Scene) -> None:
        old, was = await scene.leader(), epoch(scene)
        fault = await scene.inject(nemesis, **params)
        assert fault.injection.outcome == "installed"
        new = await new_leader(scene, old)
        assert epoch(scene) > was
        await healed(scene, fault)
        assert await scene.leader() == new

    play(main)


@pytest.mark.parametrize(
    ("nemesis", "params"),
    [
        ("kill", {"target": "follower"}),
        ("pause", {"target": "observer"}),
        ("partition-isolate-one", {"target": "observer"}),
        ("partition-one-way", {"target": "follower", "direction": "deaf"}),
        ("partition-halves", {"leader": "majority"}),
    ],
)
def test_who_does_not_hear_the_leader_stands_still_and_catches_up_after_the_heal(
    nemesis: str, params: dict[str, Any]
) -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject(nemesis, **params)
        leader = await scene.leader()
        hit = set(fault.injection.targets)
        for grudge in fault.saw("grudge"):
            hit = {b for a, b in grudge["cut"] if a == leader}
        assert hit
        assert leader not in hit
        for node in hit:
            assert await lags(scene, node)
        await healed(scene, fault)

    play(main)


def test_over_a_bridge_the_other_side_does_not_hear_the_leader_until_the_heal() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("partition-bridge", target="follower")
        (grudge,) = fault.saw("grudge")
        bridge = grudge["bridge"]
        links = {tuple(link) for link in grudge["cut"]}
        assert not [link for link in links if bridge in link]
        async with asyncio.timeout(20.0):
            leader = await scene.leader()
        deaf = {b for a, b in links if a == leader} & set(scene.system.voters)
        assert len(deaf) == (leader != bridge)
        for node in deaf:
            assert await lags(scene, node)
        await healed(scene, fault)

    play(main)


def test_a_stopped_quorum_commits_nothing_and_goes_on_after_the_heal() -> None:
    for nemesis in ("kill", "pause"):

        async def main(scene: Scene, nemesis: str = nemesis) -> None:
            fault = await scene.inject(nemesis, target="majority")
            await asyncio.sleep(LONG_S)
            assert await scene.system.leader() is None
            before = scene.last_offsets()
            await asyncio.sleep(LONG_S)
            assert scene.last_offsets() == before
            await healed(scene, fault)

        play(main, SPEC)


def test_a_broker_that_begins_without_a_quorum_is_patient_for_as_long_as_faults_may_last() -> None:
    async def main(scene: Scene) -> None:
        (broker,) = scene.system.observers
        quorum = await scene.inject("pause", target="majority")
        storm = await scene.inject("kill", target="observer")
        await storm.heal_alone()
        began = scene.env.process(broker).pid
        await asyncio.sleep(70.0)
        assert scene.env.process(broker).pid == began, scene.printed(broker)
        await quorum.heal()

    play(main)
