"""Kill and pause on real processes: whom they hit, the evidence, the heal, overlaps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError, NodeStartError
from harness.run.guard import GuardedNemesis
from harness.run.player import HEAL_TIMEOUT_S
from nemesis.common import restarts, turns
from nemesis.kill import KillNodes
from nemesis.pause import PauseNodes
from tests.support.live.cluster import EchoSystem, echo_cluster, environment_of

KILL = GuardedNemesis("kill", KillNodes())
PAUSE = GuardedNemesis("pause", PauseNodes())


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", 0.0)


def test_kill_of_the_leader_and_its_restart_have_evidence(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, system: EchoSystem) -> None:
        system.leads = "n2"
        old = cluster.environment.process("n2")
        injection = await KILL.inject(fault("leader"), cluster)
        assert (injection.outcome, injection.targets) == ("installed", ("n2",))
        targets, gone = injection.evidence
        assert (targets["leader"], targets["nodes"]) == ("n2", ["n2"])
        assert (gone["was"], gone["gone"]) == (old.detail, True)
        assert gone["detail"].endswith("killed by SIGKILL")

        healed = await KILL.heal(fault("leader"), injection, cluster)
        assert healed["restarted"] == ["n2"]
        (node,) = healed["nodes"]
        assert node["answered"]
        assert node["old_pid"] == old.pid
        assert node["pid"] not in (None, old.pid)

    run(tmp_path, scenario)


def test_pause_is_seen_in_proc_and_on_the_port(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, _: EchoSystem) -> None:
        injection = await PAUSE.inject(fault("leader"), cluster)
        assert injection.outcome == "installed"
        frozen = injection.evidence[1]
        assert (frozen["state"], frozen["answered"]) == ("T", False)
        assert "no answer" in frozen["detail"]
        healed = await PAUSE.heal(fault("leader"), injection, cluster)
        assert healed["thawed"] == ["n1"]
        assert healed["nodes"][0]["answered"]
        assert healed["nodes"][0]["state"] != "T"

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("target", "count"),
    [("minority", 1), ("majority", 2), ("all", 4), ("observer", 1), ("follower", 1), ("one", 1)],
)
def test_targets_by_size_and_role(tmp_path: Path, target: str, count: int) -> None:
    async def scenario(cluster: Cluster, _: EchoSystem) -> None:
        injection = await PAUSE.inject(fault(target), cluster)
        assert len(injection.targets) == count
        states = {n: cluster.environment.process(n).state for n in cluster.system.nodes}
        assert {n for n, state in states.items() if state == "T"} == set(injection.targets)
        if target == "observer":
            assert injection.targets == ("n4",)
        if target == "follower":
            assert "n1" not in injection.targets
        await PAUSE.heal(fault(target), injection, cluster)

    run(tmp_path, scenario, observers=1)


def test_without_a_leader_a_random_voter_stands_in_and_the_evidence_says_so(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: Cluster, system: EchoSystem) -> None:
        system.leads = None
        injection = await PAUSE.inject(fault("leader"), cluster)
        assert injection.outcome == "installed"
        assert injection.evidence[0]["leader"] is None
        assert "no leader was known" in injection.evidence[0]["note"]
        await PAUSE.heal(fault("leader"), injection, cluster)

    run(tmp_path, scenario)


def test_for_an_observer_where_there_is_none_a_voter_stands_in(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, _: EchoSystem) -> None:
        for nemesis in (KILL, PAUSE):
            injection = await nemesis.inject(fault("observer"), cluster)
            assert injection.outcome == "installed"
            assert "no node for target 'observer'" in injection.evidence[0]["note"]
            await nemesis.heal(fault("observer"), injection, cluster)

    run(tmp_path, scenario)


@pytest.mark.parametrize("nemesis", [KILL, PAUSE])
def test_whom_another_fault_has_ended_is_replaced_by_one_of_its_role_that_lives(
    nemesis: GuardedNemesis, tmp_path: Path
) -> None:
    async def scenario(cluster: Cluster, system: EchoSystem) -> None:
        system.leads = "n3"
        for target, standing_in in (("follower", {"n1", "n2"}), ("observer", {"n4", "n5"})):
            first = await KILL.inject(fault(target, 1), cluster)
            second = await nemesis.inject(fault(target, 2), cluster)
            assert second.outcome == "installed"
            assert set(first.targets) | set(second.targets) == standing_in, "and each has its own"
            assert f"instead of {first.targets[0]}" in second.evidence[0]["note"]
            await nemesis.heal(fault(target, 2), second, cluster)
            await KILL.heal(fault(target, 1), first, cluster)
        assert system.nodes == alive(cluster)

    run(tmp_path, scenario, observers=2)


def test_nobody_stands_in_for_a_leader_that_is_down_it_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: Cluster, system: EchoSystem) -> None:
        first = await KILL.inject(fault("leader", 1), cluster)
        monkeypatch.setattr(turns, "TURN_S", 10.0)
        waiting = asyncio.create_task(PAUSE.inject(fault("leader", 2), cluster))
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done
        system.leads = "n3"
        second = await waiting
        assert (second.outcome, second.targets) == ("installed", ("n3",))
        await PAUSE.heal(fault("leader", 2), second, cluster)
        await KILL.heal(fault("leader", 1), first, cluster)

    run(tmp_path, scenario)


def test_overlapping_kills_own_their_nodes(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, system: EchoSystem) -> None:
        first = await KILL.inject(fault("leader", 1), cluster)
        second = await KILL.inject(fault("leader", 2), cluster)
        assert (second.outcome, second.reason) == ("skipped", "down or frozen already: n1")
        third = await KILL.inject(fault("all", 3), cluster)
        assert third.targets == ("n2", "n3")
        await KILL.heal(fault("all", 3), third, cluster)
        assert cluster.environment.process("n1").state == "gone"
        await KILL.heal(fault("leader", 1), first, cluster)
        assert system.nodes == alive(cluster)

    run(tmp_path, scenario)


def test_two_kills_at_once_share_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, _: EchoSystem) -> None:
        both = await asyncio.gather(
            KILL.inject(fault("all", 1), cluster), KILL.inject(fault("all", 2), cluster)
        )
        assert sorted(i.outcome for i in both) == ["installed", "skipped"]

    run(tmp_path, scenario)


def test_a_frozen_node_is_no_fault_s_to_kill_and_one_that_died_needs_no_thaw(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: Cluster, system: EchoSystem) -> None:
        frozen = await PAUSE.inject(fault("leader", 1), cluster)
        killed = await KILL.inject(fault("leader", 2), cluster)
        assert (killed.outcome, killed.reason) == ("skipped", "down or frozen already: n1")
        await system.kill("n1")
        await system.start("n1")
        assert (await PAUSE.heal(fault("leader", 1), frozen, cluster))["thawed"] == []
        again = await PAUSE.inject(fault("leader", 3), cluster)
        assert again.outcome == "installed"
        await PAUSE.heal(fault("leader", 3), again, cluster)

    run(tmp_path, scenario)


def test_a_pause_that_does_not_take_hold_is_failed_with_the_evidence(tmp_path: Path) -> None:
    class Deaf(EchoSystem):
        async def pause(self, node: str) -> None: ...

    async def scenario(cluster: Cluster, system: EchoSystem) -> None:
        deaf = Deaf(environment_of(cluster), 3, 0)
        injection = await PAUSE.inject(fault("leader"), Cluster(deaf, cluster.environment))
        assert injection.outcome == "failed"
        assert "n1 is not frozen" in str(injection.reason)
        assert injection.undo is not None, "what took hold in part can be healed"
        assert (await PAUSE.heal(fault("leader"), injection, cluster))["thawed"] == []
        assert system.nodes == alive(cluster)

    run(tmp_path, scenario)


def test_a_node_that_does_not_survive_its_restart_is_evidence_not_a_crash(
    tmp_path: Path,
) -> None:
    class Broken(EchoSystem):
        async def start(self, node: str) -> None:
            raise NodeStartError(f"{node} says its log is corrupt")

    async def scenario(cluster: Cluster, _: EchoSystem) -> None:
        injection = await KILL.inject(fault("leader"), cluster)
        broken = Cluster(Broken(environment_of(cluster), 3, 0), cluster.environment)
        healed = await KILL.heal(fault("leader"), injection, broken)
        assert healed["failed_to_start"] == {"n1": "n1 says its log is corrupt"}
        assert not healed["nodes"][0]["answered"]

    run(tmp_path, scenario)


def test_a_node_that_answers_nobody_after_its_restart_is_evidence_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker of Kafka's listens only once it has a quorum, which may be gone for good."""
    monkeypatch.setattr(restarts, "_START_TIMEOUT_S", 0.05)

    class Mute(EchoSystem):
        async def start(self, node: str) -> None:  # noqa: ARG002 - which one does not matter
            await asyncio.Event().wait()

    async def scenario(cluster: Cluster, _: EchoSystem) -> None:
        injection = await KILL.inject(fault("leader"), cluster)
        mute = Cluster(Mute(environment_of(cluster), 3, 0), cluster.environment)
        healed = await KILL.heal(fault("leader"), injection, mute)
        assert healed["failed_to_start"] == {"n1": "n1 does not answer 0.05 s after its start"}

    run(tmp_path, scenario)


