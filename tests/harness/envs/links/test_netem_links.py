"""Links by the kernel's own netem: what each shape does, to that link and that way, and its end.

Wants a kernel with netem; elsewhere ``test_netem_kernel`` boots one and runs these in there.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, cast

import pytest

from harness.agent import netem as netem_host
from harness.agent import supervisor as ssh_supervisor
from harness.contracts.environment import Address, Link
from harness.contracts.hosts import Shape
from harness.envs.agents.archive import archive, from_stdin
from harness.envs.docker.agents import Agents, answered, ordering
from harness.envs.docker.engine import Engine
from harness.envs.docker.net import DockerFilters, DockerQueues
from harness.envs.links.filtered import FilteredNet
from harness.errors import EnvError, NotShapedError
from harness.healing.journal import Journal
from tests.support.live.netns_links import (
    HANDLE,
    NODES,
    NetnsFilters,
    Seen,
    Spaces,
    inside,
    netns_net,
    spaces,
)

LINK = ("n1", "n2")
GONE = "gone"
TEXT = b"a promise " * 200


@pytest.fixture(scope="module")
def made() -> Iterator[Spaces]:
    with spaces() as found:
        yield found


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.open("netem", folder=tmp_path / "state")
    yield journal
    assert not journal.open_entries()
    journal.close()


@pytest.fixture
def filters(made: Spaces, journal: Journal) -> NetnsFilters:
    return NetnsFilters(journal, made)


@pytest.fixture
def net(made: Spaces, journal: Journal, filters: NetnsFilters) -> FilteredNet:
    return netns_net(journal, filters, made)


def late(seen: Seen, _: int) -> bool:
    return seen.plain and min(seen.took) >= 100


def uneven(seen: Seen, _: int) -> bool:
    spread = max(seen.took) - min(seen.took)
    return seen.plain and min(seen.took) >= 50 and spread > 30


def lost(seen: Seen, _: int) -> bool:
    return 0.2 < len(set(seen.numbers)) / seen.sent < 0.8


def twice(seen: Seen, _: int) -> bool:
    return set(seen.numbers) == set(range(1, seen.sent + 1)) and len(seen.numbers) > seen.sent


def overtaken(seen: Seen, _: int) -> bool:
    return sorted(seen.numbers) == list(range(1, seen.sent + 1)) and not seen.plain


def damaged(seen: Seen, bad: int) -> bool:
    return len(seen.numbers) < seen.sent and bad > 0


def narrow(seen: Seen, _: int) -> bool:
    return seen.plain and seen.times_s[-1] - seen.times_s[0] >= 0.3


def bursts(seen: Seen, _: int) -> bool:
    gaps = [b - a for a, b in zip(seen.times_s, seen.times_s[1:], strict=False)]
    return seen.plain and max(gaps) > 0.1 and sum(gap > 0.05 for gap in gaps) <= 4


# One shape a link, so that each must leave the others alone. Newer kernels want a netem that
# duplicates to be the only one of its interface.
SHAPED: dict[Link, tuple[Shape, Callable[[Seen, int], bool], str]] = {
    ("n1", "n2"): (Shape(delay_ms=100), late, "held"),
    ("n1", "n3"): (Shape(loss=0.5), lost, "lost"),
    ("n1", "n4"): (Shape(jam_ms=200), bursts, "held"),
    ("n2", "n3"): (Shape(delay_ms=50, jitter_ms=100), uneven, "held"),
    ("n2", "n4"): (Shape(keep_back=0.3, late_ms=60), overtaken, "kept_back"),
    ("n3", "n1"): (Shape(bytes_per_s=20_000), narrow, "held"),
    ("n3", "n4"): (Shape(corrupt=0.6), damaged, "passed"),
    ("n4", "n1"): (Shape(duplicate=0.5), twice, "passed"),
}


def test_each_shape_is_on_its_link_and_its_way_only_and_is_gone_after_the_heal(
    made: Spaces, net: FilteredNet
) -> None:
    async def scenario() -> None:
        before = {node: made.qdiscs(node) for node in NODES}
        for link, (shape, _, _) in SHAPED.items():
            await net.shape(1, [link], shape)
        for link, (shape, shows, counted) in SHAPED.items():
            bad = made.bad_checksums(link[1])
            seen = Seen(made, link, 30, every_ms=8, size=200)
            assert shows(seen, made.bad_checksums(link[1]) - bad), (shape, seen.numbers, seen.took)
            told = await net.shaped(link)
            assert (told["by"], told["qdiscs"][0]["kind"]) == ("netem", "netem")
            assert told[counted] > 0, told
            assert "why_not_netem" not in told
        _all_plain(made, [link for link in permutations(NODES, 2) if link not in SHAPED])
        await net.shape(1, SHAPED, None)
        assert {node: made.qdiscs(node) for node in NODES} == before
        _all_plain(made, SHAPED)
        assert (await net.shaped(("n1", "n3")))["lost"] > 0, "counts outlive it"

    asyncio.run(scenario())


def _all_plain(made: Spaces, links: Iterable[Link]) -> None:
    for link in links:
        seen = Seen(made, link, 5, every_ms=1, size=200)
        assert seen.plain, (link, seen.numbers)
        assert min(seen.took) < 40, (link, seen.took)


def test_tcp_brings_everything_unaltered_over_a_link_that_does_all_of_it(
    made: Spaces, net: FilteredNet
) -> None:
    async def scenario() -> None:
        shape = Shape(10, 10, loss=0.05, keep_back=0.2, late_ms=20, corrupt=0.05)
        await net.shape(1, [LINK, LINK[::-1]], shape)
        client, server = made.tcp(LINK)
        with client, server:
            client.sendall(TEXT)
            assert _receive(server) == TEXT
            server.sendall(TEXT)
            assert _receive(client) == TEXT
        await net.shape(1, [LINK, LINK[::-1]], None)

    asyncio.run(scenario())


def _receive(sock: Any) -> bytes:
    data = b""
    while len(data) < len(TEXT):
        data += sock.recv(65536)
    return data


def test_what_several_faults_want_of_links_of_one_node_adds_up_and_they_do_not_mix(
    made: Spaces, net: FilteredNet, filters: NetnsFilters
) -> None:
    async def scenario() -> None:
        before = made.qdiscs("n1")
        await net.shape(1, [LINK, ("n1", "n3")], Shape(delay_ms=60))
        await net.shape(2, [LINK], Shape(keep_back=0.5, late_ms=80))
        both = Seen(made, LINK, 30, every_ms=5, size=100)
        assert min(both.took) >= 60
        assert overtaken(both, 0)
        assert len((await net.shaped(LINK))["qdiscs"]) == 2
        slow = Seen(made, ("n1", "n3"), 10, every_ms=5, size=100)
        assert slow.plain
        assert 60 <= min(slow.took) < 120
        await net.shape(1, [LINK, ("n1", "n3")], None)
        assert min(Seen(made, ("n1", "n3"), 5, every_ms=5, size=100).took) < 50
        assert (await net.shaped(LINK))["by"] == "netem"
        await net.shape(2, [LINK], None)
        assert made.qdiscs("n1") == before
        assert filters.orders.count(("n1", "attempt")) == 1, "it is tried once a run"

    asyncio.run(scenario())


class Holders:
    """An Engine whose containers are the namespaces."""

    def __init__(self, made: Spaces) -> None:
        self._made = made

    def execute(self, container: str, argv: list[str]) -> tuple[int, str]:
        if container == GONE:
            return 126, "no such container"
        run = partial(subprocess.run, argv, capture_output=True, text=True, check=False)
        done = inside(self._made.names[container], run)
        return done.returncode, done.stdout + done.stderr


def test_in_a_container_it_is_an_agent_that_says_what_it_did(
    made: Spaces, journal: Journal, tmp_path: Path
) -> None:
    async def scenario() -> None:
        before = made.qdiscs("n1")
        addresses = {node: Address(host, 9093) for node, host in made.addresses.items()}
        holders = {node: node for node in NODES}
        Agents.write(tmp_path / "agent.pyz")
        agents = Agents(cast("Engine", Holders(made)), holders, tmp_path / "agent.pyz")
        filters = DockerFilters(agents, journal, chain="KRUCIBLE-x", handle=HANDLE)
        net = FilteredNet(journal)
        await net.start(filters, addresses, DockerQueues(agents, tmp_path))
        netems = net._netems
        assert netems is not None
        assert await netems.apply("n1", {"n2": Shape(loss=1.0)}) == {}
        assert Seen(made, LINK, 3, every_ms=1, size=50).numbers == []
        counts, told = await netems.counters(LINK)
        assert (counts["lost"], told[0]["kind"]) == (3, "netem")
        assert await netems.apply("n1", {}) == {}
        assert (await netems.counters(LINK))[0]["lost"] == 3
        assert made.qdiscs("n1") == before
        bad = {**net._place(LINK), "stages": [["x"]]}
        done = await net._order_netem("n1", "change", links={"2": bad})
        assert done["problems"] == {"2": 'tc: What is "x"?'}
        assert made.qdiscs("n1") == before
        holders["n1"] = GONE
        with pytest.raises(
            EnvError, match="the agent in the network of n1 cannot do 'netem': no such"
        ):
            await net._order_netem("n1", "change", links={})

    asyncio.run(scenario())


def test_a_root_that_somebody_has_set_is_left_alone_and_told(
    made: Spaces, journal: Journal, filters: NetnsFilters
) -> None:
    tc = ["tc", "qdisc", "add", "dev", "eth0", "root", "handle", "7:", "fq_codel"]
    inside(made.names["n1"], lambda: subprocess.run(tc, check=True))
    before = made.qdiscs("n1")
    net = netns_net(journal, filters, made)
    with pytest.raises(
        NotShapedError,
        match=r"n1 has no netem: another program has set fq_codel 7: at the root of eth0",
    ):
        asyncio.run(net.shape(1, [LINK], Shape(delay_ms=60)))
    assert made.qdiscs("n1") == before
    inside(made.names["n1"], lambda: subprocess.run([*tc[:2], "del", *tc[3:6]], check=True))


def test_what_a_killed_supervisor_left_is_cleaned_and_nothing_else(
    made: Spaces, tmp_path: Path
) -> None:
    tc = ["tc", "qdisc", "add", "dev", "lo", "root", "handle", "7:", "pfifo"]
    inside(made.names["n1"], lambda: subprocess.run(tc, check=True))
    before = made.qdiscs("n1")
    place: dict[str, Any] = {"folder": str(tmp_path / "krucible-x"), "chain": "KRX", "mark": "x"}
    place["qdisc"] = HANDLE
    stages = [["delay", "1s"]]
    links = {"1": {"to": made.addresses["n2"], "match": [_to(made, "n2")], "stages": stages}}
    with _supervisor(made) as supervisor:
        address = {"address": made.addresses["n1"], "port": 9093}
        assert _ask(supervisor, "begin", **place, **address, silence_s=60)["netem"] is None
        answer = _ask(supervisor, "netem", order={"do": "change", "links": links})
        assert answer["answer"]["problems"] == {}
        assert "netem" in made.qdiscs("n1")
        supervisor.send_signal(signal.SIGKILL)
        supervisor.wait()
    assert "netem" in made.qdiscs("n1")
    done = inside(made.names["n1"], lambda: ssh_supervisor.clean(**place))
    assert done["qdiscs"] == 1
    assert made.qdiscs("n1") == before
    assert inside(made.names["n1"], lambda: netem_host.remove(HANDLE)) == 0


def test_what_a_dead_run_left_in_a_container_is_taken_out_by_its_handle(
    made: Spaces, tmp_path: Path
) -> None:
    agent = tmp_path / "agent.pyz"
    Agents.write(agent)

    def remove(handle: int) -> dict[str, Any]:
        """As a heal does it."""
        argv = ordering(agent, "remove", chain="KRUCIBLE-none", qdisc=handle)
        return answered(*Holders(made).execute("n2", argv))

    before = made.qdiscs("n2")
    link = {"to": made.addresses["n1"], "match": [_to(made, "n1")], "stages": [["loss", "1%"]]}
    with_netem = inside(made.names["n2"], lambda: _change_and_look(link))
    assert remove(HANDLE + 1) == {"chain": False, "qdiscs": 0}
    assert made.qdiscs("n2") == with_netem, "another run's handle"
    assert remove(HANDLE) == {"chain": False, "qdiscs": 1}
    assert made.qdiscs("n2") == before


def _change_and_look(link: dict[str, Any]) -> str:
    assert netem_host.change(HANDLE, {"3": link})["problems"] == {}
    return subprocess.run(
        ["tc", "qdisc", "show"], capture_output=True, text=True, check=True
    ).stdout


def _to(made: Spaces, node: str) -> list[str]:
    return ["match", "ip", "dst", f"{made.addresses[node]}/32"]


def _supervisor(made: Spaces) -> subprocess.Popen[bytes]:
    """A supervisor as ssh starts it, in the namespace of n1."""
    shell = ["sh", "-c", from_stdin(sys.executable, "supervise")]
    argv = ["ip", "netns", "exec", made.names["n1"], *shell]
    started = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdin is not None
    started.stdin.write(archive())
    started.stdin.flush()
    return started


def _ask(supervisor: subprocess.Popen[bytes], do: str, **arguments: Any) -> dict[str, Any]:
    assert supervisor.stdin is not None
    assert supervisor.stdout is not None
    supervisor.stdin.write(json.dumps({"id": 1, "do": do, **arguments}).encode() + b"\n")
    supervisor.stdin.flush()
    while "ok" not in (answer := json.loads(supervisor.stdout.readline())):
        assert "error" not in answer, answer
    found: dict[str, Any] = answer["ok"]
    return found
