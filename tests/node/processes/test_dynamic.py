"""Dynamic quorums of real processes: elections, changes of the voters, a lost disk (KIP-853)."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from uuid import UUID

import pytest

from node.core.messages import Error
from node.core.types import ReplicaKey
from node.driver.membership import supported_features
from node.formatting import Quorum
from node.metadata.schemas import RegisterControllerRecord
from tests.support.live.cluster import eventually
from tests.support.nodes.cluster import ClusterNode, in_loop, node_cluster

pytestmark = pytest.mark.slow


@in_loop
async def test_initial_controllers_elect_commit_and_survive_the_death_of_a_leader(
    tmp_path: Path,
) -> None:
    async with node_cluster(tmp_path, 3, krucible_brokers="7", read_barrier="true") as cluster:
        cluster.format_initial()
        await cluster.start()
        first, view = await cluster.view(lambda _: True, "there is a leader")
        assert {voter.key for voter in view.voters} == {n.key for n in cluster.nodes.values()}
        assert view.observers == ()
        await cluster.create("before")

        await first.kill()
        left = [i for i in cluster.nodes if i != first.id]
        second, later = await cluster.view(lambda _: True, "there is another leader", left)
        assert later.epoch > view.epoch
        assert {voter.key for voter in later.voters} == {n.key for n in cluster.nodes.values()}
        await cluster.create("after")
        assert set(await second.topics()) == {"before", "after"}

        await first.start()
        end = second.kinds("apply")[-1]["off"]
        await cluster.applied(first, end)
        assert cluster.assert_same_images() > 0


@in_loop
async def test_controllers_register_each_incarnation_once(tmp_path: Path) -> None:
    """KIP-919: a RegisterController record per process, in the log and so in every image.

    A request whose answer is lost may have been carried out, and is sent again, as Kafka's
    ControllerRegistrationManager does: so many more records there may be, and no more.
    """
    async with node_cluster(tmp_path, 3) as cluster:
        cluster.format_initial()
        await cluster.start()
        leader = await cluster.leader()
        await eventually(lambda: {1, 2, 3} <= incarnations(leader).keys(), "all are registered")
        for record in registrations(leader):
            (endpoint,) = record.end_points
            assert endpoint.name == "CONTROLLER"
            assert endpoint.port == cluster.nodes[record.controller_id].endpoint.port
            # All of them: levels are changed only if every controller supports the new one.
            assert set(record.features) == set(supported_features())
        end = leader.kinds("append")[-1]["last"] + 1
        for node in cluster.nodes.values():  # whose image knows it does not register any more;
            await cluster.applied(node, end)  # a record that only the leader has dies with it
        before = incarnations(leader)
        assert {id_: len(processes) for id_, processes in before.items()} == {1: 1, 2: 1, 3: 1}

        await leader.kill()
        second = await cluster.leader([id_ for id_ in cluster.nodes if id_ != leader.id])
        await leader.start()
        await eventually(
            lambda: incarnations(second).get(leader.id, {}).keys() > before[leader.id].keys(),
            "the new process is registered",
        )
        after = incarnations(second)
        assert {id_: len(processes) for id_, processes in after.items()} == {
            **dict.fromkeys(cluster.nodes, 1),
            leader.id: 2,
        }
        for id_, processes in after.items():
            lost = cluster.nodes[id_].log.count("is not registered yet")
            assert sum(processes.values()) <= len(processes) + lost, cluster.nodes[id_].log
        assert "was refused" not in "".join(n.log for n in cluster.nodes.values())


def registrations(node: ClusterNode) -> list[RegisterControllerRecord]:
    """Those in the log."""
    return [r for r in node.records() if isinstance(r, RegisterControllerRecord)]


def incarnations(node: ClusterNode) -> dict[int, Counter[UUID | None]]:
    """By controller: its processes, and how often each is registered in the node's log."""
    found: dict[int, Counter[UUID | None]] = defaultdict(Counter)
    for record in registrations(node):
        found[record.controller_id][record.incarnation_id] += 1
    return dict(found)


