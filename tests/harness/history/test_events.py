"""The event collector: every line arrives once, in order, stamped, whatever happens to the file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harness.clock import NS_PER_MS, LoopClock
from harness.history.events import EventCollector, before, collected_until
from node.trace import TraceWriter
from tests.support.simulated.virtual_time import run_virtual


def event(seq: int, type_: str = "append", **fields: Any) -> str:
    return json.dumps({"ts": seq, "seq": seq, "ep": 1, "t": type_, **fields}, separators=(",", ":"))


def collected(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Rig:
    def __init__(self, tmp_path: Path) -> None:
        self.source = tmp_path / "n1.events"
        self.target = tmp_path / "out" / "n1.jsonl"
        self.target.parent.mkdir()
        self.collector = EventCollector({"n1": self.source}, self.target.parent, LoopClock())

    def write(self, text: str) -> None:
        with self.source.open("a") as file:
            file.write(text)


def test_lines_are_stamped_on_arrival(tmp_path: Path) -> None:
    async def body() -> None:
        rig = Rig(tmp_path)
        rig.collector.start()
        await asyncio.sleep(1)  # the file is not there yet
        rig.write(event(1) + "\n" + event(2) + "\n")
        await asyncio.sleep(1)
        rig.write(event(3) + "\n")
        await rig.collector.stop()
        events = collected(rig.target)
        assert [e["seq"] for e in events] == [1, 2, 3]
        assert 1000 * NS_PER_MS <= events[0]["rx_ns"] <= 1030 * NS_PER_MS
        assert events[0]["rx_ns"] == events[1]["rx_ns"]
        assert events[2]["rx_ns"] == 2000 * NS_PER_MS  # read by the drain at the end
        assert {**events[0], "rx_ns": 0} == {**json.loads(event(1)), "rx_ns": 0}
        assert rig.collector.status["n1"].events == 3

    run_virtual(body())


def test_a_line_in_pieces_waits_for_its_end(tmp_path: Path) -> None:
    async def body() -> None:
        rig = Rig(tmp_path)
        line = event(1) + "\n"
        for letter in line[:-1]:
            rig.write(letter)
            rig.collector.drain()
        assert not rig.target.exists()
        rig.write("\n")
        await rig.collector.stop()
        assert [e["seq"] for e in collected(rig.target)] == [1]

    run_virtual(body())


def test_a_torn_line_is_kept_and_the_next_one_survives(tmp_path: Path) -> None:
    async def body() -> None:
        rig = Rig(tmp_path)
        rig.write(event(1) + "\n" + event(2)[:20] + event(3) + "\n" + event(4)[:9])
        await rig.collector.stop()
        events = collected(rig.target)
        assert [(e["t"], e.get("raw", e.get("seq"))) for e in events] == [
            ("append", 1),
            ("torn", event(2)[:20]),
            ("append", 3),
            ("torn", event(4)[:9]),
        ]

    run_virtual(body())


def test_lines_of_other_systems_are_stamped_too(tmp_path: Path) -> None:
    async def body() -> None:
        rig = Rig(tmp_path)
        rig.write('{"time": 1, "ts": 2}\nnot json\n\n{}\n')
        await rig.collector.stop()
        events = collected(rig.target)
        assert events[0]["time"] == 1
        assert [e["t"] for e in events[1:]] == ["torn", "torn"]

    run_virtual(body())


def test_a_replaced_or_cut_file_is_read_anew(tmp_path: Path) -> None:
    async def body() -> None:
        rig = Rig(tmp_path)
        rig.write(event(1) + "\n" + event(2) + "\n")
        rig.collector.drain()
        rig.source.unlink()
        rig.collector.drain()
        rig.write(event(3) + "\n")
        rig.collector.drain()
        rig.source.write_text("")
        rig.collector.drain()
        rig.write(event(4) + "\n")
        await rig.collector.stop()
        assert [e["seq"] for e in collected(rig.target)] == [1, 2, 3, 4]

    run_virtual(body())


def test_status_follows_the_node(tmp_path: Path) -> None:
    async def body() -> None:
        rig = Rig(tmp_path)
        source = rig.source
        writer = TraceWriter(source, node=1, directory_id="0" * 32, incarnation=5, clock_ns=int)
        status = rig.collector.status["n1"]
        writer.emit("start", 3, {"leo": 0})
        writer.emit("role", 4, {"from": "candidate", "to": "leader", "leader": 1})
        for mark in range(5):
            writer.emit("hwm", 4, {"v": mark, "as": "leader"})
        writer.flush()
        rig.collector.drain()
        assert (status.role, status.epoch, status.leader) == ("leader", 4, 1)
        assert (status.high_watermark, status.up, status.events) == (4, True, 7)
        writer.emit("stop", 4, {"why": "asked"})
        writer.close()
        await rig.collector.stop()
        assert not status.up

    run_virtual(body())


def test_much_at_once(tmp_path: Path) -> None:
    async def body() -> None:
        rig = Rig(tmp_path)
        rig.write("".join(event(i, text="é" * (i % 90)) + "\n" for i in range(30_000)))
        await rig.collector.stop()
        assert [e["seq"] for e in collected(rig.target)] == list(range(30_000))

    run_virtual(body())


def test_while_nodes_are_read_a_mark_tells_until_when_nothing_is_missing(tmp_path: Path) -> None:
    async def body() -> None:
        rig = Rig(tmp_path)
        folder = rig.target.parent
        began_ns = stamp_ns()
        rig.collector.start()
        assert collected_until(folder) == 0  # killed now, it would have read nothing whole
        await asyncio.sleep(1)
        rig.write(event(1) + "\n")
        await asyncio.sleep(1)
        until_ns = collected_until(folder)
        assert until_ns is not None
        assert 1900 < (until_ns - began_ns) / NS_PER_MS <= 2000  # it goes on where nothing happens
        await rig.collector.stop()
        assert collected_until(folder) is None
        assert [file.name for file in folder.iterdir()] == ["n1.jsonl"]

    run_virtual(body())


def test_events_that_reach_the_harness_from_other_hosts_are_never_known_to_be_all(
    tmp_path: Path,
) -> None:
    async def body() -> None:
        folder = tmp_path / "out"
        folder.mkdir()
        source = {"n1": tmp_path / "n1.events"}
        collector = EventCollector(source, folder, LoopClock(), one_host=False)
        collector.start()
        await asyncio.sleep(1)
        assert collected_until(folder) == 0
        await collector.stop()
        assert collected_until(folder) is None

    run_virtual(body())


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_of_a_follower_read_after_its_leader_the_mark_knows(tmp_path: Path, rounds: int) -> None:
    """In one round the leader's file is read, then it writes, then its follower's file is read.

    Whenever the harness is killed, the follower's event is not judged without the leader's.
    """
    leader, follower = tmp_path / "n1.events", tmp_path / "n2.events"
    folder = tmp_path / "out"
    folder.mkdir()

    class TellingClock(LoopClock):
        """Asked for each file's stamp; at the second both write, the leader first."""

        asked = 0

        def now_ns(self) -> int:
            self.asked += 1
            if self.asked == 2:
                for file, at in ((leader, stamp_ns() + 1), (follower, stamp_ns() + 2)):
                    with file.open("a") as out:
                        out.write(event(at, "hwm", v=7) + "\n")
            return super().now_ns()

    async def body() -> None:
        collector = EventCollector({"n1": leader, "n2": follower}, folder, TellingClock())
        leader.write_text(event(1) + "\n")
        follower.write_text("".join(event(at) + "\n" for at in range(90_000)))  # in two readings
        collector.start()
        await asyncio.sleep(0.025 * (rounds - 1) + 0.01)
        until_ns = collected_until(folder)
        assert until_ns is not None
        kept = [[*before(collected(folder / f"n{n}.jsonl"), until_ns)][-1]["t"] for n in (1, 2)]
        told = collected(folder / "n2.jsonl")[-1]["t"]
        assert (told, kept) == ("hwm", ["append"] * 2 if rounds == 1 else ["hwm"] * 2)
        await collector.stop()

    run_virtual(body())


