"""``krucible-node``: a mistake is one line and exit code 254, never a traceback."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from node import __main__ as node_main
from node.__main__ import EXIT_USAGE, main
from node.driver.process import EXIT_FATAL, Lifetime
from node.log.disk import FileDisk
from node.log.layout import partition_dir
from tests.support.nodes.driver import CLUSTER, HOST, free_port, settings_of

Command = Callable[..., str]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    return settings_of(tmp_path, voters={1: free_port()})


@pytest.fixture
def command(
    tmp_path: Path, settings: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Run a verb with the present settings; gives the one line of a refusal, or the output."""

    def run(verb: str, *arguments: str, code: int = EXIT_USAGE) -> str:
        path = tmp_path / "node.properties"
        path.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        with pytest.raises(SystemExit) as ended:
            main([verb, "--config", str(path), *arguments])
        assert ended.value.code == code
        out, err = capsys.readouterr()
        if code == 0:
            return out
        assert err.count("\n") == 1
        assert err.startswith("krucible-node: ")
        return err.removeprefix("krucible-node: ").strip()

    yield run
    directory = Path(settings["log.dirs"])
    if directory.is_dir():  # a refused start gives the directory back
        FileDisk().lock(directory / ".lock").release()


def formatted(command: Command, *arguments: str) -> str:
    return command("format", "--cluster-id", CLUSTER, *arguments, code=0)


def test_format_says_what_it_made(command: Command, settings: dict[str, str]) -> None:
    directory = settings["log.dirs"]
    out = formatted(command, "--directory-id", "AAAAAAAAAAAAAAAAAAAAZA")
    assert out == f"formatted {directory} for node 1, directory AAAAAAAAAAAAAAAAAAAAZA\n"
    text = (Path(directory) / "meta.properties").read_text()
    assert f"cluster.id={CLUSTER}\n" in text


def test_format_draws_a_directory_id(command: Command, settings: dict[str, str]) -> None:
    first = formatted(command)
    settings["log.dirs"] += "-too"
    assert first.rpartition(" ")[2] != formatted(command).rpartition(" ")[2]


def test_format_refuses_a_formatted_directory(command: Command) -> None:
    formatted(command)
    assert "is formatted already for node 1" in command("format", "--cluster-id", "other")


def test_format_refuses_a_bad_directory_id(command: Command) -> None:
    refusal = command("format", "--cluster-id", CLUSTER, "--directory-id", "short")
    assert refusal.startswith("--directory-id: 'short' ")


def test_a_bad_setting(command: Command, settings: dict[str, str]) -> None:
    settings["node.id"] = "x"
    assert command("run") == "node.id='x': want a whole number"


def test_no_configuration_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--config", "/nowhere/n.properties"])
    assert ended.value.code == EXIT_USAGE
    assert "cannot read the configuration /nowhere/n.properties" in capsys.readouterr().err


def test_an_unformatted_directory(command: Command, settings: dict[str, str]) -> None:
    assert command("run") == (
        f"{settings['log.dirs']} is not formatted: run krucible-node format --config FILE first"
    )


def test_the_directory_of_another_node(command: Command, settings: dict[str, str]) -> None:
    formatted(command)
    settings["node.id"] = "2"
    settings["controller.quorum.voters"] = f"2@{HOST}:1"
    assert command("run") == f"node.id=2 but {settings['log.dirs']} belongs to node 1"


def test_a_directory_in_use(command: Command, settings: dict[str, str]) -> None:
    formatted(command)
    lock = FileDisk().lock(Path(settings["log.dirs"]) / ".lock")
    assert "is in use by another process" in command("run")
    lock.release()


def test_a_damaged_quorum_state(command: Command, settings: dict[str, str]) -> None:
    formatted(command)
    folder = partition_dir(Path(settings["log.dirs"]))
    folder.mkdir()
    (folder / "quorum-state").write_text("{}")
    refusal = command("run")
    assert refusal.startswith(f"cannot use {folder / 'quorum-state'}: no field 'data_version'")


def test_a_log_without_its_beginning(command: Command, settings: dict[str, str]) -> None:
    formatted(command)
    folder = partition_dir(Path(settings["log.dirs"]))
    folder.mkdir()
    (folder / "00000000000000000005.log").touch()
    assert "starts at offset 5" in command("run")


def test_a_port_in_use(command: Command, settings: dict[str, str]) -> None:
    formatted(command)
    port = int(settings["listeners"].rpartition(":")[2])
    with socket.socket() as other:
        other.bind((HOST, port))
        other.listen()
        refusal = command("run")
    assert refusal.startswith(f"cannot listen on {HOST}:{port}: ")
    assert "in use" in refusal


@pytest.mark.parametrize("host", ["203.0.113.7", "a..b"])
def test_an_address_that_is_not_ours(command: Command, settings: dict[str, str], host: str) -> None:
    formatted(command)
    settings["listeners"] = f"CONTROLLER://{host}:9091"
    assert command("run").startswith(f"cannot listen on {host}:9091: ")


def test_a_trace_file_in_no_folder(command: Command, settings: dict[str, str]) -> None:
    formatted(command)
    settings["krucible.trace.file"] = "/nowhere/events.jsonl"
    assert command("run") == "[Errno 2] No such file or directory: '/nowhere/events.jsonl'"


def test_an_unknown_mutant(command: Command, settings: dict[str, str]) -> None:
    formatted(command)
    settings["krucible.mutant"] = "forgoten-vote"
    assert "did you mean forgotten-vote" in command("run")


def test_an_error_nobody_caught_is_fatal_but_a_shortage_of_files_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """accept() fails when somebody opens a thousand connections; that must not kill the node."""

    async def main_() -> None:
        loop = asyncio.get_running_loop()
        lifetime = Lifetime(loop)
        loop.call_exception_handler(
            {"message": "socket.accept() out of system resource", "exception": OSError(24, "many")}
        )
        assert lifetime.code == 0
        loop.call_soon(lambda: 1 // 0)
        async with asyncio.timeout(5):
            await lifetime.wait()
        assert lifetime.code == EXIT_FATAL

    with caplog.at_level(logging.ERROR):
        asyncio.run(main_())
    assert "out of system resource: [Errno 24] many" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"krucible-node {version('krucible')}\n"


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        ([], "the following arguments are required: command"),
        (["walk"], "invalid choice: 'walk'"),
        (["run"], "--config"),
        (["format", "--config", "x"], "--cluster-id"),
    ],
)
def test_bad_arguments_are_one_line_and_254(
    argv: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    err = capsys.readouterr().err
    assert (ended.value.code, err.count("\n")) == (EXIT_USAGE, 1)
    assert what in err
    assert "--help'" in err


def test_ctrl_c_is_quiet(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    formatted(command)
    monkeypatch.setattr(node_main, "_serve", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["run", "--config", str(tmp_path / "node.properties")])
    assert (ended.value.code, capsys.readouterr().err) == (130, "")
