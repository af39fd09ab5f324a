"""Links by packet filters: which rules lie where, what they have dropped, who shapes a link."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.environment import Address, Link
from harness.contracts.hosts import Shape
from harness.envs.links.filtered import FilteredNet
from harness.envs.links.netem import to_address
from harness.envs.ssh.net import SshFilters
from harness.errors import EnvError, NotShapedError
from harness.healing.journal import Journal
from tests.support.live.stages import stage

LINK = ("n1", "n2")
NODES = ("n1", "n2", "n3")
DROP = "{packets} {size} DROP tcp -- * * {source} 0.0.0.0/0 tcp dpt:9093"


class TwoWays:
    """Nodes whose kernels are a table: what each refuses, and what agents and queues were told."""

    def __init__(
        self, journal: Journal, lacks: dict[str, str], refuses: str = "", alone: int = 0
    ) -> None:
        self._journal = journal
        self.lacks, self.refuses, self.alone = lacks, refuses, alone
        self.wanted: dict[tuple[str, str], str] = {}
        self.orders: list[tuple[str, str, dict[str, Any]]] = []
        self.installed: list[str] = []  # nodes whose rules were written, in turn
        self.rules_of: dict[str, list[str]] = {}
        self.listing: dict[str, str] = {}  # of a node's chain, as iptables has it
        self.shape: dict[str, Mapping[str, Any]] = {}  # what queues were told last

    async def order(self, node: str, do: str, **arguments: Any) -> Mapping[str, Any]:
        if do == "rules":
            self.installed.append(node)
            self.rules_of[node] = arguments["rules"]
        if do in ("rules", "counters"):
            return {"before": self.listing.get(node, "")}
        assert do == "netem"
        return {"answer": self._netem(node, **arguments["order"])}

    def _netem(self, node: str, do: str, **arguments: Any) -> Any:
        links = arguments.get("links", {})
        self.orders.append((node, do, links))
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

    def rules(self, source: Address, destination: Address, does: str) -> list[str]:
        return [f"{source.host} {destination.host} {does}"]

    def match(self, source: Address, destination: Address) -> list[list[str]]:
        return [[source.host, *to_address(destination.host)]]

    async def announce(self, links: Sequence[Link]) -> int:
        return await self._journal.announce("rules", links=[list(link) for link in links])

    async def start(self, node: str, queues: Mapping[str, int]) -> None:
        assert set(queues) == set(NODES)
        self.shape[node] = {"version": 0, "links": {}}

    async def put(self, node: str, wanted: Mapping[str, Any]) -> None:
        self.shape[node] = wanted

    async def told(self, node: str) -> Mapping[str, Any]:
        return {"version": self.shape[node]["version"]}

    async def complaint(self, node: str) -> str:
        raise AssertionError(f"the queue of {node} was not waited for")

    def queued(self, node: str) -> dict[str, Shape]:
        """How a node's queue treats packets, by their source."""
        links = self.shape.get(node, {}).get("links", {})
        return {source: Shape(**shape) for source, shape in links.items()}


async def links_of(places: TwoWays, no_queue: dict[str, str]) -> FilteredNet:
    net = FilteredNet(places._journal)
    addresses = {node: Address(node, 9093) for node in NODES}
    await net.start(places, addresses, places, no_queue=no_queue)
    return net


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
        places = TwoWays(journal, {"n3": "no such kind"}, refuses="duplicate")
        net = await links_of(places, {})
        links = [LINK, ("n3", "n2")]
        await net.shape(1, links, Shape(delay_ms=5))
        told = await net.shaped(LINK)
        assert (told["by"], told["passed"], told["qdiscs"][0]["packets"]) == ("netem", 5, 4)
        other = await net.shaped(("n3", "n2"))
        assert (other["by"], other["why_not_netem"]) == (
            "NFQUEUE",
            "n3 has no netem: no such kind",
        )
        assert places.queued("n2") == {"n3": Shape(delay_ms=5)}
        await net.shape(2, [LINK], Shape(duplicate=0.5))
        assert (await net.shaped(LINK))["by"] == "NFQUEUE"
        assert places.queued("n2").keys() == {"n1", "n3"}
        await net.shape(2, [LINK], None)
        assert (await net.shaped(LINK))["by"] == "netem"
        await net.shape(1, links, None)
        assert places.queued("n2") == {}
        assert places.installed == ["n2"] * 4, "the last time to take them out"
        assert (await net.shaped(LINK))["by"] is None
        tried = [node for node, do, _ in places.orders if do == "attempt"]
        assert sorted(tried) == ["n1", "n3"], "once a run"

    asyncio.run(scenario())


def test_a_link_that_the_kernel_takes_at_last_leaves_its_queue(journal: Journal) -> None:
    async def scenario() -> None:
        places = TwoWays(journal, {}, refuses="duplicate", alone=1)
        net = await links_of(places, {})
        await net.shape(1, [LINK], Shape(delay_ms=5))
        await net.shape(2, [("n1", "n3")], Shape(duplicate=0.5))
        assert places.queued("n3") == {"n1": Shape(duplicate=0.5)}
        assert places.installed == ["n3"]
        await net.shape(1, [LINK], None)
        assert places.queued("n3") == {}
        assert places.installed == ["n3", "n3"], "its rule is taken out"
        await net.shape(2, [("n1", "n3")], None)

    asyncio.run(scenario())


def test_only_links_that_change_are_told(journal: Journal) -> None:
    async def scenario() -> None:
        places = TwoWays(journal, {})
        net = await links_of(places, {})
        await net.shape(1, [LINK, ("n1", "n3")], Shape(delay_ms=5))
        await net.shape(2, [LINK], Shape(loss=0.1))
        await net.shape(2, [LINK], None)
        await net.shape(1, [LINK, ("n1", "n3")], None)
        changes = [sorted(links) for _, do, links in places.orders if do == "change"]
        assert changes == [["2", "3"], ["2"], ["2"], ["2", "3"]]
        assert places.installed == [], "rules are for queues"

    asyncio.run(scenario())


