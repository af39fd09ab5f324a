"""Clocks of Apache Kafka's JVMs: what a fault does is seen inside, and is gone after the heal."""

from __future__ import annotations

import asyncio
import struct
import time
from pathlib import Path

import pytest

from harness.contracts.hosts import Clocks
from harness.envs.clocks.orders import no_fake_clocks
from harness.envs.clocks.traces import traces
from harness.spec import RunSpec
from harness.systems.kafka.distribution import KafkaDist
from node.log.layout import partition_dir, segment_base
from tests.support.live.scene import LiveScene, play

REASON = no_fake_clocks()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
HOUR_MS = 3_600_000
NEAR_MS = 60_000
# A batch that waits to be filled waits for the wall clock, and so for an hour if that goes back.
SETTINGS = {"controller.quorum.append.linger.ms": "0"}
SPEC = RunSpec(5, system="kafka", workload="producer-ids", voters=1, observers=0, settings=SETTINGS)
_LENGTH, _TIMESTAMP = struct.Struct(">8xi"), struct.Struct(">27xq")  # of a record batch


def stamps_ms(data: Path) -> list[int]:
    """The times that a node's batches bear, as it wrote them."""
    found: list[int] = []
    for path in sorted(partition_dir(data).iterdir()):
        log, at = path.read_bytes() if segment_base(path.name) is not None else b"", 0
        while at + 61 <= len(log) and (length := _LENGTH.unpack_from(log, at)[0]) > 0:
            found.append(_TIMESTAMP.unpack_from(log, at)[0])
            at += 12 + length
    return found


async def until_stamped(scene: LiveScene, off_ms: int) -> None:
    """Wait until the node's last batch is so far from the host's time."""
    async with asyncio.timeout(20):
        while True:
            stamp_ms = stamps_ms(scene.env.node_dir("n1") / "data")[-1]
            if abs(stamp_ms - time.time() * 1e3 - off_ms) < NEAR_MS:
                return
            await asyncio.sleep(0.05)


def test_the_clock_of_a_jvm_strobes_drifts_and_jumps_and_its_log_shows_it(
    kafka: KafkaDist, tmp_path: Path
) -> None:
    assert kafka.archive.is_file()

    async def main(scene: LiveScene) -> None:
        strobe = await scene.inject("clock-strobe", target="leader", ms=5_000, period_ms=20)
        (seen,) = strobe.saw("strobe")
        assert (strobe.injection.outcome, seen["precision_ms"]) == ("installed", 1), seen
        assert min(seen["ahead"], seen["behind"]) > 0
        (healed,) = (await strobe.heal())["nodes"]
        assert healed["right"]

        rate = await scene.inject("clock-rate", target="leader", ppm=2_000_000)
        (seen,) = rate.saw("steady clock")
        assert (rate.injection.outcome, seen["running"]) == ("installed", True), seen
        assert seen["ppm"] == pytest.approx(2_000_000, rel=0.03)
        (healed,) = (await rate.heal())["nodes"]
        assert healed["ppm"] == pytest.approx(1_000_000, rel=0.03)

        await until_stamped(scene, 0)
        jump = await scene.inject("clock-jump", target="leader", ms=-HOUR_MS)
        (seen,) = jump.saw("wall clock")
        assert (jump.injection.outcome, seen["seen"]) == ("installed", True), seen
        await until_stamped(scene, -HOUR_MS)
        await jump.heal()
        await until_stamped(scene, 0)

        await scene.system.pause("n1")
        began_s = time.monotonic()
        frozen = await scene.inject("clock-jump", target="one", ms=HOUR_MS)
        (seen,) = frozen.saw("wall clock")
        assert frozen.injection.outcome == "failed"
        assert (seen["seen"], seen["unread"]) == (False, "the process is in state T")
        assert time.monotonic() - began_s < 5, "nobody waits for a process that stands still"
        await scene.system.resume("n1")
        await scene.env.clocks.jump_wall("n1", -HOUR_MS)

        pid = scene.env.process("n1").pid
        left = list(traces(pid, scene.env.node_dir("n1")))
        assert any(path.exists() for path in left), "there is something to be left"
        await scene.system.kill("n1")
        assert not any(path.exists() for path in left)

    play(tmp_path, main, SPEC, abilities=frozenset({Clocks}))
