"""The kraft system: start, recovery and teardown, logs read from disk, looks that are not stale."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.contracts.abilities import Kill, Pause, Registers, Roles, Topics
from harness.contracts.clients import Outcome
from harness.contracts.environment import ProcessState
from harness.envs.local.plugin import Local
from harness.errors import EnvError, NodeStartError
from harness.healing.journal import Journal
from harness.kafka.quorum import Fetcher, QuorumView, ask
from harness.registry import mutants_of
from harness.spec import RunSpec
from harness.store.folder import RunDir, Store
from harness.systems.kafka.plugin import Kafka
from harness.systems.kraft.plugin import LEVELS, OF_STATIC, Kraft, ranges
from harness.systems.nodes.levels import METADATA_SETTING
from harness.systems.nodes.processes import KraftNodes
from harness.systems.nodes.stored_log import UNREADABLE, read_log
from node.log.layout import partition_dir, segment_name
from node.metadata.features import LATEST_METADATA_VERSION, level_of
from node.wire.api import ApiKey
from tests.support.live.fake_kafka import FakeNode, drop, fake_cluster, hang
from tests.support.nodes.batches import batch

SPEC = RunSpec(seed=1, voters=3, observers=1)


# --------------------------------------------------------------------------- recovered or not


def view(**nodes: tuple[int | None, int | None]) -> QuorumView:
    """A view of leader 1 at high watermark 100; nodes by ``n<id>=(log end, last fetch)``."""
    return QuorumView(5, 1, 100, {int(n[1:]): Fetcher(*f) for n, f in nodes.items()})


@pytest.mark.parametrize(
    ("seen", "since_ms", "caught_up"),
    [
        (view(n1=(120, 50), n2=(100, 40)), None, True),
        (view(n1=(120, 50), n2=(99, 40)), None, False),
        (view(n1=(120, 50), n2=(None, None)), None, False),
        (view(n1=(120, 50)), None, False),
        (view(n1=(120, 50), n2=(100, 40)), 40, False),
        (view(n1=(120, 50), n2=(100, 41)), 40, True),
        (view(n1=(120, 40), n2=(100, 41)), 40, True),
        (view(n1=(120, 50), n2=(100, None)), 40, False),
        (QuorumView(5, 1, None, {1: Fetcher(1, 1), 2: Fetcher(1, 1)}), None, False),
    ],
)
def test_caught_up_is_all_that_was_committed_and_fetched_since(
    seen: QuorumView, since_ms: int | None, caught_up: bool
) -> None:
    assert seen.all_caught_up({1, 2}, since_ms=since_ms) is caught_up


@pytest.mark.parametrize("answer", [hang, drop, lambda request: request.reply(b"\xff" * 9)])
def test_a_controller_that_does_not_answer_has_no_view(answer: Any) -> None:
    async def main() -> None:
        node = FakeNode(1)
        node.answers(ApiKey.DESCRIBE_QUORUM, answer)
        async with fake_cluster(node, down=1) as cluster:
            for name in ("n1", "n2"):
                address = cluster.addresses[name]
                assert await ask(address, cluster.network, timeout_s=0.2) is None

    asyncio.run(main())


# --------------------------------------------------------------------------- logs on disk


def write_log(folder: Path, *segments: tuple[int, bytes]) -> Path:
    partition = partition_dir(folder)
    partition.mkdir(parents=True)
    for base, data in segments:
        (partition / segment_name(base)).write_bytes(data)
    (partition / "leader-epoch-checkpoint").write_text("no segment")
    return folder


def test_a_log_is_read_up_to_what_is_torn(tmp_path: Path) -> None:
    first, second, third = (batch(n, b"junk").data for n in (0, 1, 2))
    folder = write_log(tmp_path, (0, first), (1, second + third[:-3]))
    assert [found.base for found in read_log(folder)] == [0, 1]


def test_a_record_that_cannot_be_read_is_told_and_hides_no_other(tmp_path: Path) -> None:
    folder = write_log(tmp_path, (0, batch(0, b"junk", b"more").data + batch(2, b"x").data))
    log = read_log(folder)
    assert [len(found.records) for found in log] == [2, 1]
    for found in log:
        for record in found.records:
            assert record["type"] == UNREADABLE
            assert record["fields"]["error"]


def test_a_node_that_never_wrote_has_an_empty_log(tmp_path: Path) -> None:
    assert read_log(tmp_path / "nowhere") == []


# --------------------------------------------------------------------------- with a fake host


class FakeHost:
    """An environment whose processes are what the test says."""

    def __init__(self, state: str = "S", *, ends_on_signal: bool = False) -> None:
        self.state = state
        self.ends_on_signal = ends_on_signal
        self.signals: list[tuple[str, int]] = []

    def process(self, _: str) -> ProcessState:
        return ProcessState(None if self.state == "gone" else 7, self.state, "exit code 9")

    async def signal(self, node: str, number: int) -> None:
        if self.state == "gone":
            raise EnvError(f"cannot signal {node}: it ended")
        self.signals.append((node, number))
        if self.ends_on_signal or number == 9:
            self.state = "gone"
            if number != 9:
                raise EnvError(f"cannot signal {node}: it ended")

    def log_file(self, node: str) -> Path:
        return Path(f"logs/{node}.log")


def kraft_on(host: FakeHost, nodes: Sequence[str] = ("n1",)) -> Kraft:
    system = Kraft(SPEC, cast("Any", host), cast("Any", None))
    system._node.update(dict.fromkeys(nodes, cast("Any", None)))
    return system


def test_a_node_that_ends_just_before_it_is_told_to_is_no_failure() -> None:
    host = FakeHost(ends_on_signal=True)
    asyncio.run(kraft_on(host).teardown())
    assert host.signals == [("n1", 18)]


def test_a_node_that_will_not_go_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.systems.nodes.processes.STOP_TIMEOUT_S", 0.1)
    host = FakeHost()
    asyncio.run(kraft_on(host).teardown())
    assert [number for _, number in host.signals] == [18, 15, 9]


def test_teardown_before_setup_touches_nothing() -> None:
    host = FakeHost()
    asyncio.run(kraft_on(host, ()).teardown())
    assert host.signals == []


def test_a_cluster_with_a_dead_node_has_not_recovered() -> None:
    assert asyncio.run(kraft_on(FakeHost("gone")).await_recovery(30.0)) is False


@pytest.mark.parametrize(
    ("system", "marks", "settings", "recovered"),
    [
        (Kafka, (100, 100, 101), {}, True),
        (Kafka, (100, 100, 100), {}, False),
        (Kafka, (100, 100, 100), {"metadata.max.idle.interval.ms": "0"}, True),
        (Kraft, (100, 100, 100), {}, True),  # its checkers see that for themselves
    ],
)
def test_a_kafka_that_leads_and_commits_nothing_has_not_recovered(
    monkeypatch: pytest.MonkeyPatch,
    system: type[KraftNodes],
    marks: Sequence[int],
    settings: dict[str, str],
    recovered: bool,
) -> None:
    """A linger that a clock which went back made endless: all fetch, and there is nothing new."""
    looks = [
        QuorumView(5, 1, mark, {n: Fetcher(mark, 50 + at) for n in (1, 2, 3, 4)})
        for at, mark in enumerate(marks)
    ]
    kafka = system(replace(SPEC, settings=settings), cast("Any", FakeHost()), cast("Any", None))
    number = SimpleNamespace(id=1)
    kafka._node.update(dict.fromkeys(kafka.nodes, cast("Any", number)))

    async def look(*, timeout_s: float) -> QuorumView:
        assert timeout_s > 0
        return looks.pop(0) if len(looks) > 1 else looks[0]

    async def shown(_kafka: Kafka, _by_s: float) -> bool:
        return True

    monkeypatch.setattr(kafka, "_quorum", look)
    monkeypatch.setattr(Kafka, "_show_mark", shown)  # live nodes are asked for that
    assert asyncio.run(kafka.await_recovery(1.0)) is recovered


def test_the_system_can_do_all_that_faults_and_workloads_ask_for() -> None:
    system = kraft_on(FakeHost())
    for ability in (Kill, Pause, Roles, Registers, Topics):
        assert isinstance(system, ability)
    assert (system.voters, system.observers) == (("n1", "n2", "n3"), ("n4",))
    assert {"name", "description", "breaks", "source"} <= set(mutants_of("kraft")[0])


# --------------------------------------------------------------------------- real nodes


@contextlib.asynccontextmanager
async def cluster(folder: Path, **options: Any) -> AsyncIterator[tuple[Kraft, Local, RunDir]]:
    spec = RunSpec(**{"seed": 1, "voters": 3, "observers": 0, **options})
    run_dir = Store(folder / "store").new_run(spec)
    journal = Journal.open("a-run", folder=folder / "state")
    environment = Local(run_dir.path, journal)
    system = Kraft(spec, environment, run_dir)
    try:
        await environment.setup(system.nodes)
        await system.setup()
        yield system, environment, run_dir
    finally:
        await system.teardown()
        await environment.teardown()
        journal.close()


@pytest.mark.slow
def test_a_cut_off_leader_answers_no_look_from_its_stale_state(tmp_path: Path) -> None:
    """'It exists' is a read: a leader that may have been replaced must not say it."""

    async def main() -> None:
        async with cluster(tmp_path) as (system, environment, _):
            leader = await system.leader()
            assert leader is not None
            client = await system.topic_client().open(leader)
            await client.create("t", partitions=1, configs={})
            others = [name for name in system.nodes if name != leader]
            links = [(leader, o) for o in others] + [(o, leader) for o in others]
            await environment.net.cut(links)
            with pytest.raises(Outcome) as caught:
                await client.create("t", partitions=1, configs={})
            with pytest.raises(Outcome) as missing:
                await client.delete("never-made")
            await client.close()
            await environment.net.heal()
            assert await system.await_recovery(20.0)
        assert caught.value.error != "topic-already-exists"
        assert missing.value.error != "unknown-topic"

    asyncio.run(main())


@pytest.mark.slow
def test_recovery_waits_for_a_node_that_came_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, observers=1) as (system, environment, run_dir):
            await system.kill("n4")
            assert not await system.await_recovery(5.0), "it is down"
            await system.start("n4")
            assert await system.await_recovery(20.0)
            assert set(system.roles().values()) == {"leader", "follower", "observer"}
            assert not (environment.node_dir("n1") / ".hypothesis").exists()
            registers = await system.register_client().open("n4")
            await registers.write("k", 3)
            assert await registers.read("k") == 3
            await registers.close()
        system.collect()
        types = {
            record["type"]
            for line in run_dir.records("n1").read_text().splitlines()
            for record in json.loads(line)["records"]
        }
        assert {"TopicRecord", "ConfigRecord"} <= types

    asyncio.run(main())


@pytest.mark.slow
def test_a_node_that_dies_at_its_start_is_named_with_its_log(tmp_path: Path) -> None:
    async def main() -> None:
        spec = RunSpec(seed=1, voters=1, observers=0)
        run_dir = Store(tmp_path / "store").new_run(spec)
        journal = Journal.open("a-run", folder=tmp_path / "state")
        environment = Local(run_dir.path, journal)
        system = Kraft(spec, environment, run_dir)
        try:
            await environment.setup(system.nodes)
            (environment.node_dir("n1") / "data").write_text("a file where a folder should be")
            with pytest.raises(NodeStartError, match="n1"):
                await system.setup()
        finally:
            await system.teardown()
            await environment.teardown()
            journal.close()
        assert list((tmp_path / "state").glob("*.jsonl")) == []

    asyncio.run(main())


def test_a_swarm_begins_mostly_with_the_latest_level() -> None:
    assert level_of(LEVELS[0]) == LATEST_METADATA_VERSION
    assert ranges({})[METADATA_SETTING].count(LEVELS[0]) == 3
    assert OF_STATIC not in ranges({"krucible.quorum": "dynamic"})[METADATA_SETTING]
    assert OF_STATIC in ranges({"krucible.quorum": "static"})[METADATA_SETTING]