def test_where_neither_can_be_had_links_are_as_before_and_both_reasons_are_told(
    journal: Journal,
) -> None:
    async def scenario() -> None:
        places = TwoWays(journal, {}, refuses="duplicate")
        net = await links_of(places, {"n2": "on host b, no NFQUEUE"})
        await net.shape(1, [LINK], Shape(delay_ms=5))
        with pytest.raises(NotShapedError, match=r"n1 -> n2: no; on host b, no NFQUEUE"):
            await net.shape(2, [LINK, ("n1", "n3")], Shape(duplicate=0.1))
        told = await net.shaped(LINK)
        assert (told["by"], told["duplicate"], told["latency_ms"]) == ("netem", 0, 5)
        assert places.queued("n2") == places.queued("n3") == {}
        assert len(journal.open_entries()) == 1
        await net.shape(1, [LINK], None)

    asyncio.run(scenario())


def test_over_ssh_only_what_goes_to_and_from_the_nodes_ports_is_meant(journal: Journal) -> None:
    here, there = Address("10.0.0.1", 9093), Address("10.0.0.2", 9094)
    filters = SshFilters({}, journal)
    assert filters.rules(here, there, "-j DROP") == [
        "-s 10.0.0.1/32 -d 10.0.0.2/32 -p tcp --dport 9094 -j DROP",
        "-s 10.0.0.1/32 -d 10.0.0.2/32 -p tcp --sport 9093 ! --dport 9094 -j DROP",
    ]
    assert [" ".join(words) for words in filters.match(here, there)] == [
        "match ip dst 10.0.0.2/32 match ip protocol 6 0xff match ip dport 9094 0xffff",
        "match ip dst 10.0.0.2/32 match ip protocol 6 0xff match ip sport 9093 0xffff",
    ]


def test_a_cut_is_rules_at_its_destination_and_stands_before_a_shape(journal: Journal) -> None:
    async def scenario() -> None:
        places = TwoWays(journal, {"n1": "no such kind"})
        net = await links_of(places, {})
        await net.make_chains()
        assert places.rules_of == {node: [] for node in NODES}
        await net.shape(1, [LINK], Shape(delay_ms=5))
        assert places.rules_of["n2"] == ["n1 n2 ! -i lo -j NFQUEUE --queue-num 0 --queue-bypass"]
        await net.cut([LINK, ("n3", "n2")])
        assert places.rules_of["n2"] == ["n1 n2 -j DROP", "n3 n2 -j DROP"]
        assert len(journal.open_entries()) == 2
        await net.heal([LINK])
        assert net.cuts() == {("n3", "n2")}
        assert len(journal.open_entries()) == 2, "one of the cut links is left"
        await net.shape(1, [LINK], None)
        await net.heal()
        assert places.rules_of["n2"] == []
        with pytest.raises(EnvError, match="no node is called 'n9'; there are: n1, n2, n3"):
            await net.cut([("n1", "n9")])

    asyncio.run(scenario())


def test_what_was_dropped_adds_up_over_the_rules_of_a_link_and_over_their_changes(
    journal: Journal,
) -> None:
    async def scenario() -> None:
        places = TwoWays(journal, {})
        net = await links_of(places, {})
        await net.cut([LINK])
        two = [DROP.format(packets=packets, size=60, source="n1") for packets in (3, 4)]
        places.listing["n2"] = "\n".join(["Chain x (1 references)", "pkts bytes target", *two])
        assert await net.stats() == {LINK: {"dropped_packets": 7, "held_bytes": 120}}
        assert await net.stats() == {LINK: {"dropped_packets": 7, "held_bytes": 120}}
        await net.cut([("n3", "n2")])  # writes the chain anew
        places.listing["n2"] = DROP.format(packets=1, size=10, source="n1")
        assert (await net.stats())[LINK] == {"dropped_packets": 8, "held_bytes": 130}
        await net.heal()

    asyncio.run(scenario())


def test_links_that_cannot_be_cut_say_why_and_leave_no_entry(journal: Journal) -> None:
    async def scenario() -> None:
        places = TwoWays(journal, {})
        net = FilteredNet(journal)
        addresses = {node: Address(node, 9093) for node in NODES}
        await net.start(places, addresses, places, why_not="on b, it has no iptables")
        assert net.why_not_cut == "on b, it has no iptables"
        with pytest.raises(EnvError, match="links cannot be cut: on b, it has no iptables"):
            await net.cut([LINK])
        assert places.rules_of == {}

    asyncio.run(scenario())


def test_without_a_queue_links_are_shaped_only_where_all_have_netem(journal: Journal) -> None:
    async def scenario() -> None:
        has = await links_of(TwoWays(journal, {}), {"n2": "on b, no NFQUEUE"})
        assert has.why_not_shape is None
        lacks = await links_of(TwoWays(journal, {"n3": "none"}), {"n2": "on b, no NFQUEUE"})
        assert lacks.why_not_shape == "on b, no NFQUEUE; and there is no netem: n3: none"

    asyncio.run(scenario())


def test_a_node_that_moves_keeps_its_cuts(journal: Journal) -> None:
    async def scenario() -> None:
        places = TwoWays(journal, {})
        net = await links_of(places, {})
        await net.cut([LINK])
        await net.move("n1", Address("n1b", 9094))
        assert places.rules_of["n2"] == ["n1b n2 -j DROP"]
        await net.heal()

    asyncio.run(scenario())
