"""Faults of simulated hosts: what each does to the cluster, its evidence, and that it ends."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from harness.contracts.nemesis import Cluster, Fault
from harness.envs.clocks.orders import no_fake_clocks
from harness.envs.sim import hosts as sim
from harness.envs.sim.net import SimNet
from harness.errors import EnvError, SystemStuckError
from harness.faults.choice import fitting, select
from harness.history.ops import NEMESIS, History
from harness.registry import checkers, nemeses
from harness.sessions.plan import Plan
from harness.sessions.simulated import simulate
from harness.spec import RunSpec
from harness.verdict import Valid
from nemesis import disk_wipe
from nemesis.common import claims
from nemesis.common.hosts import PROCESS
from nemesis.membership import VOTERS
from node.sim.host import EPOCH_MS
from node.sim.stray import StrayLink
from tests.support.simulated.scene import DYNAMIC, SNAPSHOTS, SPEC, Scene, play

SIM_ONLY = {
    "clock-jump",
    "clock-rate",
    "clock-strobe",
    "disk-bit-flip",
    "disk-full",
    "disk-io-error",
    "disk-lost-snapshot",
    "disk-lost-tail",
    "disk-lost-vote",
    "disk-old-copy",
    "disk-slow-fsync",
    "disk-torn-tail",
    "disk-wipe",
    "disk-wipe-keep-id",
    "jam-links",
    "lossy-links",
    "lost-answers",
    "membership",
    "move-voter",
    "narrow-links",
    "power",
    "reordering-links",
    "repeating-links",
    "slow-links",
}
OF_PACKETS = {"corrupting-links", "duplicating-links"}  # of which neither sim nor local has any
# Nodes of ours have no releases, and begin with the latest levels.
OF_RELEASES = {"finalize", "rolling-upgrade", "upgrade"}
ASKED_FOR = {"odd-requests", "restart-ended"}  # never a part of "all"
# What processes on this host can have done to them as well; the voters of SPEC are static.
LIVE = {name for name in SIM_ONLY if name.startswith("disk-")} | {"power"}
LIVE -= {"disk-lost-snapshot", "disk-wipe"}
if no_fake_clocks() is None:
    LIVE |= {"clock-jump", "clock-rate", "clock-strobe"}


# --------------------------------------------------------------------------- where they can be used


def test_all_leaves_out_what_a_run_could_never_install() -> None:
    live = {name for name, _ in select(["all"], replace(SPEC, env="local"))}
    every = set(nemeses.names()) - OF_PACKETS - OF_RELEASES - ASKED_FOR
    assert live == every - (SIM_ONLY - LIVE)
    members = {"disk-wipe", "membership", "move-voter"}
    snapshots = {"disk-lost-snapshot"}
    assert {name for name, _ in select(["all"], SPEC)} == every - members - snapshots
    assert {name for name, _ in select(["all"], DYNAMIC)} == every - snapshots
    assert {name for name, _ in select(["all"], SNAPSHOTS)} == every - members


def test_what_is_named_itself_stays_and_so_does_a_family_of_which_nothing_would_be_left() -> None:
    live = replace(SPEC, env="local")
    assert [name for name, _ in select(["power", "kill"], live)] == ["kill", "power"]
    clocks = ["clock-jump", "clock-rate", "clock-strobe"]
    assert [name for name, _ in select(["clock"], live)] == clocks


def test_a_seed_draws_its_own_part_of_all_nemeses_and_no_more_than_there_is_time_for() -> None:
    every = select(["all"], SPEC)

    def drawn(**spec: Any) -> list[tuple[str, ...]]:
        specs = (replace(SPEC, seed=seed, **spec) for seed in range(60))
        return [tuple(name for name, _ in fitting(each, every, 7)) for each in specs]

    assert drawn() == drawn()
    assert {len(names) for names in drawn()} == {4, 5, 6, 7}
    assert {name for names in drawn() for name in names} == {name for name, _ in every}
    assert {len(names) for names in drawn(env="local")} == {7}


def test_elsewhere_they_say_why_not() -> None:
    class Elsewhere:
        name = "elsewhere"
        net = object()

    async def main(scene: Scene) -> None:
        cluster = Cluster(scene.system, cast("Any", Elsewhere()))
        for name in sorted(SIM_ONLY):
            nemesis = nemeses.get(name)()
            assert nemesis.available(scene.cluster) is None, name
            assert "elsewhere" in nemesis.available(cluster), name
            injection = await nemesis.inject(Fault(1, name, 0, 1), cluster)
            assert injection.outcome == "skipped", name

    play(main)


def test_where_there_is_no_such_node_a_voter_stands_in_and_the_evidence_says_so() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("power", target="follower", mid_write=False)
        assert fault.injection.targets == ("n1",)
        assert "n1 stands in for it" in fault.saw("targets")[0]["note"]
        await fault.heal()

    play(main, replace(SPEC, voters=1))


# --------------------------------------------------------------------------- power


@pytest.mark.parametrize("fsync", [True, False])
def test_power_loses_what_was_not_fsynced_and_nothing_else(fsync: bool) -> None:
    async def main(scene: Scene) -> None:
        await asyncio.sleep(2)
        lasted = scene.last_offsets()
        fault = await scene.inject("power", target="majority", mid_write=False)
        assert fault.injection.outcome == "installed"
        lost = {e["node"]: e["lost_bytes"] for e in fault.saw("power loss")}
        assert set(lost) == set(fault.injection.targets)
        assert all(size > 0 for size in lost.values()) is not fsync
        assert all(scene.env.process(n).state == "gone" for n in lost)
        if fsync:
            assert {n: scene.last_offsets()[n] for n in lost} == {n: lasted[n] for n in lost}
            assert (await fault.heal())["restarted"] == list(lost)

    play(main, replace(SPEC, settings={"krucible.fsync": str(fsync).lower()}))


def test_power_that_fails_in_a_write_tears_it_and_the_node_recovers() -> None:
    async def main(scene: Scene) -> None:
        for _ in range(4):
            fault = await scene.inject("power", target="all", mid_write=True)
            assert any(e["torn_write"] for e in fault.saw("power loss"))
            lost = sum(e["lost_bytes"] for e in fault.saw("power loss"))
            scene.events.append({"t": "lost", "name": "all", "bytes": lost})
            await fault.heal()

    scene = play(main, replace(SPEC, settings={"metadata.max.idle.interval.ms": "50"}))
    assert any(e["bytes"] for e in scene.kinds("lost"))
    assert not any("Traceback" in scene.printed(n) for n in scene.system.nodes)


def test_without_power_there_is_a_new_leader() -> None:
    async def main(scene: Scene) -> None:
        old = await scene.leader()
        fault = await scene.inject("power", target="leader", mid_write=False)
        assert fault.injection.targets == (old,)
        new = await scene.leader()
        assert new != old
        await fault.heal()
        assert scene.env.process(old).pid == 2

    play(main)


# --------------------------------------------------------------------------- ends and restarts


@pytest.mark.parametrize("target", ["leader", "observer"])
def test_a_node_that_is_stopped_leaves_in_good_order_and_comes_back(target: str) -> None:
    async def main(scene: Scene) -> None:
        old = await scene.leader()
        fault = await scene.inject("stop", target=target)
        (node,) = fault.injection.targets
        (seen,) = fault.saw("process")
        assert (seen["gone"], seen["error"]) == (True, None)
        assert "exit code 0" in seen["detail"]
        assert scene.kinds("stop", node)[-1]["why"] == "signal"
        new = await scene.leader()
        assert (node == old) is (target == "leader") is (new != old)
        healed = await fault.heal()
        assert (healed["restarted"], healed["killed"]) == ([node], [])
        assert scene.env.process(node).pid == 2

    play(main)


def test_a_node_that_does_not_leave_is_killed_when_it_is_to_be_started_again() -> None:
    async def main(scene: Scene) -> None:
        assert await scene.system.await_recovery(20.0), "a broker that is fenced may leave alone"
        leader = await scene.leader()
        voters = scene.system.voters
        away = [v for v in voters if v != leader]
        for voter in away:
            await scene.system.kill(voter)
        fault = await scene.inject("stop", target="observer")
        (seen,) = fault.saw("process")
        assert (seen["gone"], seen["error"]) == (False, None)
        healed = await fault.heal_alone()
        assert healed["killed"] == list(fault.injection.targets)
        for voter in away:
            await scene.system.start(voter)

    play(main)


def test_a_rolling_restart_ends_every_node_in_turn_and_a_quorum_is_always_there() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("rolling-restart", pause_ms=500, down_ms=100)
        await asyncio.sleep(8)
        healed = await fault.heal()
        assert {e["why"] for e in scene.kinds("stop")} == {"signal"}
        stops = sorted(scene.kinds("stop"), key=lambda e: e["ts"])
        nodes = [e["node"] for e in stops]
        assert healed["cycles"] == len(nodes) > 4, "it goes on for as long as the fault does"
        assert len(set(nodes[:4])) == 4
        assert nodes[4:] == nodes[:-4], "in the same order again"
        assert healed["unstarted"] == []
        downs = [e["ts"] for e in stops]
        ups = sorted(e["ts"] for e in scene.kinds("start"))[4:]
        assert all(up < down for up, down in zip(ups, downs[1:], strict=False))

    play(main)


def test_a_rolling_restart_that_is_healed_early_ends_where_it_is() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("rolling-restart", pause_ms=500, down_ms=700)
        healed = await fault.heal()
        assert healed["cycles"] == 1
        assert sum(scene.env.process(n).pid == 2 for n in scene.system.nodes) == 1

    play(main)


@pytest.mark.parametrize("name", ["rolling-restart", "restart-storm"])
def test_restarts_that_break_off_leave_no_node_down(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(scene: Scene) -> None:
        start, refusals = scene.system.start, ["the host is out of processes"]

        async def refuse_once(node: str) -> None:
            if refusals:
                raise EnvError(refusals.pop())
            await start(node)

        monkeypatch.setattr(scene.system, "start", refuse_once)
        fault = await scene.inject(name, target="one", up_ms=0, down_ms=100)
        healed = await fault.heal()
        assert healed["ended_by"] == "the host is out of processes"
        assert all(scene.env.process(n).pid is not None for n in scene.system.nodes)

    play(main)


def test_a_restart_storm_kills_again_and_again_until_it_is_healed() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("restart-storm", target="majority", up_ms=100, down_ms=50)
        await asyncio.sleep(2)
        healed = await fault.heal()
        assert healed["cycles"] >= 2 * 10
        assert all((scene.env.process(n).pid or 0) > 10 for n in fault.injection.targets)
        last = scene.env.process(fault.injection.targets[0]).pid
        await asyncio.sleep(2)
        assert scene.env.process(fault.injection.targets[0]).pid == last

    play(main)


def test_what_a_fault_has_frozen_or_ended_is_no_other_fault_s_to_end() -> None:
    async def main(scene: Scene) -> None:
        frozen = await scene.inject("pause", target="all")
        for name in ("kill", "power", "stop", "restart-storm", "rolling-restart"):
            other = await scene.inject(name, target="all", mid_write=False)
            assert other.injection.outcome == "skipped", name
        await frozen.heal()

    play(main)


# --------------------------------------------------------------------------- disks that misbehave


def test_a_full_disk_stops_the_leader_which_says_enospc_and_is_back_once_there_is_room() -> None:
    async def main(scene: Scene) -> None:
        old = await scene.leader()
        fault = await scene.inject("disk-full", target="leader")
        (seen,) = fault.saw("disk")
        assert (seen["node"], seen["errno"]) == (old, errno.ENOSPC)
        await asyncio.sleep(2)
        assert scene.env.process(old).state == "gone"
        assert "[Errno 28] No space left" in scene.printed(old)
        assert await scene.leader() != old
        healed = await fault.heal()
        assert (healed["restarted"], healed["disks"][old]["errno"]) == ([old], None)
        assert healed["met"][old] >= 1

    play(main)


@pytest.mark.parametrize("operation", ["fsync", "write"])
def test_a_node_that_cannot_write_or_fsync_stops_and_comes_back_on_a_whole_disk(
    operation: str,
) -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("disk-io-error", target="leader", operation=operation)
        (node,) = fault.injection.targets
        assert fault.saw("disk")[0]["errno"] == errno.EIO
        await asyncio.sleep(2)
        assert scene.env.process(node).state == "gone"
        assert "[Errno 5] Input/output error" in scene.printed(node)
        assert (await fault.heal())["restarted"] == [node]

    play(main)


def test_slow_fsyncs_slow_down_what_a_leader_commits_and_end() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("disk-slow-fsync", target="all", ms=100)
        assert {e["fsync_ms"] for e in fault.saw("disk")} == {100.0}
        await asyncio.sleep(3)
        slow = _commit_ms(scene)
        healed = await fault.heal()
        assert all(healed["met"][node] >= 3 for node in scene.system.voters)
        scene.events.clear()
        await asyncio.sleep(3)
        assert slow >= 100
        assert _commit_ms(scene) < 20

    play(main)


def _commit_ms(scene: Scene) -> float:
    """How long the last record took from the leader's log to its high watermark."""
    mark = next(e for e in reversed(scene.kinds("hwm")) if e["as"] == "leader")
    began = next(e for e in scene.kinds("append", mark["name"]) if e["last"] + 1 == mark["v"])
    return float(mark["ts"] - began["ts"]) / 1e6


