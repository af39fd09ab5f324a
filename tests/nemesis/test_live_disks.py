"""Faults of the disks of real processes: what each does, and that it is gone after the heal."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from harness.contracts.nemesis import Fault
from harness.errors import EnvError
from harness.registry import nemeses
from harness.sessions.live import execute, prepare
from harness.store.folder import Store
from harness.verdict import Valid
from tests.support.live.scene import SPEC, LiveScene, play

FAST = replace(SPEC, settings={"metadata.max.idle.interval.ms": "50"})


def test_disks_that_fail_are_met_by_the_node_until_the_heal(tmp_path: Path) -> None:
    async def main(scene: LiveScene) -> None:
        full = await scene.inject("disk-full", target="leader")
        (seen,) = full.saw("disk")
        node = seen["node"]
        assert seen["errno"] == errno.ENOSPC
        assert [e.what["node"] for e in scene.journal.open_entries() if e.kind == "disk"] == [node]
        with pytest.raises(EnvError, match="runs: its disk can be damaged only while it is down"):
            await scene.env.disks.wipe(next(n for n in scene.system.nodes if n != node))
        healed = await full.heal()
        assert "[Errno 28] No space left on device" in scene.printed(node)
        assert healed["restarted"] == [node]
        assert healed["met"][node] > 0
        assert (await scene.env.disks.try_disk(node))["errno"] is None

        failing = await scene.inject("disk-io-error", target="leader", operation="fsync")
        (seen,) = failing.saw("disk")
        assert seen["errno"] == errno.EIO
        assert (await failing.heal())["restarted"] == [seen["node"]]
        assert "[Errno 5] Input/output error" in scene.printed(seen["node"])

        slow = await scene.inject("disk-slow-fsync", target="leader", ms=50)
        (seen,) = slow.saw("disk")
        node = seen["node"]
        assert (seen["errno"], seen["fsync_ms"]) == (None, 50)
        assert seen["met"] > 0
        healed = await slow.heal()
        assert healed["restarted"] == []
        assert (await scene.env.disks.try_disk(node))["slowed"] == healed["disks"][node]["slowed"]

    play(tmp_path, main)


def test_damaged_logs_are_fetched_anew_and_no_power_failure_takes_what_was_fsynced(
    tmp_path: Path,
) -> None:
    async def main(scene: LiveScene) -> None:
        for kind in ("disk-torn-tail", "disk-bit-flip", "disk-lost-tail"):
            fault = await scene.inject(kind, target="follower")
            (seen,) = fault.saw("damage")
            node = seen["node"]
            assert "recovery cut the log" not in scene.printed(node) or kind != "disk-torn-tail"
            if kind != "disk-torn-tail":
                assert seen["readable_end"] < seen["log_end"], kind
                assert scene.events("disk", node)[-1]["what"] == "log"
            assert (await fault.heal())["log_end"] >= seen["log_end"]
            if kind == "disk-torn-tail":
                assert "recovery cut the log" in scene.printed(node)

        committed = _last_of_a_majority(scene)
        power = await scene.inject("power", target="all", mid_write=True)
        seen_lost = power.saw("power loss")
        assert {e["node"] for e in seen_lost} == set(scene.system.nodes)
        assert any(e["torn_write"] for e in seen_lost)
        assert _last_of_a_majority(scene) >= committed, "what was fsynced is there"
        await power.heal()

    play(tmp_path, main, FAST)


def test_without_fsync_a_power_failure_loses_what_was_acknowledged_and_that_is_caught(
    tmp_path: Path,
) -> None:
    spec = replace(SPEC, nemeses=("power",), time_limit_s=4.0, settings={"krucible.fsync": "false"})
    fault = Fault(0, "power", 1_500, 300, {"target": "all", "mid_write": False}, 0.5)
    session = prepare(spec, Store(tmp_path), faults=[fault])
    execute(session, state_dir=tmp_path / "state")
    assert session.judgement is not None
    assert session.judgement.system is Valid.INVALID
    assert session.exit_code == 1


def test_an_old_copy_a_lost_vote_a_wiped_disk_and_a_removed_leader(tmp_path: Path) -> None:
    async def main(scene: LiveScene) -> None:
        old = await scene.inject("disk-old-copy", target="follower", age_ms=300)
        (seen,) = old.saw("damage")
        assert seen["readable_end"] < seen["log_end"]
        await old.heal()

        empty = await scene.inject("disk-wipe-keep-id", target="follower")
        (seen,) = empty.saw("damage")
        assert (seen["readable_end"], scene.events("disk", seen["node"])[-1]["what"]) == (0, "wipe")
        assert (await empty.heal())["log_end"] >= seen["log_end"]
        assert len({e["dir"] for e in scene.events("start", seen["node"])}) == 1

        vote = await scene.inject("disk-lost-vote", target="follower")
        (seen,) = vote.saw("damage")
        assert "leaderEpoch" in seen["was"]
        await vote.heal()
        assert await scene.env.disks.election(seen["node"]) is not None

        before = await _voters(scene)
        wiped = await scene.inject("disk-wipe", target="leader")
        (seen,) = wiped.saw("damage")
        assert seen["readable_end"] == 0
        now = (await wiped.heal())["voters"]
        assert {n for n in now if now[n] != before[n]} == {seen["node"]}
        assert now[seen["node"]] == seen["directory"]
        assert [e["what"] for e in scene.events("disk", seen["node"])][-1] == "wipe"

        leader = await scene.leader()
        removed = await scene.inject("membership", target="leader")
        (seen,) = removed.saw("voters")
        assert set(seen["before"]) - set(seen["after"]) == {leader}
        now = (await removed.heal())["voters"]
        assert set(now) == set(seen["before"])
        assert now[leader] != seen["before"][leader]

    play(tmp_path, main, replace(FAST, settings={**FAST.settings, "krucible.quorum": "dynamic"}))


def test_snapshots_that_are_lost_keep_a_node_from_starting_until_they_are_back(
    tmp_path: Path,
) -> None:
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": "600",
        "metadata.max.retention.bytes": "1",
        "metadata.log.segment.bytes": "1024",
        "metadata.max.idle.interval.ms": "20",
        "krucible.log.clean.interval.ms": "100",
    }

    async def main(scene: LiveScene) -> None:
        fault = await scene.inject("disk-lost-snapshot", target="follower")
        (seen,) = fault.saw("damage")
        assert seen["files"]
        assert "ended while it started" in str(seen["refused"])
        await fault.heal()

    play(tmp_path, main, replace(SPEC, settings=settings))


def test_where_nodes_have_no_disk_seam_the_reason_is_said() -> None:
    other = replace(SPEC, system="atom")
    for name in ("disk-full", "disk-torn-tail", "power"):
        assert "'atom' has no seam to" in nemeses.get(name)().misfit(other)


def _last_of_a_majority(scene: LiveScene) -> int:
    """The last offset that two of three nodes have on their disks."""
    logs = [scene.system.stored_log(n) for n in scene.system.nodes]
    return sorted(log[-1].last if log else -1 for log in logs)[1]


async def _voters(scene: LiveScene) -> dict[str, str]:
    while (keys := await scene.system.voter_keys()) is None:
        await scene.leader()
    return keys
