"""Netem, the harness's side: the words for tc, what its counts mean, who does which link."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.agent import netem as netem_host
from harness.contracts.environment import Address, Link
from harness.contracts.hosts import Shape
from harness.envs.links.netem import Netems, counters, handle_of, stages, to_address
from harness.envs.links.shaping import ShapedCuts
from harness.envs.ssh.packets import SshNetems
from harness.errors import NotShapedError
from harness.healing.journal import Journal

LINK = ("n1", "n2")
NODES = ("n1", "n2", "n3")


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Shape(), []),
        (Shape(delay_ms=20), ["delay 20000us 0us"]),
        (Shape(delay_ms=20, jitter_ms=5), ["delay 22500us 2500us rate 10gbit"]),
        (Shape(loss=0.05), ["loss 5%"]),
        (Shape(duplicate=0.3, corrupt=0.125), ["duplicate 30% corrupt 12.5%"]),
        (Shape(jam_ms=300), ["slot 300ms 300ms"]),
        (Shape(bytes_per_s=4_000), ["rate 4000bps"]),
        (Shape(delay_ms=1, bytes_per_s=9), ["delay 1000us 0us rate 9bps"]),
        (Shape(keep_back=0.1, late_ms=50), ["delay 25000us 25000us reorder 90%"]),
        (Shape(loss=0.2, keep_back=0.1, late_ms=2), ["loss 20% delay 1000us 1000us reorder 90%"]),
        (
            Shape(delay_ms=5, loss=0.2, keep_back=1, late_ms=2),
            ["loss 20% delay 5000us 0us", "delay 1000us 1000us reorder 0%"],
        ),
    ],
)
def test_a_shape_is_said_in_netems_words(shape: Shape, words: list[str]) -> None:
    found = [" ".join(stage) for stage in stages(shape)]
    assert found == [f"limit 16384 {each}" for each in words]


@given(st.text())
def test_a_handle_is_of_its_mark_alone_and_leaves_room_for_those_of_the_netems(mark: str) -> None:
    handle = handle_of(mark)
    assert handle == handle_of(mark)
    assert 0x1000 <= handle < 0x7000


def stage(**told: Any) -> dict[str, Any]:
    return {"packets": 0, "bytes": 0, "drops": 0, "qlen": 0, "requeues": 0, "options": {}} | told


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ([], {}),
        ([stage(packets=7, bytes=70)], {"passed": 7, "bytes": 70}),
        ([stage(drops=3, options={"loss-random": {}})], {"lost": 3}),
        ([stage(packets=5, qlen=2, options={"delay": {}})], {"passed": 5, "held": 7}),
        (
            [stage(packets=9, qlen=1, requeues=8, options={"delay": {}, "reorder": {}})],
            {"passed": 9, "kept_back": 2, "held": 2},
        ),
        (
            [
                stage(packets=9, qlen=1, drops=2, options={"delay": {}}),
                stage(packets=9, requeues=4, options={"delay": {}, "reorder": {}}),
            ],
            {"passed": 9, "lost": 2, "kept_back": 5, "held": 10},
        ),
    ],
)
def test_what_the_kernel_counts_is_told_as_of_any_link(
    told: list[dict[str, Any]], meant: dict[str, int]
) -> None:
    assert {name: count for name, count in counters(told).items() if count} == meant


class TwoWays(Netems):
    """Netems whose kernels are a table: what each refuses, and what it was told."""

    def __init__(self, lacks: dict[str, str], refuses: str = "", alone: int = 0) -> None:
        super().__init__(NODES)
        self.lacks, self.refuses, self.alone = lacks, refuses, alone
        self.wanted: dict[tuple[str, str], str] = {}
        self.told: list[tuple[str, str, dict[str, Any]]] = []

    async def order(self, node: str, do: str, **arguments: Any) -> Any:
        links = arguments.get("links", {})
        self.told.append((node, do, links))
        if do == "attempt":
            return self.lacks.get(node)
        if do == "statistics":
            return {"2": [stage(packets=4, options={"delay": {}})]}
        self.wanted |= {(node, n): str(e["stages"]) for n, e in links.items() if e["stages"]}
        for number, each in links.items():
            if not each["stages"]:
                self.wanted.pop((node, number), None)
        many = sum(1 for at, _ in self.wanted if at == node) > self.alone
        refused = {
            n: "no" for n, e in links.items() if many and self.refuses and self.refuses in str(e)
        }
        for number in refused:
            del self.wanted[node, number]
        return {"problems": refused, "before": {n: [stage(packets=1)] for n in links}}

    def place(self, link: Link) -> dict[str, Any]:
        return {"to": link[1], "match": [to_address(link[1])]}


class Links(ShapedCuts):
    """Links without rules."""

    def __init__(self, journal: Journal, netems: TwoWays, why_no_queue: dict[str, str]) -> None:
        super().__init__(journal)
        self._netems, self._why_no_queue = netems, why_no_queue
        self.installed: list[list[str]] = []

    def _check(self, link: Link) -> None:
        assert set(link) <= set(NODES)

    async def _announce(self, links: Iterable[Link]) -> int:
        return await self._journal.announce("rules", links=[list(link) for link in links])

    async def _install(self, nodes: Iterable[str]) -> None:
        self.installed.append(list(nodes))

    def queued(self, node: str) -> dict[str, Shape]:
        return self._queued_to(node)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open("netem", folder=tmp_path)
    yield opened
    assert not opened.open_entries()
    opened.close()


def test_what_has_no_netem_or_is_refused_goes_through_a_queue_and_says_why(
    journal: Journal,
) -> None:
    async def scenario() -> None:
        netems = TwoWays({"n3": "no such kind"}, refuses="duplicate")
        net = Links(journal, netems, {})
        links = [LINK, ("n3", "n2")]
        await net.shape(1, links, Shape(delay_ms=5))
        told = await net.shaped(LINK)
        assert (told["by"], told["passed"], told["qdiscs"][0]["packets"]) == ("netem", 5, 4)
        other = await net.shaped(("n3", "n2"))
        assert (other["by"], other["why_not_netem"]) == (
            "NFQUEUE",
            "n3 has no netem: no such kind",
        )
        assert net.queued("n2") == {"n3": Shape(delay_ms=5)}
        await net.shape(2, [LINK], Shape(duplicate=0.5))
        assert (await net.shaped(LINK))["by"] == "NFQUEUE"
        assert net.queued("n2").keys() == {"n1", "n3"}
        await net.shape(2, [LINK], None)
        assert (await net.shaped(LINK))["by"] == "netem"
        await net.shape(1, links, None)
        assert net.queued("n2") == {}
        assert net.installed == [["n2"]] * 4, "the last time to take them out"
        assert (await net.shaped(LINK))["by"] is None
        tried = [node for node, do, _ in netems.told if do == "attempt"]
        assert sorted(tried) == ["n1", "n3"], "once a run"

    asyncio.run(scenario())


def test_a_link_that_the_kernel_takes_at_last_leaves_its_queue(journal: Journal) -> None:
    async def scenario() -> None:
        net = Links(journal, TwoWays({}, refuses="duplicate", alone=1), {})
        await net.shape(1, [LINK], Shape(delay_ms=5))
        await net.shape(2, [("n1", "n3")], Shape(duplicate=0.5))
        assert net.queued("n3") == {"n1": Shape(duplicate=0.5)}
        assert net.installed == [["n3"]]
        await net.shape(1, [LINK], None)
        assert net.queued("n3") == {}
        assert net.installed == [["n3"], ["n3"]], "its rule is taken out"
        await net.shape(2, [("n1", "n3")], None)

    asyncio.run(scenario())


def test_only_links_that_change_are_told(journal: Journal) -> None:
    async def scenario() -> None:
        netems = TwoWays({})
        net = Links(journal, netems, {})
        await net.shape(1, [LINK, ("n1", "n3")], Shape(delay_ms=5))
        await net.shape(2, [LINK], Shape(loss=0.1))
        await net.shape(2, [LINK], None)
        await net.shape(1, [LINK, ("n1", "n3")], None)
        changes = [sorted(links) for _, do, links in netems.told if do == "change"]
        assert changes == [["2", "3"], ["2"], ["2"], ["2", "3"]]
        assert net.installed == [], "rules are for queues"

    asyncio.run(scenario())


def test_where_neither_can_be_had_links_are_as_before_and_both_reasons_are_told(
    journal: Journal,
) -> None:
    async def scenario() -> None:
        netems = TwoWays({}, refuses="duplicate")
        net = Links(journal, netems, {"n2": "on host b, no NFQUEUE"})
        await net.shape(1, [LINK], Shape(delay_ms=5))
        with pytest.raises(NotShapedError, match=r"n1 -> n2: no; on host b, no NFQUEUE"):
            await net.shape(2, [LINK, ("n1", "n3")], Shape(duplicate=0.1))
        told = await net.shaped(LINK)
        assert (told["by"], told["duplicate"], told["latency_ms"]) == ("netem", 0, 5)
        assert net.queued("n2") == net.queued("n3") == {}
        assert len(journal.open_entries()) == 1
        await net.shape(1, [LINK], None)

    asyncio.run(scenario())


def test_over_ssh_only_what_goes_to_and_from_the_nodes_ports_is_meant() -> None:
    addresses = {"n1": Address("10.0.0.1", 9093), "n2": Address("10.0.0.2", 9094)}
    place = SshNetems({}, addresses).place(LINK)
    assert place["to"] == "10.0.0.2"
    assert [" ".join(words) for words in place["match"]] == [
        "match ip dst 10.0.0.2/32 match ip protocol 6 0xff match ip dport 9094 0xffff",
        "match ip dst 10.0.0.2/32 match ip protocol 6 0xff match ip sport 9093 0xffff",
    ]


def test_a_host_without_tc_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netem_host, "_which", lambda name: None if name == "tc" else f"/bin/{name}")
    monkeypatch.setenv("PATH", "/nowhere")
    assert netem_host.remove(0x1234) == 0
    with pytest.raises(netem_host.TcError, match=r"it has no tc: apt-get install iproute2"):
        netem_host.statistics(0x1234)


def test_what_is_no_json_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "tc"
    old.write_text("#!/bin/sh\necho qdisc noqueue 0: dev lo root\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(netem_host.TcError, match="tc does not speak JSON: 'qdisc noqueue"):
        netem_host.statistics(0x1234)
