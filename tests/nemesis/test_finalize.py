"""Levels of features are raised on simulated nodes of ours, and each says so."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from harness.kafka import broker as played
from harness.kafka.broker import PlayedBroker, register
from harness.kafka.route import Route
from harness.spec import RunSpec
from harness.systems.nodes.levels import METADATA_SETTING
from node.metadata.features import IBP_3_9_IV0, KRAFT_VERSION, METADATA_VERSION
from tests.support.simulated.scene import SPEC, Scene, play

OLD: RunSpec = replace(SPEC, settings={METADATA_SETTING: "3.9"})


def test_a_level_is_raised_on_all_nodes_and_never_below() -> None:
    async def main(scene: Scene) -> None:
        nodes = scene.system.nodes
        for node in nodes:
            levels = await scene.system.finalized(node)
            assert levels is not None
            assert levels[METADATA_VERSION] == IBP_3_9_IV0
        before = scene.system.raisable()
        assert sorted(before) == [KRAFT_VERSION, METADATA_VERSION]
        raised = await scene.inject("finalize", highest=True)
        (told,) = raised.saw("features")
        assert told["answer"] == "committed"
        assert told["level"] == before[told["feature"]][-1]
        healed = await raised.heal()
        assert healed["finalized"] == dict.fromkeys(nodes, told["level"])
        other = await scene.inject("finalize", highest=True)
        assert other.saw("features")[0]["feature"] != told["feature"]
        await other.heal()
        assert scene.system.raisable() == {}
        none = await scene.inject("finalize", highest=True)
        assert none.injection.outcome == "skipped"

    play(main, OLD)


def test_a_level_that_no_leader_can_commit_may_still_come_to_be() -> None:
    async def main(scene: Scene) -> None:
        leader = await scene.leader()
        others = [node for node in scene.system.voters if node != leader]
        for node in others:
            await scene.system.kill(node)
        raised = await scene.inject("finalize", highest=True)
        assert raised.injection.outcome == "failed"
        (told,) = raised.saw("features")
        assert told["level"] in scene.system.raisable()[told["feature"]], (
            "it may be asked for again"
        )
        for node in others:
            await scene.system.start(node)
        healed = await raised.heal()
        assert healed["asked"] == told["level"]

    play(main, OLD)


@pytest.mark.parametrize(("draw", "tries"), [(0.1, 2), (0.5, 1)])
def test_where_a_broker_does_not_know_a_level_that_of_another_feature_is_raised(
    draw: float, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that clients play has registered as those of before 4.0 do, without kraft.version."""
    monkeypatch.setattr(played, "_FIRST_WITH_LEVEL_ZERO", 99)

    async def main(scene: Scene) -> None:
        route = Route(scene.system.cluster(), await scene.leader())
        broker = PlayedBroker(1005, UUID(int=5), (UUID(int=1005),))
        await register(route, broker, asyncio.get_running_loop().time() + 5)
        route.close()
        raised = await scene.inject("finalize", draw=draw, highest=True)
        assert raised.injection.outcome == "installed"
        assert len(raised.saw("features")) == tries
        *refused, told = raised.saw("features")
        assert (told["feature"], told["answer"]) == (METADATA_VERSION, "committed")
        for each in refused:
            assert each["feature"] == KRAFT_VERSION
            assert "Broker 1005 does not support this feature" in each["answer"]
        await raised.heal()
        again = await scene.inject("finalize", highest=True)
        assert again.injection.outcome == "failed", "nothing else is left to raise"

    play(main, OLD)
