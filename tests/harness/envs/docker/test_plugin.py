"""The docker environment: real containers, real firewall rules, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.agent import netem as netem_host
from harness.contracts.hosts import Shape
from harness.envs.docker import heal as docker_heal
from harness.envs.docker.config import HOLDER_CAPABILITIES
from harness.envs.docker.engine import Engine
from harness.envs.docker.plugin import Docker
from harness.envs.links.filtered import FilteredNet
from harness.errors import EnvError
from harness.healing.heal import leftovers
from harness.healing.journal import Journal, read_journal
from harness.processes.procfs import PROC
from tests.support.docker.cluster import docker_nodes, kill, left_of, need_engine, start
from tests.support.live.cluster import eventually

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine()


@pytest.fixture
def engine() -> Iterator[Engine]:
    with contextlib.closing(Engine.connect()) as found:
        yield found


def test_a_node_runs_without_capabilities_under_its_own_address_and_name(
    tmp_path: Path, engine: Engine
) -> None:
    async def scenario() -> None:
        async with docker_nodes(tmp_path) as env:
            own = [env.bind_address(node) for node in ("n1", "n2")]
            assert len({address.host for address in own} | {env.client_source()}) == 3
            assert env.address("n1") == own[0]
            assert f"listening on {own[0]}" in env.log_file("n1").read_text()
            assert f"connection from {env.client_source()}" in env.log_file("n1").read_text()
            process = env.process("n1")
            status = (PROC / str(process.pid) / "status").read_text()
            capabilities = [line.split() for line in status.splitlines() if "CapEff" in line]
            assert capabilities == [["CapEff:", "0000000000000000"]]
            assert f"Uid:\t{os.getuid()}\t" in status
            holder = engine.inspect("krucible-test-run-n1-net")
            assert holder is not None
            capabilities = holder["HostConfig"]["CapAdd"]
            assert capabilities == sorted(HOLDER_CAPABILITIES) == ["NET_ADMIN", "NET_RAW"]
            assert len(left_of(tmp_path / "state")) == 5, "two of each node, and the network"

    asyncio.run(scenario())
    assert left_of(tmp_path / "state") == []
    assert list((tmp_path / "state").iterdir()) == []


def test_a_killed_node_is_gone_and_comes_back_on_its_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with docker_nodes(tmp_path) as env:
            before = env.process("n1")
            assert before.state in "RSD"
            (env.node_dir("n1") / "disk").write_text("kept")
            await kill(env, "n1")
            gone = env.process("n1")
            assert (gone.pid, gone.state) == (None, "gone")
            assert "killed by SIGKILL" in gone.detail
            assert not (PROC / str(before.pid)).exists()
            refused = await env.net.probe("n2", "n1")
            assert not refused.passed
            assert "refused" in refused.detail, "its network stays, nobody listens"
            await start(env, "n1")
            assert env.process("n1").pid != before.pid
            assert (env.node_dir("n1") / "disk").read_text() == "kept"
            with pytest.raises(EnvError, match="n1 runs already"):
                await env.start("n1", ["true"], env={})

    asyncio.run(scenario())


def test_a_frozen_node_hears_nobody_and_its_links_can_still_be_cut(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with docker_nodes(tmp_path) as env:
            await env.signal("n1", signal.SIGSTOP)
            assert env.process("n1").state == "T"
            assert not (await env.ask("n1", timeout_s=0.3))[0]
            journal = read_journal(tmp_path / "state" / "test-run.jsonl")[1]
            assert [e.kind for e in journal if not e.undone].count("freeze") == 1
            await env.net.cut([("n2", "n1")])
            await env.signal("n1", signal.SIGCONT)
            assert env.process("n1").state in "RSD"
            assert (await env.ask("n1", timeout_s=2))[0]
            assert not (await env.net.probe("n2", "n1")).passed
            await env.signal("n1", signal.SIGSTOP)
            await kill(env, "n1")
            assert env.process("n1").state == "gone", "what is frozen can be killed, too"

    asyncio.run(scenario())


def test_a_cut_link_drops_packets_until_it_is_healed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with docker_nodes(tmp_path, ("n1", "n2", "n3")) as env:
            net = env.net
            assert (await net.probe("n1", "n2")).passed
            await net.cut([("n1", "n2")])
            assert net.cuts() == {("n1", "n2")}
            silent = await net.probe("n1", "n2", timeout_s=0.4)
            assert (silent.passed, silent.detail) == (False, "no answer within 0.4 s")
            assert silent.elapsed_ms >= 390
            others = [("n3", "n2"), ("n1", "n3"), ("n3", "n1")]
            for probe in await asyncio.gather(*(net.probe(a, b) for a, b in others)):
                assert probe.passed, probe
            assert (await env.ask("n2", timeout_s=0.5))[0], "clients are never cut off"
            seen = (await net.stats())["n1", "n2"]
            assert seen["dropped_packets"] >= 1
            assert seen["held_bytes"] >= 40
            await net.cut([("n3", "n2"), ("n1", "n2")])
            await net.heal([("n1", "n2")])
            assert (await net.probe("n1", "n2")).passed
            assert not (await net.probe("n3", "n2")).passed, "the other cut stays"
            assert (await net.stats())["n1", "n2"] == seen, "counters outlive their rule"
            await kill(env, "n2")
            await start(env, "n2")
            assert not (await net.probe("n3", "n2")).passed, "and outlives a restart"
            await net.heal()
            assert net.cuts() == frozenset()
            assert (await net.probe("n3", "n2")).passed
            with pytest.raises(EnvError, match="no node is called 'n9'"):
                await net.cut([("n1", "n9")])

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("shape", "min_ms", "counted"),
    [
        (Shape(delay_ms=150), 290, "held"),  # the handshake and the request
        (Shape(jam_ms=200), 100, "held"),
        (Shape(bytes_per_s=1000), 150, "held"),
        (Shape(loss=0.4), 0, "lost"),
        (Shape(keep_back=0.9, late_ms=50), 0, "kept_back"),
        (Shape(duplicate=0.9), 0, "duplicated"),
        (Shape(corrupt=0.5), 0, "corrupted"),
    ],
    ids=["slow", "jammed", "narrow", "lossy", "reordering", "duplicating", "corrupting"],
)
def test_what_links_can_be_like(
    slow_nodes: SlowNodes, shape: Shape, min_ms: float, counted: str
) -> None:
    async def scenario(net: FilteredNet) -> None:
        link = ("n1", "n2")
        before = await net.shaped(link)
        await net.shape(7, [link], shape)
        probes = [await net.probe(*link, timeout_s=5) for _ in range(4)]
        assert all(probe.elapsed_ms >= min_ms for probe in probes if probe.passed), probes
        during = await net.shaped(link)
        if netem_host.lacking() is None:
            assert during["by"] == "netem"
        else:
            assert during["by"] == "NFQUEUE"
            assert "n1 has no netem: " in during["why_not_netem"]
        tells = {"duplicated": "doubled", "corrupted": "resent"}.get(counted)
        while tells and not any(getattr(probe, tells) for probe in probes):
            assert len(probes) < 40, "no probe's own connection tells of it"
            probes.append(await net.probe(*link, timeout_s=5))
        assert tells or during[counted] > before[counted]
        await net.shape(7, [link], None)
        assert (await net.probe(*link, timeout_s=5)).passed
        assert (await net.shaped(link))["passed"] - during["passed"] <= during["held"]
        assert (await net.probe("n2", "n1")).passed

    slow_nodes.run(scenario)


def test_what_several_faults_want_of_a_link_adds_up_and_a_cut_comes_first(
    slow_nodes: SlowNodes,
) -> None:
    async def scenario(net: FilteredNet) -> None:
        link = ("n1", "n2")
        await net.shape(1, [link], Shape(delay_ms=100))
        await net.shape(2, [link], Shape(delay_ms=50))
        assert (await net.probe(*link, timeout_s=5)).elapsed_ms >= 290
        await net.cut([link])
        assert not (await net.probe(*link)).passed
        await net.shape(1, [link], None)
        await net.heal()
        after = await net.probe(*link, timeout_s=5)
        assert after.elapsed_ms >= 95
        assert (await net.shaped(link))["latency_ms"] == 50
        await net.shape(2, [link], None)
        assert slow_nodes.open_kinds() == {"container", "network", "process"}

    slow_nodes.run(scenario)


class SlowNodes:
    """Two nodes for all tests of what links are like."""

    def __init__(self, loop: asyncio.AbstractEventLoop, env: Docker, journal: Path) -> None:
        self._loop, self._env, self._journal = loop, env, journal

    def run(self, scenario: Callable[[FilteredNet], Coroutine[Any, Any, None]]) -> None:
        """Do something with their links."""
        net: object = self._env.net
        assert isinstance(net, FilteredNet)
        self._loop.run_until_complete(scenario(net))

    def open_kinds(self) -> set[str]:
        """What the journal has open."""
        return {entry.kind for entry in read_journal(self._journal)[1] if not entry.undone}


@pytest.fixture(scope="module")
def slow_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowNodes]:
    need_engine()
    folder = tmp_path_factory.mktemp("slow")
    with asyncio.Runner() as runner:
        nodes = docker_nodes(folder, run="slow")
        env = runner.run(nodes.__aenter__())
        yield SlowNodes(runner.get_loop(), env, folder / "state" / "slow.jsonl")
        runner.run(nodes.__aexit__(None, None, None))


def test_rules_are_in_a_chain_of_our_own_and_others_are_left_alone(
    tmp_path: Path, engine: Engine
) -> None:
    async def scenario() -> None:
        async with docker_nodes(tmp_path) as env:
            foreign = ["iptables", "-A", "INPUT", "-p", "tcp", "--dport", "7", "-j", "DROP"]
            assert engine.execute("krucible-test-run-n2-net", foreign) == (0, "")
            await env.net.cut([("n1", "n2")])
            _, rules = engine.execute("krucible-test-run-n2-net", ["iptables", "-S"])
            ours = [line for line in rules.splitlines() if env.bind_address("n1").host in line]
            assert len(ours) == 1
            assert ours[0].startswith("-A KRUCIBLE-")
            await env.net.heal()
            _, rules = engine.execute("krucible-test-run-n2-net", ["iptables", "-S"])
            assert "-A INPUT -p tcp -m tcp --dport 7 -j DROP" in rules.splitlines()
            assert env.bind_address("n1").host not in rules

    asyncio.run(scenario())


def test_rules_of_a_dead_run_are_taken_out_of_holders_that_live_on(
    tmp_path: Path, engine: Engine
) -> None:
    async def scenario() -> None:
        async with docker_nodes(tmp_path) as env:
            await env.net.cut([("n1", "n2")])
            assert not (await env.net.probe("n1", "n2")).passed
            entries = read_journal(tmp_path / "state" / "test-run.jsonl")[1]
            (what,) = [entry.what for entry in entries if entry.kind == "rules"]
            (tmp_path / "test-run" / "net" / "agent.pyz").unlink()  # the holders still have it
            said = await asyncio.to_thread(docker_heal._flush, "test-run", what)
            assert said == "flushed in 2 containers"
            assert (await env.net.probe("n1", "n2")).passed
            _, rules = engine.execute("krucible-test-run-n2-net", ["iptables", "-S"])
            assert "KRUCIBLE-" not in rules
            said = await asyncio.to_thread(docker_heal._flush, "another", what)
            assert said == "the rules went with their containers", "they are not that run's"

    asyncio.run(scenario())


def test_parallel_runs_have_networks_of_their_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            docker_nodes(tmp_path, run="one") as one,
            docker_nodes(tmp_path, run="two") as two,
        ):
            assert one.address("n1").host != two.address("n1").host
            await one.net.cut([("n1", "n2")])
            assert (await two.net.probe("n1", "n2")).passed

    asyncio.run(scenario())


def test_a_node_that_ends_by_itself_says_how(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with docker_nodes(tmp_path, ("n1",)) as env:
            await kill(env, "n1")
            program = "import sys, time; print('so long', flush=True); time.sleep(0.5); sys.exit(3)"
            await env.start("n1", [sys.executable, "-c", program], env={})
            await eventually(lambda: "exit code 3" in env.process("n1").detail, "it ends")
            assert "so long" in env.log_file("n1").read_text()
            with pytest.raises(EnvError, match=r"cannot signal n1: .*exit code 3"):
                await env.signal("n1", signal.SIGTERM)

    asyncio.run(scenario())


def test_two_that_heal_at_once_do_no_harm(tmp_path: Path, engine: Engine) -> None:
    """Whoever comes second waits until what the first one removes is gone."""

    async def scenario() -> None:
        async with docker_nodes(tmp_path, ("n1",)):
            names = ["krucible-test-run-n1-1", "krucible-test-run-n1-net"]
            removing = [asyncio.to_thread(engine.remove, name) for name in names * 2]
            network = asyncio.to_thread(engine.remove_network, "krucible-test-run")
            done = await asyncio.gather(*removing, network)
            assert [engine.inspect(name) for name in names] == [None, None]
            assert done[-1], "the network went, once its containers had gone"

    asyncio.run(scenario())


def test_a_failed_setup_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.open("r", folder=tmp_path / "state")
    env = Docker(tmp_path / "run", journal)
    monkeypatch.setattr("harness.envs.docker.config.HOLDER_CAPABILITIES", {})
    said = (
        r"the agent in the network of n\d cannot do 'rules': iptables-restore .* failed: "
        r".*ermission denied"
    )
    with pytest.raises(EnvError, match=said):
        asyncio.run(env.setup(("n1", "n2")))
    assert left_of(tmp_path / "state") == []
    assert journal.open_entries() == ()
    journal.close()
    assert leftovers(tmp_path / "state") == []
