"""The ssh environment on three hosts with a real sshd each, in network namespaces."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.agent import netem as netem_host
from harness.contracts.environment import ProcessState
from harness.contracts.nemesis import Cluster
from harness.envs.ssh.hosts import HOSTS_VARIABLE
from harness.envs.ssh.plugin import Ssh
from harness.errors import EnvError, NodeStartError
from harness.healing.heal import heal_all
from harness.healing.journal import Journal
from harness.healing.watchdog import HANG_VARIABLE
from nemesis.partition import IsolateOne
from tests.support.commands.process import environ, journals
from tests.support.places import SUPPORT
from tests.support.ssh.doomed_harness import SLEEP
from tests.support.ssh.hosts import Hosts, sshd_hosts

pytestmark = pytest.mark.slow

ECHO_NODE = SUPPORT / "live" / "echo_node.py"
HARNESS = SUPPORT / "ssh" / "doomed_harness.py"
NODES = ("n1", "n2", "n3")
WAIT_S = 30.0


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with sshd_hosts(tmp_path_factory.mktemp("sshd")) as made:
        yield made


@contextlib.asynccontextmanager
async def up(folder: Path, *nodes: str) -> AsyncIterator[Ssh]:
    """The environment, set up; it is torn down, and its journal must be empty then."""
    journal = Journal.open("r", folder=folder / "state")
    environment = Ssh(folder / "run", journal)
    await environment.setup(nodes)
    try:
        yield environment
    finally:
        await environment.teardown()
        assert journal.open_entries() == ()
        journal.close()


async def start_echo(environment: Ssh, node: str) -> None:
    own = environment.bind_address(node)
    here = environment.node_dir(node) / "echo.py"
    shutil.copy(ECHO_NODE, here)
    argv = [sys.executable, str(here), own.host, str(own.port)]
    await environment.start(node, argv, env={"GREETING": "hello"})
    await until(lambda: "listening" in environment.log_file(node).read_text())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - files and processes have no events
            await asyncio.sleep(0.01)


def use(hosts: Hosts, folder: Path, monkeypatch: pytest.MonkeyPatch, *extra: str) -> None:
    monkeypatch.setenv(HOSTS_VARIABLE, str(hosts.file(folder, *extra)))


# --------------------------------------------------------------------------- processes


def test_a_process_is_started_signalled_seen_and_its_files_come_here(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(hosts, tmp_path, monkeypatch)

    async def scenario() -> None:
        async with up(tmp_path, "n1") as environment:
            assert environment.process("n1") == ProcessState(None, "gone", "never started")
            with pytest.raises(EnvError, match="never started"):
                await environment.signal("n1", signal.SIGTERM)
            with pytest.raises(NodeStartError, match="no-such-program"):
                await environment.start("n1", ["no-such-program"], env={})
            await start_echo(environment, "n1")
            assert environment.process("n1").state not in ("gone", "T")
            with pytest.raises(EnvError, match="runs already"):
                await environment.start("n1", [sys.executable, "-c", "1"], env={})
            answered, seen, _ = await environment.ask("n1", timeout_s=2)
            assert answered, seen
            await environment.signal("n1", signal.SIGSTOP)
            assert environment.process("n1").state == "T"
            answered, _, _ = await environment.ask("n1", timeout_s=0.2)
            assert not answered
            await environment.signal("n1", signal.SIGCONT)
            assert environment.process("n1").state != "T"
            await environment.signal("n1", signal.SIGKILL)
            assert "killed by SIGKILL" in environment.process("n1").detail
            writes = (
                "import os, pathlib, sys; pathlib.Path('data').mkdir();"
                "pathlib.Path('data/x').write_text(os.environ['WORD']);"
                "pathlib.Path('events.jsonl').write_text('{}\\n'); print('done'); sys.exit(3)"
            )
            await environment.start("n1", [sys.executable, "-c", writes], env={"WORD": "w"})
            await until(lambda: "exit code 3" in environment.process("n1").detail)
            events = environment.node_dir("n1") / "events.jsonl"
            await until(lambda: events.is_file() and events.read_text() == "{}\n")
            assert not (environment.node_dir("n1") / "data").exists()
            assert environment.log_file("n1").read_text().endswith("done\n")
        assert (environment.node_dir("n1") / "data" / "x").read_text() == "w"
        assert events.read_text() == "{}\n"
        assert environment.lost_disk("n1") is None

    asyncio.run(scenario())
    assert hosts.left(tmp_path) == []


def test_more_hosts_than_the_loop_has_threads_are_all_heard(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop has four threads more than there are CPUs; six hosts on two CPUs took them all."""
    use(hosts, tmp_path, monkeypatch)

    async def scenario() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        async with asyncio.timeout(WAIT_S), up(tmp_path, "n1", "n2", "n3") as environment:
            for node in ("n1", "n2", "n3"):
                await start_echo(environment, node)

    asyncio.run(scenario())
    assert hosts.left(tmp_path) == []


