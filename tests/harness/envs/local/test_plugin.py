"""The local environment: real processes on loopback addresses."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from pathlib import Path

import pytest

from harness.contracts.environment import Environment
from harness.envs.local.plugin import Local
from harness.errors import EnvError, NodeStartError
from harness.healing.heal import leftovers
from harness.healing.journal import Journal
from tests.support.live.cluster import ECHO_NODE, echo_cluster, environment_of, eventually


def test_addresses_are_distinct_and_the_nodes_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with echo_cluster(tmp_path) as cluster:
            env = environment_of(cluster)
            own = [env.bind_address(n) for n in ("n1", "n2", "n3")]
            relayed = [env.address(n) for n in ("n1", "n2", "n3")]
            hosts = {a.host for a in (*own, *relayed)} | {env.client_source()}
            assert len(hosts) == 7
            assert len({str(h).rsplit(".", 1)[0] for h in hosts}) == 1, "one block per run"
            assert env.node_dir("n1") == tmp_path / "run" / "nodes" / "n1"
            assert f"listening on {own[0]}" in env.log_file("n1").read_text()

    asyncio.run(scenario())


def test_parallel_runs_do_not_collide(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        async with echo_cluster(tmp_path / "a") as one, echo_cluster(tmp_path / "b") as two:
            assert one.environment.address("n1").host != two.environment.address("n1").host
            await one.environment.net.cut([("n1", "n2")])
            assert (await two.environment.net.probe("n1", "n2")).passed

    asyncio.run(scenario())


def test_kill_returns_when_the_process_is_gone_and_it_can_start_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with echo_cluster(tmp_path) as cluster:
            env = environment_of(cluster)
            before = env.process("n1")
            assert before.state in "RSD"
            (env.node_dir("n1") / "disk").write_text("kept")
            await env.signal("n1", signal.SIGKILL)
            gone = env.process("n1")
            assert (gone.pid, gone.state) == (None, "gone")
            assert gone.detail.endswith("killed by SIGKILL")
            with pytest.raises(EnvError, match=r"cannot signal n1: pid .* killed by SIGKILL"):
                await env.signal("n1", signal.SIGTERM)
            await cluster.system.start("n1")  # type: ignore[attr-defined]
            assert env.process("n1").pid not in (None, before.pid)
            assert (env.node_dir("n1") / "disk").read_text() == "kept"
            assert env.log_file("n1").read_text().count("listening on") == 2, "appended"

    asyncio.run(scenario())


def test_stop_and_continue_are_seen_in_proc_and_journalled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with echo_cluster(tmp_path) as cluster:
            env = environment_of(cluster)
            journal = env._journal
            for _ in range(2):
                await env.signal("n2", signal.SIGSTOP)
                assert env.process("n2").state == "T"
            assert [e.what["node"] for e in journal.open_entries() if e.kind == "pause"] == ["n2"]
            await env.signal("n2", signal.SIGCONT)
            assert env.process("n2").state != "T"
            assert [e for e in journal.open_entries() if e.kind == "pause"] == []

    asyncio.run(scenario())


def test_a_node_that_ends_by_itself_is_seen_with_its_exit_code(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with echo_cluster(tmp_path) as cluster:
            env = environment_of(cluster)
            await env.signal("n1", signal.SIGKILL)
            await env.start("n1", [sys.executable, "-c", "print('bye'); exit(3)"], env={})
            await eventually(lambda: env.process("n1").state == "gone", "it ended")
            assert env.process("n1").detail.endswith("exit code 3")
            assert env.log_file("n1").read_text().endswith("bye\n")

    asyncio.run(scenario())


def test_a_node_whose_end_is_still_being_written_down_can_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who restarts it goes by its state, and a busy disk takes long to note that it is gone."""

    async def scenario() -> None:
        async with echo_cluster(tmp_path) as cluster:
            env = environment_of(cluster)
            with pytest.raises(EnvError, match="n1 runs already: pid"):
                await env.start("n1", [sys.executable], env={})
            undone, go = env._journal.undone, threading.Event()

            def busy(entry: int) -> None:
                assert go.wait(60)
                undone(entry)

            monkeypatch.setattr(env._journal, "undone", busy)
            await env.signal("n1", signal.SIGTERM)
            await eventually(lambda: env.process("n1").state == "gone", "it ended")
            assert "n1" in env._processes.running, "its end is not written down yet"
            again = asyncio.create_task(cluster.system.start("n1"))  # type: ignore[attr-defined]
            await asyncio.sleep(0)  # it begins, and waits
            go.set()
            await again
            assert env.process("n1").pid is not None

    asyncio.run(scenario())


