"""Hosts files: what they may say, and how each mistake is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.envs.ssh.hosts import HOSTS_VARIABLE, Host, load
from harness.errors import UsageError
from harness.spec import RunSpec
from krucible.arguments import check_hosts


def write(folder: Path, text: str, name: str = "hosts") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_host_a_line_with_user_and_port_if_wanted(tmp_path: Path) -> None:
    text = "# ours\n\n10.0.0.1\nme@h2.example:2222  # the slow one\nh3:23\n"
    assert load(write(tmp_path, text)) == (
        Host("10.0.0.1"),
        Host("h2.example", 2222, "me"),
        Host("h3", 23),
    )


def test_toml_has_defaults_that_a_host_may_set_anew(tmp_path: Path) -> None:
    (tmp_path / "id").touch()
    text = """
        user = "me"
        key = "id"
        unknown_hosts = "accept"
        node_port = 9100
        [[host]]
        host = "h1"
        [[host]]
        host = "h2"
        user = "you"
        port = 2222
        address = "10.0.0.2"
        python = "/opt/python"
        folder = "/data"
    """
    key = str(tmp_path / "id")
    assert load(write(tmp_path, text, "hosts.toml")) == (
        Host("h1", user="me", node_port=9100, key=key, accept_unknown=True),
        Host("h2", 2222, "you", "10.0.0.2", 9100, "/opt/python", "/data", key, accept_unknown=True),
    )


def test_a_host_survives_the_journal(tmp_path: Path) -> None:
    (host,) = load(write(tmp_path, "me@h:2222"))
    assert Host.from_json(host.to_json()) == host


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names 0 hosts; want 1 to 99"),
        ("h1\n@h2", "line 2: user '': want a user name"),
        ("h1\nme@", "line 2: host '': want a host name"),
        ("h1:0", "line 1: port 0: want a number from 1 to 65535"),
        ("h1:70000", "line 1: port 70000"),
        ("h1:ssh", "line 1: port 'ssh'"),
        ("h1:", "line 1: port ''"),
        ("h1 h2", "line 1: 'h1 h2': want [user@]host[:port]"),
        ("[::1]:22", "line 1: port ':1]:22'"),
        ("-oProxyCommand=x", "line 1: host '-oProxyCommand=x'"),
        ("h1\nme@H1:22", "line 2: me@H1 is the same host as in line 1"),
    ],
)
def test_a_bad_line_is_told_with_its_number(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        load(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[host", "Expected ']]'"),
        ('user = "me"', "no [[host]] tables"),
        ("host = 3", "no [[host]] tables"),
        ("users = 1\n[[host]]\nhost='h'", "'users' is no setting; there are: key, known_hosts"),
        ("[[host]]\nhost='h'\nkey='k'", "host 1: 'key' is no setting"),
        ("[[host]]\nhost='h'\nport='22'", "host 1: port is '22': want int"),
        ("[[host]]\nhost='h'\nport=true", "host 1: port is True: want int"),
        ("[[host]]\nport=22", "host 1: host '': want a host name"),
        ("unknown_hosts='yes'\n[[host]]\nhost='h'", "want 'refuse' or 'accept'"),
        ("key='none'\n[[host]]\nhost='h'", "key: there is no file"),
        ("folder='x'\n[[host]]\nhost='h'", "host 1: folder 'x': want an absolute path"),
        ("[[host]]\nhost='h'\nnode_port=0", "host 1: node_port 0"),
        ("[[host]]\nhost='h'\n[[host]]\nhost='h'", "host 2: h is the same host as in host 1"),
    ],
)
def test_a_bad_table_is_told_with_its_number(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        load(write(tmp_path, text, "hosts.toml"))


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="can't decode"):
        load(tmp_path / "bytes")


def test_the_command_wants_a_host_for_each_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOSTS_VARIABLE, "")
    spec = RunSpec(seed=1, env="ssh", voters=3, observers=1)
    with pytest.raises(UsageError, match="--env ssh wants --hosts FILE"):
        check_hosts(spec, None)
    with pytest.raises(UsageError, match=r"want 4 hosts, and .* names 3: add hosts"):
        check_hosts(spec, write(tmp_path, "h1\nh2\nh3\n"))
    check_hosts(spec, write(tmp_path, "h1\nh2\nh3\nh4\n"))
    with pytest.raises(UsageError, match="environment 'local' takes no hosts"):
        check_hosts(RunSpec(seed=1), write(tmp_path, "h1\n"))
