"""What needs no sshd: hosts that cannot be reached, and what is sent to and fro."""

from __future__ import annotations

import base64
import io
import socket
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from harness.envs.disks.fuse import server
from harness.envs.ssh.connect import address_of, connect
from harness.envs.ssh.files import Outbox, archive, code_archive, unpack
from harness.envs.ssh.heal import clean_host, entry
from harness.envs.ssh.hosts import Host
from harness.errors import EnvError


def packed(text: str) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(text)), mode="r:gz") as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_a_server_of_another_kind_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"220 mail.example\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        host = Host("127.0.0.1", server.getsockname()[1], "me")
        with pytest.raises(EnvError, match=r"cannot log in on host me@127.0.0.1:\d+: .*banner"):
            connect(host)
        thread.join()
    assert capfd.readouterr().err == ""


def test_a_host_without_an_address_is_told() -> None:
    host = Host("nowhere.invalid")
    with pytest.raises(EnvError, match=r"host nowhere\.invalid has no address"):
        connect(host)
    with pytest.raises(EnvError, match=r"nowhere\.invalid has no IPv4 address"):
        address_of(host)
    assert address_of(Host("nowhere.invalid", address="127.0.0.1")) == "127.0.0.1"


def test_the_code_is_the_node_with_the_file_system_for_others_and_no_cache(tmp_path: Path) -> None:
    files = packed(code_archive())
    assert "node/__main__.py" in files
    assert {name.split("/")[0] for name in files} == {"node", "harness"}
    assert not [name for name in files if "__pycache__" in name or "/." in name]
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    alone = [sys.executable, "-P", "-c", f"import {server.__name__} as it; print(it.__file__)"]
    said = subprocess.run(
        alone, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert said.stdout.startswith(str(tmp_path)), said.stderr


def test_an_outbox_gives_what_is_new_or_changed_with_the_paths_of_the_host(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, "/there/node")
    (tmp_path / "a.properties").write_text(f"dir={tmp_path}/data")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "raw").write_bytes(f"{tmp_path}".encode())
    (tmp_path / "events.jsonl").write_text("{}")
    taken = outbox.take(["events.jsonl"])
    assert taken is not None
    assert packed(taken) == {
        "a.properties": b"dir=/there/node/data",
        "data/raw": f"{tmp_path}".encode(),
    }
    assert outbox.take(["events.jsonl"]) is None
    (tmp_path / "a.properties").write_text("dir=elsewhere")
    again = outbox.take(["events.jsonl"])
    assert again is not None
    assert packed(again) == {"a.properties": b"dir=elsewhere"}


def test_what_comes_back_is_unpacked(tmp_path: Path) -> None:
    text = archive([("data/log", b"x"), ("top", b"y")])
    unpack(io.BytesIO(base64.b64decode(text)), tmp_path)
    assert (tmp_path / "data" / "log").read_bytes() == b"x"
    assert (tmp_path / "top").read_bytes() == b"y"


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out"])
def test_no_host_can_write_outside_of_the_folder(tmp_path: Path, name: str) -> None:
    text = archive([(name, b"x")])
    with pytest.raises(EnvError, match="no plain file below the folder"):
        unpack(io.BytesIO(base64.b64decode(text)), tmp_path / "in")
    assert not (tmp_path / "out").exists()


def test_no_host_can_send_a_link_or_rubbish(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(link)
    with pytest.raises(EnvError, match="'link' is no plain file"):
        unpack(buffer, tmp_path)
    with pytest.raises(EnvError, match="cannot be unpacked"):
        unpack(io.BytesIO(b"rubbish"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_entry_heals_its_own_run_only() -> None:
    place = {"folder": "/var/krucible-x", "chain": "KRUCIBLE-x", "mark": "other/1/n1"}
    with pytest.raises(EnvError, match="names other/1/n1 as its owner, not run r"):
        clean_host("r", entry(Host("nowhere.invalid"), "python3", place))
