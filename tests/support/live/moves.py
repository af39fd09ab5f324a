"""A voter of a live cluster moves to another port and back; the same for every environment."""

from __future__ import annotations

import asyncio

from harness.contracts.environment import Address
from harness.envs.links.tcp_probe import ask
from nemesis.disk_damage import stored_log
from tests.support.live.scene import LiveScene

PORT = 9193
_TOLD_S = 20.0


async def move_there_and_back(scene: LiveScene) -> None:
    """The leader moves; the others hear of it, a link to it that was cut stays cut, it comes back.

    Nobody is at the old port meanwhile, nor at the new one in the end.
    """
    node = await scene.leader()
    other = next(voter for voter in scene.system.voters if voter != node)
    before = scene.env.address(node)
    await scene.env.net.cut([(other, node)])
    moved = await scene.inject("move-voter", target="leader", port=PORT, stay_ms=0)
    assert moved.injection.outcome == "installed", moved.injection
    (seen,) = moved.saw("move")
    assert (seen["node"], seen["from_port"]) == (node, before.port)
    assert seen["now_at"].endswith(f":{PORT}")
    assert scene.env.address(node) == Address(before.host, PORT)
    assert not await _answers(scene, before)
    assert not (await scene.env.net.probe(other, node)).passed
    await scene.env.net.heal([(other, node)])
    assert (await scene.env.net.probe(other, node, timeout_s=5.0)).passed
    await _until_told(scene, node, PORT)
    healed = await moved.heal()
    assert healed["now_at"].endswith(f":{before.port}")
    await _until_told(scene, node, before.port)
    assert await _answers(scene, before)
    assert not await _answers(scene, Address(before.host, PORT))


async def _until_told(scene: LiveScene, node: str, port: int) -> None:
    """Wait until it has had its new address put into the log, by UpdateVoter."""
    async with asyncio.timeout(_TOLD_S):
        while await _endpoint(scene, node) != str(Address(scene.env.address(node).host, port)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _endpoint(scene: LiveScene, node: str) -> str | None:
    """Where a voter is as the log of another one says."""
    other = next(voter for voter in scene.system.voters if voter != node)
    number, last = scene.system.nodes.index(node) + 1, None
    for batch in await stored_log(other, scene.cluster):
        for record in batch.records if batch.control else ():
            for voter in record["fields"].get("voters", ()):
                if voter["id"] == number:
                    last = voter["endpoints"][0].removeprefix("CONTROLLER://")
    return last


async def _answers(scene: LiveScene, address: Address) -> bool:
    passed, _, _ = await ask(address, source=scene.env.client_source(), timeout_s=2.0)
    return passed