@in_loop
async def test_a_standalone_voter_grows_to_a_quorum_and_its_leader_is_removed(
    tmp_path: Path,
) -> None:
    async with node_cluster(tmp_path, 3, krucible_brokers="7") as cluster:
        one, two, three = cluster.controllers.values()
        one.format(Quorum(standalone=True))
        for node in (two, three):
            node.format(Quorum(no_initial_controllers=True))
        await cluster.start()
        _, alone = await cluster.view(
            lambda v: {r.key for r in v.observers} == {two.key, three.key}, "both are observers"
        )
        assert [voter.key for voter in alone.voters] == [one.key]

        # the refusals, then the real thing
        assert (await cluster.add_voter(one)).error is Error.DUPLICATE_VOTER
        assert (await cluster.remove_voter(two.key)).error is Error.VOTER_NOT_FOUND
        for node in (two, three):
            answer = await cluster.add_voter(node)
            assert answer.error is Error.NONE, answer
        _, grown = await cluster.view(lambda v: len(v.voters) == 3, "three voters")
        assert {voter.key for voter in grown.voters} == {one.key, two.key, three.key}
        assert (await cluster.add_voter(two)).error is Error.DUPLICATE_VOTER
        stranger = ReplicaKey(two.id, three.directory_id)
        assert (await cluster.remove_voter(stranger)).error is Error.VOTER_NOT_FOUND
        await cluster.create("a")

        assert (await cluster.remove_voter(one.key, through=one)).error is Error.NONE
        _, shrunk = await cluster.view(
            lambda v: {r.key for r in v.observers} == {one.key}, "the removed one observes", [2, 3]
        )
        assert {voter.key for voter in shrunk.voters} == {two.key, three.key}
        await cluster.create("b")
        end = (await cluster.leader()).kinds("apply")[-1]["off"]
        for node in cluster.nodes.values():
            await cluster.applied(node, end)
        assert cluster.assert_same_images() > 0


@in_loop
async def test_a_lost_disk_is_never_counted_until_it_is_added_anew(tmp_path: Path) -> None:
    """The new disk does not know whom the old one has voted for; as an observer it never votes."""
    async with node_cluster(tmp_path, 3, krucible_brokers="7") as cluster:
        cluster.format_initial()
        await cluster.start()
        leader = await cluster.leader()
        lost, other = [n for n in cluster.controllers.values() if n is not leader]
        old = lost.key
        await lost.kill()
        lost.lose_disk()
        assert lost.key != old
        await lost.start()
        leader, view = await cluster.view(
            lambda v: {r.key for r in v.observers} == {lost.key}, "the new disk observes"
        )
        assert {voter.key for voter in view.voters} == {old, leader.key, other.key}
        await cluster.create("two-of-three")

        # with another voter gone nothing commits, whatever the new disk has fetched
        await other.kill()
        high_watermark = (await leader.describe() or view).high_watermark
        row = await leader.create("one-of-three") if await leader.describe() else None
        assert row is None or row.error_code != 0
        await other.start()

        leader = await cluster.leader()
        assert (await cluster.remove_voter(old)).error is Error.NONE
        assert (await cluster.add_voter(lost)).error is Error.NONE
        _, whole = await cluster.view(lambda v: len(v.voters) == 3, "three voters again")
        assert {voter.key for voter in whole.voters} == {n.key for n in cluster.nodes.values()}
        assert whole.high_watermark is not None
        assert high_watermark is not None
        assert whole.high_watermark > high_watermark

        await other.kill()  # now it counts
        await cluster.create("with-the-new-disk")
        grants = [e for e in lost.kinds("vote") if e["dir"] == lost.directory_id.hex and e["ok"]]
        added = next(
            e["ts"] for e in lost.kinds("append") if e["ctl"] and e["last"] > high_watermark
        )
        assert all(e["pre"] or e["ts"] > added for e in grants)