# --------------------------------------------------------------------------- damaged disks


def test_a_torn_tail_is_cut_at_the_start_and_what_was_fsynced_stays() -> None:
    async def main(scene: Scene) -> None:
        for _ in range(6):
            fault = await scene.inject("disk-torn-tail", target="follower")
            (node,) = fault.injection.targets
            (seen,) = fault.saw("damage")
            assert (seen["cut_bytes"], seen["readable_end"]) == (0, seen["log_end"])
            assert seen["torn_bytes"] > 0
            assert (await fault.heal())["found_log_end"] == seen["log_end"]
            assert scene.kinds("start", node)[-1]["leo"] == seen["log_end"]

    play(main)


def test_a_torn_tail_takes_from_a_broker_what_it_has_not_fsynced() -> None:
    async def main(scene: Scene) -> None:
        cut = 0
        for _ in range(4):
            await asyncio.sleep(1)
            fault = await scene.inject("disk-torn-tail", target="observer")
            cut += fault.saw("damage")[0]["cut_bytes"]
            await fault.heal()
        assert cut > 0

    play(main)


def test_a_flipped_bit_cuts_the_log_which_is_fetched_again() -> None:
    async def main(scene: Scene) -> None:
        await asyncio.sleep(2)
        for target in ("follower", "leader"):
            fault = await scene.inject("disk-bit-flip", target=target)
            (node,) = fault.injection.targets
            (seen,) = fault.saw("damage")
            assert seen["copies"] == 2
            assert seen["readable_end"] < seen["log_end"]
            healed = await fault.heal()
            assert healed["found_log_end"] == seen["readable_end"]
            assert healed["log_end"] >= seen["log_end"]
            assert scene.kinds("start", node)[-1]["leo"] == seen["readable_end"]
            assert scene.kinds("disk", node)[-1]["what"] == "log"

    play(main)