def test_paths_of_the_folder_are_those_of_the_host(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(hosts, tmp_path, monkeypatch)

    async def scenario() -> str:
        async with up(tmp_path, "n1") as environment:
            folder = environment.node_dir("n1")
            (folder / "node.properties").write_text(f"log.dirs={folder}/data\n")
            say = "import os, sys; print(sys.argv[1], open('node.properties').read(), os.getcwd())"
            await environment.start("n1", [sys.executable, "-c", say, f"{folder}/x"], env={})
            await until(lambda: environment.process("n1").state == "gone")
        return environment.log_file("n1").read_text()

    argument, setting, folder = asyncio.run(scenario()).split()
    assert folder.startswith(str(tmp_path / "there" / "krucible-r-"))
    assert (argument, setting) == (f"{folder}/x", f"log.dirs={folder}/data")


# --------------------------------------------------------------------------- links


def test_links_are_cut_one_way_counted_and_healed_and_no_rule_of_others_is_touched(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(hosts, tmp_path, monkeypatch)
    foreign = ["-A", "INPUT", "-s", "192.0.2.1", "-j", "DROP"]
    hosts.hosts[1].run("iptables", *foreign)
    before = hosts.hosts[1].chains

    async def scenario() -> None:
        async with up(tmp_path, *NODES) as environment:
            net = environment.net
            await asyncio.gather(*(start_echo(environment, node) for node in NODES))
            assert (await net.probe("n1", "n2")).passed
            await net.cut([("n1", "n2")])
            assert net.cuts() == {("n1", "n2")}
            assert not (await net.probe("n1", "n2", timeout_s=0.2)).passed
            assert not (await net.probe("n2", "n1", timeout_s=0.2)).passed  # no answer comes back
            for source, destination in (("n1", "n3"), ("n3", "n2")):
                assert (await net.probe(source, destination)).passed
            assert (await environment.ask("n2", timeout_s=2))[0]
            counted = (await net.stats())["n1", "n2"]
            assert counted["dropped_packets"] > 0
            assert counted["held_bytes"] > 0
            await net.heal()
            assert net.cuts() == frozenset()
            assert (await net.probe("n1", "n2", timeout_s=5)).passed
            assert (await net.stats())["n1", "n2"]["dropped_packets"] >= counted["dropped_packets"]
            with pytest.raises(EnvError, match="no node is called 'n9'"):
                await net.cut([("n1", "n9")])
            await net.cut([("n2", "n3")])  # left to the teardown

    try:
        asyncio.run(scenario())
        assert hosts.hosts[1].chains == before
    finally:
        hosts.hosts[1].run("iptables", "-D", *foreign[1:])
    assert hosts.left(tmp_path) == []


def test_where_rules_cannot_be_made_partitions_are_skipped_and_say_why(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(hosts, tmp_path, monkeypatch)
    weak = hosts.hosts[2]
    weak.down()
    weak.up("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin")

    async def scenario() -> str | None:
        async with up(tmp_path, *NODES) as environment:
            system = type("System", (), {"nodes": NODES, "name": "fake"})()
            with pytest.raises(EnvError, match="links cannot be cut"):
                await environment.net.cut([("n1", "n2")])
            return IsolateOne().available(Cluster(system, environment))

    try:
        reason = asyncio.run(scenario())
    finally:
        weak.down()
        weak.up()
    assert reason is not None
    assert reason.startswith(f"links cannot be cut: on root@{weak.address}, iptables")


# --------------------------------------------------------------------------- ends


@contextlib.contextmanager
def doomed(folder: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A harness with processes and cut links on all hosts."""
    with subprocess.Popen(
        [sys.executable, str(HARNESS), str(folder)],
        env={**environ(folder / "state"), **variables},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def await_nothing_left(hosts: Hosts, folder: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while left := hosts.left(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def test_a_killed_harness_leaves_nothing_on_any_host(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(hosts, tmp_path, monkeypatch)
    with doomed(tmp_path) as harness:
        assert len(hosts.left(tmp_path)) >= 3 * 3  # a folder and two processes each, and rules
        said = "".join((*hosts.hosts[0].qdiscs, *hosts.hosts[2].chains))
        assert ("netem" if netem_host.lacking() is None else "NFQUEUE") in said
        harness.kill()
        harness.wait()
        await_nothing_left(hosts, tmp_path)
    assert len(journals(tmp_path / "state")) == 1
    healed = heal_all(tmp_path / "state")
    assert {(what.action, what.done) for what in healed if what.kind == "ssh host"} == {
        ("already gone", True)
    }
    assert {what.kind for what in healed} >= {"ssh disk", "ssh rules"}
    assert journals(tmp_path / "state") == []


def test_a_heal_may_come_while_the_hosts_still_clean_themselves(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(hosts, tmp_path, monkeypatch)
    with doomed(tmp_path) as harness:
        harness.kill()
        harness.wait()
        healed = heal_all(tmp_path / "state")
    assert all(what.done for what in healed), healed
    assert hosts.left(tmp_path) == []
    assert journals(tmp_path / "state") == []


def test_a_harness_that_hangs_leaves_nothing_either(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(hosts, tmp_path, monkeypatch)
    with doomed(tmp_path, **{HANG_VARIABLE: "3"}) as harness:
        harness.send_signal(signal.SIGSTOP)
        await_nothing_left(hosts, tmp_path)


def test_what_a_killed_supervisor_leaves_is_healed_by_hand(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(hosts, tmp_path, monkeypatch)
    with doomed(tmp_path) as harness:
        for host in hosts.hosts:
            host.down()
        harness.kill()
        harness.wait()
        try:
            deaf = heal_all(tmp_path / "state")
        finally:
            for host in hosts.hosts:
                host.up()
        failed = [what.action for what in deaf if not what.done]
        assert len(failed) == len(hosts.hosts)
        assert f"no ssh server answers at {hosts.hosts[0].address}:22" in "".join(failed)
    left = hosts.left(tmp_path)
    assert [what for what in left if "krucible-" in what], left
    assert [what for what in left if "KRUCIBLE-" in what], left
    healed = heal_all(tmp_path / "state")
    assert all(what.done for what in healed), healed
    assert "removed: chain, folder" in {what.action for what in healed}
    assert journals(tmp_path / "state") == []
    assert hosts.left(tmp_path) == []


def test_a_node_dies_with_its_supervisor_and_all_calls_say_that_the_host_is_lost(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(hosts, tmp_path, monkeypatch)

    async def scenario() -> None:
        journal = Journal.open("r", folder=tmp_path / "state")
        environment = Ssh(tmp_path / "run", journal)
        await environment.setup(("n1",))
        await environment.start("n1", [sys.executable, "-c", SLEEP], env={})
        pid = environment.process("n1").pid
        assert pid is not None
        status = Path(f"/proc/{pid}/status").read_text()
        parent = re.search(r"PPid:\t(\d+)", status)
        assert parent is not None
        os.kill(int(parent[1]), signal.SIGKILL)

        def lost() -> bool:
            try:
                environment.process("n1")
            except EnvError as error:
                return "is lost: the connection was closed" in str(error)
            return False

        await until(lost)
        await until(lambda: not Path(f"/proc/{pid}").exists())
        with pytest.raises(EnvError, match="is lost"):
            await environment.signal("n1", signal.SIGKILL)
        with pytest.raises(EnvError, match="is lost"):
            await environment.teardown()
        assert environment.lost_disk("n1") is not None
        assert journal.open_entries() == ()  # another login has cleaned the host
        journal.close()

    asyncio.run(scenario())
    assert hosts.left(tmp_path) == []


# --------------------------------------------------------------------------- refusals


def refusal(folder: Path) -> str:
    """Why a run cannot begin; it must leave nothing."""
    journal = Journal.open("r", folder=folder / "state")
    with pytest.raises(EnvError) as refused:
        asyncio.run(Ssh(folder / "run", journal).setup(("n1",)))
    assert journal.open_entries() == ()
    journal.close()
    return str(refused.value)


def test_an_unknown_host_is_refused_unless_one_says_otherwise(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = tmp_path / "nobody"
    nobody.touch()
    use(hosts, tmp_path, monkeypatch, f'known_hosts = "{nobody}"')
    address, key = hosts.hosts[0].address, hosts.hosts[0].folder / "hostkey.pub"
    fingerprint = subprocess.run(
        ["ssh-keygen", "-l", "-f", key], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    said = refusal(tmp_path)
    assert f"host root@{address} is not in {nobody}" in said
    assert fingerprint in said
    assert f"ssh-keyscan {address} >> {nobody}" in said
    accept = 'unknown_hosts = "accept"'
    use(hosts, tmp_path, monkeypatch, f'known_hosts = "{nobody}"', accept)

    async def scenario() -> None:
        async with up(tmp_path, "n1"):
            assert nobody.read_text() == ""

    asyncio.run(scenario())


def test_a_host_whose_key_has_changed_is_refused_always(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = tmp_path / "changed"
    first, second, _ = hosts.hosts
    changed.write_text(second.key.replace(second.address, first.address))
    accept = 'unknown_hosts = "accept"'
    use(hosts, tmp_path, monkeypatch, f'known_hosts = "{changed}"', accept)
    assert "shows another key" in refusal(tmp_path)


def test_what_cannot_begin_says_why(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = hosts.hosts[0].folder / "hostkey"
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\necho '[\"/old\", [3, 9, 2], []]'\n")
    old.chmod(0o755)
    bare = tmp_path / "bare-python"
    bare.write_text('#!/bin/sh\nexec python3 -I -S "$@"\n')
    bare.chmod(0o755)
    for extra, said in (
        (f'key = "{wrong}"', f"does not accept the key {wrong} for user root"),
        ("port = 23", f"no ssh server answers at {hosts.hosts[0].address}:23"),
        ("node_port = 22", f"a node cannot listen on {hosts.hosts[0].address}:22: Address already"),
        (f'folder = "{tmp_path}/none"', "No such file or directory"),
        ('python = "/none/python"', "has no Python for a node: there is none called /none/python"),
        (f'python = "{old}"', "/old is 3.9.2, older than 3.11"),
        (f'python = "{bare}"', "lacks kio, crc32c, msgspec"),
    ):
        use(hosts, tmp_path, monkeypatch, extra)
        assert said in refusal(tmp_path)
    assert hosts.left(tmp_path) == []


def test_a_host_that_talks_nonsense_is_lost_and_stays_in_the_journal(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mad = tmp_path / "mad-python"
    mad.write_text(
        '#!/bin/sh\n[ "$1" = -I ] || { echo "[\\"$0\\", [3, 12, 0], []]"; exit; }\n'
        "echo hello; exec sleep 9\n"
    )
    mad.chmod(0o755)
    use(hosts, tmp_path, monkeypatch, f'python = "{mad}"')
    journal = Journal.open("r", folder=tmp_path / "state")
    with pytest.raises(
        EnvError, match="is lost: its supervisor sent what cannot be read"
    ) as refused:
        asyncio.run(Ssh(tmp_path / "run", journal).setup(("n1",)))
    assert "run `krucible heal` once it answers" in "".join(refused.value.__notes__)
    (entry,) = journal.open_entries()
    assert entry.kind == "ssh host"
    journal.close()
