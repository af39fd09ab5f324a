"""Static voters become voters in the log: kraft.version 0 to 1, by Kafka's feature tool.

Ours alone, and with Kafka's controllers, whichever kind leads. Source: KIP-853, KAFKA-16538.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, count

import pytest

from harness.systems.kafka.distribution import KafkaDist
from node.core.messages import KRaftVersion, Voters
from node.core.types import KRAFT_VERSIONS, Listener, ReplicaKey, Voter, VoterSet
from node.log.layout import uuid_from_text
from tests.support.cases import cases
from tests.support.kafka.cluster import Member, Quorum
from tests.support.kafka.quorum_files import faults, read_snapshot
from tests.support.kafka.quorum_view import described, voters
from tests.support.kafka.quorum_writes import remove_voter
from tests.support.kafka.quorums import static_quorum
from tests.support.kafka.tools import FEATURES, KafkaTools

pytestmark = [pytest.mark.interop, pytest.mark.slow]

OURS = dict.fromkeys((1, 2, 3), "ours")
MIX = {1: "kafka", 2: "ours", 3: "kafka"}
QUORUMS = {"ours": (OURS, 1), "mixed-led-by-kafka": (MIX, 1), "mixed-led-by-ours": (MIX, 2)}
OFTEN = {"metadata_log_max_record_bytes_between_snapshots": "4000"}
VALUES = map(str, count(1_000))


@pytest.fixture(scope="module", params=cases(QUORUMS, long=["mixed-led-by-kafka"]))
def upgraded(
    request: pytest.FixtureRequest,
    kafka: KafkaDist,
    tools: KafkaTools,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Quorum]:
    """A running quorum whose leader, of the kind that is asked for, has raised the level."""
    kinds, leader = request.param
    with static_quorum(kafka, tmp_path_factory.mktemp("upgrade"), kinds, **OFTEN) as quorum:
        quorum.start_all()
        quorum.make_leader(leader)
        quorum.write(next(VALUES))
        await_registered(quorum, tools)
        refused = upgrade(quorum, tools, 2, succeeds=False)
        assert "kraft.version" in refused
        quorum.wait_for(
            lambda: "was upgraded to 1" in upgrade(quorum, tools, 1, succeeds=None),
            "all voters have told the leader that they support it",
        )
        assert quorum.await_leader().leader_id == leader, "it was to stay the leader"
        yield quorum


def upgrade(quorum: Quorum, tools: KafkaTools, level: int, *, succeeds: bool | None) -> str:
    """What the feature tool says; it names the voters that have not told the leader yet."""
    where = ("--bootstrap-controller", quorum.addresses)
    feature = ("--feature", f"kraft.version={level}")
    return tools.run(FEATURES, *where, "upgrade", *feature, succeeds=succeeds)


def await_registered(quorum: Quorum, tools: KafkaTools) -> None:
    """Wait until the cluster knows what all its controllers support."""
    where = ("--bootstrap-controller", quorum.addresses)
    feature = ("--feature", "kraft.version=0")
    quorum.wait_for(
        lambda: (
            "not registered" not in tools.run(FEATURES, *where, "upgrade", *feature, succeeds=None)
        ),
        "all controllers have registered",
    )


def test_the_voters_of_the_log_are_the_configured_ones_as_they_are(upgraded: Quorum) -> None:
    expected = VoterSet.of(
        *(
            Voter(
                ReplicaKey(m.node_id, uuid_from_text(m.directory_id)),
                m.endpoint,
                (Listener("CONTROLLER", m.endpoint),),
                KRAFT_VERSIONS,
            )
            for m in upgraded
        )
    )
    upgraded.await_replicated()
    for member in upgraded:
        (controls,) = [b.controls for b in member.batches() if KRaftVersion(1) in b.controls]
        assert controls == (KRaftVersion(1), Voters(expected))
    keys = {voter.key for voter in described(upgraded).voters}
    assert keys == {voter.key for voter in expected}


def test_to_raise_it_again_changes_nothing_and_it_cannot_be_lowered(
    upgraded: Quorum, tools: KafkaTools
) -> None:
    upgrade(upgraded, tools, 1, succeeds=True)
    where = ("--bootstrap-controller", upgraded.addresses)
    lower = ("downgrade", "--feature", "kraft.version=0")
    assert "downgrade" in tools.run(FEATURES, *where, *lower, succeeds=False)
    told = tools.run(FEATURES, *where, "describe")
    (line,) = [x for x in told.splitlines() if x.startswith("Feature: kraft.version")]
    assert "FinalizedVersionLevel: 1\t" in line


@pytest.mark.parametrize("leader", [1, 2])
def test_all_come_back_from_it_and_lead(upgraded: Quorum, leader: int) -> None:
    for member in upgraded:
        member.kill()
    upgraded.start_all()
    upgraded.make_leader(leader)
    upgraded.start_all()
    upgraded.write(next(VALUES))
    upgraded.await_replicated()


def test_voters_can_be_removed_and_added_from_now_on(upgraded: Quorum, tools: KafkaTools) -> None:
    for node_id in upgraded.members:
        remove_voter(upgraded, tools, node_id)
        assert voters(upgraded) == set(upgraded.members) - {node_id}
        upgraded.write(next(VALUES))
        upgraded.wait_for(
            lambda: node_id in {each.key.id for each in described(upgraded).observers},  # noqa: B023
            f"{node_id} observes",
        )
        tools.add_controller(upgraded.addresses, upgraded[node_id].config)
    assert voters(upgraded) == set(upgraded.members)


def test_snapshots_hold_it(upgraded: Quorum) -> None:
    upgraded.start_all()
    for member in upgraded:

        def told(member: Member = member) -> bool:
            upgraded.write(next(VALUES))
            made = [read_snapshot(path) for path in member.snapshots[-1:]]
            return any(
                snapshot.kraft_version == 1
                and snapshot.voters is not None
                and snapshot.voters.ids == tuple(upgraded.members)
                for snapshot in made
            )

        upgraded.wait_for(told, f"{member.node_id} takes a snapshot since all are voters again")


def test_the_logs_agree_and_nobody_has_found_a_fault(upgraded: Quorum) -> None:
    upgraded.start_all()
    upgraded.write(next(VALUES))
    committed = upgraded.await_replicated()
    for member in upgraded.live:
        member.stop()
    batches = [m.batches() for m in upgraded]
    start = max(log[0].base_offset for log in batches)  # logs are cleaned up to a snapshot
    assert start <= committed
    logs = [[b.data for b in log if start <= b.base_offset <= committed] for log in batches]
    for one, other in combinations(logs, 2):
        assert one == other
    assert {m.node_id: faults(m) for m in upgraded} == {1: [], 2: [], 3: []}
