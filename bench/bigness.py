"""Measure how a controller with very many partitions answers when brokers come and go.

    python bench/bigness.py [--partitions 100000,500000,1000000] [--kind krucible,kafka]
                            [--session 30] [--only topics,partitions,...] [--dir D]

Three controllers begin with a snapshot of ten brokers in service (``support/partitions.py``), which
one other process plays over Kafka's protocol (``support/played_brokers.py``). Then, one by one:

topics     One request creates 5,000 topics of one partition: an atomic batch of 10,000 records.
partitions One request gives a topic 10,000 more partitions: another one.
minimum    The cluster's min.insync.replicas is set: all partitions forget their eligible leaders.
shutdown   A broker asks for its controlled shutdown, with three tenths of all replicas.
death      Another one says nothing more.
unfence    That one comes back as another incarnation, and leads again what only it has.
elect      The preferred leader is asked for of all partitions. None is elected: who should lead and
           does not is not in sync. Each of those partitions is told in the answer.
delete     A topic of a tenth of all partitions is deleted.
failover   The leader of the controllers is killed; until its successor has answered a write.
observer   A node without anything joins as a broker (ours only): until it is in service.
snapshot   Other controllers write a snapshot and do nothing else: of the slowest of them, from the
           first part of its file to the whole one.

For each: until the answer (of a death: until the first broker hears of it, less the session), until
the last broker has the last of the metadata that came of it, the CPU time of the controllers that
lived all along until they are at rest again, the longest turn of a controller's event loop (ours
only; CPU time, and wall time with the disk and all others in it), and how many elections there were
but for the one that a failover needs. Progress is on stderr, the table and a line of JSON on
stdout. With a million partitions it takes about five minutes for each kind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from kio.schema.create_partitions.v3.request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta

from bench.support import partitions as content
from bench.support.clients import connect, first_commit, quiet, set_config
from bench.support.disk import add_dir, workspace
from bench.support.figures import say, table
from bench.support.played_brokers import PlayedBroker
from bench.support.quorum import HOST, Quorum, cpu_s, format_node, free_port, log_dir
from bench.support.traces import Tail, longest_turn
from harness.systems.kafka import distribution as kafka_dist
from node.core.messages import DescribeQuorumRequest, DescribeQuorumResponse
from node.log.layout import partition_dir, snapshot_of_name
from node.wire import codec
from node.wire.errors import WireError

VOTERS = 3
TURNS = {"krucible.turn.limit.ms": "20"}
KINDS = ("krucible", "kafka")
SIZES = "100000,500000,1000000"
ONE_BY_ONE = ("topics", "partitions", "minimum", "shutdown", "death", "unfence", "elect", "delete")
PHASES = (*ONE_BY_ONE, "failover", "observer", "snapshot")
TOPICS = 5_000
PARTITIONS = 10_000
SNAPSHOT_EVERY_MS = 20_000
CREATED_S = 60.0
SETTLED_S = 2.0  # without news metadata has reached who it can reach
LIMIT_S = 600.0
POLL_S = 0.02


@dataclass
class Seen:
    """One phase, in seconds; turns in milliseconds."""

    answer: float
    propagated: float | None
    cpu: float | None = None
    turn_cpu_ms: float | None = None
    turn_wall_ms: float | None = None
    elections: int = 0


class Writing:
    """The next snapshot in a folder: when it was begun, and when it was whole."""

    def __init__(self, folder: Path) -> None:
        self.began: float | None = None
        self.ended: float | None = None
        self._folder = folder
        self._newest = self._look()[0]

    def look(self) -> bool:
        """Look at the folder; whether the snapshot is whole."""
        newest, is_begun = self._look()
        now = time.monotonic()
        if self.began is None and (is_begun or newest > self._newest):
            self.began = now
        if self.ended is None and newest > self._newest:
            self.ended = now
        return self.ended is not None

    def _look(self) -> tuple[int, bool]:
        names = [file.name for file in self._folder.iterdir()]
        found = [each for each in map(snapshot_of_name, names) if each is not None]
        return max(each.offset for each in found), any(name.endswith(PART) for name in names)


@dataclass
class Scene:
    """Controllers, played brokers, and what is measured of them."""

    quorum: Quorum
    brokers: dict[int, PlayedBroker]
    session_s: float
    traces: dict[int, Tail]
    size: int
    dead: PlayedBroker | None = None

    async def leader(self) -> tuple[int, int]:
        """The leader of the controllers and its epoch, once there is one."""
        asked = DescribeQuorumRequest()
        while True:
            for node_id in self.quorum.processes:
                try:
                    connection = await connect(self.quorum.ports[node_id])
                except WireError:
                    continue
                try:
                    body = await connection.request(codec.request_to_wire(asked, 2), 60.0)
                except WireError:
                    continue
                finally:
                    connection.close()
                answer = codec.response_from_wire(body, asked)
                assert isinstance(answer, DescribeQuorumResponse)
                if answer.leader_id == node_id and answer.high_watermark is not None:
                    return node_id, answer.epoch
            await asyncio.sleep(POLL_S)

    async def settled(self, began: float) -> float | None:
        """Seconds until the last of the news, when no more come."""
        while True:
            news = [b.last_news for b in self.brokers.values() if b.last_news is not None]
            if time.monotonic() - max([began, *news]) > SETTLED_S:
                return round(max(news) - began, 2) if news else None
            await asyncio.sleep(POLL_S)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait; raises TimeoutError."""
        async with asyncio.timeout(LIMIT_S):
            while not holds():  # noqa: ASYNC110 - of other processes, too
                await asyncio.sleep(POLL_S)

    async def quiet(self) -> None:
        """Wait until the controllers have nothing left to do."""
        for process in self.quorum.processes.values():
            await quiet(process)

    # ------------------------------------------------------------------ phases

    async def ask(self, request: Any) -> tuple[Any, float]:
        """The leader's answer, and how long it took."""
        leader, _ = await self.leader()
        connection = await connect(self.quorum.ports[leader])
        began = time.monotonic()
        answer = await connection.request(request, LIMIT_S)
        took = time.monotonic() - began
        connection.close()
        return answer, took

    async def topics(self, began: float) -> Seen:
        """Very many topics at once."""
        wanted = tuple(
            [
                CreatableTopic(
                    name=TopicName(f"single-{n}"),
                    num_partitions=i32(1),
                    replication_factor=i16(content.REPLICAS),
                    assignments=(),
                    configs=(),
                )
                for n in range(TOPICS)
            ]
        )
        request = CreateTopicsRequest(topics=wanted, timeout=_timeout(), validate_only=False)
        answer, took = await self.ask(request)
        assert not any(int(row.error_code) for row in answer.topics), answer.topics[0]
        return Seen(took, await self.settled(began))

    async def partitions(self, began: float) -> Seen:
        """Very many partitions at once."""
        present = min(content.PARTITIONS_PER_TOPIC, self.size - self.size // content.WIDE_SHARE)
        wanted = CreatePartitionsTopic(
            name=TopicName("t-0"), count=i32(present + PARTITIONS), assignments=None
        )
        request = CreatePartitionsRequest(topics=(wanted,), timeout=_timeout(), validate_only=False)
        answer, took = await self.ask(request)
        assert not int(answer.results[0].error_code), answer
        return Seen(took, await self.settled(began))

    async def minimum(self, _: float) -> Seen:
        """A new minimum forgets who was eligible by the old one."""
        answer, took = await self.ask(set_config("min.insync.replicas", "2"))
        assert not int(answer.responses[0].error_code), answer
        return Seen(took, None)

    async def elect(self, began: float) -> Seen:
        """All partitions are looked at."""
        request = ElectLeadersRequest(
            election_type=i8(0), topic_partitions=None, timeout=_timeout()
        )
        answer, took = await self.ask(request)
        rows = [row for topic in answer.replica_election_results for row in topic.partition_result]
        errors = Counter(int(row.error_code) for row in rows)
        say(f"elections: error {int(answer.error_code)}, partitions by error {dict(errors)}")
        return Seen(took, await self.settled(began))

    async def snapshot(self, _: float) -> Seen:
        """Each controller writes one, now that something is new."""
        answer, _ = await self.ask(set_config("log.retention.ms", "77"))
        assert not int(answer.responses[0].error_code), answer
        folders = [
            partition_dir(log_dir(self.quorum.folder, node_id)) for node_id in self.quorum.ports
        ]

        writings = [Writing(folder) for folder in folders]

        def whole() -> bool:
            looks = [writing.look() for writing in writings]  # at each
            return all(looks)

        await self.until(whole)
        began = [writing.began for writing in writings if writing.began is not None]
        ended = [writing.ended for writing in writings if writing.ended is not None]
        say(f"snapshots: {max(ended) - min(began):.2f} s from the first part to the last whole")
        took = [end - begin for begin, end in zip(began, ended, strict=True)]
        return Seen(max(took), None)

    async def shutdown(self, began: float) -> Seen:
        """A broker asks for its controlled shutdown."""
        broker = self.brokers[content.REGISTERED[0]]
        broker.ask_to_stop()
        await asyncio.wait_for(broker.may_stop.wait(), LIMIT_S)
        answer = time.monotonic() - began
        await broker.stop()
        del self.brokers[broker.id]
        return Seen(answer, await self.settled(began))

    async def death(self, began: float) -> Seen:
        """A broker says nothing more."""
        self.dead = broker = self.brokers.pop(content.REGISTERED[1])
        await broker.stop()
        await self.until(lambda: any(b.first_news for b in self.brokers.values()))
        answer = min(b.first_news for b in self.brokers.values() if b.first_news) - began
        propagated = await self.settled(began)
        assert propagated is not None
        return Seen(answer - self.session_s, round(propagated - self.session_s, 2))

    async def unfence(self, began: float) -> Seen:
        """The one that died is back."""
        broker = self.dead
        assert broker is not None, "unfence comes after death"
        self.brokers[broker.id] = broker
        broker.restart()
        await self.until(lambda: not broker.is_fenced)
        return Seen(time.monotonic() - began, await self.settled(began))

    async def delete(self, _: float) -> Seen:
        """A tenth of all partitions goes."""
        topic = DeleteTopicState(name=TopicName(content.WIDE_TOPIC), topic_id=None)
        answer, took = await self.ask(DeleteTopicsRequest(topics=(topic,), timeout=_timeout()))
        assert not int(answer.responses[0].error_code), answer
        return Seen(took, None)

    async def failover(self, began: float) -> Seen:
        """The leader of the controllers is killed."""
        leader, _ = await self.leader()
        self.quorum.kill(leader)
        await first_commit(self.quorum, self.quorum.processes, 1000)
        seen = Seen(time.monotonic() - began, None)
        self.quorum.start(leader)
        await first_commit(self.quorum, self.quorum.processes, 1001)
        return seen

    async def observer(self, began: float) -> Seen:
        """A node without anything joins as a broker."""
        port = free_port()
        voters = ",".join(f"{i}@{HOST}:{p}" for i, p in self.quorum.ports.items())
        format_node(self.quorum.folder, OBSERVER)
        self.traces[OBSERVER] = Tail(self.quorum.folder / f"n{OBSERVER}.jsonl")
        settings = dict(self.quorum.settings)
        self.quorum.settings = settings | {
            "process.roles": "broker",
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:{port}",
        }
        self.quorum.ports = {**self.quorum.ports, OBSERVER: port}
        self.quorum.start(OBSERVER)
        output = self.quorum.folder / f"n{OBSERVER}.out"
        await self.until(lambda: "is unfenced" in output.read_text())
        self.quorum.settings = settings
        return Seen(time.monotonic() - began, None)

    async def measure(self, name: str) -> Seen:
        """One phase, from rest to rest."""
        await self.quiet()
        for broker in self.brokers.values():
            broker.mark()
        _, epoch = await self.leader()
        for tail in self.traces.values():
            tail.take()
        phase: Callable[[float], Awaitable[Seen]] = getattr(self, name)
        before = {id_: cpu_s(process) for id_, process in self.quorum.processes.items()}
        processes = dict(self.quorum.processes)
        seen = await phase(time.monotonic())
        await self.quiet()
        same = [id_ for id_, each in self.quorum.processes.items() if processes.get(id_) is each]
        seen.cpu = round(sum(cpu_s(processes[id_]) - before[id_] for id_ in same), 2)
        if not self.quorum.kafka:
            events = [event for tail in self.traces.values() for event in tail.take()]
            seen.turn_cpu_ms, seen.turn_wall_ms = longest_turn(events)
        seen.answer = round(seen.answer, 2)
        seen.elections = (await self.leader())[1] - epoch - (name == "failover")
        return seen


OBSERVER = 120
PART = ".part"


def _timeout() -> i32Timedelta:
    return i32Timedelta.parse(timedelta(seconds=CREATED_S))


async def measure(
    folder: Path, kind: str, size: int, source: Path, session_s: float, phases: list[str]
) -> dict[str, Seen]:
    """All phases with that many partitions."""
    folder.mkdir(parents=True)
    settings = {"broker.session.timeout.ms": str(int(session_s * 1000))}
    if phases == ["snapshot"]:
        settings["metadata.log.max.snapshot.interval.ms"] = str(SNAPSHOT_EVERY_MS)
    if kind == "krucible":
        settings |= {"krucible.trace.file": f"{folder}/n{{node}}.jsonl", **TURNS}
    quorum = Quorum.of(folder, VOTERS, settings)
    quorum.kafka = kafka_dist.fetch() if kind == "kafka" else None
    voters = dict(quorum.ports)
    for node_id in voters:
        format_node(folder, node_id)
        content.place(source, log_dir(folder, node_id))
    snapshot = snapshot_of_name(source.name)
    assert snapshot is not None
    found: dict[str, Seen] = {}
    try:
        began = time.monotonic()
        for node_id in voters:
            quorum.start(node_id)
        traces = {i: Tail(folder / f"n{i}.jsonl") for i in voters}
        brokers = {
            id_: PlayedBroker(id_, voters, *snapshot, number)
            for number, id_ in enumerate(content.REGISTERED, 1)
        }
        scene = Scene(quorum, brokers, session_s, traces, size)
        await scene.leader()
        for broker in brokers.values():
            broker.start()
        await scene.until(lambda: not any(b.is_fenced for b in brokers.values()))
        say(f"{kind}, {size:,}: up after {time.monotonic() - began:.1f} s")
        for name in phases:
            if name == "observer" and kind == "kafka":
                continue
            found[name] = await scene.measure(name)
            say(f"{kind}, {size:,}: {name}: {found[name]}")
        for broker in list(scene.brokers.values()):
            await broker.stop()
    finally:
        quorum.stop()
    return found


def told(found: dict[tuple[str, int], dict[str, Seen]]) -> None:
    """Print the table."""
    head = (
        *("phase", "partitions", "who", "answer s", "propagated s", "CPU s"),
        *("turn, CPU ms", "turn, wall ms", "elections"),
    )
    rows = [
        (
            name,
            f"{size:,}",
            kind,
            *("-" if value is None else value for value in vars(seen).values()),
        )
        for name in PHASES
        for (kind, size), phases in sorted(found.items(), key=lambda item: item[0][1])
        for seen in [phases.get(name)]
        if seen is not None
    ]
    print(table(head, rows), end="\n\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", default=SIZES, help="comma separated")
    parser.add_argument("--kind", default="krucible", help="some of " + ",".join(KINDS))
    parser.add_argument("--only", default=",".join(PHASES), help="some of %(default)s")
    parser.add_argument("--session", type=float, default=30.0, help="of brokers, in seconds")
    add_dir(parser)
    arguments = parser.parse_args()
    only = [name for name in PHASES if name in arguments.only.split(",")]
    found: dict[tuple[str, int], dict[str, Seen]] = {}
    with workspace(arguments.dir) as folder:
        for size in sorted({int(size) for size in arguments.partitions.split(",")}):
            source = content.build_snapshot(folder / f"made-{size}", size, content.with_brokers)
            say(f"{size:,} partitions: a snapshot of {source.stat().st_size / 1e6:.0f} MB")
            for kind in arguments.kind.split(","):
                made = folder / f"{kind}-{size}"
                seen = found[kind, size] = {}
                together = [name for name in only if name != "snapshot"]
                for phases in (together, ["snapshot"] if "snapshot" in only else []):
                    if phases:
                        place = made / phases[0]
                        seen |= asyncio.run(
                            measure(place, kind, size, source, arguments.session, phases)
                        )
    told(found)
    figures = [
        {"kind": kind, "partitions": size, **{name: vars(seen) for name, seen in phases.items()}}
        for (kind, size), phases in found.items()
    ]
    print(json.dumps({"bench": "bigness", "figures": figures}))


if __name__ == "__main__":
    main()