def stamp_ns() -> int:
    """The time that nodes of this host would stamp an event with."""
    return int(asyncio.get_running_loop().time() * 1e9)


def test_where_collecting_failed_the_mark_stays(tmp_path: Path) -> None:
    async def body() -> None:
        rig = Rig(tmp_path)
        rig.collector.start()
        rig.write(event(1) + "\n")
        rig.target.mkdir()  # nothing can be written there
        with pytest.raises(IsADirectoryError):
            await rig.collector.stop()
        assert collected_until(rig.target.parent) == 0

    run_virtual(body())


def test_who_watches_is_told_of_whole_events_and_of_no_torn_line(tmp_path: Path) -> None:
    async def body() -> None:
        rig = Rig(tmp_path)
        told: list[tuple[str, int]] = []
        rig.write(event(1) + "\n")
        rig.collector.drain()
        rig.collector.watch(lambda node, each: told.append((node, each["seq"])))
        rig.write(event(2) + "\n" + event(3)[:9])
        rig.collector.drain()
        rig.write("not json\n[1]\n" + event(4) + "\n")
        rig.collector.drain()
        rig.collector.watch(None)
        rig.write(event(5) + "\n")
        await rig.collector.stop()
        assert told == [("n1", 2), ("n1", 4)]

    run_virtual(body())