def test_a_bit_is_not_flipped_where_it_could_be_the_last_copy() -> None:
    async def main(scene: Scene) -> None:
        down = await scene.inject("power", target="follower", mid_write=False)
        await asyncio.sleep(1)
        fault = await scene.inject("disk-bit-flip", target="leader")
        assert fault.injection.outcome == "skipped"
        assert "are no majority" in str(fault.injection.reason)
        await down.heal()

    play(main)
    assert [n for n, _ in select(["disk"], replace(SPEC, voters=2)) if n == "disk-bit-flip"] == []


async def no_bit_is_flipped_before(scene: Scene, heal: Callable[[], Awaitable[Any]]) -> None:
    """A bit of the leader's log is flipped once the other log counts again."""
    await asyncio.sleep(1)
    fault = await scene.inject("disk-bit-flip", target="leader")
    assert fault.injection.outcome == "skipped"
    assert "are no majority" in str(fault.injection.reason)
    await heal()
    again = await scene.inject("disk-bit-flip", target="leader")
    assert again.saw("damage")[0]["copies"] == 2
    await again.heal()


def test_the_log_of_a_voter_that_was_removed_is_no_copy() -> None:
    """It reads on, so it has all records, but comes back with an empty disk."""

    async def main(scene: Scene) -> None:
        await asyncio.sleep(2)
        removed = await scene.inject("membership", target="follower")
        await no_bit_is_flipped_before(scene, removed.heal)

    play(main, DYNAMIC)