def test_what_a_node_started_dies_with_it(tmp_path: Path) -> None:
    """A node that is a script around the real program must not leave that behind."""

    async def scenario() -> None:
        async with echo_cluster(tmp_path) as cluster:
            env = environment_of(cluster)
            await env.signal("n1", signal.SIGKILL)
            own = env.bind_address("n1")
            inner = f"{sys.executable} {ECHO_NODE} {own.host} {own.port}"
            await env.start("n1", ["/bin/sh", "-c", f"{inner} & wait"], env={})
            while not (await env.net.probe("client", "n1")).passed:
                pass
            await env.signal("n1", signal.SIGSTOP)
            assert not (await env.net.probe("client", "n1", timeout_s=0.15)).passed
            await env.signal("n1", signal.SIGKILL)
            while (await env.net.probe("client", "n1", timeout_s=0.15)).passed:
                pass

    asyncio.run(scenario())


def test_the_environment_of_a_node_has_what_was_asked_and_the_marker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with echo_cluster(tmp_path) as cluster:
            env = environment_of(cluster)
            await env.signal("n1", signal.SIGKILL)
            show = "import os; print(os.environ['WHO'], os.environ['KRUCIBLE_RUN'], os.getcwd())"
            await env.start("n1", [sys.executable, "-c", show], env={"WHO": "me"})
            await eventually(lambda: env.process("n1").state == "gone", "it ended")
            last = env.log_file("n1").read_text().splitlines()[-1]
            assert last == f"me test-run {env.node_dir('n1')}"

    asyncio.run(scenario())


def test_mistakes_are_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with echo_cluster(tmp_path) as cluster:
            env: Environment = cluster.environment
            with pytest.raises(EnvError, match="n1 runs already: pid"):
                await env.start("n1", ["true"], env={})
            with pytest.raises(EnvError, match="no node is called 'n4'; there are: n1, n2, n3"):
                await env.start("n4", ["true"], env={})
            with pytest.raises(EnvError, match="no node is called 'n4'"):
                env.process("n4")
            await env.signal("n1", signal.SIGKILL)
            with pytest.raises(NodeStartError, match="cannot start n1: /no/such/program"):
                await env.start("n1", ["/no/such/program"], env={})

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "0 nodes"),
        ([f"n{i}" for i in range(100)], "100 nodes"),
        (["n1", "n1"], "bad node name 'n1'"),
        (["../n1"], "bad node name '../n1'"),
        (["client"], "bad node name 'client'"),
    ],
)
def test_bad_node_names_are_refused(tmp_path: Path, nodes: list[str], message: str) -> None:
    journal = Journal.open("r1", folder=tmp_path)
    with pytest.raises(EnvError, match=message):
        asyncio.run(Local(tmp_path, journal).setup(nodes))
    journal.close()


def test_teardown_leaves_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with echo_cluster(tmp_path) as cluster:
            env = environment_of(cluster)
            await env.signal("n2", signal.SIGSTOP)
            await env.net.cut([("n1", "n2")])
            await env.teardown()
            assert env._journal.open_entries() == ()
            assert {env.process(n).state for n in cluster.system.nodes} == {"gone"}
            await env.teardown()

    asyncio.run(scenario())
    assert list((tmp_path / "state").iterdir()) == []
    assert leftovers(tmp_path / "state") == []
