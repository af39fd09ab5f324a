"""The attach file: what it says, and how its mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.contracts.environment import Address
from harness.envs.attached.file import AttachFile, Guards, Radius, load
from harness.errors import UsageError

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "attach.toml"


def read(folder: Path, text: str) -> AttachFile:
    path = folder / "attach.toml"
    path.write_text(text)
    return load(path)


def test_the_example_of_the_documentation_is_read() -> None:
    file = load(EXAMPLE)
    assert file.system == "kafka"
    assert file.controllers[0] == Address("10.0.0.11", 9093)
    assert file.radius == Radius(nodes_at_once=1, majority=False)
    assert file.allowed == {"pause", "kill", "stop", "partition"}
    assert {str(reach).split()[0] for reach in file.nodes.values()} >= {"container", "unit", "pid"}


def test_nothing_is_allowed_that_the_file_does_not_allow(tmp_path: Path) -> None:
    file = read(tmp_path, 'controllers = ["h:9093"]\n[[node]]\nid = 1\npid = 77\n')
    assert file.allowed == frozenset()
    assert not file.play_brokers
    assert file.guards == Guards()


def test_a_node_s_own_allow_stands_above_the_file_s(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        'controllers = ["h:9093"]\n[faults]\nallow = ["pause"]\n'
        '[[node]]\nid = 1\npid = 77\nallow = []\n[[node]]\nid = 2\ncontainer = "k2"\n',
    )
    assert {id_: reach.allow for id_, reach in file.nodes.items()} == {1: set(), 2: {"pause"}}


def test_what_is_stored_of_it_has_no_way_to_log_in(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("secret")
    file = read(
        tmp_path,
        'controllers = ["h:9093"]\n[ssh]\nkey = "id"\nunknown_hosts = "accept"\n'
        '[[node]]\nid = 1\nunit = "kafka"\nssh = "root@h:2222"\nallow = ["kill"]\n',
    )
    assert file.nodes[1].host is not None
    assert (file.nodes[1].host.port, file.nodes[1].host.accept_unknown) == (2222, True)
    told = str(file.told())
    assert "unit kafka on root@h:2222" in told
    assert str(tmp_path) not in told


MISTAKES = {
    "": "controllers: is missing",
    'controllers = ["h"]': "'h': want host:port",
    'controllers = ["h:99999"]': "want host:port",
    'controllers = ["h:1"]\nsystem = "etcd"': "system: is 'etcd': want kafka or kraft",
    'controllers = ["h:1"]\ncontroler = 1': "controler: is no setting",
    'controllers = ["h:1"]\n[faults]\nallow = ["pause"]': "there is no [[node]]",
    'controllers = ["h:1"]\n[faults]\nallow = ["disk"]': "no family of faults here is 'disk'",
    'controllers = ["h:1"]\n[faults]\nnodes_at_once = 0': "nodes_at_once: is 0: want 1 or more",
    'controllers = ["h:1"]\n[guard]\nno_leader_s = -1': "no_leader_s: is -1: want seconds",
    'controllers = ["h:1"]\n[guard]\npoll_s = 0': "cannot be switched off",
    'controllers = ["h:1"]\n[guard]\nleader = 1': "'leader' is no setting; there are",
    'controllers = ["h:1"]\n[[node]]\npid = 9': "node 1: id is missing",
    'controllers = ["h:1"]\n[[node]]\nid = 1': "want exactly one of pid, pid_file, unit, container",
    'controllers = ["h:1"]\n[[node]]\nid = 1\npid = 1': "pid is 1: want that of the node",
    'controllers = ["h:1"]\n[[node]]\nid = 1\npid = 9\nunit = "k"': "want exactly one of",
    'controllers = ["h:1"]\n[[node]]\nid = 1\npid = 9\nallow = ["kill"]': "how it is started again",
    'controllers = ["h:1"]\n[[node]]\nid = 1\npid = 9\nstart = ["x"]': "name a pid_file",
    'controllers = ["h:1"]\n[[node]]\nid = 1\nunit = "k"\nstart = ["x"]': "starts by itself",
    'controllers = ["h:1"]\n[[node]]\nid = 1\npid = 9\nssh = "a b"': "want [user@]host[:port]",
    'controllers = ["h:1"]\n' + "[[node]]\nid = 1\npid = 9\n" * 2: "node 2: has the id 1",
    "controllers = [": "attach file",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_told_with_their_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError) as error:
        read(tmp_path, text)
    assert MISTAKES[text] in str(error.value)
    assert "attach.toml" in str(error.value)
