"""``krucible-node``: format a node's directory, or run the node until SIGTERM.

::

    krucible-node format --config n1.properties --cluster-id krucible [--standalone]
    krucible-node run --config n1.properties
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NoReturn
from uuid import UUID

from node.clock import SystemClock
from node.config import ConfigError, NodeConfig, load
from node.log.disk import FileDisk
from node.log.layout import uuid_to_text
from node.log.meta_properties import MetaPropertiesError

EXIT_USAGE = 254
EXIT_INTERRUPTED = 130  # the shell's own code for Ctrl-C


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code; a mistake in the input is one line."""
    arguments = _parser().parse_args(argv)
    # kio looks for hypothesis and, where that is installed, has it draw up tables of all Unicode
    # in the working folder: seconds of every start, for nothing.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    try:
        config = load(arguments.config)
        if arguments.command == "format":
            _format(config, arguments)
            sys.exit(0)
    except (ConfigError, MetaPropertiesError, OSError) as error:
        _refuse(error)
    try:
        code = _serve(config)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.exit(code)


def _refuse(error: Exception) -> NoReturn:
    print(f"krucible-node: {error}", file=sys.stderr)  # noqa: T201 - logging is not set up
    sys.exit(EXIT_USAGE)


class _Parser(argparse.ArgumentParser):
    """Parses arguments; a mistake in them is one line and the exit code of any other mistake."""

    def error(self, message: str) -> NoReturn:
        """Say it and exit."""
        print(f"krucible-node: {message} (see '{self.prog} --help')", file=sys.stderr)  # noqa: T201
        sys.exit(EXIT_USAGE)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="krucible-node",
        description="Run a KRaft node, or format its directory.",
        epilog="Exit codes: 0 stopped in good order, 70 stopped as its own state was wrong, 130 "
        "interrupted by Ctrl-C, 254 bad arguments or input.",
    )
    parser.add_argument("--version", action="version", version=f"krucible-node {_version()}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the node until SIGTERM")
    format_ = commands.add_parser("format", help="make the log directory the node's own")
    for command in (run, format_):
        command.add_argument("--config", type=Path, required=True, help="properties file")
    format_.add_argument("--cluster-id", required=True, help="same for all nodes of a cluster")
    format_.add_argument("--directory-id", help="base64url; drawn at random when not given")
    quorum = format_.add_mutually_exclusive_group()
    quorum.add_argument(
        "--initial-controllers",
        metavar="ID@HOST:PORT:DIRECTORY,...",
        help="the first voters of a dynamic quorum, the same for all of them",
    )
    quorum.add_argument(
        "--standalone", action="store_true", help="the only voter of a dynamic quorum, so far"
    )
    quorum.add_argument(
        "--no-initial-controllers",
        action="store_true",
        help="an observer of a dynamic quorum, until it is added as a voter",
    )
    format_.add_argument(
        "--feature",
        action="append",
        default=[],
        metavar="NAME=LEVEL",
        help="a feature level of the new cluster that is not the default",
    )
    return parser


def _version() -> str:
    """The version of krucible; unknown where its code was copied to, without its metadata."""
    try:
        return version("krucible")
    except PackageNotFoundError:
        return "(unknown version)"


def _format(config: NodeConfig, arguments: argparse.Namespace) -> None:
    from node.formatting import Quorum, format_node  # noqa: PLC0415 - run needs none of it

    meta = format_node(
        FileDisk(),
        config,
        cluster_id=arguments.cluster_id,
        directory_id=_directory_id(arguments.directory_id),
        quorum=Quorum(
            arguments.initial_controllers, arguments.standalone, arguments.no_initial_controllers
        ),
        features=dict(_feature(text) for text in arguments.feature),
        timestamp_ms=SystemClock().wall_ms(),
    )
    directory = uuid_to_text(meta.directory_id)
    print(f"formatted {config.log_dir} for node {config.node_id}, directory {directory}")  # noqa: T201


def _directory_id(text: str | None) -> UUID | None:
    from node.formatting import directory_of  # noqa: PLC0415 - run needs none of it

    try:
        return None if text is None else directory_of(text)
    except ValueError as error:
        raise ConfigError(f"--directory-id: {error}") from error


def _feature(text: str) -> tuple[str, int]:
    name, separator, level = text.partition("=")
    if not separator or not level.isdecimal():
        raise ConfigError(f"--feature {text!r}: want NAME=LEVEL")
    return name, int(level)


def _serve(config: NodeConfig) -> int:
    logging.basicConfig(
        stream=sys.stdout,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    from node import mutants  # noqa: PLC0415 - format needs none of it
    from node.driver.garbage import Collections  # noqa: PLC0415
    from node.driver.process import StartError, serve  # noqa: PLC0415
    from node.driver.turns import Turns  # noqa: PLC0415

    turns = Turns(SystemClock(), config.turn_limit_ms)
    gc.freeze()  # what was imported stays: a collection would look at it for 20 ms each time
    gc.callbacks.append(Collections())
    try:
        parts = mutants.planted(config.mutant)
        with asyncio.Runner(loop_factory=turns.new_loop) as runner:
            return runner.run(serve(config, parts, turns))
    except (ConfigError, StartError) as error:
        _refuse(error)


if __name__ == "__main__":
    main()
