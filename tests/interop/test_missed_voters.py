"""``docs/findings.md``: a truncated voter of Kafka's misses a removal, which is then undone.

Three real controllers. Should a newer Apache Kafka do better, this fails, and the page is to be
changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from harness.spec import RunSpec
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN, VERSION
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
WITHIN_S = 40.0  # some elections; a second each is usual
T = TypeVar("T")


async def until(find: Callable[[], Awaitable[T | None]]) -> T:
    """Look again and again until there is something."""
    async with asyncio.timeout(WITHIN_S):
        while (found := await find()) is None:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.05)
    return found


async def leader_of(scene: LiveScene, nodes: list[str]) -> str | None:
    """Find which of some nodes leads; None when none of them does."""
    views = [(node, await scene.look(node)) for node in nodes]
    return next((node for node, view in views if view is not None), None)


@pytest.mark.parametrize("release", [DEFAULT, KNOWN[-1]])
def test_a_confirmed_removal_is_undone_by_a_leader_that_has_missed_it(
    kafka: KafkaDist, release: str, tmp_path: Path
) -> None:
    """The leader is cut off for as long as it leads: so its log is the longest, and is cut."""
    assert kafka.archive.is_file()
    settings = {"krucible.quorum": "dynamic", "metadata.max.idle.interval.ms": "100"}
    spec = RunSpec(
        7,
        system="kafka",
        workload="producer-ids",
        voters=3,
        observers=0,
        settings={**settings, VERSION: release},
    )

    async def main(scene: LiveScene) -> None:
        old = await scene.leader()
        others = [node for node in scene.system.voters if node != old]
        links = [link for node in others for link in ((old, node), (node, old))]
        await scene.env.net.cut(links)
        new = await until(lambda: leader_of(scene, others))
        await scene.env.net.heal(links)

        async def has_cut() -> bool | None:
            return bool(scene.events("trunc", old)) or None

        await until(has_cut)
        (third,) = set(others) - {new}
        change = await scene.system.remove_voter(third, timeout_s=0)
        assert change.done, change.detail
        offset = scene.events("voters", new)[-1]["off"]

        async def has_gone_on() -> bool | None:
            ends = [event["off"] for event in scene.events("fetch_tx", old)]
            return max(ends) > offset or None

        await until(has_gone_on)
        assert any(e["base"] <= offset <= e["last"] for e in scene.events("append", old))
        assert max(event["off"] or 0 for event in scene.events("voters", old)) < offset
        # With the set of its log nobody could be elected now: of two voters one is down.
        await scene.system.kill(new)
        await scene.system.kill(third)
        await scene.system.start(third)  # it follows nobody, and so it gives its vote
        view = await until(lambda: scene.look(old))
        assert sorted(f"n{key.id}" for key in view.voters) == sorted(scene.system.voters)

    play(tmp_path, main, spec, frozenset())
