"""The agent's archive: the same bytes always, run by a bare Python, gone with its connection."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.envs.agents.archive import archive, from_stdin
from tests.support.places import ROOT

BARE = ("-I", "-S")  # no site-packages, no PYTHONPATH, no folder of ours
VERBS = ("supervise", "order", "queue")


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "agent.pyz"
    path.write_bytes(archive())
    return path


def test_the_same_code_makes_the_same_bytes_in_any_process() -> None:
    code = (
        "import sys; from harness.envs.agents.archive import archive;"
        "sys.stdout.buffer.write(archive())"
    )
    argv = [sys.executable, "-c", code]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TZ": "Asia/Tokyo"}
    made = subprocess.run(argv, env=environ, capture_output=True, check=True, cwd="/").stdout
    assert made == archive()


def test_all_of_the_agent_is_in_it_and_nothing_else_of_ours() -> None:
    with zipfile.ZipFile(io.BytesIO(archive())) as found:
        names = found.namelist()
        times = {entry.date_time for entry in found.infolist()}
    ours = {f"harness/agent/{path.name}" for path in (ROOT / "harness" / "agent").glob("*.py")}
    assert set(names) == ours | {"__main__.py", "harness/__init__.py"}
    assert names == sorted(names)
    assert times == {(1980, 1, 1, 0, 0, 0)}


def test_every_module_of_it_is_imported_by_a_bare_python(agent: Path) -> None:
    with zipfile.ZipFile(agent) as found:
        names = [name[:-3].replace("/", ".") for name in found.namelist() if "agent/" in name]
    assert len(names) > len(VERBS)
    code = (
        f"import sys; sys.path.insert(0, {str(agent)!r})\n"
        f"for name in {names!r}: __import__(name)\n"
        "alien = [n for n in sys.modules if n.partition('.')[0] not in "
        "{'harness', '__main__', *sys.stdlib_module_names}]\n"
        "assert not alien, alien"
    )
    done = subprocess.run(
        [sys.executable, *BARE, "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_order_is_answered_by_a_bare_python(agent: Path, server: tuple[str, int]) -> None:
    host, port = server
    order = {"do": "probe", "host": host, "port": port, "timeout_s": 5.0, "request": "0102"}
    answer = json.loads(_run(agent, "order", json.dumps(order)).stdout)
    assert (answer["ok"]["passed"], answer["ok"]["detail"]) == (True, "answer of 2 bytes")


def test_an_order_that_cannot_be_obeyed_is_answered_by_the_reason(agent: Path) -> None:
    order = {"do": "rules", "chain": "no chain has such a name", "rules": []}
    answer = json.loads(_run(agent, "order", json.dumps(order)).stdout)
    assert "iptables" in answer["error"]


@pytest.mark.parametrize("arguments", [(), ("supervise", "x"), ("probe",), ("queue", "x")])
def test_what_is_no_verb_of_it_is_refused(agent: Path, arguments: tuple[str, ...]) -> None:
    done = _run(agent, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("usage: agent ")
    assert all(verb in done.stderr for verb in VERBS)


def test_it_comes_over_stdin_and_obeys_what_follows(tmp_path: Path) -> None:
    told = archive() + b'{"id": 7, "do": "beat"}\n{"id": 8, "do": "end"}\n'
    done = _shell(told, tmp_path)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"id": 7, "ok": {}},
        {"id": 8, "ok": {}},
    ]
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_connection_that_breaks_early_leaves_nothing(tmp_path: Path, share: float) -> None:
    done = _shell(archive()[: int(share * len(archive()))], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    """One that says what it hears to the first that comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.sendall(sock.recv(4096))

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()
        thread.join()


def _run(agent: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *BARE, str(agent), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def _shell(told: bytes, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Have a shell run what is sent to a host, where temporary files would be seen."""
    return subprocess.run(
        ["sh", "-c", from_stdin(sys.executable, "supervise")],
        input=told,
        capture_output=True,
        check=False,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},
        timeout=30,
    )