def test_a_limit_for_starts_is_below_that_of_a_heal() -> None:
    assert restarts._START_TIMEOUT_S + restarts._ANSWER_TIMEOUT_S < HEAL_TIMEOUT_S


def test_a_system_without_the_ability_is_told_why(tmp_path: Path) -> None:
    class Plain:
        name = "plain"
        nodes = voters = ("n1",)
        observers = ()

    async def scenario(cluster: Cluster, _: EchoSystem) -> None:
        plain: Any = Cluster(Plain(), cluster.environment)  # type: ignore[arg-type]
        assert KILL.available(plain) == "system 'plain' cannot kill and restart its nodes"
        assert PAUSE.available(plain) == "system 'plain' cannot freeze its nodes"
        assert KILL.available(cluster) is None
        assert PAUSE.available(cluster) is None
        for nemesis in (KILL, PAUSE):
            assert (await nemesis.inject(fault("one"), plain)).outcome == "skipped"
            with pytest.raises(HarnessError, match="left nothing for"):
                await nemesis.heal(fault("one"), Injection("installed"), cluster)

    run(tmp_path, scenario)


# --------------------------------------------------------------------------- helpers


def fault(target: str, number: int = 1, draw: float = 0.5) -> Fault:
    return Fault(number, "kill", 0, 1000, {"target": target}, draw)


def alive(cluster: Cluster) -> tuple[str, ...]:
    nodes = cluster.system.nodes
    return tuple(n for n in nodes if cluster.environment.process(n).state in "RSD")


def run(
    folder: Path,
    scenario: Callable[[Cluster, EchoSystem], Awaitable[None]],
    *,
    observers: int = 0,
) -> None:
    async def main() -> None:
        async with echo_cluster(folder, observers=observers) as cluster:
            assert isinstance(cluster.system, EchoSystem)
            await scenario(cluster, cluster.system)

    asyncio.run(main())
