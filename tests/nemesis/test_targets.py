"""Whom a fault hits: by role and size, of those that can be hit, the same for the same draw."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contracts.environment import ProcessState
from harness.contracts.nemesis import Cluster, Fault
from harness.contracts.system import Role
from harness.spec import SIM
from nemesis import disk_damage
from nemesis.common import claims, turns
from nemesis.common.hosts import DISK, PROCESS
from nemesis.common.targets import WEIGHTS, Choice, alive_and_free, choose, choose_or_one
from nemesis.disk_damage import DiskDamage
from tests.support.simulated.virtual_time import run_virtual

NODES = ("n1", "n2", "n3", "n4", "n5", "n6", "n7")
VOTERS, OBSERVERS = NODES[:5], NODES[5:]
SIZES = {"one": 1, "leader": 1, "follower": 1, "observer": 1, "minority": 2, "majority": 3}


@dataclass(frozen=True, slots=True)
class Led:
    """A system of which nothing is known but who is in it and who leads."""

    leads: str | None
    name: str = "led"
    nodes: tuple[str, ...] = NODES
    voters: tuple[str, ...] = VOTERS
    observers: tuple[str, ...] = OBSERVERS

    async def leader(self) -> str | None:
        return self.leads

    def roles(self) -> Mapping[str, Role]:
        return {}


def pick(target: str, seed: int, leads: str | None, living: frozenset[str] | None) -> Choice:
    cluster = Cluster(cast("Any", Led(leads)), cast("Any", None))
    fits = None if living is None else living.__contains__
    return asyncio.run(choose(target, Random(seed), cluster, fits))


@given(
    target=st.sampled_from(sorted(WEIGHTS)),
    seed=st.integers(0, 50),
    leads=st.sampled_from([None, *VOTERS]),
    living=st.frozensets(st.sampled_from(NODES)),
)
def test_one_that_can_be_hit_is_taken_where_there_is_one_of_its_role(
    target: str, seed: int, leads: str | None, living: frozenset[str]
) -> None:
    drawn, chosen = pick(target, seed, leads, None), pick(target, seed, leads, living)
    assert chosen == pick(target, seed, leads, living), "the same again"
    role = OBSERVERS if target == "observer" else NODES if target == "all" else VOTERS
    assert set(chosen.nodes) <= set(role)
    if target == "follower" and leads is not None:
        assert leads not in chosen.nodes
    if chosen.nodes == (leads,) and target == "leader":
        assert chosen.note is None, "nobody stands in for it"
    elif living & set(drawn.nodes):
        assert chosen == drawn, "what is down already counts as part of it"
    elif chosen.nodes != drawn.nodes:
        assert set(chosen.nodes) <= living
        assert len(chosen.nodes) <= SIZES[target]
        assert "cannot be hit now" in str(chosen.note)
    else:
        hittable = living & set(role) - ({leads} if target == "follower" else set())
        assert not hittable


@pytest.mark.parametrize("target", sorted(SIZES))
def test_among_the_living_each_has_its_size(target: str) -> None:
    chosen = pick(target, 1, "n1", frozenset(NODES))
    assert len(chosen.nodes) == SIZES[target]
    assert chosen.note is None


def test_without_observers_the_voter_that_stands_in_is_one_that_can_be_hit() -> None:
    cluster = Cluster(cast("Any", Led("n1", observers=())), cast("Any", None))
    for seed in range(8):
        choice = asyncio.run(choose_or_one("observer", Random(seed), cluster, {"n4"}.__contains__))
        assert choice.nodes == ("n4",)


class Patient(DiskDamage):
    """Damage that never finds enough copies of what it would damage."""

    def available(self, cluster: Cluster) -> None:
        del cluster

    async def is_spare(self, fault: Fault, node: str, cluster: Cluster) -> bool:
        del fault, node, cluster
        return False


@pytest.mark.parametrize(("environment", "taken"), [("local", ("n1", "n3", "n4")), (SIM, ("n1",))])
def test_while_damage_waits_for_copies_no_other_fault_takes_them_away(
    environment: str, taken: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where time is real: in the simulator the next seed makes up for it.

    One that is down is left to the fault that will start it.
    """
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    monkeypatch.setattr(disk_damage, "_COPIED_S", 0.2)

    async def main() -> None:
        cluster = cast("Cluster", SimpleNamespace(system=Killable("n1"), environment=Hosts()))
        claims.claim(cluster, 7, [(PROCESS, "n2")])  # another one's, which stays its own
        fault = Fault(1, "disk-lost-tail", 0, 1, {"target": "leader"})
        waiting = asyncio.create_task(Patient().inject(fault, cluster))
        await asyncio.sleep(0.1)  # of the seconds that it waits
        held = [v for v in VOTERS if not claims.is_free(cluster, 2, (PROCESS, v))]
        assert held == sorted({*taken, "n2"})
        assert not claims.is_free(cluster, 1, (PROCESS, "n2"))
        injection = await waiting
        assert injection.reason == "the other voters that have all records of n1 are no majority"
        free = [v for v in VOTERS if claims.is_free(cluster, 2, (PROCESS, v))]
        assert free == ["n1", "n3", "n4", "n5"]

    monkeypatch.setattr(Hosts, "STATES", {"n5": "gone"})
    monkeypatch.setattr(Hosts, "name", environment)
    run_virtual(main())


class Killable(Led):
    """Which is never killed here."""

    async def kill(self, node: str) -> None:
        raise AssertionError(node)

    async def start(self, node: str) -> None:
        raise AssertionError(node)


class Hosts:
    """Processes of which some are gone or frozen."""

    name = "hosts"
    STATES: ClassVar[dict[str, str]] = {"n1": "gone", "n2": "T", "n3": "Z"}

    def process(self, node: str) -> ProcessState:
        return ProcessState(1, self.STATES.get(node, "S"))


def test_who_is_down_frozen_or_another_fault_s_cannot_be_hit() -> None:
    cluster = cast("Cluster", SimpleNamespace(system=Led("n1"), environment=Hosts()))
    claims.claim(cluster, 1, [(PROCESS, "n4"), (DISK, "n5")])
    ours, others = Fault(1, "kill", 0, 1), Fault(2, "kill", 0, 1)
    assert hit(others, cluster, PROCESS) == ["n5", "n6", "n7"]
    assert hit(others, cluster, PROCESS, DISK) == ["n6", "n7"]
    assert hit(ours, cluster, PROCESS, DISK) == ["n4", "n5", "n6", "n7"]


def hit(fault: Fault, cluster: Cluster, *kinds: str) -> list[str]:
    return list(filter(alive_and_free(fault, cluster, *kinds), NODES))
