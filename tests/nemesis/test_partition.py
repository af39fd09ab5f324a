"""Partitions: their shapes as graphs, and really cut links over real processes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError
from harness.faults.choice import select
from harness.run.guard import GuardedNemesis
from nemesis.common import grudges
from nemesis.common.grudges import grudge, kept
from tests.support.live.cluster import EchoSystem, echo_cluster, environment_of

PARTITIONS = {name: GuardedNemesis(name, nemesis) for name, nemesis in select(["partition"])}
NODES = ("n1", "n2", "n3", "n4")


# ---- shapes


def test_isolate_cuts_one_node_both_ways() -> None:
    assert grudge(grudges.isolate(NODES, "n2")) == both_ways("n2", "n1", "n3", "n4")


def test_components_cut_everything_between_groups() -> None:
    graph = grudges.components([["n1"], ["n2", "n3"]])
    assert grudge(graph) == both_ways("n1", "n2", "n3")
    assert kept(graph) == {("n2", "n3"), ("n3", "n2")}


def test_a_bridge_hears_both_sides_that_do_not_hear_each_other() -> None:
    graph = grudges.bridge(["n1"], "n2", ["n3", "n4"])
    assert grudge(graph) == both_ways("n1", "n3", "n4")


def test_deaf_and_mute_are_one_way() -> None:
    assert grudge(grudges.deaf(NODES, "n1")) == {(n, "n1") for n in NODES[1:]}
    assert grudge(grudges.mute(NODES, "n1")) == {("n1", n) for n in NODES[1:]}
    assert not any("n1" in link for link in kept(grudges.mute(NODES, "n1")))


def test_a_complete_graph_has_no_grudge() -> None:
    assert grudge(grudges.complete(NODES)) == frozenset()


@given(
    st.sampled_from(sorted(PARTITIONS)),
    st.integers(3, 7),
    st.integers(0, 3),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 2**32),
)
def test_every_plan_is_a_true_partition_and_the_same_for_the_same_draw(
    name: str, voters: int, observers: int, draw: float, seed: int
) -> None:
    nemesis = dict(select(["partition"]))[name]
    system = PaperSystem(voters, observers)
    cluster: Any = Cluster(system, None)  # type: ignore[arg-type]
    fault = Fault(1, name, 0, 1, nemesis.params(Random(seed)), draw)
    plans = [
        asyncio.run(nemesis.plan(fault, Random(repr(draw)), cluster))  # type: ignore[attr-defined]
        for _ in range(2)
    ]
    if isinstance(plans[0], str):
        assert (fault.params["target"], observers) == ("observer", 0)
        return
    links = [grudge(plan.graph) for plan in plans]
    assert links[0] == links[1]
    assert links[0]
    assert set(plans[0].graph.nodes) == set(system.nodes)
    assert set(itertools.chain(*links[0])) <= set(system.nodes)


@pytest.mark.parametrize(
    ("voters", "side"), [*itertools.product([3, 4, 5, 7], ["majority", "minority"])]
)
def test_halves_put_the_leader_where_the_params_say(voters: int, side: str) -> None:
    nemesis = dict(select(["partition-halves"]))["partition-halves"]
    cluster: Any = Cluster(PaperSystem(voters, 2), None)  # type: ignore[arg-type]
    for draw in range(20):
        fault = Fault(1, "partition-halves", 0, 1, {"leader": side}, draw / 20)
        plan = asyncio.run(nemesis.plan(fault, Random(draw), cluster))  # type: ignore[attr-defined]
        majority = plan.how["sides"][1]
        quorum = [n for n in majority if n in cluster.system.voters]
        assert len(quorum) > voters / 2
        assert ("n1" in quorum) is (side == "majority")


# ---- on real processes


@pytest.mark.parametrize("name", sorted(PARTITIONS))
def test_each_takes_hold_and_heals_with_evidence(tmp_path: Path, name: str) -> None:
    nemesis = PARTITIONS[name]

    async def scenario(cluster: Cluster, _: EchoSystem) -> None:
        assert nemesis.available(cluster) is None
        fault = Fault(1, name, 0, 1000, nemesis.params(Random(3)), 0.25)
        injection = await nemesis.inject(fault, cluster)
        assert injection.outcome == "installed", injection
        seen = {kind: [e for e in injection.evidence if e["saw"] == kind] for kind in
                ("grudge", "cut link", "kept link")}  # fmt: skip
        assert seen["grudge"][0]["cut_links"] == len(cluster.environment.net.cuts())
        assert seen["cut link"]
        assert not any(e["passed"] for e in seen["cut link"])
        assert seen["kept link"]
        assert all(e["passed"] for e in seen["kept link"])

        healed = await nemesis.heal(fault, injection, cluster)
        assert cluster.environment.net.cuts() == frozenset()
        assert healed["probes"]
        assert all(p["passed"] for p in healed["probes"])
        assert healed["held_bytes"] > 0, "the probes' own requests were held"

    run(tmp_path, scenario, observers=1)


def test_overlapping_partitions_do_not_heal_each_other(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, _: EchoSystem) -> None:
        nemesis, net = PARTITIONS["partition-isolate-leader"], cluster.environment.net
        one, two = (Fault(i, "partition-isolate-leader", 0, 1000) for i in (1, 2))
        first = await nemesis.inject(one, cluster)
        second = await nemesis.inject(two, cluster)
        cut = net.cuts()
        healed = await nemesis.heal(one, first, cluster)
        assert (healed["healed_links"], healed["still_cut_by_others"]) == (0, len(cut))
        assert net.cuts() == cut
        again = await nemesis.heal(one, first, cluster)
        assert again["healed_links"] == 0, "healing twice does not let go of another's claim"
        assert (await nemesis.heal(two, second, cluster))["healed_links"] == len(cut)
        assert net.cuts() == frozenset()

    run(tmp_path, scenario)


def test_a_cut_that_lets_data_through_is_failed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, _: EchoSystem) -> None:
        relay = environment_of(cluster)._relay

        async def no_cut(links: object) -> None: ...

        relay.cut = no_cut  # type: ignore[method-assign]
        nemesis = PARTITIONS["partition-isolate-leader"]
        fault = Fault(1, "partition-isolate-leader", 0, 1000)
        injection = await nemesis.inject(fault, cluster)
        assert injection.outcome == "failed"
        assert "data still passes over cut links: n" in str(injection.reason)
        assert (await nemesis.heal(fault, injection, cluster))["healed_links"] == 4

    run(tmp_path, scenario)


def test_dead_nodes_do_not_count_as_proof_of_a_cut(tmp_path: Path) -> None:
    """Probes go to nodes that could answer as long as there are any."""

    async def scenario(cluster: Cluster, system: EchoSystem) -> None:
        await system.kill("n2")
        nemesis = PARTITIONS["partition-isolate-leader"]
        injection = await nemesis.inject(Fault(1, "p", 0, 1000), cluster)
        probed = [e["destination"] for e in injection.evidence if e["saw"] == "cut link"]
        assert [d for d in probed if d == "n2"] == [] or probed[-1] == "n2"
        healed = await nemesis.heal(Fault(1, "p", 0, 1000), injection, cluster)
        assert all(p["passed"] for p in healed["probes"]), "nor does the heal wait for them"

    run(tmp_path, scenario)


def test_a_system_that_does_not_run_in_the_environment_has_no_links(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, _: EchoSystem) -> None:
        cluster = Cluster(PaperSystem(5, 0), cluster.environment)  # type: ignore[arg-type]
        for nemesis in PARTITIONS.values():
            reason = str(nemesis.available(cluster))
            assert reason.startswith("system 'paper' does not run in the environment: no node")
            skipped = await nemesis.inject(Fault(1, "p", 0, 1, {"target": "one"}), cluster)
            assert (skipped.outcome, skipped.reason) == ("skipped", reason)

    run(tmp_path, scenario)


def test_too_few_nodes_or_no_roles_is_a_reason() -> None:
    class NoRoles:
        name = "plain"
        nodes = voters = ("n1", "n2")
        observers = ()

    cluster: Any = Cluster(NoRoles(), None)  # type: ignore[arg-type]
    assert PARTITIONS["partition-halves"].available(cluster) == "needs 3 nodes, there is 2"
    assert "cannot say who leads" in str(PARTITIONS["partition-isolate-leader"].available(cluster))
    with pytest.raises(HarnessError, match="left no partition to heal"):
        asyncio.run(
            PARTITIONS["partition-one-way"].heal(
                Fault(1, "p", 0, 1), Injection("installed"), cluster
            )
        )


# --------------------------------------------------------------------------- helpers


class PaperSystem:
    """Names only; ``n1`` leads."""

    name = "paper"

    def __init__(self, voters: int, observers: int) -> None:
        self.nodes = tuple(f"n{i}" for i in range(1, voters + observers + 1))
        self.voters, self.observers = self.nodes[:voters], self.nodes[voters:]

    async def leader(self) -> str | None:
        return "n1"

    def roles(self) -> dict[str, str]:
        return {}


def both_ways(node: str, *others: str) -> set[tuple[str, str]]:
    return {pair for other in others for pair in ((node, other), (other, node))}


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