def test_the_log_of_a_wiped_voter_is_no_copy_until_it_is_a_voter_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its heal is tried again when there is a leader; until then another disk is not damaged."""

    async def stuck(*_: Any, **__: Any) -> dict[str, Any]:
        raise SystemStuckError("there is no leader")

    async def main(scene: Scene) -> None:
        wiped = await scene.inject("disk-wipe", target="follower")
        with monkeypatch.context() as patch:
            patch.setattr(disk_wipe, "take_place", stuck)
            with pytest.raises(SystemStuckError):
                await wiped.heal_alone()
        await no_bit_is_flipped_before(scene, wiped.heal)

    play(main, DYNAMIC)


def test_a_lost_tail_is_fetched_again() -> None:
    async def main(scene: Scene) -> None:
        await asyncio.sleep(2)
        fault = await scene.inject("disk-lost-tail", target="leader")
        (node,) = fault.injection.targets
        (seen,) = fault.saw("damage")
        assert seen["cut_bytes"] > 0
        assert seen["readable_end"] < seen["log_end"]
        assert (await fault.heal())["log_end"] >= seen["log_end"]
        assert scene.kinds("start", node)[-1]["leo"] == seen["readable_end"]
        assert scene.kinds("disk", node)[-1]["what"] == "log"

    play(main)


@pytest.mark.parametrize("target", ["leader", "follower", "observer"])
def test_a_disk_becomes_the_copy_of_some_time_ago_and_its_node_catches_up(target: str) -> None:
    async def main(scene: Scene) -> None:
        began = scene.last_offsets()
        fault = await scene.inject("disk-old-copy", target=target, age_ms=2_000)
        (node,) = fault.injection.targets
        (seen,) = fault.saw("damage")
        assert began[node] < seen["readable_end"] < seen["log_end"]
        healed = await fault.heal()
        assert scene.kinds("start", node)[-1]["leo"] == seen["readable_end"]
        assert healed["log_end"] >= seen["log_end"]
        assert scene.kinds("disk", node)[-1]["what"] == "wipe"

    play(main)


def test_a_node_forgets_its_vote_where_nobody_can_ask_for_it_again() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("disk-lost-vote", target="follower")
        (node,) = fault.injection.targets
        was = json.loads(fault.saw("damage")[0]["was"])
        assert was["leaderEpoch"] > 0
        assert await scene.env.disks.election(node) is None
        await fault.heal()
        assert scene.kinds("start", node)[-1]["qs"].get("voted") is None
        assert scene.kinds("disk", node)[-1]["what"] == "vote"

    play(main)


def test_no_vote_is_forgotten_while_a_voter_could_ask_for_it() -> None:
    async def main(scene: Scene) -> None:
        leader = await scene.leader()
        away = next(v for v in scene.system.voters if v != leader)
        await scene.system.kill(away)
        await scene.env.disks.lose_vote(away)  # it could be a candidate in the leader's epoch
        fault = await scene.inject("disk-lost-vote", target="leader")
        assert fault.injection.outcome == "skipped"
        await scene.system.start(away)
        assert (await scene.inject("disk-lost-vote", target="leader")).injection.targets == (
            leader,
        )

    play(main)


def test_a_node_with_neither_its_first_records_nor_a_snapshot_of_them_does_not_start() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("disk-lost-snapshot", target="follower")
        (node,) = fault.injection.targets
        (seen,) = fault.saw("damage")
        assert seen["log_start"] > 0 < len(seen["files"])
        assert "ended while it started" in seen["refused"]
        assert "there is no snapshot for what came before" in scene.printed(node)
        assert (await fault.heal())["restarted"] == [node]
        assert scene.kinds("start", node)[-1]["log_start"] >= seen["log_start"]

    play(main, SNAPSHOTS)


def test_no_snapshot_is_lost_where_logs_begin_at_0() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("disk-lost-snapshot", target="follower")
        assert "still begins at 0" in str(fault.injection.reason)

    play(main)
    misfit = nemeses.get("disk-lost-snapshot")().misfit
    made, kept = list(SNAPSHOTS.settings.items())[:2]
    for settings in ({}, dict([made]), dict([kept])):
        assert "needs snapshots" in str(misfit(replace(SPEC, settings=settings)))
    assert misfit(replace(SPEC, settings=dict([made, kept]))) is None


# --------------------------------------------------------------------------- members


@pytest.mark.parametrize("target", ["leader", "follower"])
def test_a_removed_voter_is_no_voter_until_it_is_added_with_an_empty_disk(target: str) -> None:
    async def main(scene: Scene) -> None:
        old = await scene.leader()
        began = await scene.system.voter_keys()
        fault = await scene.inject("membership", target=target)
        (node,) = fault.injection.targets
        (seen,) = fault.saw("voters")
        assert (node == old) is (target == "leader")
        assert began is not None
        assert (seen["before"], set(seen["after"])) == (began, set(began) - {node})
        assert (await scene.leader() != old) is (target == "leader")
        healed = await fault.heal()
        assert set(healed["voters"]) == set(began)
        assert healed["voters"][node] == healed["directory"] != began[node]
        assert {n: k for n, k in healed["voters"].items() if n != node} == seen["after"]
        dirs = [e["dir"] for e in scene.kinds("start", node)]
        assert dirs == [began[node], healed["directory"]]

    play(main, DYNAMIC)


@pytest.mark.parametrize("target", ["leader", "follower", "one"])
def test_of_two_voters_the_leader_is_never_the_one_that_is_removed(target: str) -> None:
    async def main(scene: Scene) -> None:
        for _ in range(3):
            leader = await scene.leader()
            fault = await scene.inject("membership", target=target)
            (seen,) = fault.saw("targets")
            assert fault.injection.targets != (leader,)
            assert ("note" in seen) is (target == "leader") or target == "one"
            await fault.heal()

    play(main, replace(DYNAMIC, voters=2))


def test_nobody_is_asked_to_remove_the_leader_of_two_voters() -> None:
    async def main(scene: Scene) -> None:
        leader = await scene.leader()
        change = await scene.system.remove_voter(leader, timeout_s=0)
        assert (change.done, change.detail) == (False, "it leads only two voters, which need both")
        assert not any(e["api"] == "RemoveVoter" for e in scene.kinds("rpc_ok"))

    play(main, replace(DYNAMIC, voters=2))


def test_a_voter_that_could_not_be_removed_keeps_its_disk() -> None:
    async def main(scene: Scene) -> None:
        leader = await scene.leader()
        began = await scene.system.voter_keys()
        others = [n for n in scene.system.voters if n != leader]
        await scene.env.net.cut([(a, b) for o in others for a, b in ((o, leader), (leader, o))])
        await scene.env.net.cut([(a, b) for a, b in (others, others[::-1])])
        fault = await scene.inject("membership", target="leader")
        assert fault.injection.outcome == "failed"
        assert "not removed" in str(fault.injection.reason)
        await scene.env.net.heal()
        await fault.heal()
        assert await scene.system.voter_keys() == began
        assert not scene.kinds("disk")

    play(main, DYNAMIC)


def test_a_heal_that_is_tried_again_empties_no_disk_again() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("membership", target="follower")
        (node,) = fault.injection.targets
        others = [n for n in scene.system.voters if n != node]
        for other in others:
            await scene.system.kill(other)
        with pytest.raises(SystemStuckError, match=f"{node} did not become a voter again"):
            await fault.heal_alone()
        for other in others:
            await scene.system.start(other)
        healed = await fault.heal()
        assert set(healed["voters"]) == set(scene.system.voters)
        assert [e["what"] for e in scene.kinds("disk")] == ["wipe"]

    play(main, DYNAMIC)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("membership", {"target": "follower"}),
        ("move-voter", {"target": "follower", "port": 9193, "stay_ms": 0}),
    ],
)
def test_a_voter_that_another_fault_does_not_let_go_is_left_until_it_does(
    name: str, params: dict[str, Any]
) -> None:
    """The other one waits for a node that does not come back: that is no failure of the harness."""

    async def main(scene: Scene) -> None:
        fault = await scene.inject(name, **params)
        (node,) = fault.injection.targets
        other, cluster = 99, Cluster(scene.system, scene.env)
        claims.claim(cluster, other, [(PROCESS, node)])
        with pytest.raises(SystemStuckError, match=f"another fault holds {node}"):
            await fault.heal_alone()
        claims.release(cluster, other, [(PROCESS, node)])
        await fault.heal()
        assert set(await scene.system.voter_keys() or ()) == set(scene.system.voters)

    play(main, DYNAMIC)


@pytest.mark.parametrize("change", ["remove", "add"])
def test_a_change_of_the_voters_is_not_done_while_only_its_leader_has_it(change: str) -> None:
    async def main(scene: Scene) -> None:
        system, leader = scene.system, await scene.leader()
        node, *others = [n for n in system.voters if n != leader]
        if change == "add":
            assert (await system.remove_voter(node, timeout_s=5)).done
            assert await system.await_recovery(20.0), "it has caught up as an observer"
        ask = system.add_voter if change == "add" else system.remove_voter
        await scene.env.net.cut([(a, b) for o in others for a, b in ((o, leader), (leader, o))])
        written = len(scene.kinds("voters", leader))
        alone = await ask(node, timeout_s=1.4)
        assert len(scene.kinds("voters", leader)) == written + 1
        keys = await system.voter_keys()
        assert keys is not None
        assert (node in keys) is (change == "add"), "it says so already"
        assert not alone.done
        assert alone.tries > 1
        await scene.env.net.heal()
        assert (await ask(node, timeout_s=20)).done
        keys = await system.voter_keys()
        assert keys is not None
        assert (node in keys) is (change == "add")

    patient = {**DYNAMIC.settings, "controller.quorum.fetch.timeout.ms": "4000"}
    play(main, replace(DYNAMIC, voters=4, settings=patient))


@pytest.mark.parametrize("target", ["leader", "follower"])
def test_a_voter_that_moves_tells_where_it_is_and_moves_back(target: str) -> None:
    async def main(scene: Scene) -> None:
        began = await scene.system.voter_keys()
        fault = await scene.inject("move-voter", target=target, port=9193)
        (node,) = fault.injection.targets
        assert fault.saw("move")[0]["now_at"].endswith(":9193")
        assert await scene.system.await_recovery(20.0)
        await asyncio.sleep(6)
        moved = len(scene.kinds("voters"))
        assert any(e["api"] == "UpdateVoter" for e in scene.kinds("rpc_ok"))
        assert (await scene.env.net.probe("n4", node)).passed
        healed = await fault.heal()
        assert healed["now_at"].endswith(":9093")
        assert healed["known"].startswith("it is a voter at ")
        assert len(scene.kinds("voters")) > moved
        assert await scene.system.voter_keys() == began

    play(main, DYNAMIC)


def number(node: str) -> int:
    return int(node.removeprefix("n"))


def test_nobody_changes_the_voters_before_all_know_where_one_of_them_has_moved_to() -> None:
    """One more lost voter could be the end: seed 77000603 of the swarm."""

    async def main(scene: Scene) -> None:
        fault = await scene.inject("move-voter", target="follower", port=9193)
        (node,) = fault.injection.targets
        assert (await scene.system.await_address(node, timeout_s=20.0)).done
        others = [voter for voter in scene.system.voters if voter != node]
        links = [(node, other) for other in others]
        await scene.env.net.cut(links)  # it hears them, and cannot tell them where it is
        healing = asyncio.create_task(fault.heal())
        await asyncio.sleep(10)
        assert scene.env.process(node).detail == "process 3", "it has moved back"
        assert not claims.claim_free(scene.cluster, 77, [VOTERS])
        await scene.env.net.heal(links)
        assert (await healing)["known"].startswith("it is a voter at ")
        assert claims.claim_free(scene.cluster, 77, [VOTERS])

    play(main, DYNAMIC)


def test_a_voter_that_moved_and_another_that_is_lost_leave_a_quorum_that_never_elects() -> None:
    """A finding of docs/findings.md in KIP-853: two of three voters, whole disks, whole links."""

    async def main(scene: Scene) -> None:
        system, env = scene.system, scene.env
        leader = await scene.leader()
        moved, lost = (voter for voter in system.voters if voter != leader)
        await system.kill(lost)
        await system.kill(moved)
        ends = scene.last_offsets()
        while scene.last_offsets()[leader] == ends[moved]:  # noqa: ASYNC110 - it commits nothing
            await asyncio.sleep(0.1)
        await system.kill(leader)
        await env.move(moved, 9193)
        await asyncio.gather(system.start(leader), system.start(moved))
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while loop.time() < began_s + 60:
            assert await system.leader() is None
            await asyncio.sleep(0.5)
        asked = [e for e in scene.kinds("vote", leader) if e["pre"] and e["cand"] == number(moved)]
        assert asked, "the one that moved asks all the time"
        assert not any(e["ok"] for e in asked), "its log is behind"
        tries = [e for e in scene.kinds("votereq", leader) if e["to"] == number(moved)]
        assert tries, "the other asks it, where it is no more"
        await system.start(lost)
        async with asyncio.timeout(30):  # with the third voter two can reach each other
            await scene.leader()
        assert (await system.await_address(moved, timeout_s=20.0)).done

    play(main, DYNAMIC)


def test_a_wiped_voter_is_a_stranger_until_it_takes_its_own_old_place() -> None:
    async def main(scene: Scene) -> None:
        began = await scene.system.voter_keys()
        fault = await scene.inject("disk-wipe", target="leader")
        (node,) = fault.injection.targets
        (seen,) = fault.saw("damage")
        assert (seen["readable_end"], seen["copies"]) == (0, 0)
        assert seen["log_end"] > 0 < seen["bytes"]
        healed = await fault.heal()
        assert began is not None
        assert healed["voters_before"] == began, "the old disk is a voter still"
        assert healed["voters"] == {**began, node: seen["directory"]}

    play(main, DYNAMIC)


def test_who_names_it_can_wipe_a_voter_of_a_static_quorum_and_nobody_notices() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("disk-wipe", target="follower")
        (node,) = fault.injection.targets
        healed = await fault.heal()
        assert "voters" not in healed
        assert scene.kinds("start", node)[-1]["leo"] == 0
        assert healed["log_end"] >= fault.saw("damage")[0]["log_end"]

    play(main)


def test_a_disk_can_be_wiped_under_its_old_id_or_be_replaced_by_an_old_copy() -> None:
    async def main(scene: Scene) -> None:
        with pytest.raises(EnvError, match="n3 runs"):
            await scene.env.disks.wipe("n3")
        await scene.env.disks.save_copy("n3")
        old = scene.last_offsets()["n3"] + 1
        await asyncio.sleep(2)
        await scene.system.kill("n3")
        await scene.env.disks.restore_copy("n3")
        await scene.system.start("n3")
        await scene.system.kill("n3")
        await scene.env.disks.wipe("n3", keep_id=True)
        await scene.system.start("n3")
        starts = scene.kinds("start", "n3")
        assert [e["leo"] for e in starts[1:]] == [old, 0]
        assert len({e["dir"] for e in starts}) == 1
        assert [e["what"] for e in scene.kinds("disk", "n3")] == ["wipe", "wipe"]
        await scene.system.kill("n2")
        with pytest.raises(EnvError, match="no copy of the disk of n2"):
            await scene.env.disks.restore_copy("n2")

    play(main)


@pytest.mark.parametrize("spec", [SPEC, DYNAMIC], ids=["static", "dynamic"])
def test_a_voter_comes_back_on_an_empty_disk_that_says_it_is_the_old_one(spec: RunSpec) -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("disk-wipe-keep-id", target="follower")
        (seen,) = fault.saw("damage")
        node = seen["node"]
        assert seen["log_end"] > seen["readable_end"] == 0
        assert await scene.env.disks.election(node) is None, "nor does it know of its vote"
        healed = await fault.heal()
        assert healed["log_end"] >= seen["log_end"]
        starts = scene.kinds("start", node)
        assert [len({e["dir"] for e in starts}), starts[-1]["leo"]] == [1, 0]
        leads = await scene.inject("disk-wipe-keep-id", target="leader")
        assert leads.injection.outcome == "skipped"

    play(main, spec)


def test_the_voters_of_a_static_quorum_are_not_changed() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("membership", target="follower")
        assert "the voters are static" in str(fault.injection.reason)

    play(main)
    for name in ("disk-wipe", "membership"):
        reason = nemeses.get(name)().misfit(SPEC)
        assert "the quorum is static" in reason
    assert "last voter" in nemeses.get("membership")().misfit(replace(DYNAMIC, voters=1))


# --------------------------------------------------------------------------- packets


def test_slow_links_delay_a_probe_and_a_slow_leader_is_replaced() -> None:
    async def main(scene: Scene) -> None:
        old = await scene.leader()
        fault = await scene.inject("slow-links", target="leader", way="both", delay_ms=1_500)
        assert min(e["elapsed_ms"] for e in fault.saw("probe")) >= 1_500
        await asyncio.sleep(5)
        assert await scene.leader() != old
        healed = await fault.heal()
        assert healed["now"]["latency_ms"] < 1
        assert (await scene.env.net.probe("n1", "n2")).elapsed_ms < 5

    play(main)


def test_lossy_links_lose_packets_that_come_later_and_none_once_healed() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("lossy-links", target="all", way="both", loss=0.4)
        assert any(e["told"] and e["elapsed_ms"] >= 200 for e in fault.saw("probe"))
        await asyncio.sleep(3)
        assert (await fault.heal())["lost"] > 10
        before = sum(s["lost"] for s in (await scene.env.net.stats()).values())
        await asyncio.sleep(2)
        assert sum(s["lost"] for s in (await scene.env.net.stats()).values()) == before

    play(main)


def test_jammed_links_let_messages_through_in_bursts() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("jam-links", target="all", way="in", jam_ms=1_500)
        began_ns = scene.env.loop.now_ns
        await asyncio.sleep(6)
        heard = [
            (e["ts"] // 10**6) % 1_500
            for e in scene.kinds("fetch_rx")
            if e["ts"] > began_ns + 10**9
        ]
        assert heard
        assert max(heard) < 50, "all of them come just after a release"
        await fault.heal()
        began_ns = scene.env.loop.now_ns
        await asyncio.sleep(3)
        heard = [(e["ts"] // 10**6) % 1_500 for e in scene.kinds("fetch_rx") if e["ts"] > began_ns]
        assert max(heard) > 500

    play(main)


def test_links_repeat_what_replicas_ask_and_nobody_is_fooled() -> None:
    async def main(scene: Scene) -> None:
        elected = len(scene.kinds("elected"))
        fault = await scene.inject(
            "repeating-links", target="all", way="both", repeat=0.5, late_ms=1_500
        )
        assert any(e["told"] for e in fault.saw("probe"))
        await asyncio.sleep(4)
        (node,) = (await scene.inject("kill", target="leader")).injection.targets
        await asyncio.sleep(3)
        await scene.system.start(node)
        healed = await fault.heal()
        assert healed["repeated"] > 20
        assert len(scene.kinds("elected")) == elected + 1
        await asyncio.sleep(5)  # answers to what came twice have gone nowhere
        hosts = [scene.env.host(n).address for n in scene.system.nodes]
        listeners = [x for at, x in scene.env.fabric.listeners.items() if at.host in hosts]
        assert not [k for x in listeners for k in x.links.values() if isinstance(k, StrayLink)]

    play(main)


def test_a_client_s_request_never_comes_twice() -> None:
    async def main(scene: Scene) -> None:
        again = scene.env.fabric.again
        listener = next(iter(scene.env.fabric.listeners.values()))
        link = StrayLink(listener, "10.0.1.1", 1)
        assert again is not None
        assert again(link.take_ask) is not None
        assert again(link.versions) is not None
        assert again(link.take) is None
        assert again(print) is None

    play(main)


def test_links_that_reorder_keep_messages_back_and_later_ones_of_others_overtake_them() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject(
            "reordering-links", target="all", way="both", keep_back=0.3, late_ms=400
        )
        assert any(e["told"] for e in fault.saw("probe"))
        await asyncio.sleep(3)
        assert (await fault.heal())["kept_back"] > 20
        before = scene.env.fabric.link("10.0.0.1", "10.0.0.2").kept_back
        await asyncio.sleep(2)
        assert scene.env.fabric.link("10.0.0.1", "10.0.0.2").kept_back == before

    play(main)


def test_over_narrow_links_messages_queue_up_behind_each_other() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("narrow-links", target="all", way="both", bytes_per_s=1_000)
        assert min(e["elapsed_ms"] for e in fault.saw("probe")) >= 2 * 150
        await fault.heal()
        assert (await scene.env.net.probe("n1", "n2")).elapsed_ms < 5

    play(main)


def test_what_two_faults_do_to_a_link_adds_up_and_each_heals_its_own() -> None:
    async def main(scene: Scene) -> None:
        one = await scene.inject("slow-links", target="all", way="out", delay_ms=20)
        two = await scene.inject("lossy-links", target="all", way="out", loss=0.2)
        net = cast("SimNet", scene.env.net)
        now = await net.shaped(("n1", "n2"))
        assert (now["latency_ms"], now["loss"]) == (20.1, 0.2)
        await one.heal()
        now = await net.shaped(("n1", "n2"))
        assert (now["latency_ms"], now["loss"]) == (0.1, 0.2)
        await two.heal()
        assert (await net.shaped(("n1", "n2")))["loss"] == 0.0

    play(main)


# --------------------------------------------------------------------------- clocks


def test_a_clock_that_runs_fast_makes_its_node_impatient_until_it_is_healed() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("clock-rate", target="leader", ppm=2_000_000)
        (seen,) = fault.saw("steady clock")
        assert (seen["ppm"], seen["true_ms"], seen["read_ms"]) == (2_000_000, 200, 400)
        (node,) = fault.injection.targets
        began = len(scene.kinds("append", node))
        await asyncio.sleep(4)
        beats = len(scene.kinds("append", node)) - began
        healed = await fault.heal()
        assert healed["nodes"][0]["ppm"] == 1_000_000
        began = len(scene.kinds("append", node))
        await asyncio.sleep(4)
        assert beats == pytest.approx(2 * (len(scene.kinds("append", node)) - began), abs=3)

    play(main)


def test_a_clock_strobes_until_it_is_healed_and_then_is_where_it_was() -> None:
    async def main(scene: Scene) -> None:
        async def off_ms(node: str) -> int:
            now = await scene.env.clocks.clock(node)
            return now["wall_ms"] - now["true_ms"]

        before = {node: await off_ms(node) for node in scene.system.nodes}
        fault = await scene.inject("clock-strobe", target="leader", ms=5_000, period_ms=20)
        (seen,) = fault.saw("strobe")
        (node,) = fault.injection.targets
        assert (fault.injection.outcome, seen["ahead"], seen["behind"]) == ("installed", 3, 1)
        read = set()
        for _ in range(50):
            await asyncio.sleep(0.01)
            read.add(await off_ms(node) - before[node])
        assert read == {5_000, -5_000}
        other = await scene.inject("clock-jump", target="leader", ms=500)
        assert (other.injection.outcome, node in other.injection.targets) == ("skipped", False)
        (healed,) = (await fault.heal())["nodes"]
        assert (healed["off_ms"], healed["jumps"] > 20) == (0, True)
        await asyncio.sleep(1)
        assert {node: await off_ms(node) for node in scene.system.nodes} == before

    play(main)


def test_the_wrong_rate_outlives_a_restart() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("clock-rate", target="leader", ppm=500_000)
        (node,) = fault.injection.targets
        await scene.system.kill(node)
        await scene.system.start(node)
        one = await scene.env.clocks.clock(node)
        await asyncio.sleep(2)
        two = await scene.env.clocks.clock(node)
        assert two["steady_ms"] - one["steady_ms"] == 1_000
        await fault.heal()

    play(main)


def test_hosts_begin_with_clocks_that_differ() -> None:
    offsets: set[int] = set()

    async def main(scene: Scene) -> None:
        clocks = [await scene.env.clocks.clock(n) for n in scene.system.nodes]
        offsets.update(c["wall_ms"] - c["true_ms"] - EPOCH_MS for c in clocks)

    play(main)
    play(main, replace(SPEC, seed=2))
    assert len(offsets) > 3
    assert offsets <= set(sim.WALL_OFFSETS_MS)


def test_a_wall_clock_that_jumps_shows_in_what_the_leader_writes() -> None:
    async def main(scene: Scene) -> None:
        fault = await scene.inject("clock-jump", target="all", ms=-60_000)
        for seen in fault.saw("wall clock"):
            assert seen["after_ms"] - seen["before_ms"] == -60_000
        elected = len(scene.kinds("elected"))
        await asyncio.sleep(3)
        assert len(scene.kinds("elected")) == elected, "no timer goes by the wall clock"
        for seen in (await fault.heal())["nodes"]:
            assert seen["after_ms"] - seen["before_ms"] == 60_000

    play(main)


# --------------------------------------------------------------------------- whole runs


def test_the_same_seed_gives_the_same_bytes_with_faults_of_hosts() -> None:
    names = (
        "clock-rate",
        "disk-bit-flip",
        "disk-io-error",
        "disk-torn-tail",
        "lossy-links",
        "power",
    )
    spec = RunSpec(3, nemeses=names, time_limit_s=14.0, rate_hz=20.0, concurrency=4)
    one, two = simulate(Plan.simulated(spec)), simulate(Plan.simulated(spec))
    assert one.verdict is Valid.VALID, one.judgement.to_json()
    assert one.trace_sha256 == two.trace_sha256


def test_what_damage_excuses_is_an_alarm_where_nobody_tells_of_damage() -> None:
    spec = RunSpec(5, nemeses=("disk-bit-flip", "disk-full"), time_limit_s=10.0, rate_hz=20.0)
    run = simulate(Plan.simulated(replace(spec, concurrency=4)))
    assert run.verdict is Valid.VALID, run.judgement.to_json()
    data = run.data
    untold = {n: tuple(e for e in of if e["t"] != "disk") for n, of in data.events.items()}
    found = checkers.get("consensus")(replace(data, events=untold, watches={}))
    assert {a.invariant for a in found.anomalies} & {"S10", "S25"}
    clients = History([op for op in data.history if op.process != NEMESIS])
    found = checkers.get("log-scan")(replace(data, history=clients))
    assert any("No space left on device" in a.message for a in found.anomalies)


# --------------------------------------------------------------------------- answers


@pytest.mark.parametrize("resets", [True, False])
def test_lost_answers_are_counted_and_their_requests_were_done(resets: bool) -> None:
    async def main(scene: Scene) -> None:
        leader = await scene.leader()
        host = scene.env.host(leader)
        fault = await scene.inject("lost-answers", target=leader, answers=2, resets=resets)
        assert fault.injection.targets == (leader,)
        before = len(scene.kinds("fetch_rx", leader))
        while (loss := scene.env.fabric.answer_loss[host.address]).left:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        while len(scene.kinds("fetch_rx", leader)) == before:  # noqa: ASYNC110 - requests get there
            await asyncio.sleep(0.05)
        assert loss.lost == 2
        assert (await fault.heal())["answers_lost"] == 2

    play(main)


def test_all_answers_are_lost_until_the_heal_and_a_leader_nobody_hears_is_replaced() -> None:
    async def main(scene: Scene) -> None:
        leader = await scene.leader()
        fault = await scene.inject("lost-answers", target=leader, answers=0, resets=False)
        while not [e for e in scene.kinds("elected") if f"n{e['node']}" != leader]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert (await fault.heal())["answers_lost"] > 0
        assert scene.env.fabric.answer_loss[scene.env.host(leader).address].left == 0

    play(main)
