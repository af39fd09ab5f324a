"""The files of a node on a host: folders that are not ours, files that grow, archives."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from harness.agent.files import Tail, pack, remove_folder
from harness.agent.firewall import Refused
from harness.envs.ssh.files import unpack


def test_a_folder_of_ours_is_removed_and_no_other(tmp_path: Path) -> None:
    ours = tmp_path / "krucible-r"
    (ours / "node").mkdir(parents=True)
    (ours / ".krucible").write_text("r/1/n1")
    with pytest.raises(Refused, match="does not belong to run r/2/n1 and was not touched"):
        remove_folder(str(ours), "r/2/n1")
    assert remove_folder(str(ours), "r/1/n1")
    assert not remove_folder(str(ours), "r/1/n1")
    ours.mkdir()  # killed before it could say whose it is
    assert remove_folder(str(ours), "r/1/n1")
    other = tmp_path / "precious"
    other.mkdir()
    with pytest.raises(Refused, match="does not belong to run"):
        remove_folder(str(other), "r/1/n1")
    assert list(tmp_path.iterdir()) == [other]


def test_a_tail_gives_what_is_new_and_begins_anew_with_another_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path)
    assert tail.read() == b""
    path.write_bytes(b"one")
    assert (tail.read(), tail.read()) == (b"one", b"")
    path.write_bytes(b"one two")
    assert tail.read() == b" two"
    path.write_bytes(b"x")
    assert tail.read() == b"x"
    path.rename(tmp_path / "old")
    path.write_bytes(b"another")
    assert tail.read() == b"another"


def test_a_file_of_two_names_comes_back_under_both(tmp_path: Path) -> None:
    node, back = tmp_path / "node", tmp_path / "back"
    (node / "data").mkdir(parents=True)
    (node / "data" / "log").write_bytes(b"records")
    (node / "kept").hardlink_to(node / "data" / "log")  # as the journal of a fault disk has it
    (node / "link").symlink_to(node / "kept")
    (node / "told").write_bytes(b"already")
    parts: list[bytes] = []
    pack(node, {"told"}, parts.append)
    spool = io.BytesIO(b"".join(parts))
    unpack(spool, back)
    found = {str(p.relative_to(back)): p.read_bytes() for p in back.rglob("*") if p.is_file()}
    assert found == {"data/log": b"records", "kept": b"records"}
