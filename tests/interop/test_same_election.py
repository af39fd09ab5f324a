"""``docs/findings.md``: a voter that lost an election is ended by one that knows of no leader.

Real controllers. Their ``quorum-state`` is written as Kafka leaves it, which simulated runs show
(``docs/findings/same-election``): to have two voters stand in one epoch takes luck. Should a newer
Apache Kafka do better, this fails, and the page is to be changed.
"""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from harness.errors import NodeStartError
from harness.spec import RunSpec
from harness.systems.kafka.distribution import KafkaDist
from harness.systems.kafka.releases import DEFAULT, KNOWN, VERSION
from tests.support.live.brokers import until
from tests.support.live.scene import LiveScene, play

pytestmark = [pytest.mark.slow, pytest.mark.long]
ENDS = "Received unexpected invalid request error"
NOBODY = -1


def state_file(scene: LiveScene, node: str) -> Path:
    """Find where a node keeps its vote."""
    (found,) = scene.env.node_dir(node).rglob("quorum-state")
    return Path(found)


def change(scene: LiveScene, node: str, **fields: object) -> None:
    """Change some fields of a node's vote, which is not running."""
    file = state_file(scene, node)
    told = json.loads(file.read_text())
    assert set(fields) <= set(told)
    file.write_text(json.dumps({**told, **fields}))


@pytest.mark.parametrize("release", [DEFAULT, "4.3.1", KNOWN[-1]])
@pytest.mark.parametrize("hears", [False, True], ids=["nothing", "who-leads"])
def test_a_loser_asks_for_its_vote_again_and_ends(
    kafka: KafkaDist, release: str, hears: bool, tmp_path: Path
) -> None:
    """One voter lost to the leader and has records of it; the other one has heard of no leader.

    Where the other one knows who leads, the loser hears of that, and lives on.
    """
    assert kafka.archive.is_file()
    settings = {"krucible.quorum": "static", VERSION: release}
    spec = RunSpec(
        7, system="kafka", workload="producer-ids", voters=3, observers=0, settings=settings
    )

    async def main(scene: LiveScene) -> None:
        leader = await scene.leader()
        loser, other = (node for node in scene.system.voters if node != leader)
        ids = {node: int(node[1:]) for node in scene.system.voters}
        for node in scene.system.voters:
            await scene.system.kill(node)
        assert json.loads(state_file(scene, loser).read_text())["leaderId"] == ids[leader]
        change(scene, loser, votedId=ids[loser])
        if not hears:
            change(scene, other, leaderId=NOBODY, votedId=ids[leader])
        await scene.system.start(other)
        with nullcontext() if hears else suppress(NodeStartError):  # it may end before it serves
            await scene.system.start(loser)
        if hears:
            await until(lambda: any(e["to"] == "follower" for e in scene.events("role", loser)))
            assert ENDS not in scene.printed(loser)
            return
        await until(lambda: not scene.system._runs(loser))
        assert ENDS in scene.printed(loser)

    play(tmp_path, main, spec, frozenset())
